"""Every message between a trainer (client) and the workers that connect to it.

    worker                                       trainer
      HELLO  who I am                    ───>
                                         <───  WELCOME  how often to send heartbeats
                                         <───  (or REFUSED  why; then the worker waits)
                                         <───  LEASE  a task for rows, and where clips go
      HEARTBEAT  between two frames,     ───>
          and which lease is done
      RESULT  lease is done (+pixels)    ───>
      or FAILED  clip cannot be decoded  ───>
                                         <───  HEARTBEAT  and which lease was sent last
                                         <───  NOTICE  the worker's owner should know
      BYE  I take no more leases         ───>  (its leases go to other workers)
                                         <───  BYE  I am closing; or I do not know you, say HELLO

A worker's message is two ZeroMQ frames: the version and a MessagePack map. A RESULT may have a
third frame, the pixels of the lease's clips, one after the other. It has none if the worker shares
memory with the trainer. A trainer's message is the same two as one frame: its socket sends no
others.

No message holds code, and a worker looks up every path under its own root. Anything that is not
exactly one of these messages is a ProtocolError: the types below bound every length and number, and
`limits` bounds the bytes of a connection. Words that people will see, such as host names and
reasons, have no control characters left once they are in a message.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, TypeVar, cast

import msgspec

from videoload.activity import Activity
from videoload.clips.clip_spec import crops_of
from videoload.clips.rows import Clip, Natural, Seconds
from videoload.clips.sample_spec import SampleSpec
from videoload.clips.tasks import Found, Task
from videoload.errors import Fault, ProtocolError, printable

VERSION = b"videoload/12"
_MAX_WORD, _MAX_TEXT = 256, 4096

_T = TypeVar("_T")
Id = Natural
_Text = Annotated[str, msgspec.Meta(max_length=_MAX_TEXT)]
_Word = Annotated[str, msgspec.Meta(max_length=_MAX_WORD)]


class _Message(msgspec.Struct, forbid_unknown_fields=True, tag_field="type"):
    pass


class _Shown(msgspec.Struct, forbid_unknown_fields=True):
    """Contains text for people: its control characters are escaped, whether it is from this process
    or from outside."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            words = getattr(self, name)
            if isinstance(words, str) and (not words.isprintable() or len(words) > _MAX_TEXT):
                setattr(self, name, _shown(words))


def _shown(words: str) -> str:
    # The other side rejects text that is too long, and escapes are longer.
    return printable(words)[: min(max(len(words), _MAX_WORD), _MAX_TEXT)]


class Hello(_Shown, tag_field="type", tag="hello"):
    """A worker requests admission."""

    worker: _Word
    host: _Word
    pid: Id
    software: _Word  # what decides the clips
    token: _Word = ""  # proves that this trainer started the worker
    copy: _Word = ""  # which copy of the videos it reads: the same for workers of one folder
    fetches: bool = False  # that copy is on another host


class Welcome(_Message, tag="welcome"):
    """The worker is admitted. It sends a heartbeat at least every ``beat_s`` seconds. It hangs if a
    lease makes no progress for ``stall_s``, unless it imports a module."""

    beat_s: Annotated[float, msgspec.Meta(gt=0)]
    stall_s: Annotated[float, msgspec.Meta(gt=0)] = 30.0


class Refused(_Shown, tag_field="type", tag="refused"):
    """The worker is not admitted."""

    reason: _Text


class Place(msgspec.Struct, forbid_unknown_fields=True):
    """Where a lease's clips go in an arena that the worker maps: to ``rows``, or one by one."""

    arena: Id
    offset: Id
    rows: Annotated[list[Id], msgspec.Meta(max_length=4096)] = []


if TYPE_CHECKING:
    _Task = Task
else:  # an earlier one is not checked again
    _Task = msgspec.Raw


@lru_cache(64)
def _task_of(data: bytes) -> Task:
    return cast("Task", msgspec.msgpack.decode(data, type=Task))


class Lease(_Message, tag="lease"):
    """Do a task with these clips, or with their rows, in this order. Without a ``place``, send the
    pixels. For a worker that the trainer started, ``place`` also identifies the root of the rows.

    With a ``salt``, the worker finds the fingerprint of each clip's file with it, and `sealed` it
    must be the one in ``files``; 0: any file will do. So only who has the file can show it."""

    lease: Id
    task: _Task
    clips: Annotated[list[Clip], msgspec.Meta(min_length=1, max_length=4096)]
    place: Place | None = None
    # Digests of the user's modules, as they are at the trainer.
    code: Annotated[dict[_Word, _Word], msgspec.Meta(max_length=4096)] = {}
    files: Annotated[list[Id], msgspec.Meta(max_length=4096)] = []
    salt: Id | None = None

    def __post_init__(self) -> None:
        if isinstance(self.task, msgspec.Raw):
            self.task = _task_of(bytes(self.task))
        if isinstance(self.task, SampleSpec):
            self._check_clips(self.task)
        if len(self.files) != (0 if self.salt is None else len(self.clips)):
            raise ValueError("a lease names the file of each clip, or of none")

    def _check_clips(self, spec: SampleSpec) -> None:
        if spec.leader.size is None:
            raise ValueError("the spec of a lease has a size")
        if max(clip.crop for clip in self.clips) >= (crops := crops_of(spec.leader)):
            raise ValueError(f"a clip of this lease has {crops} crops")
        if any(len(clip.row.boxes) % 16 for clip in self.clips):
            raise ValueError("a box is four numbers")
        steps = [clip.row.steps for clip in self.clips if clip.row.steps is not None]
        if any(len(each.begins_s) < len(spec.clips) for each in steps):
            raise ValueError("the steps of a row begin in the file of each part")


class Timings(msgspec.Struct, forbid_unknown_fields=True, array_like=True, frozen=True):
    """Where the seconds of a lease went, as its worker measured them. The phases of decoding and
    ``importing`` (a user's module) add up to ``decode_s``. Before that, the worker had no lease for
    ``idle``. In all that time it ran on a core for ``core`` and waited for one for ``no_core``."""

    open: Seconds = 0.0
    index: Seconds = 0.0
    seek: Seconds = 0.0
    decode: Seconds = 0.0
    scale: Seconds = 0.0
    transform: Seconds = 0.0
    importing: Seconds = 0.0
    idle: Seconds = 0.0
    core: Seconds = 0.0
    no_core: Seconds = 0.0


class Result(_Message, tag="result"):
    """The lease is done. Its clips are described by ``info``, the bytes of a `SampleInfo`; other
    tasks have ``found`` something of each row."""

    lease: Id
    info: bytes = b""
    decode_s: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    # Which file each clip is of: its fingerprint if the lease has a salt; else a number that
    # changes with the file, 0 if unknown.
    files: Annotated[list[Id], msgspec.Meta(max_length=4096)] = []
    spent: Timings = Timings()
    clip_s: Annotated[list[Seconds], msgspec.Meta(max_length=4096)] = []  # seconds of each clip
    kept: Id = 0  # clips from the frame store
    no_room: Id = 0  # clips whose video has no room there
    found: Annotated[list[Found], msgspec.Meta(max_length=4096)] = []


class Failed(_Shown, tag_field="type", tag="failed"):
    """Clip ``at`` of the lease cannot be decoded. The lease is over."""

    lease: Id
    at: Id
    reason: _Text
    fault: Fault = Fault.VIDEO
    file: Id = 0  # the fingerprint of the file that was found, if the lease requests it; 0: none


class Heartbeat(_Shown, tag_field="type", tag="heartbeat"):
    """The sender is alive."""

    # The last lease that the trainer sent, or that the worker is done with, on this connection. A
    # gap in the order means a lost message.
    lease: Id = 0
    at: Activity = Activity.IDLE  # what the worker begins next: it is silent until that is done
    # The error of its storage; or, if the storage has not responded for ``storage_s``, the path
    # that the worker waits for.
    storage: _Text = ""
    storage_s: Seconds = 0.0


class Notice(_Shown, tag_field="type", tag="notice"):
    """Something that the worker's owner should know."""

    text: _Text


class Bye(_Shown, tag_field="type", tag="bye"):
    """The sender leaves, or does not know the other side."""

    reason: _Text
    storage_unavailable: bool = False  # a worker leaves for a while: it cannot decode now


FromWorker = Hello | Result | Failed | Heartbeat | Bye
FromTrainer = Welcome | Refused | Lease | Heartbeat | Notice | Bye

_encoder = msgspec.msgpack.Encoder()
_from_worker: msgspec.msgpack.Decoder[FromWorker] = msgspec.msgpack.Decoder(FromWorker)
_from_trainer: msgspec.msgpack.Decoder[FromTrainer] = msgspec.msgpack.Decoder(FromTrainer)


def pack(message: FromWorker | FromTrainer) -> list[bytes]:
    """Return the frames of a message, without pixels."""
    return [VERSION, _encoder.encode(message)]


def commitment(fingerprint: int) -> int:
    """Return a hash by which a worker can check the fingerprint that it found, but not learn it; 0
    for 0, which means any file."""
    digest = blake2b(fingerprint.to_bytes(8, "little"), digest_size=8).digest()
    return fingerprint and (int.from_bytes(digest, "little") >> 1 or 1)


def unpack_from_worker(frames: Sequence[bytes]) -> FromWorker:
    """Return the message that a worker sent. Raises ProtocolError."""
    return _unpack(_from_worker, frames)


def unpack_from_trainer(frames: Sequence[bytes]) -> FromTrainer:
    """Return the message that a trainer sent. Raises ProtocolError."""
    # The version is ASCII, and no map begins with an ASCII character.
    parts = re.fullmatch(rb"([\0-\x7f]*)(.*)", b"".join(frames), re.DOTALL)
    assert parts is not None
    return _unpack(_from_trainer, parts.groups())


def encode(message: object) -> bytes:
    """Return the MessagePack of a message."""
    return _encoder.encode(message)


def decode(decoder: msgspec.msgpack.Decoder[_T], body: bytes) -> _T:
    """Return the message in ``body``. Raises ProtocolError."""
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProtocolError(f"not a message of this protocol: {printable(str(error))}") from None


def _unpack(decoder: msgspec.msgpack.Decoder[_T], frames: Sequence[bytes]) -> _T:
    if not frames or frames[0] != VERSION:
        theirs = bytes(frames[0][:40]) if frames else b""
        raise ProtocolError(f"the other side speaks {theirs!r}, this one speaks {VERSION!r}")
    if len(frames) != 2:
        raise ProtocolError(f"a message has 2 frames, got {len(frames)}")
    return decode(decoder, frames[1])

"""Every message between a trainer (client) and a worker.

    worker                                     trainer
      HELLO  version, who I am        ───────>
                                      <───────  WELCOME  how often to send heartbeats
                                      <───────  (or REFUSED  why; then the worker backs off)
                                      <───────  LEASE  clips to decode, and where they go
      HEARTBEAT  between two frames   ───────>
      RESULT  lease is done (+pixels) ───────>
      or FAILED  this clip cannot be  ───────>
                                      <───────  LEASE ...
                                      <───────  HEARTBEAT  I am alive
      BYE  I take no more             ───────>  (its leases go to others)
                                      <───────  BYE  I am closing, or: I do not know you, say HELLO

    whoever may dial in
      WATCH  what goes on?            ───────>
                                      <───────  SNAPSHOT  streams and workers

A message is two ZeroMQ frames, the version and a MessagePack map; a RESULT of a worker that does
not share memory with the trainer has a third: the pixels of the lease's clips, one after the other,
unless they come by a connection of their own (`data_connection`).
Nothing that a message holds is code, and a path in it is looked up under the worker's own root.
Whatever is not exactly one of these messages is a ProtocolError.

A worker that the trainer started has a second, private channel, the socket pair that it inherits:
`WorkerSettings` first, then `Share` (with the descriptor of an arena) and `Unshare`. Roots and
memory are named there only; a worker that dials in has no such channel. A receiver has one as well:
`Share` and `Unshare`, and what `data_connection` tells of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec

from videoload.clips.clip_spec import ClipSpec
from videoload.clips.item_spec import ItemSpec, Spec
from videoload.errors import ProtocolError
from videoload.storage.keep import Keep

VERSION = b"videoload/1"

_T = TypeVar("_T")
_Id = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_Ordinal = Annotated[int, msgspec.Meta(ge=0, lt=1 << 48)]
_Word = Annotated[str, msgspec.Meta(max_length=256)]
_Text = Annotated[str, msgspec.Meta(max_length=4096)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
_Rate = Annotated[float, msgspec.Meta(ge=0)]
MAX_FRAMES = 100_000  # that a sample shows
_Ordinals = Annotated[list[_Ordinal], msgspec.Meta(max_length=MAX_FRAMES)]


class _Message(msgspec.Struct, forbid_unknown_fields=True, tag_field="type"):
    pass


class Hello(_Message, tag="hello"):
    """A worker asks to be admitted. ``token`` proves that this trainer started it."""

    worker: _Word
    host: _Word
    pid: _Id
    software: _Word  # what decides the pixels; empty from the trainer's own, which has the same
    token: _Word = ""
    copy: _Word = ""  # which copy of the videos it reads: the same for workers of one folder
    fetches: bool = False  # that copy is on another host


class DataOffer(msgspec.Struct, forbid_unknown_fields=True):
    """Pixels may be sent to this port of the trainer's host, by who shows the ``ticket``, sealed
    with ``key`` if there is one. ``connection``: its number at this trainer."""

    connection: _Id
    port: Annotated[int, msgspec.Meta(gt=0, lt=1 << 16)]
    ticket: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
    key: Annotated[bytes, msgspec.Meta(max_length=32)] = b""


class Welcome(_Message, tag="welcome"):
    """The worker is admitted; it sends a heartbeat at least every ``beat_s`` seconds. Said again
    with another ``data``, it is the offer in the place of a data connection that broke."""

    beat_s: Annotated[float, msgspec.Meta(gt=0)]
    data: DataOffer | None = None


class Refused(_Message, tag="refused"):
    """The worker is not admitted."""

    reason: _Text


class Clip(msgspec.Struct, forbid_unknown_fields=True, array_like=True):
    """One row of a lease: clip number ``clip`` of the segment [start, end) of ``path``, and of
    several crops that number ``crop``."""

    path: _Text
    seed: Annotated[int, msgspec.Meta(ge=0)]  # 64 bits
    clip: _Id = 0
    start: _Id = 0
    end: _Id | None = None
    crop: _Id = 0


class Place(msgspec.Struct, forbid_unknown_fields=True):
    """Where a lease's clips go: ``offset`` bytes into an arena that the worker was given."""

    arena: _Id
    offset: _Id


class Lease(_Message, tag="lease"):
    """Decode these clips, in this order; or make these items. Without a ``place``, send them. Of a
    mixture, ``which`` says of each clip how it is cut: 0 by ``spec``, n by the n-th of ``others``.
    """

    lease: _Id
    spec: ClipSpec | None
    clips: Annotated[list[Clip], msgspec.Meta(min_length=1, max_length=4096)]
    place: Place | None = None
    item: ItemSpec | None = None  # in the place of ``spec``: two kinds of maps need two names
    others: Annotated[list[ClipSpec], msgspec.Meta(max_length=4096)] = []
    which: Annotated[list[_Id], msgspec.Meta(max_length=4096)] = []  # none: all 0

    def __post_init__(self) -> None:
        if (self.spec is None) is (self.item is None):
            raise ValueError("a lease has the spec of clips, or that of items")
        specs = [spec for spec in (self.spec, *self.others) if spec is not None]
        if any(spec.size is None for spec in specs):
            raise ValueError("the spec of a lease has a size")
        crops = 1 if self.spec is None else self.spec.crops
        if any(clip.crop >= crops for clip in self.clips):
            raise ValueError(f"a clip of this lease has {crops} crops")
        if any(
            spec.clip_bytes != self.asked.clip_bytes or spec.crops != crops for spec in self.others
        ):
            raise ValueError("the clips of a lease have one size, and as many crops")
        if len(self.which) not in (0, len(self.clips)):
            raise ValueError("a lease says of each clip how it is cut, or of none")
        if any(number > len(self.others) for number in self.which):
            raise ValueError("a lease has the specs of all its clips")

    @classmethod
    def of(
        cls,
        lease: int,
        spec: Spec,
        clips: list[Clip],
        place: Place | None = None,
        others: Sequence[ClipSpec] = (),
        which: Sequence[int] = (),
    ) -> Lease:
        """A lease of clips or of items."""
        if isinstance(spec, ItemSpec):
            return cls(lease, None, clips, place, spec)
        return cls(lease, spec, clips, place, None, list(others), list(which))

    @property
    def asked(self) -> Spec:
        """What is to be made."""
        spec = self.spec or self.item
        assert spec is not None
        return spec

    def spec_of(self, at: int) -> Spec:
        """How clip ``at`` is to be made."""
        number = self.which[at] if self.which else 0
        return self.others[number - 1] if number else self.asked


class Spent(msgspec.Struct, forbid_unknown_fields=True, array_like=True, frozen=True):
    """Where the seconds of a lease went, as its worker measured them: the phases of decoding, which
    add up with ``importing`` (the module of a user's function) to ``decode_s``; how long before
    that it had no lease of anybody (``idle``); and of all that time, what it was on a core
    (``core``) and waited for one (``no_core``)."""

    open: _Seconds = 0.0
    index: _Seconds = 0.0
    seek: _Seconds = 0.0
    decode: _Seconds = 0.0
    scale: _Seconds = 0.0
    transform: _Seconds = 0.0
    importing: _Seconds = 0.0
    idle: _Seconds = 0.0
    core: _Seconds = 0.0
    no_core: _Seconds = 0.0


class Result(_Message, tag="result"):
    """All clips of the lease are decoded: the ordinals of their source frames, [n][T], of k views
    [n][k * T]. ``files``, of a worker that dialled in: the fingerprint of the file that each clip
    is of. ``clip_s``: what each clip took. ``rates``: frames per second of its file, 0 where it
    declares none. ``apart``: the pixels come by this data connection."""

    lease: _Id
    frames: Annotated[list[_Ordinals], msgspec.Meta(min_length=1, max_length=4096)]
    decode_s: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    files: Annotated[list[_Id], msgspec.Meta(max_length=4096)] = []
    spent: Spent = Spent()
    clip_s: Annotated[list[_Seconds], msgspec.Meta(max_length=4096)] = []
    rates: Annotated[list[_Rate], msgspec.Meta(max_length=4096)] = []
    apart: _Id | None = None


class Failed(_Message, tag="failed"):
    """Clip ``at`` of the lease cannot be decoded; the lease is over."""

    lease: _Id
    at: _Id
    reason: _Text
    dropped: bool = False  # short, and the spec says "drop"
    fatal: bool = False  # no video's fault (a transform): the stream cannot go on
    here_only: bool = False  # other clips of the same video may be decoded


class Heartbeat(_Message, tag="heartbeat"):
    """The sender is alive. ``progress``: packets decoded so far by this worker. ``importing``: it
    imports a module of the user's next, and is silent for as long as that takes."""

    progress: _Id = 0
    importing: bool = False


class Compare(_Message, tag="compare"):
    """Tell the fingerprints of these files."""

    stream: _Id
    paths: Annotated[dict[_Id, _Text], msgspec.Meta(max_length=4096)]  # by video


class Compared(_Message, tag="compared"):
    """The fingerprint of each file that was asked for, 0 for one that is not there."""

    stream: _Id
    files: Annotated[dict[_Id, _Id], msgspec.Meta(max_length=4096)]  # by video


class Notice(_Message, tag="notice"):
    """Something that the worker's owner should know."""

    text: _Text


class Bye(_Message, tag="bye"):
    """The sender leaves, or does not know the receiver. A worker may leave for a while, since
    something keeps it from its leases."""

    reason: _Text
    kept_from_leases: bool = False


class Watch(_Message, tag="watch"):
    """Somebody who is no worker asks what goes on; the answer is a SNAPSHOT, or nothing where too
    many ask."""


class WorkerLine(msgspec.Struct, forbid_unknown_fields=True):
    """A worker, as its trainer sees it now; shares are of the last seconds, 0 to 1."""

    name: _Text
    state: _Word
    clips: _Id
    clips_per_s: float
    busy_share: float
    wire_share: float
    last_error: _Text


class FileLine(msgspec.Struct, forbid_unknown_fields=True):
    """A file that takes long, or that cannot be decoded."""

    path: _Text
    clip_s: float = 0.0
    reason: _Text = ""


class StreamLine(msgspec.Struct, forbid_unknown_fields=True):
    """A stream: where it is, and what was found in the last seconds."""

    stream: _Id
    clips: _Text  # what they are
    batch: int  # the last one that was taken, counted over all epochs; -1 before the first
    batches_per_epoch: _Id
    readers: _Id
    ready: _Id  # batches that wait for their reader
    slots: _Id
    clips_per_s: float
    wait_share: float
    verdict: _Text
    workers_wanted: int | None
    bad_videos: _Id
    slowest: Annotated[list[FileLine], msgspec.Meta(max_length=64)]
    quarantine: Annotated[list[FileLine], msgspec.Meta(max_length=64)]  # the last ones


class Snapshot(_Message, tag="snapshot"):
    """What goes on: the streams, and the workers, of which ``more`` are not listed."""

    trainer: _Word
    workers: Annotated[list[WorkerLine], msgspec.Meta(max_length=1024)]
    streams: Annotated[list[StreamLine], msgspec.Meta(max_length=64)]
    more: _Id = 0


FromWorker = Hello | Result | Failed | Heartbeat | Compared | Watch | Bye
FromTrainer = Welcome | Refused | Lease | Heartbeat | Compare | Notice | Snapshot | Bye


class WorkerSettings(_Message, tag="settings"):
    """All that a worker process needs to know. ``trainers``: the addresses to dial."""

    trainers: Annotated[list[str], msgspec.Meta(min_length=1)]
    root: str | None = None  # of workers that dial in; shared arenas name their own
    token: str = ""
    keys: str | None = None
    insecure: bool = False
    transforms: list[str] | None = []  # modules that a spec may name a function of; None: any
    cache: str | None = None  # folder where indexes are kept; None: nowhere
    keep: Keep | None = None  # where the files of a bucket are

    def with_keys(self, folder: str | None) -> WorkerSettings:
        """The same, but with these keys."""
        return msgspec.structs.replace(self, keys=folder)


class Share(_Message, tag="share"):
    """A stream's arena, with ``memory`` as a descriptor that travels along; without, the host
    cannot share memory and pixels are sent. The stream's videos lie under ``root``."""

    arena: _Id
    root: str
    memory: bool


class Unshare(_Message, tag="unshare"):
    """The arena is no longer used."""

    arena: _Id


class Adopt(_Message, tag="adopt"):
    """A receiver is given a data connection, which travels along as a descriptor. ``key``: of what
    comes by it, if that is sealed."""

    connection: _Id
    key: bytes = b""


class Land(_Message, tag="land"):
    """What comes next by this connection is the answer to ``lease``: ``size`` bytes, which go to
    ``place``. Without a place it goes nowhere, however long it is."""

    connection: _Id
    lease: _Id
    place: Place | None = None
    size: _Id = 0


class Abandon(_Message, tag="abandon"):
    """Write nothing more that comes by this connection, close it, and say so."""

    connection: _Id


class Landed(_Message, tag="landed"):
    """A receiver has written all of an answer."""

    connection: _Id
    lease: _Id


class Ended(_Message, tag="ended"):
    """A receiver reads this connection no more, and writes nothing more that came by it.
    ``of_receiver``: that was the receiver's end."""

    connection: _Id
    why: _Text
    of_receiver: bool = False


class Alive(_Message, tag="alive"):
    """A receiver has taken a turn."""


FromReceiver = Landed | Ended | Alive
ToReceiver = Share | Unshare | Adopt | Land | Abandon
Private = WorkerSettings | ToReceiver | FromReceiver

_encoder = msgspec.msgpack.Encoder()
_from_worker: msgspec.msgpack.Decoder[FromWorker] = msgspec.msgpack.Decoder(FromWorker)
_from_trainer: msgspec.msgpack.Decoder[FromTrainer] = msgspec.msgpack.Decoder(FromTrainer)
_private: msgspec.msgpack.Decoder[Private] = msgspec.msgpack.Decoder(Private)


def pack(message: FromWorker | FromTrainer) -> list[bytes]:
    """The frames of a message (without the pixels)."""
    return [VERSION, _encoder.encode(message)]


def unpack_from_worker(frames: Sequence[bytes]) -> FromWorker:
    """The message that a worker sent. Raises ProtocolError."""
    return _unpack(_from_worker, frames)


def unpack_from_trainer(frames: Sequence[bytes]) -> FromTrainer:
    """The message that a trainer sent. Raises ProtocolError."""
    return _unpack(_from_trainer, frames)


def as_json(snapshot: Snapshot) -> str:
    """A snapshot for programs."""
    return msgspec.json.format(msgspec.json.encode(snapshot)).decode()


def pack_private(message: Private) -> bytes:
    """A message of the private channel."""
    return _encoder.encode(message)


def unpack_private(body: bytes) -> Private:
    """The message of the private channel. Raises ProtocolError."""
    return _decode(_private, body)


def _unpack(decoder: msgspec.msgpack.Decoder[_T], frames: Sequence[bytes]) -> _T:
    if not frames or frames[0] != VERSION:
        theirs = bytes(frames[0][:40]) if frames else b""
        raise ProtocolError(f"the other side speaks {theirs!r}, this one speaks {VERSION!r}")
    if len(frames) != 2:
        raise ProtocolError(f"a message has 2 frames, got {len(frames)}")
    return _decode(decoder, frames[1])


def _decode(decoder: msgspec.msgpack.Decoder[_T], body: bytes) -> _T:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProtocolError(f"not a message of this protocol: {error}") from None

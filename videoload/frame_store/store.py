"""Scaled frames in files that all processes of a host share: no frame is decoded twice.

    FOLDER/5c1e.../              a set: one root, one way of scaling, one version of the software
    FOLDER/5c1e.../set.json      what the set is, for people
    FOLDER/5c1e.../3f/9a41...    one video: a head, a table of checksums, room for every frame

A video's file is sparse: it has a place for every frame, and takes disk space for those that were
written. A frame counts as kept once its checksum is in the table, which happens after its bytes
were written and after the pass over the video ended without a complaint. So a process that is
killed leaves nothing half kept. Two processes that write the same frame write the same bytes.

Nothing rests on the store. Anybody may delete any of it at any time. A frame whose checksum does
not match is decoded again, and so is all that cannot be read or written.
"""

from __future__ import annotations

import errno
import json
import logging
import math
import os
import secrets
import struct
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_intdigest as checksum

from videoload.frame_store import sets
from videoload.frame_store.pace import Pace
from videoload.storage.files import IDENTITY_BYTES
from videoload.storage.room import Room

_log = logging.getLogger(__name__)

_MAGIC = b"vlframe2"
# magic, frames, bytes of a frame, lengths of layout and info, identity of the file, checksum of
# the head
_HEAD = struct.Struct(f"<8sIIII{IDENTITY_BYTES}sQ")
_READ_AT_ONCE = 16 << 10  # of a file's beginning: head and table of a video of 2 000 frames
_ALIGNED = 4096
_ALL = ".all"  # the name of a set whose videos have room reserved for all frames
_PAUSE_S = 600.0  # after a failure, the store is left alone for so long
_DESCRIBE_S = 600.0  # a set that is used says so this often
_MANY = 1000  # frames that a slow disk did not take, until it is said
_MAKE_ROOM_S = 1.0  # the most that a clip waits for a deletion; deletions go on with other clips
_IN_USE_S = 3600.0  # a set that was used within this time makes room for no other


class Scaling(NamedTuple):
    """How the frames of a set are scaled. ``all_frames``: sooner or later all frames of a video are
    asked for, so room is reserved for all of them at once."""

    text: str
    all_frames: bool


class FrameStore:
    """The kept frames of the videos under one root. Nothing here raises for what the disk does:
    a store that cannot be used keeps nothing, and says so once. One on a slow disk keeps what the
    disk takes in a part of the ``pace``."""

    def __init__(self, folder: str, max_bytes: int | None, root: str, software: str) -> None:
        """``max_bytes``: for all sets and processes together; None: until a fifth of the disk is
        left. ``software``: whatever decides the pixels."""
        self._folder = Path(folder)
        self._root, self._software = root, software
        self._room = Room(self._folder, max_bytes, self._measure)
        self._sets: dict[Scaling, Path] = {}
        self._describe_at: dict[Scaling, float] = {}
        self._unusable_until = 0.0
        self._full_until = 0.0
        self._told: set[str] = set()
        self._skipped = 0
        self._met: dict[Scaling, tuple[int, int]] = {}  # videos, and the bytes of their frames
        self.pace = Pace()
        self.decode_s = math.inf  # that the last frames took to be decoded and scaled
        # Called after each video that is counted: for a large store on a slow disk, that may take
        # longer than a worker may be silent. It may raise.
        self.tick: Callable[[], None] = lambda: None

    def open(self, path: str, identity: bytes, scaling: Scaling) -> StoredVideo | None:
        """The file of a video, if there is one of the video file that has this identity."""
        if time.monotonic() < self._unusable_until or not self.pace.has_time:
            return None
        try:
            found = StoredVideo.open(self._path(path, scaling), identity)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.failed(error)
            return None
        if found is not None:
            self._note(scaling, found.reserved_bytes(scaling))
        return found

    def create(
        self,
        path: str,
        identity: bytes,
        scaling: Scaling,
        *,
        frames: int,
        frame_bytes: int,
        layout: bytes,
        info: bytes,
        needed: int,
    ) -> StoredVideo | None:
        """A new file for a video of so many ``frames``, if there is room for those that are
        ``needed``. ``layout`` and ``info`` come back with `open`: how a frame's bytes are laid out,
        and what is known of the video."""
        if not self.has_room:
            return None
        place = self._path(path, scaling)
        size = StoredVideo.file_bytes(
            frames if scaling.all_frames else needed, frame_bytes, layout, info
        )
        self._note(scaling, size)
        try:
            for _ in range(2):
                with self._room.take(size) as has_room:
                    if has_room:
                        if not (self._set(scaling) / sets.ABOUT).exists():  # somebody deleted it
                            self._describe(self._set(scaling), scaling)
                        return StoredVideo.create(
                            place, identity, frames=frames, frame_bytes=frame_bytes, layout=layout,
                            info=info,
                        )  # fmt: skip
                if not self._make_room(self._set(scaling)):
                    self._full_until = time.monotonic() + _PAUSE_S
                    self.tell("is full; videos that are not in it are decoded each time")
                    return None
            return None  # more is deleted for the next videos
        except TimeoutError as error:
            self.tell(f"keeps no new videos for now: {error.strerror}")
            return None
        except OSError as error:
            self.failed(error)
            return None

    @property
    def has_room(self) -> bool:
        """Whether new videos may be kept, as far as this process knows."""
        free = time.monotonic() >= max(self._full_until, self._unusable_until)
        return free and self.pace.has_time

    def lacks_room(self, scaling: Scaling) -> tuple[int, int] | None:
        """If the store is full: the mean bytes of the videos that this process has met, and the
        limit; 0 if there is none."""
        if time.monotonic() >= self._full_until:
            return None
        videos, size = self._met.get(scaling, (1, 0))
        return size // videos, self._room.max_bytes or 0

    def _note(self, scaling: Scaling, size: int) -> None:
        videos, before = self._met.get(scaling, (0, 0))
        self._met[scaling] = videos + 1, before + size

    def skip(self) -> None:
        """A frame was not kept, because the disk is slow."""
        self._skipped += 1
        if self._skipped == _MANY:
            self.tell(
                f"is on a slow disk: {_MANY} frames were not kept in time; they are decoded again"
            )

    def failed(self, error: OSError) -> None:
        """Reading or writing raised this: the store is left alone for a while."""
        self._unusable_until = time.monotonic() + _PAUSE_S
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what = "has no room on its disk" if full else f"cannot be used: {error.strerror or error}"
        self.tell(f"{what}; frames are decoded")

    def tell(self, what: str) -> None:
        """Log it, once."""
        if what not in self._told:
            self._told.add(what)
            _log.warning("the frame store %s %s", self._folder, what)

    def _path(self, path: str, scaling: Scaling) -> Path:
        number = blake2b(path.encode(errors="surrogateescape"), digest_size=16).hexdigest()
        return self._set(scaling) / number[:2] / number[2:]

    def _set(self, scaling: Scaling) -> Path:
        known = self._sets.get(scaling)
        if known is None:
            text = f"{self._root}\n{scaling.text}\n{self._software}"
            number = blake2b(text.encode(errors="surrogateescape"), digest_size=16).hexdigest()
            name = number + (_ALL if scaling.all_frames else "")
            known = self._sets[scaling] = self._folder / name
        if time.monotonic() >= self._describe_at.get(scaling, -math.inf):
            self._describe_at[scaling] = time.monotonic() + _DESCRIBE_S
            with suppress(OSError):
                self._describe(known, scaling)
        return known

    def _describe(self, folder: Path, scaling: Scaling) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = {"root": self._root, "scaling": scaling.text, "software": self._software}
        new = folder / f"set.{secrets.token_hex(4)}"
        new.write_text(json.dumps(about))
        new.replace(folder / sets.ABOUT)  # its time of change: when the set was last used

    def _make_room(self, but: Path) -> bool:
        """Delete of the set that was used longest ago, if nobody uses it. False: there is none that
        can be deleted."""
        until = time.monotonic() + _MAKE_ROOM_S
        for _, left in sorted(self._left_behind(but)):
            with suppress(OSError):  # it may be another user's
                if sets.delete(left, until):
                    return True
        return False

    def _left_behind(self, but: Path) -> Iterable[tuple[float, Path]]:
        for folder in sets.sets_in(self._folder):
            with suppress(OSError):
                used = (folder / sets.ABOUT).stat().st_mtime
                if folder != but and time.time() - used > _IN_USE_S:
                    yield used, folder

    def _measure(self) -> int:
        """The bytes that all videos in the store have reserved."""
        total = 0
        for folder in sets.sets_in(self._folder):
            is_all = folder.name.endswith(_ALL)
            with suppress(OSError):
                for file in sets.videos_in(folder):
                    total += file.st_size if is_all else 512 * file.st_blocks
                    self.tick()
        return total


class StoredVideo:
    """The kept frames of one video. Methods raise OSError for what the disk does."""

    def __init__(
        self, raw: int, frames: int, frame_bytes: int, layout: bytes, info: bytes, table: bytes
    ) -> None:
        self.frames, self.frame_bytes = frames, frame_bytes
        self.layout, self.info = layout, info
        self._raw = raw
        self._close = weakref.finalize(self, os.close, raw)
        self._sums = np.frombuffer(table, np.uint64)
        self._table_at = _HEAD.size + len(layout) + len(info)
        self._frames_at = _after_table(self._table_at, frames)

    @classmethod
    def open(cls, path: Path, identity: bytes) -> StoredVideo | None:
        """None: what is there is of another video file, or damaged; it is removed."""
        raw = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            found = cls._read(raw, identity)
        except BaseException:
            os.close(raw)
            raise
        if found is None:
            os.close(raw)
            with suppress(FileNotFoundError):
                path.unlink()
        return found

    @classmethod
    def _read(cls, raw: int, identity: bytes) -> StoredVideo | None:
        start = os.pread(raw, _READ_AT_ONCE, 0)
        if len(start) < _HEAD.size:
            return None
        magic, frames, frame_bytes, a, b, found, told = _HEAD.unpack_from(start)
        table_at = _HEAD.size + a + b
        end = table_at + 8 * frames
        head = start[: _HEAD.size - 8] + start[_HEAD.size : table_at]
        if magic != _MAGIC or checksum(head) != told or found != identity:
            return None
        if len(start) < end:
            start += os.pread(raw, end - len(start), len(start))
            if len(start) < end:
                return None
        layout, info = start[_HEAD.size : _HEAD.size + a], start[_HEAD.size + a : table_at]
        return cls(raw, frames, frame_bytes, layout, info, start[table_at:end])

    @classmethod
    def create(
        cls,
        path: Path,
        identity: bytes,
        *,
        frames: int,
        frame_bytes: int,
        layout: bytes,
        info: bytes,
    ) -> StoredVideo | None:
        """An empty file; None if another process has just made it."""
        fixed = (_MAGIC, frames, frame_bytes, len(layout), len(info), identity)
        head = _HEAD.pack(*fixed, 0)[:-8] + layout + info
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            try:
                raw = os.open(path, flags, 0o600)
            except FileNotFoundError:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                raw = os.open(path, flags, 0o600)
        except FileExistsError:
            return None
        try:  # A file without a head, here or after a kill, is removed by whoever opens it.
            os.pwrite(raw, _HEAD.pack(*fixed, checksum(head)) + layout + info, 0)
            os.ftruncate(raw, cls.file_bytes(frames, frame_bytes, layout, info))
        except BaseException:
            os.close(raw)
            raise
        return cls(raw, frames, frame_bytes, layout, info, bytes(8 * frames))

    def reserved_bytes(self, scaling: Scaling) -> int:
        """What its frames take of the store's room."""
        frames = self.frames if scaling.all_frames else int(np.count_nonzero(self._sums))
        return self._frames_at + frames * self.frame_bytes

    @property
    def kept(self) -> set[int]:
        """The frames that are there."""
        return set(np.flatnonzero(self._sums).tolist())

    @staticmethod
    def file_bytes(frames: int, frame_bytes: int, layout: bytes, info: bytes) -> int:
        """The size of a file with room for all frames."""
        table_at = _HEAD.size + len(layout) + len(info)
        return _after_table(table_at, frames) + frames * frame_bytes

    def read(self, ordinals: Sequence[int], out: npt.NDArray[np.uint8]) -> list[int]:
        """Read frames into ``out`` [n, frame_bytes]. Returns those that are not there, or are not
        what was written: the latter are forgotten."""
        missing = []
        for ordinal, told, row in zip(
            ordinals, self._sums.take(ordinals).tolist(), out, strict=True
        ):
            if told:
                at = self._frames_at + ordinal * self.frame_bytes
                if os.preadv(self._raw, [row], at) == self.frame_bytes and _sum(row) == told:
                    continue
                os.pwrite(self._raw, bytes(8), self._table_at + 8 * ordinal)
            missing.append(ordinal)
        return missing

    def write(self, ordinal: int, frame: npt.NDArray[np.uint8]) -> int:
        """Write the bytes of a frame; returns the checksum that `commit` needs. The frame does not
        count as kept before."""
        os.pwrite(self._raw, frame.data, self._frames_at + ordinal * self.frame_bytes)
        return _sum(frame)

    def commit(self, sums: dict[int, int]) -> None:
        """These frames were written, and the pass over the video met with no complaint."""
        ordinals = sorted(sums)
        while ordinals:
            run = 1
            while run < len(ordinals) and ordinals[run] == ordinals[0] + run:
                run += 1
            part = np.array([sums[ordinal] for ordinal in ordinals[:run]], np.uint64)
            os.pwrite(self._raw, part.tobytes(), self._table_at + 8 * ordinals[0])
            del ordinals[:run]


def _sum(frame: npt.NDArray[np.uint8]) -> int:
    return checksum(frame.data) or 1  # 0 stands for a frame that is not there


def _after_table(table_at: int, frames: int) -> int:
    return -(-(table_at + 8 * frames) // _ALIGNED) * _ALIGNED

"""The file with the scaled frames of one video: a head, a table of checksums, room for every frame.

A video's file is sparse: it has a place for every frame, and takes disk space for those that were
written. A frame counts as kept once its checksum is in the table, which happens after its bytes
were written and after the pass over the video ended without a complaint. So a process that is
killed leaves nothing half kept. Two processes that write the same frame write the same bytes.
"""

from __future__ import annotations

import errno
import os
import struct
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_intdigest as checksum

from videoload.storage.blocks import runs
from videoload.storage.files import IDENTITY_BYTES

_MAGIC = b"vlframe3"
# magic, frames, bytes of a frame, lengths of layout and info, identity of the file, checksum of
# the head
_HEAD = struct.Struct(f"<8sIIII{IDENTITY_BYTES}sQ")
_READ_AT_ONCE = 16 << 10  # of a file's beginning: head and table of a video of 2 000 frames
_BLOCK = 4096  # of a disk


class Head(NamedTuple):
    """What the file of a video begins with. ``layout`` and ``info`` say how a frame's bytes are
    laid out, and what is known of the video."""

    identity: bytes
    frames: int
    frame_bytes: int
    layout: bytes
    info: bytes

    @property
    def table_at(self) -> int:
        """Where the checksums of the frames begin."""
        return _HEAD.size + len(self.layout) + len(self.info)

    @property
    def frames_at(self) -> int:
        """Where the first frame begins."""
        return -(-(self.table_at + 8 * self.frames) // _BLOCK) * _BLOCK

    @property
    def file_bytes(self) -> int:
        """The size of a file with all frames."""
        return self.frames_at + self.frames * self.frame_bytes

    def parts(self, ordinals: Iterable[int], *, new: bool = False) -> list[range]:
        """The bytes of the file whose blocks on the disk these frames take, and the head of a
        ``new`` file."""
        blocks = set(range(self.frames_at // _BLOCK if new else 0))
        for ordinal in ordinals:
            begin = self.frames_at + ordinal * self.frame_bytes
            blocks.update(range(begin // _BLOCK, -(-(begin + self.frame_bytes) // _BLOCK)))
        return [range(run.start * _BLOCK, run.stop * _BLOCK) for run in runs(sorted(blocks))]

    def to_bytes(self) -> bytes:
        """The head as it stands in the file."""
        lengths = len(self.layout), len(self.info)
        fixed = (_MAGIC, self.frames, self.frame_bytes, *lengths, self.identity)
        body = self.layout + self.info
        return _HEAD.pack(*fixed, checksum(_HEAD.pack(*fixed, 0)[:-8] + body)) + body

    @classmethod
    def from_bytes(cls, data: bytes) -> Head | None:
        """The reverse of `to_bytes`; None for what it cannot have made."""
        if len(data) < _HEAD.size:
            return None
        _, frames, frame_bytes, a, b, identity, _ = _HEAD.unpack_from(data)
        body = data[_HEAD.size : _HEAD.size + a + b]
        head = cls(identity, frames, frame_bytes, body[:a], body[a:])
        return head if head.to_bytes() == data[: head.table_at] else None


class StoredVideo:
    """The kept frames of one video. Methods raise OSError for what the disk does."""

    def __init__(self, raw: int, head: Head, table: bytes, *, is_writable: bool = True) -> None:
        self.head = head
        self.is_writable = is_writable
        self._raw = raw
        self._close = weakref.finalize(self, os.close, raw)
        self._sums = np.frombuffer(table, np.uint64)
        self._frames_at, self._frame_bytes = head.frames_at, head.frame_bytes  # asked for often

    @classmethod
    def open(cls, path: Path, identity: bytes) -> StoredVideo | None:
        """None: what is there is of another video file, or damaged; it is removed."""
        flags = os.O_CLOEXEC | os.O_NOFOLLOW
        is_writable = True
        try:
            raw = os.open(path, flags | os.O_RDWR)
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES):
                raise
            is_writable = False
            raw = os.open(path, flags | os.O_RDONLY)
        try:
            start = os.pread(raw, _READ_AT_ONCE, 0)
            head = Head.from_bytes(start)
            is_own = os.fstat(raw).st_uid == os.geteuid()
            if head is not None and head.identity == identity and is_own:
                end = head.table_at + 8 * head.frames
                if len(start) < end:
                    start += os.pread(raw, end - len(start), len(start))
                if len(start) >= end:
                    return cls(raw, head, start[head.table_at : end], is_writable=is_writable)
        except BaseException:
            os.close(raw)
            raise
        os.close(raw)
        with suppress(OSError):
            path.unlink()
        return None

    @classmethod
    def create(cls, path: Path, head: Head) -> StoredVideo | None:
        """An empty file; None if another process has just made it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            raw = os.open(path, flags, 0o600)
        except FileExistsError:
            return None
        try:  # A file without a head, here or after a kill, is removed by whoever opens it.
            os.pwrite(raw, head.to_bytes(), 0)
            os.ftruncate(raw, head.file_bytes)
        except BaseException:
            os.close(raw)
            raise
        return cls(raw, head, bytes(8 * head.frames))

    def allocate(self, parts: Iterable[range]) -> StoredVideo:
        """Take these parts of the disk, though nothing is written there yet. Returns itself."""
        for part in parts:
            os.posix_fallocate(self._raw, part.start, len(part))
        return self

    @property
    def ordinals(self) -> set[int]:
        """The frames that are there."""
        return set(np.flatnonzero(self._sums).tolist())

    def read(self, ordinals: Sequence[int], out: npt.NDArray[np.uint8]) -> list[int]:
        """Read frames into ``out`` [n, frame_bytes]. Returns those that are not there, or are not
        what was written: the latter are forgotten."""
        missing = []
        raw, begin, size = self._raw, self._frames_at, self._frame_bytes
        sums = self._sums.take(ordinals).tolist()
        rows = [row.data for row in out]
        for ordinal, known, row in zip(ordinals, sums, rows, strict=True):
            if known:
                if os.preadv(raw, (row,), begin + ordinal * size) == size and _sum(row) == known:
                    continue
                if self.is_writable:
                    os.pwrite(self._raw, bytes(8), self.head.table_at + 8 * ordinal)
            missing.append(ordinal)
        return missing

    def write(self, first: int, frames: Sequence[npt.NDArray[np.uint8]]) -> list[int]:
        """Write the bytes of consecutive frames; returns the checksums that `commit` needs. The
        frames do not count as kept before."""
        rows = [frame.data for frame in frames]
        os.pwritev(self._raw, rows, self._frames_at + first * self._frame_bytes)
        return list(map(_sum, rows))

    def commit(self, sums: dict[int, int]) -> None:
        """These frames were written, and the pass over the video met with no complaint."""
        for run in runs(sorted(sums)):
            part = np.array([sums[ordinal] for ordinal in run], np.uint64)
            os.pwrite(self._raw, part.tobytes(), self.head.table_at + 8 * run.start)


def _sum(frame: memoryview) -> int:
    return checksum(frame) or 1  # 0 stands for a frame that is not there

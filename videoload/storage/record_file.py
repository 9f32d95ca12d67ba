"""A file of checksummed records: a head, a table of checksums, a place for every record.

Such files store scaled frames of a video, and blocks of a file below a URL. A file is sparse: it
takes disk space for the records that were written. A record is valid once its checksum is in the
table, which is written after its bytes (`RecordFile.commit`). So a killed process leaves no partial
records. Two processes that write the same record write the same bytes.

**A record counts only in its place of the very file that it was written to**: its checksum covers
the head and its number.
"""

from __future__ import annotations

import errno
import os
import struct
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_intdigest as checksum

from videoload.storage.blocks import runs
from videoload.storage.files import IDENTITY_BYTES

_MAGIC = b"vlrecord"
# magic, records, bytes of a record, length of `about`, identity of the video file, checksum of the
# head
_HEAD = struct.Struct(f"<8sIII{IDENTITY_BYTES}sQ")
_READ_AT_ONCE = 16 << 10  # of a file's beginning: head and table of 2 000 records
_BLOCK = 4096  # of a disk
_SEEDS = 1 << 64


class Head(NamedTuple):
    """What a file begins with.

    Attributes:
        identity: Of the version of the video file that the records are of.
        records: How many there may be.
        record_bytes: The size of each.
        about: What else is needed to use them.
    """

    identity: bytes
    records: int
    record_bytes: int
    about: bytes = b""

    @property
    def table_at(self) -> int:
        """The offset of the checksums."""
        return _HEAD.size + len(self.about)

    @property
    def records_at(self) -> int:
        """The offset of the first record."""
        return -(-(self.table_at + 8 * self.records) // _BLOCK) * _BLOCK

    @property
    def file_bytes(self) -> int:
        """The size of a file with all records."""
        return self.records_at + self.records * self.record_bytes

    def parts(self, numbers: Iterable[int], *, new: bool = False) -> list[range]:
        """Return the bytes of the file whose blocks on the disk these records take, and the head of
        a ``new`` file."""
        blocks = set(range(self.records_at // _BLOCK if new else 0))
        for number in numbers:
            begin = self.records_at + number * self.record_bytes
            blocks.update(range(begin // _BLOCK, -(-(begin + self.record_bytes) // _BLOCK)))
        return [range(run.start * _BLOCK, run.stop * _BLOCK) for run in runs(sorted(blocks))]

    @property
    def sum(self) -> int:
        """The checksum of all of it."""
        fixed = _MAGIC, self.records, self.record_bytes, len(self.about), self.identity, 0
        return checksum(_HEAD.pack(*fixed) + self.about)

    def to_bytes(self) -> bytes:
        """Return the head as it stands in the file."""
        fixed = _MAGIC, self.records, self.record_bytes, len(self.about), self.identity, self.sum
        return _HEAD.pack(*fixed) + self.about

    @classmethod
    def from_bytes(cls, data: bytes) -> Head | None:
        """Reverse `to_bytes`; None for other bytes."""
        if len(data) < _HEAD.size:
            return None
        _, records, record_bytes, length, identity, _ = _HEAD.unpack_from(data)
        head = cls(identity, records, record_bytes, data[_HEAD.size :][:length])
        return head if head.to_bytes() == data[: head.table_at] else None


class RecordFile:
    """The stored records of one video file. Methods raise OSError for faults of the disk."""

    def __init__(self, raw: int, head: Head, start: bytes, *, is_writable: bool = True) -> None:
        """``start``: the first bytes of the file, at least its head."""
        self.head = head
        self.is_writable = is_writable
        self._raw = raw
        self._close = weakref.finalize(self, os.close, raw)
        self._start, self._seed = start, head.sum
        self._table_at, self._records_at = head.table_at, head.records_at  # used often

    @classmethod
    def open(cls, path: Path, identity: bytes) -> RecordFile | None:
        """Open it. None: the file is of another version, of another user, a link, or damaged; it is
        removed."""
        flags = os.O_CLOEXEC | os.O_NOFOLLOW
        is_writable = True
        try:
            raw = os.open(path, flags | os.O_RDWR)
        except OSError as error:
            if error.errno == errno.ELOOP:
                path.unlink()
                return None
            if error.errno not in (errno.EROFS, errno.EACCES):
                raise
            is_writable = False
            raw = os.open(path, flags | os.O_RDONLY)
        try:
            start = os.pread(raw, _READ_AT_ONCE, 0)
            head = Head.from_bytes(start)
            is_own = os.fstat(raw).st_uid == os.geteuid()
            if head is not None and head.identity == identity and is_own:
                return cls(raw, head, start, is_writable=is_writable)
        except BaseException:
            os.close(raw)
            raise
        os.close(raw)
        with suppress(OSError):
            path.unlink()
        return None

    @classmethod
    def create(cls, path: Path, head: Head) -> RecordFile | None:
        """Create an empty file; return None if another process has just created it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            raw = os.open(path, flags, 0o600)
        except FileExistsError:
            return None
        try:  # The next process that opens it removes a file without a head, here or after a kill.
            os.pwrite(raw, head.to_bytes(), 0)
            os.ftruncate(raw, head.file_bytes)
        except BaseException:
            os.close(raw)
            raise
        return cls(raw, head, head.to_bytes().ljust(min(head.records_at, _READ_AT_ONCE), b"\0"))

    def allocate(self, parts: Iterable[range]) -> RecordFile:
        """Allocate disk space for these records, without writing them. Return the file itself."""
        for part in parts:
            os.posix_fallocate(self._raw, part.start, len(part))
        return self

    def absent(self, numbers: range) -> list[int]:
        """Return the missing ones of these records."""
        sums = self._sums(numbers.start, numbers.stop)
        return (np.flatnonzero(sums == 0) + numbers.start).tolist()

    def _sums(self, begin: int, end: int) -> npt.NDArray[np.uint64]:
        """Return the checksums of these records, as they were when the file was opened or later."""
        first, last = self._table_at + 8 * begin, self._table_at + 8 * end
        if last <= len(self._start):
            found = self._start[first:last]
        else:
            found = os.pread(self._raw, last - first, first).ljust(last - first, b"\0")
        return np.frombuffer(found, np.uint64)

    def read(self, numbers: Sequence[int], out: npt.NDArray[np.uint8]) -> list[int]:
        """Read records into ``out`` [n, record_bytes]. Returns those that are not there, or are not
        what was written: the latter are forgotten."""
        if not numbers:
            return []
        first = min(numbers)
        sums, missing = self._sums(first, max(numbers) + 1).tolist(), []
        raw, begin, size = self._raw, self._records_at, self.head.record_bytes
        for number, row in zip(numbers, [row.data for row in out], strict=True):
            if known := sums[number - first]:
                read = os.preadv(raw, (row,), begin + number * size)
                if read == size and self._sum(number, row) == known:
                    continue
                if self.is_writable:
                    os.pwrite(raw, bytes(8), self._table_at + 8 * number)
            missing.append(number)
        return missing

    def write(self, first: int, records: Sequence[memoryview]) -> dict[int, int]:
        """Write consecutive records; return the checksums that `commit` needs. The records are not
        valid before."""
        os.pwritev(self._raw, records, self._records_at + first * self.head.record_bytes)
        return {number: self._sum(number, record) for number, record in enumerate(records, first)}

    def commit(self, sums: Mapping[int, int]) -> None:
        """Mark these written records as valid."""
        for run in runs(sorted(sums)):
            part = np.array([sums[number] for number in run], np.uint64)
            os.pwrite(self._raw, part.tobytes(), self._table_at + 8 * run.start)

    def _sum(self, number: int, record: memoryview) -> int:
        """Return a checksum; 0 means a missing record."""
        return checksum(record, (self._seed + number) % _SEEDS) or 1

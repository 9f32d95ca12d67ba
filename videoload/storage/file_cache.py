"""The file cache: blocks of a bucket's files on a disk of this host, where later epochs and
trainings read them.

    FOLDER/videoload-files/3f9a41...c2   the blocks of a file, each at its place and behind its
                                         checksum; the name is a hash of the file's URL
    FOLDER/videoload-files/bytes         how many bytes the files take in all

**A block counts only for the very file**: its checksum covers the version that it is of.
What another version, a process that was killed or a failing disk has left in its place is no
block: it is fetched again, and written over. So nothing has to be renamed or written through, and
files may be deleted at any time.

All processes of a user on a host may share a folder. Nothing is removed to make room: if each epoch
reads all files in another order, the first ones are needed as much as the next ones. A process
that finds no room fetches, as it would without a folder. Whether a version is still the one in the
bucket, each process asks there: the same URL may lead two processes to two buckets.

Files of other users and links are neither read nor written: who could put them there could choose
what is trained on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from hashlib import blake2b
from io import FileIO

from xxhash import xxh3_64_digest, xxh3_64_intdigest

from videoload.activity import Activity, during, reads
from videoload.logs import Log
from videoload.storage.blocks import BLOCK_BYTES, runs
from videoload.storage.cache_directories import CacheDirectory, DiskQuota, own_file, own_folder
from videoload.storage.daemon_pool import DaemonPool

_log = Log(__name__)

_MOST_WAITING = 64  # parts of up to 1 MB that wait to be written; what comes then is not cached
_LOCK_S = 60.0  # that the thread which writes waits for other processes
_SUM_BYTES = 8
_RECORD_BYTES = _SUM_BYTES + BLOCK_BYTES
_PAGE_BYTES = 4096  # what a disk gives to a file at least


class FileCache:
    """The cached blocks of the files below the URL ``root``. Names are relative to it. ``version``
    is that of a file (`VideoFile.version`)."""

    def __init__(self, file_cache: CacheDirectory, root: str) -> None:
        self._folder = file_cache.own("files")
        self._root = root
        self._room = DiskQuota(self._folder, file_cache.max_bytes, self._measure, _LOCK_S)
        self._writer = DaemonPool("videoload-cache", 1)  # no exit waits for a disk that hangs
        self._full_until = 0.0
        self._has_told = False

    def _leaf(self, name: str) -> str:
        return blake2b(f"{self._root}\n{name}".encode(), digest_size=16).hexdigest()

    def has_some(self, name: str) -> bool:
        """Whether something of any version of a file may be cached."""
        found = own_file(self._folder / self._leaf(name))
        return found is not None and found.st_size > 0

    def read(self, name: str, version: bytes, size: int, numbers: range) -> dict[int, memoryview]:
        """Those of these blocks that are cached, of a file of ``size`` bytes."""
        if not self.has_some(name):
            return {}
        reads.file = str(self._folder / self._leaf(name))
        try:
            with during(Activity.READING), _opened(reads.file) as file:
                reads.opened.append(reads.file)
                return dict(_blocks(file, version, size, numbers))
        except OSError:
            return {}  # they are fetched

    def add(self, name: str, version: bytes, size: int, first: int, data: memoryview) -> None:
        """Add the whole blocks in ``data``, from number ``first`` on. Never waits: a thread writes
        them, or they are not cached."""
        end = first * BLOCK_BYTES + len(data)
        numbers = range(first, -(-end // BLOCK_BYTES) if end == size else end // BLOCK_BYTES)
        if numbers and self._has_room and self._writer.jobs < _MOST_WAITING:
            self._writer.start(partial(self._write, name, version, size, numbers, data))

    @property
    def _has_room(self) -> bool:
        return time.monotonic() >= self._full_until

    def stop(self) -> None:
        """Write no more."""
        self._writer.stop()

    def _write(
        self, name: str, version: bytes, size: int, numbers: range, data: memoryview
    ) -> None:
        if not self._has_room:
            return
        leaf = self._leaf(name)
        try:
            with own_folder(self._folder) as folder:
                if own_file(leaf, folder) is None and os.path.lexists(self._folder / leaf):
                    os.unlink(leaf, dir_fd=folder)  # a link, or of another user
                with _opened(leaf, os.O_RDWR | os.O_CREAT, folder) as file:
                    there = dict(_blocks(file, version, size, numbers))
                    for run in runs(number for number in numbers if number not in there):
                        skipped = (run.start - numbers.start) * BLOCK_BYTES
                        self._write_run(file, version, run, data[skipped:])
        except FileNotFoundError:
            pass  # the folder is being deleted
        except OSError as error:
            self._give_up(f"cannot be used: {error.strerror or error}")

    def _write_run(self, file: FileIO, version: bytes, run: range, data: memoryview) -> None:
        pieces: list[bytes | memoryview] = []
        for at, number in enumerate(run):
            block = data[at * BLOCK_BYTES : (at + 1) * BLOCK_BYTES]
            pieces += _sum(version, number, block), block
        begin, records = run.start * _RECORD_BYTES, b"".join(pieces)
        pages = -(-(begin + len(records)) // _PAGE_BYTES) - begin // _PAGE_BYTES
        with self._room.take(pages * _PAGE_BYTES) as has_room:
            if has_room:
                os.pwrite(file.fileno(), records, begin)
        if not has_room:
            self._give_up("is full; it stays as it is")

    def _give_up(self, why: str) -> None:
        self._full_until = time.monotonic() + self._room.pause_s
        if not self._has_told:
            self._has_told = True
            _log.warning("the file cache %s %s; the rest is fetched", self._folder, why)

    def _measure(self) -> int:
        found = [own_file(self._folder / name) for name in os.listdir(self._folder)]
        return sum(512 * file.st_blocks for file in found if file is not None)


def _opened(path: str, flags: int = os.O_RDONLY, folder: int | None = None) -> FileIO:
    """A file that is no link. Raises OSError."""
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC
    return FileIO(os.open(path, flags, 0o600, dir_fd=folder), "r" if folder is None else "r+")


def _blocks(
    file: FileIO, version: bytes, size: int, numbers: range
) -> Iterator[tuple[int, memoryview]]:
    """Those of these blocks that a file of the cache has, with their numbers. Raises OSError."""
    begin = numbers.start * _RECORD_BYTES
    records = memoryview(os.pread(file.fileno(), len(numbers) * _RECORD_BYTES, begin))
    for at, number in enumerate(numbers):
        length = _SUM_BYTES + min(BLOCK_BYTES, size - number * BLOCK_BYTES)
        record = records[at * _RECORD_BYTES :][:length]
        block = record[_SUM_BYTES:]
        if len(record) == length and record[:_SUM_BYTES] == _sum(version, number, block):
            yield number, block


def _sum(version: bytes, number: int, block: memoryview) -> bytes:
    return xxh3_64_digest(block, xxh3_64_intdigest(version, number))

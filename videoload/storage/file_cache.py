"""The file cache: blocks of a bucket's files on a disk of this host, for later epochs and training
runs.

FOLDER/videoload-files is a `RecordStore`, with a set for each bucket, whose records are blocks. So
files may be deleted at any time, and a damaged block is fetched again. A process that finds no room
fetches, as it would without a folder.

Each process checks in the bucket whether a version is current: one URL may lead two processes to
two buckets.
"""

from __future__ import annotations

import json
from functools import partial

import numpy as np

from videoload.activity import Activity, during, reads
from videoload.storage.blocks import BLOCK_BYTES, runs
from videoload.storage.cache_directories import CacheDirectory
from videoload.storage.daemon_pool import DaemonPool
from videoload.storage.files import identity_by
from videoload.storage.record_file import Head
from videoload.storage.record_store import RecordSet, RecordStore

_MOST_WAITING = 64  # parts of up to 1 MB that wait to be written; further ones are not cached
_LOCK_S = 60.0  # that the thread which writes waits for other processes


class FileCache:
    """The cached blocks of the files below the URL ``root``. Names are relative to it. ``version``
    is that of a file (`VideoFile.version`)."""

    def __init__(self, file_cache: CacheDirectory, root: str) -> None:
        folder, most = file_cache.own("files"), file_cache.max_bytes
        self._store = RecordStore(folder, most, "file cache", "fetched", _LOCK_S)
        self._set = RecordSet(json.dumps({"root": root}))
        self._writer = DaemonPool("videoload-cache", 1)  # no exit waits for a disk that hangs

    def has_some(self, name: str) -> bool:
        """Return whether blocks of any version of a file may be cached."""
        return self._store.has_some(name, self._set)

    def read(self, name: str, version: bytes, size: int, numbers: range) -> dict[int, memoryview]:
        """Return the cached ones of these blocks of a file of ``size`` bytes."""
        if not self.has_some(name):
            return {}
        reads.file = str(self._store.place(name, self._set))
        blocks = np.empty((len(numbers), BLOCK_BYTES), np.uint8)
        try:
            with during(Activity.READING):
                file = self._store.open(name, identity_by(version), self._set)
                missing = numbers if file is None else file.read(numbers, blocks)
                reads.opened.append(reads.file)
        except OSError as error:
            self._store.failed_to_read(error)
            return {}  # they are fetched
        return {
            number: block.data[: size - number * BLOCK_BYTES]
            for number, block in zip(numbers, blocks, strict=True)
            if number not in missing
        }

    def add(self, name: str, version: bytes, size: int, first: int, data: memoryview) -> None:
        """Add the whole blocks in ``data``, from number ``first`` on. Never waits: a thread writes
        them, or they are not cached."""
        end = first * BLOCK_BYTES + len(data)
        numbers = range(first, -(-end // BLOCK_BYTES) if end == size else end // BLOCK_BYTES)
        if numbers and self._store.has_room and self._writer.jobs < _MOST_WAITING:
            self._writer.start(partial(self._write, name, version, size, numbers, data))

    def stop(self) -> None:
        """Write no more."""
        self._writer.stop()

    def _write(
        self, name: str, version: bytes, size: int, numbers: range, data: memoryview
    ) -> None:
        if not self._store.has_room:
            return
        head = Head(identity_by(version), -(-size // BLOCK_BYTES), BLOCK_BYTES)
        file = self._store.open(name, head.identity, self._set)
        is_new = file is None
        file = file or self._store.create(name, head, self._set, numbers)
        if file is None:
            return
        try:
            for run in runs(file.absent(numbers)):
                if is_new or self._store.takes(file, self._set, run):
                    begin = (run.start - numbers.start) * BLOCK_BYTES
                    blocks = data[begin : begin + len(run) * BLOCK_BYTES]
                    file.commit(file.write(run.start, _whole(blocks)))
        except OSError as error:
            self._store.failed_to_write(error)


def _whole(data: memoryview) -> list[memoryview]:
    """Return the blocks in ``data``. The last one of a file is filled up."""
    blocks = [data[at : at + BLOCK_BYTES] for at in range(0, len(data), BLOCK_BYTES)]
    blocks[-1] = memoryview(bytes(blocks[-1]).ljust(BLOCK_BYTES, b"\0"))
    return blocks

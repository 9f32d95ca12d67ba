"""Reads the trainer's own files in threads of its own, since a disk may be slow, or not answer, and
the I/O thread must not wait."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

from videoload.engine.copy_votes import MISSING
from videoload.errors import StorageError, VideoError
from videoload.storage.content import files_of, fingerprint_of
from videoload.storage.files import Storage
from videoload.storage.images import ImageFolder

_END_S = 0.5  # for the file that is being read; nobody waits longer for a disk that hangs
_READS, _READ_BYTES = 5, 4096  # of a file, to find out whether its storage answers
_WAITING = 8  # reads that may wait at once for a storage that does not answer


class FileChecker:
    """Checks files until it is closed."""

    def __init__(self) -> None:
        self._checks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="videoload-files", daemon=True)
        self._reads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the thread now: a client that listens will need it."""
        if self._thread.ident is None:
            self._thread.start()

    def fingerprint(
        self, storage: Storage, paths: dict[int, str], told: Callable[[dict[int, int]], None]
    ) -> None:
        """Call ``told``, in another thread, with the fingerprint of each of ``paths``. One call
        is worked on after the other."""

        def check() -> None:
            found = dict.fromkeys(paths, MISSING)
            for video, path in paths.items():
                with suppress(VideoError, StorageError):
                    found[video] = fingerprint_of(path, storage.fingerprint)
            told(found)

        self._add(check)

    def read(self, storage: Storage, paths: list[str], told: Callable[[], None]) -> None:
        """Call ``told``, in another thread, for each of ``paths`` that was read. Each is read in a
        thread of its own, which stays for as long as the read does not return."""

        def read(path: str) -> None:
            if all(_can_read(storage, file) for file in files_of(path)):
                told()

        self._reads = [thread for thread in self._reads if thread.is_alive()]
        for path in paths[: max(0, _WAITING - len(self._reads))]:
            thread = threading.Thread(target=read, args=(path,), name="videoload-read", daemon=True)
            self._reads.append(thread)
            thread.start()

    def close(self) -> None:
        """Drop the checks that wait. What waits for storage is left behind."""
        self._checks.put(None)
        end = time.monotonic() + _END_S
        for thread in (self._thread, *self._reads):
            if thread.ident is not None:
                thread.join(max(0.0, end - time.monotonic()))

    def _add(self, check: Callable[[], None]) -> None:
        self._checks.put(check)
        self.start()

    def _run(self) -> None:
        while (check := self._checks.get()) is not None:
            check()


def _can_read(storage: Storage, path: str) -> bool:
    """Whether a file can be read now from its storage, and not from memory. If the storage is away,
    this may wait until it is back."""
    try:
        if storage.fetches:
            return True  # a worker that waits for a bucket says so with heartbeats
        found = storage.resolve(path)
        name = found.first if isinstance(found, ImageFolder) else found.path
        file = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(file).st_size
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            for number in range(_READS):
                os.pread(file, _READ_BYTES, size * number // _READS)
        finally:
            os.close(file)
    except (VideoError, StorageError, OSError):
        return False
    return True

"""What the trainer's own files are, found out in a thread of its own: a disk may take its time, and
the I/O thread has none."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

from videoload.engine.copies import MISSING
from videoload.errors import StorageError, VideoError
from videoload.storage.files import Storage

_END_S = 0.5  # for a file that is being read; a disk that hangs is not waited for

Told = Callable[[dict[int, int]], None]

_LOOKS, _LOOK_BYTES = 5, 4096  # at a file, to find out whether its storage answers


def storage_answers(storage: Storage, path: str) -> bool:
    """Whether a file can be read now, from where it is and not from memory; where storage is away,
    this may take until it is back."""
    try:
        if storage.fetches:
            return True  # a worker that waits for a bucket says so with heartbeats
        file = os.open(storage.resolve(path).path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(file).st_size
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            for look in range(_LOOKS):
                os.pread(file, _LOOK_BYTES, size * look // _LOOKS)
        finally:
            os.close(file)
    except (VideoError, StorageError, OSError):
        return False
    return True


class OwnFiles:
    """Takes fingerprints, in the order in which they are asked for, until it is closed. The thread
    begins with `start`, or when something is asked for."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="videoload-files", daemon=True)

    def start(self) -> None:
        """Begin the thread, if it has not begun."""
        if self._thread.ident is None:
            self._thread.start()

    def ask(self, storage: Storage, paths: dict[int, str], told: Told) -> None:
        """Have ``told`` called, in that thread, with the fingerprint of each of ``paths``."""

        def look() -> None:
            found = dict.fromkeys(paths, MISSING)
            for video, path in paths.items():
                with suppress(VideoError, StorageError):
                    found[video] = storage.fingerprint(path)
            told(found)

        self._look(look)

    def ask_storage(self, storage: Storage, paths: list[str], told: Callable[[], None]) -> None:
        """Have ``told`` called, in that thread, when all of ``paths`` were read; never, if one of
        them cannot be."""

        def look() -> None:
            if all(storage_answers(storage, path) for path in paths):
                told()

        self._look(look)

    def close(self) -> None:
        """What was not found out yet is not told any more."""
        self._asked.put(None)
        if self._thread.ident is not None:
            self._thread.join(_END_S)

    def _look(self, look: Callable[[], None]) -> None:
        self._asked.put(look)
        self.start()

    def _run(self) -> None:
        while (look := self._asked.get()) is not None:
            look()

"""What the trainer's own files are, found out in a thread of its own: a disk may take its time, and
the I/O thread has none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

from videoload.decoding.storage import Storage
from videoload.errors import VideoError
from videoload.trainer.copies import MISSING

_END_S = 0.5  # for a file that is being read; a disk that hangs is not waited for

Told = Callable[[dict[int, int]], None]


class OwnFiles:
    """Takes fingerprints, in the order in which they are asked for, until it is closed."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[tuple[Storage, dict[int, str], Told] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="videoload-files", daemon=True)
        self._thread.start()

    def ask(self, storage: Storage, paths: dict[int, str], told: Told) -> None:
        """Have ``told`` called, in that thread, with the fingerprint of each of ``paths``."""
        self._asked.put((storage, paths, told))

    def close(self) -> None:
        """What was not found out yet is not told any more."""
        self._asked.put(None)
        self._thread.join(_END_S)

    def _run(self) -> None:
        while (asked := self._asked.get()) is not None:
            storage, paths, told = asked
            found = dict.fromkeys(paths, MISSING)
            for video, path in paths.items():
                with suppress(VideoError):
                    found[video] = storage.fingerprint(path)
            told(found)

"""Cached findings about the files below one root, while they do not change: rows of the dataset
index, if there is one, and of this host's table. A row is valid only for one file version
(`VideoFile.key`) and for the code that created it.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from videoload.storage.dataset_index import DatasetIndex
from videoload.storage.index_table import HostTable, Row, pack, unpack
from videoload.storage.video_file import VideoFile

T = TypeVar("T")


class KeptRows:
    """The rows of the files under one root, by path. ``folder`` None stores none on disk.
    ``of_set``: the rows of the dataset index."""

    def __init__(
        self, folder: str | None, root: str, software: str, of_set: DatasetIndex | None = None
    ) -> None:
        self._of_set = of_set
        self._host = HostTable(folder, f"{root}\n{software}")
        self._lock = threading.RLock()  # several threads may walk archives
        self.close = weakref.finalize(self, self._host.close)

    def find(
        self, path: str, file: VideoFile, read: Callable[[bytes], T],
        check: Callable[[T], None] = lambda found: None, *, wait: bool = True,
    ) -> T | None:  # fmt: skip
        """Return the result of ``read`` for the row of a file, if there is one and the file has not
        changed. It may raise ValueError, as ``check`` of what somebody else may have written.
        ``wait``: for the index of the set, if it is on its way."""
        with self._lock:
            if self._of_set is not None:
                found = self._of_set.find(path, file, read, check, wait)
                if found is not None:
                    return found
            for _, of, packed in self.rows(path):
                with suppress(ValueError):
                    if of == file.key:
                        return read(unpack(path, file.version, packed))
        return None

    def rows(self, path: str) -> list[Row]:
        """Return the rows of a file that were kept on this host, the oldest first."""
        return self._host.rows(path)

    def version(self, path: str, wait: bool) -> bytes | None:
        """Return the version of a file on another host that has a row; None: no version."""
        with self._lock:
            version = None if self._of_set is None else self._of_set.version(path, wait)
            return version or next((of for _, of, _ in self._last(path)), None)

    def versions(self, path: str, wait: bool) -> list[bytes]:
        """Return the versions of a file on another host that somebody has read, those of the set's
        index first. ``wait``: for that, if it is on its way."""
        found = []
        with self._lock:
            rows = [] if self._of_set is None else self._of_set.rows(path, wait)
            for name, version, packed in (*rows, *self._last(path)):
                with suppress(ValueError):
                    unpack(os.fsdecode(name), version, packed)
                    found.append(version)
        return found

    def _last(self, path: str) -> list[Row]:
        """Return the row that was written last, if other processes have it."""
        return self.rows(path)[-1:] if self._host.is_shared else []

    def put(self, path: str, file: VideoFile, content: bytes) -> None:
        """Store a finding about a file."""
        if file.has_version:
            row = pack(path, file.version, content)
            with self._lock:
                self._host.write(path, file.key, row)

    def forget(self, path: str) -> None:
        """Delete a wrong row."""
        self._host.remove(path)
        if self._of_set is not None:
            self._of_set.forget(path)

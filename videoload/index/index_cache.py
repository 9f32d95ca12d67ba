"""Indexes that are kept: the last ones in memory, and those that took a complete decode on disk.

Most files prove their frames without decoding; their indexes are made again, not kept on disk. For
the others a complete decode is kept from one training to the next, in an SQLite file that all
decoders of this root on this host share. That file may be deleted at any time. If there is none, or
it cannot be written, a temporary one takes its place. An index is valid only for the size and the
time of change that the video had, and a frame that differs from its index is never returned.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cachetools import LRUCache

from videoload.errors import printable
from videoload.index.index import VideoIndex
from videoload.storage.files import VideoFile

if TYPE_CHECKING:
    import sqlite3

_log = logging.getLogger(__name__)

_MEMORY_BYTES = 16 << 20  # some 5 000 videos like UCF-101's; each is proven in 0.2 ms
_UNUSED_S = 90 * 86400  # a cache file that was not opened for so long is deleted
_BUSY_S = 5.0  # another process is writing
_TABLE = (
    "CREATE TABLE IF NOT EXISTS indexes "
    "(path BLOB PRIMARY KEY, bytes INTEGER, modified_ns INTEGER, packed BLOB) WITHOUT ROWID"
)


class _Known(NamedTuple):
    identity: bytes
    found: VideoIndex
    recalled: bool  # from an earlier process


class IndexCache:
    """Indexes of the videos under one root, by path. ``folder`` None keeps none on disk."""

    def __init__(self, folder: str | None, root: str, software: str) -> None:
        self._folder = None if folder is None else Path(folder)
        self._name = hashlib.sha256(f"{root}\n{software}".encode(errors="surrogateescape"))
        self._known: LRUCache[str, _Known] = LRUCache(
            _MEMORY_BYTES, lambda known: known.found.memory_bytes
        )
        self._store: sqlite3.Connection | None = None

    def get(self, path: str, file: VideoFile) -> VideoIndex | None:
        """The index of a file, if it is in memory and the file has not changed."""
        known = self._known.get(path)
        if known is None:
            return None
        if known.identity != file.identity:
            _log.warning("%s has changed; it is read anew", printable(path))
            del self._known[path]
            return None
        return known.found

    def put(self, path: str, file: VideoFile, index: VideoIndex, *, recalled: bool = False) -> None:
        """Keep an index in memory, if there is room."""
        if index.memory_bytes <= _MEMORY_BYTES:
            self._known[path] = _Known(file.identity, index, recalled)

    def recall(self, path: str, file: VideoFile) -> VideoIndex | None:
        """The index that a complete decode made, in this process or an earlier one."""
        found = self._execute(
            "SELECT packed FROM indexes WHERE path = ? AND bytes = ? AND modified_ns = ?",
            (os.fsencode(path), file.size, file.mtime_ns),
        )
        with suppress(ValueError):
            return VideoIndex.from_bytes(found[0][0]) if found else None
        return None

    def remember(self, path: str, file: VideoFile, index: VideoIndex) -> None:
        """Keep an index that a complete decode made."""
        self._execute(
            "INSERT OR REPLACE INTO indexes VALUES (?, ?, ?, ?)",
            (os.fsencode(path), file.size, file.mtime_ns, index.to_bytes()),
        )

    def forget(self, path: str, wrong: VideoIndex) -> bool:
        """Forget an index that has turned out wrong. Returns whether another try may be right: the
        index came from an earlier process, or has been replaced since."""
        known = self._known.get(path)
        if known is not None and known.found is not wrong:
            return True
        self._known.pop(path, None)
        self._execute("DELETE FROM indexes WHERE path = ?", (os.fsencode(path),))
        return known is None or known.recalled

    def _execute(self, statement: str, values: tuple[object, ...]) -> list[tuple[bytes]]:
        import sqlite3  # few processes need it

        try:
            return self._connection().execute(statement, values).fetchall()
        except sqlite3.Error as error:
            _log.info("what is known of videos is not kept on disk: %s", error)
            if self._store is not None:
                self._close()
            self._folder, self._store = None, None
        with suppress(sqlite3.Error):
            return self._connection().execute(statement, values).fetchall()
        return []

    def _connection(self) -> sqlite3.Connection:
        import sqlite3

        if self._store is None:
            file = ""  # a temporary file without a name
            if self._folder is not None:
                file = str(self._folder / f"{self._name.hexdigest()[:32]}.sqlite")
                with suppress(OSError):
                    self._folder.mkdir(parents=True, exist_ok=True)
                    Path(file).touch()  # `_tidy` sees that it is in use
                    _tidy(self._folder)
            self._store = sqlite3.connect(
                file, timeout=_BUSY_S, isolation_level=None,
                check_same_thread=False,  # any thread may drop the last reference
            )  # fmt: skip
            self._close = weakref.finalize(self, self._store.close)
            self._store.execute("PRAGMA synchronous = OFF")  # it may be lost
            self._store.execute(_TABLE)
        return self._store


def _tidy(folder: Path) -> None:
    for file in (*folder.glob("*.sqlite"), *folder.glob("*.indexes")):
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > _UNUSED_S:
                file.unlink()

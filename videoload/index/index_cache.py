"""Indexes at hand: the last ones in memory, and those that took a complete decode on disk.

Most files prove their frames without decoding, and are looked at again rather than remembered. For
the others a complete decode is kept from one training to the next, in a SQLite file that all
decoders of this root on this host share. Nothing rests on that file: it may be deleted at any time,
and where there is none, or none can be written, a temporary one takes its place. An index counts
only for the size and the time of change that the video had, and a frame that is not as its index
says is never handed out.
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

_MEMORY_BYTES = 16 << 20  # some 10 000 videos like UCF-101's; each of them is proven in 0.2 ms
_UNUSED_S = 90 * 86400  # a file that nobody opened for so long goes
_BUSY_S = 5.0  # another process is writing
_TABLE = (
    "CREATE TABLE IF NOT EXISTS indexes "
    "(path BLOB PRIMARY KEY, bytes INTEGER, modified_ns INTEGER, packed BLOB) WITHOUT ROWID"
)


class _Known(NamedTuple):
    identity: tuple[int, ...]
    found: VideoIndex
    recalled: bool  # from an earlier process


class IndexCache:
    """Indexes by path, of the videos under one root; ``folder`` None keeps none on disk."""

    def __init__(self, folder: str | None, root: str, software: str) -> None:
        self._folder = None if folder is None else Path(folder)
        self._name = hashlib.sha256(f"{root}\n{software}".encode(errors="surrogateescape"))
        self._known: LRUCache[str, _Known] = LRUCache(
            _MEMORY_BYTES, lambda known: known.found.memory_bytes
        )
        self._store: sqlite3.Connection | None = None

    def get(self, path: str, file: VideoFile) -> VideoIndex | None:
        """The index of a file that has not changed since; only of those in memory."""
        known = self._known.get(path)
        if known is None:
            return None
        if known.identity != file.identity:
            _log.warning("%s has changed; it is read anew", printable(path))
            del self._known[path]
            return None
        return known.found

    def put(self, path: str, file: VideoFile, index: VideoIndex, *, recalled: bool = False) -> None:
        """Keep an index in memory, as far as there is room."""
        if index.memory_bytes <= _MEMORY_BYTES:
            self._known[path] = _Known(file.identity, index, recalled)

    def recall(self, path: str, file: VideoFile) -> VideoIndex | None:
        """What a complete decode told, in this process or an earlier one."""
        found = self._execute(
            "SELECT packed FROM indexes WHERE path = ? AND bytes = ? AND modified_ns = ?",
            (os.fsencode(path), file.size, file.mtime_ns),
        )
        with suppress(ValueError):
            return VideoIndex.from_bytes(found[0][0]) if found else None
        return None

    def remember(self, path: str, file: VideoFile, index: VideoIndex) -> None:
        """Keep what a complete decode told."""
        self._execute(
            "INSERT OR REPLACE INTO indexes VALUES (?, ?, ?, ?)",
            (os.fsencode(path), file.size, file.mtime_ns, index.to_bytes()),
        )

    def forget(self, path: str, wrong: VideoIndex) -> bool:
        """``wrong`` has turned out wrong. Whether another try may be right: it came from an earlier
        process, or has been replaced since."""
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
            file = ""  # a temporary one, without a name
            if self._folder is not None:
                file = str(self._folder / f"{self._name.hexdigest()[:32]}.sqlite")
                with suppress(OSError):
                    self._folder.mkdir(parents=True, exist_ok=True)
                    Path(file).touch()  # it is in use
                    _tidy(self._folder)
            self._store = sqlite3.connect(
                file, timeout=_BUSY_S, isolation_level=None,
                check_same_thread=False,  # any thread may be the last to know of this cache
            )  # fmt: skip
            self._close = weakref.finalize(self, self._store.close)
            self._store.execute("PRAGMA synchronous = OFF")  # nothing rests on it
            self._store.execute(_TABLE)
        return self._store


def _tidy(folder: Path) -> None:
    for file in (*folder.glob("*.sqlite"), *folder.glob("*.indexes")):
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > _UNUSED_S:
                file.unlink()

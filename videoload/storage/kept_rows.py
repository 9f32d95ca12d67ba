"""What was found out of files before, as rows: those of the set's index, and those of this host.

The processes of a host that read one root share an SQLite file, FOLDER/videoload-3f9a....sqlite. It
may be deleted at any time. If there is none, or it cannot be written, a temporary one takes its
place. A row is valid only for the file that it was made from (`VideoFile.key`) and for the code
that made it. Hosts that share a home may have copies of their own, so a path has a row for each. A
row that is damaged is none: each has a checksum. If the set has an index of its own (`index_file`),
that is asked first.
"""

from __future__ import annotations

import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from errno import EPERM
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from zlib import crc32

from videoload.logs import Log
from videoload.storage.cache_directories import own_file, own_folder
from videoload.storage.index_file import TABLE, DatasetIndex, row_of
from videoload.storage.shards import File

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")
_log = Log(__name__)

_MAX_WAITING, _MAX_WAIT_S = 64, 0.05  # indexes that are written together
_NAME = re.compile(r"videoload-[0-9a-f]{32}\.(sqlite(-journal)?|lock|coming)")
_UNUSED_S = 90 * 86400  # a cache file that was not opened for so long is deleted
_MOST_COPIES = 64  # rows of a path; the oldest go
_BUSY_S = 5.0  # another process is writing
_BOUND = (
    "CREATE TRIGGER IF NOT EXISTS bound AFTER INSERT ON indexes BEGIN DELETE FROM indexes "
    "WHERE path = NEW.path AND rowid NOT IN (SELECT rowid FROM indexes "
    f"WHERE path = NEW.path ORDER BY rowid DESC LIMIT {_MOST_COPIES}); END"
)


class KeptRows:
    """The rows of the files under one root, by path. ``folder`` None keeps none on disk.
    ``of_set``: the rows of the dataset index."""

    def __init__(
        self, folder: str | None, root: str, software: str, of_set: DatasetIndex | None = None
    ) -> None:
        self._of_set = of_set
        self._disk = _Disk(folder, f"{root}\n{software}")
        self._lock = threading.RLock()  # several threads may walk archives
        self.close = weakref.finalize(self, self._disk.close)

    def find(
        self, path: str, file: File, read: Callable[[bytes, bytes], T],
        check: Callable[[T], None] = lambda found: None, *, wait: bool = True,
    ) -> T | None:  # fmt: skip
        """What ``read`` makes of the row of a file, if there is one and the file has not changed.
        It takes a row and what the row is of (`row_of`), and may raise ValueError, as ``check`` of
        what somebody else may have written. ``wait``: for the index of the set, if it is on its
        way."""
        with self._lock:
            if self._of_set is not None:
                found = self._of_set.find(path, file, read, check, wait)
                if found is not None:
                    return found
            if (packed := self.packed(path, file)) is not None:
                with suppress(ValueError):
                    return read(packed, row_of(path, file.version))
        return None

    def packed(self, path: str, file: File) -> bytes | None:
        """The bytes of a row that was kept on this host."""
        return self._disk.read(path, file.key)

    def version(self, path: str, wait: bool) -> bytes | None:
        """Of which version of a file on another host something is known; None: of none."""
        with self._lock:
            version = None if self._of_set is None else self._of_set.version(path, wait)
            return version or self._disk.last(path)

    def own_version(self, path: str) -> bytes | None:
        """Of which version of a file on another host this host has found out something."""
        with self._lock:
            version = self._disk.last(path)
            row = None if version is None else self._disk.read(path, version)
        if version is None or row is None:
            return None
        checksum = crc32(row[4:], crc32(row_of(path, version)))
        return version if row[:4] == checksum.to_bytes(4, "little") else None

    def put(self, path: str, file: File, packed: Callable[[bytes], bytes]) -> None:
        """Keep a row: the bytes that ``packed`` makes, with what they are of."""
        if file.has_version:
            row = packed(row_of(path, file.version))
            with self._lock:
                self._disk.write(path, file.key, row)

    def forget(self, path: str) -> None:
        """Forget what has turned out wrong."""
        self._disk.remove(path)
        if self._of_set is not None:
            self._of_set.forget(path)


class _Disk:
    """Rows of the file that processes share. Some wait to be written together: a transaction of its
    own for each takes as long as the rest of an index."""

    def __init__(self, folder: str | None, name: str) -> None:
        key = name.encode(errors="surrogateescape")
        leaf = f"videoload-{blake2b(key, digest_size=16).hexdigest()}.sqlite"
        self._file = None if folder is None else Path(os.path.realpath(folder), leaf)
        self._process = os.getpid()
        self._waiting: dict[tuple[bytes, bytes], bytes] = {}
        self._written_s = -_MAX_WAIT_S
        self._opened: sqlite3.Connection | None = None

    def read(self, path: str, identity: bytes) -> bytes | None:
        """The row of a file."""
        key = os.fsencode(path), identity
        if key in self._waiting:
            return self._waiting[key]
        statement = "SELECT packed FROM indexes WHERE path = ? AND identity = ?"
        for (packed,) in self._execute(statement, [key]):
            if isinstance(packed, bytes):  # a damaged file may hold anything
                return packed
        return None

    def last(self, path: str) -> bytes | None:
        """The key of the row of a file that was written last."""
        if self._file is None:
            return None
        statement = "SELECT identity FROM indexes WHERE path = ? ORDER BY rowid DESC LIMIT 1"
        return next((key for (key,) in self._execute(statement, [(os.fsencode(path),)])), None)

    def write(self, path: str, identity: bytes, packed: bytes) -> None:
        """Write a row: at once, if files come slowly."""
        self._waiting[os.fsencode(path), identity] = packed
        late = time.monotonic() - self._written_s > _MAX_WAIT_S
        if late or len(self._waiting) >= _MAX_WAITING:
            self._flush()

    def _flush(self) -> None:
        rows = [(*key, packed) for key, packed in self._waiting.items()]
        self._waiting.clear()
        self._written_s = time.monotonic()
        if rows and self._process == os.getpid():  # a forked process has no rows of its own
            self._execute("INSERT OR REPLACE INTO indexes VALUES (?, ?, ?)", rows)

    def remove(self, path: str) -> None:
        """Have no row of a file any more."""
        self._flush()
        self._execute("DELETE FROM indexes WHERE path = ?", [(os.fsencode(path),)])

    def close(self) -> None:
        """Write what waits, and close."""
        self._flush()
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _execute(self, statement: str, rows: Sequence[tuple[bytes, ...]]) -> list[tuple[bytes]]:
        import sqlite3  # not every process needs it

        for _ in range(3):  # a damaged file is made again; if that fails, a temporary one
            try:
                connection = self._connection()
                if statement.startswith("SELECT"):
                    return connection.execute(statement, rows[0]).fetchall()
                with connection:
                    connection.execute("BEGIN IMMEDIATE")
                    connection.executemany(statement, rows)
                return []
            except (sqlite3.Error, OSError) as error:
                self._give_up(error, damaged=type(error) is sqlite3.DatabaseError)
        return []

    def _give_up(self, error: Exception, *, damaged: bool) -> None:
        """Go on with a new file if this one is damaged, else with a temporary one."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None
        if damaged and self._file is not None and self._file.exists():
            with suppress(OSError):
                self._file.unlink()
                return
        if self._file is not None:
            _log.warning("cannot write the index cache %s: %s", self._file, error)
        self._file = None

    def _connection(self) -> sqlite3.Connection:
        import sqlite3

        if self._opened is None:
            if self._file is not None:
                _make_ready(self._file)
            self._opened = sqlite3.connect(
                self._file or "",  # a temporary file without a name
                timeout=_BUSY_S, isolation_level=None,
                check_same_thread=False,  # any thread may drop the last reference
            )  # fmt: skip
            for statement in ("PRAGMA synchronous = OFF", TABLE, _BOUND):  # it may be lost
                self._opened.execute(statement)
        return self._opened


def _make_ready(file: Path) -> None:
    """Make a file that is in use, and delete those of its kind that are not. Raises OSError."""
    with own_folder(file.parent):
        if os.path.lexists(file) and own_file(file) is None:
            raise PermissionError(EPERM, "it is a link, or of another user")
        file.touch(0o600)
        for other in file.parent.iterdir():
            found = own_file(other) if _NAME.fullmatch(other.name) else None
            if found is not None and time.time() - found.st_mtime > _UNUSED_S:
                other.unlink(missing_ok=True)

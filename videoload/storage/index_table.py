"""A table of findings about files, by path and version: an SQLite file.

**A row is valid only for one version of a file**: its checksum covers path and version. Rows of
other files, and corrupt rows, are ignored. So a wrong table costs time, and changes nothing.

The table of a host (`HostTable`) grows, and processes share it. That of a set (`SetTable`) is never
changed: another one takes its place (`write_table`).
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import time
import weakref
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from errno import EPERM
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast
from urllib.parse import quote
from zlib import compress, decompressobj
from zlib import error as zlib_error

from xxhash import xxh3_64_digest, xxh3_64_intdigest

from videoload.logs import Log
from videoload.storage.cache_directories import left_behind, own_file, own_folder
from videoload.storage.new_files import new_file

Row = tuple[bytes, bytes, bytes]  # path, version, packed

_log = Log(__name__)

_TABLE = "CREATE TABLE indexes (path BLOB, identity BLOB, packed BLOB, UNIQUE (path, identity))"
_SOFTWARE = ""  # the path of the row that names the software that wrote the file
_SUM_BYTES = 8
_LEVEL = 1  # of zlib
_SMALL_BYTES = 4096  # a smaller row is not compressed: that takes an eighth of the time of an index
_MAX_ROW_BYTES = 64 << 20
_MOST_BYTES = 256 << 20  # of a row that is not compressed: four million members of an archive
_MAX_WAITING, _MAX_WAIT_S = 64, 0.05  # rows that are written together
_NAME = re.compile(r"\.?videoload-[0-9a-f]{32}\.(lock|sqlite(-journal|\.unfinished)?)")
_UNUSED_S = 90 * 86400  # a file that was not opened for so long is deleted
_MOST_COPIES = 64  # rows of a path; the oldest go
_BUSY_S = 5.0  # another process is writing
_BOUND = (
    "CREATE TRIGGER IF NOT EXISTS bound AFTER INSERT ON indexes BEGIN DELETE FROM indexes "
    "WHERE path = NEW.path AND rowid NOT IN (SELECT rowid FROM indexes "
    f"WHERE path = NEW.path ORDER BY rowid DESC LIMIT {_MOST_COPIES}); END"
)
_INSERT = "INSERT OR REPLACE INTO indexes VALUES (?, ?, ?)"


def pack(path: str, version: bytes, content: bytes) -> bytes:
    """Return the bytes of a row."""
    data = compress(content, _LEVEL if len(content) > _SMALL_BYTES else 0)
    return _sum(path, version, data) + data


def unpack(path: str, version: bytes, packed: bytes) -> bytes:
    """Reverse `pack`. Raises ValueError for other bytes, or another file."""
    data = memoryview(packed)[_SUM_BYTES:]
    if packed[:_SUM_BYTES] != _sum(path, version, data):
        raise ValueError("the checksum of a row is wrong")
    try:
        return decompressobj().decompress(data, _MOST_BYTES)
    except zlib_error as error:
        raise ValueError(str(error)) from None


def _sum(path: str, version: bytes, data: bytes | memoryview) -> bytes:
    return xxh3_64_digest(data, xxh3_64_intdigest(os.fsencode(path) + b"\0" + version))


def _whole(rows: Iterable[tuple[object, ...]]) -> list[Row]:
    """Return the valid rows: a damaged or forged file may contain anything."""
    return [cast("Row", row) for row in rows if all(isinstance(cell, bytes) for cell in row)]


def table_name(key: str, suffix: str = "sqlite") -> str:
    """Return the name of a file in the cache, which is deleted if it is not opened."""
    text = key.encode(errors="surrogateescape")
    return f"videoload-{blake2b(text, digest_size=16).hexdigest()}.{suffix}"


class NoIndexError(Exception):
    """A file is not a usable index, for the reason in the message."""


class OtherSoftwareError(NoIndexError):
    """Another software version wrote the index."""


class SetTable:
    """The table of a set, open for reading."""

    def __init__(self, file: str | Path, software: str) -> None:
        """Open it. Raises NoIndexError if it is not an index, or of other ``software``."""
        where = quote(os.fsencode(Path(file).absolute()))
        try:
            self._opened = sqlite3.connect(
                f"file:{where}?mode=ro&immutable=1", uri=True, check_same_thread=False
            )
            self._close = weakref.finalize(self, self._opened.close)  # it has several owners
            self._opened.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_ROW_BYTES)
            made = self._opened.execute("SELECT sql FROM sqlite_schema WHERE sql NOT NULL")
            if made.fetchall() != [(_TABLE,)]:
                raise ValueError("it has other tables")
            [(_, _, version)] = self.rows(_SOFTWARE)
        except (sqlite3.Error, ValueError) as error:
            raise NoIndexError(f"it is not a videoload index ({error})") from None
        if version != software.encode():
            raise OtherSoftwareError(
                "another software version wrote it; run `videoload index` again"
            )

    def rows(self, path: str) -> list[Row]:
        """Return the rows of a file, by its path below the set's root. Raises sqlite3.Error."""
        statement = "SELECT * FROM indexes WHERE path = ? LIMIT 1"
        return _whole(self._opened.execute(statement, [os.fsencode(path)]))

    def paths(self) -> list[str]:
        """Return the paths of all files that it has rows of. Raises sqlite3.Error."""
        found = self._opened.execute("SELECT DISTINCT path FROM indexes WHERE path != x''")
        return [os.fsdecode(path) for (path,) in found if isinstance(path, bytes)]

    def has_folder(self, folder: str) -> bool:
        """Return whether it has rows of files in a folder, which ends with a slash. Raises
        sqlite3.Error."""
        range_ = [os.fsencode(folder), os.fsencode(folder[:-1] + "0")]  # "0" follows "/"
        found = self._opened.execute(
            "SELECT 1 FROM indexes WHERE path > ? AND path < ? LIMIT 1", range_
        )
        return found.fetchone() is not None

    def close(self) -> None:
        """Close it. This also happens once it is no longer referenced."""
        self._close()


def write_table(file: Path, rows: Iterable[Row], software: str, room: str | None = None) -> int:
    """Write the table of a dataset, which replaces ``file`` atomically. It is created in ``room``,
    a folder of this user: SQLite would follow a link. Returns how many rows it has. Raises OSError,
    sqlite3.Error."""
    with TemporaryDirectory(prefix="videoload-", dir=room) as folder:
        whole = Path(folder, "table")
        with closing(sqlite3.connect(whole, isolation_level=None)) as made:
            for statement in ("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", _TABLE,
                              "BEGIN"):  # fmt: skip
                made.execute(statement)
            made.execute(_INSERT, (os.fsencode(_SOFTWARE), b"", software.encode()))
            made.executemany(_INSERT, rows)
            made.execute("COMMIT")
            [(count,)] = made.execute("SELECT count(*) - 1 FROM indexes")
        with whole.open("rb") as source, new_file(file) as out:
            shutil.copyfileobj(source, out, 1 << 20)
            out.flush()
            os.fsync(out.fileno())  # otherwise a power failure may leave it empty
    return int(count)


class HostTable:
    """The table of a host, for all files below one root: FOLDER/videoload-3f9a....sqlite.

    It may be deleted at any time, and is deleted if it is not opened for long. If there is none, or
    it cannot be written, a temporary one takes its place. Hosts that share a home may have copies
    of their own, so a path has several rows.

    Some rows wait to be written together: a transaction of its own for each takes as long as the
    rest of an index.
    """

    def __init__(self, folder: str | None, key: str) -> None:
        self.is_shared = folder is not None
        self._file = None if folder is None else Path(os.path.realpath(folder), table_name(key))
        self._process = os.getpid()
        self._waiting: dict[tuple[bytes, bytes], bytes] = {}
        self._written_s = -_MAX_WAIT_S
        self._opened: sqlite3.Connection | None = None

    def rows(self, path: str) -> list[Row]:
        """Return the rows of a file, the oldest first."""
        key = os.fsencode(path)
        statement = "SELECT * FROM indexes WHERE path = ? ORDER BY rowid"
        waiting = [(*of, packed) for of, packed in self._waiting.items() if of[0] == key]
        return _whole(self._execute(statement, [(key,)])) + waiting

    def write(self, path: str, identity: bytes, packed: bytes) -> None:
        """Write a row: at once, if files are slow."""
        self._waiting[os.fsencode(path), identity] = packed
        late = time.monotonic() - self._written_s > _MAX_WAIT_S
        if late or len(self._waiting) >= _MAX_WAITING:
            self._flush()

    def _flush(self) -> None:
        rows = [(*key, packed) for key, packed in self._waiting.items()]
        self._waiting.clear()
        self._written_s = time.monotonic()
        if rows and self._process == os.getpid():  # a forked process has no rows of its own
            self._execute(_INSERT, rows)

    def remove(self, path: str) -> None:
        """Delete the row of a file."""
        self._flush()
        self._execute("DELETE FROM indexes WHERE path = ?", [(os.fsencode(path),)])

    def close(self) -> None:
        """Write what waits, and close."""
        self._flush()
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _execute(self, statement: str, rows: Sequence[tuple[bytes, ...]]) -> list[tuple[Any, ...]]:
        for _ in range(3):  # a damaged file is created again; if that fails, a temporary one
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
        """Continue with a new file if this one is damaged, else with a temporary one."""
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
        if self._opened is None:
            if self._file is not None:
                _make_ready(self._file)
            self._opened = sqlite3.connect(
                self._file or "",  # a temporary file without a name
                timeout=_BUSY_S, isolation_level=None,
                check_same_thread=False,  # any thread may drop the last reference
            )  # fmt: skip
            table = _TABLE.replace("TABLE", "TABLE IF NOT EXISTS")
            for statement in ("PRAGMA synchronous = OFF", table, _BOUND):  # it may be lost
                self._opened.execute(statement)
        return self._opened


def _make_ready(file: Path) -> None:
    """Make a file that is in use, and delete those of its kind that are not. Raises OSError."""
    with own_folder(file.parent):
        if os.path.lexists(file) and own_file(file) is None:
            raise PermissionError(EPERM, "it is a link, or of another user")
        file.touch(0o600)
        of_its_kind = (each for each in file.parent.iterdir() if _NAME.fullmatch(each.name))
        for other in left_behind(of_its_kind, _UNUSED_S):
            other.unlink(missing_ok=True)

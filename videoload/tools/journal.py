"""The progress of a long job: a file of JSON lines, each written at once.

The first line describes the job. Each further line names a row that is done, with what was found of
it, and its `Provenance`: the code that did it and the file that it was done to. So a run that was
killed resumes, and a row whose code or file is another one by now is done again. A kill may cut off
the last line, which then does not count.

Tables are written from the journal when a run ends. A file that is no journal, and a table that no
journal has written, are refused and left as they are. One process at a time writes a journal.

(`indexing` has none: what it finds out of a file is in the index cache of this host at once, under
the identity of the file and the code that read it.)
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from xxhash import xxh3_64_hexdigest

from videoload.errors import VideoloadError, named
from videoload.logs import Log
from videoload.storage.new_files import continued, new_file

Entry = dict[str, Any]

_log = Log(__name__)


class Provenance(NamedTuple):
    """The model and the file that a row's result depends on.

    ``code``: a model or software; None if nothing distinguishes it from another one. ``file``:
    identifies the content of the file; None if it cannot be read now, and results of it stay.
    ``of``: what else of the row decides, such as its boxes.
    """

    code: str | None
    file: int | str | None = None
    of: str = ""

    def holds(self, entry: Entry) -> bool:
        """Return whether the result in a journal's line belongs to the row."""
        own = self._asdict() if self.file is not None else {"code": self.code, "of": self.of}
        return self.code is not None and own.items() <= entry.items()


class Journal:
    """A journal that is open.

    Attributes:
        rows: The line of each row that is done, by its name.
    """

    def __init__(
        self, file: Path, job: Mapping[str, str], *,
        tables: Iterable[Path] = (), others: Iterable[Path] = (),
    ) -> None:  # fmt: skip
        """Resume a ``job``, or begin it. ``tables`` are those that `write` writes, ``others`` the
        job's other files. Raises VideoloadError if the journal is of another job or locked by
        another process, or if a file is there that is not the job's; OSError."""
        self.file, self.rows, self._tables = file, dict[str, Entry](), list[str]()
        tables = [*tables]
        there = None if file.exists() else next(filter(Path.exists, [*tables, *others]), None)
        if there is not None:
            raise VideoloadError(
                f"{there} exists, and {file.name} does not, which lists our results: write "
                "elsewhere, or move it"
            )
        file.parent.mkdir(parents=True, exist_ok=True)
        self._raw = continued(file)
        try:
            flaw = self._read(dict(job)) or next(filter(None, map(self._flaw, tables)), "")
            if flaw:
                raise VideoloadError(f"{flaw}: write elsewhere, or delete {file} and the results")
        except BaseException:
            self.close()
            raise

    def _read(self, job: Entry) -> str:
        """Read all lines. Returns in what the journal's job is another one, or ""."""
        try:
            fcntl.flock(self._raw, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise VideoloadError(
                f"another process writes there: {self.file} is locked; wait, or write elsewhere"
            ) from None
        self._raw.seek(0)
        *lines, cut_off = self._raw.readall().split(b"\n")
        self._whole = sum(len(line) + 1 for line in lines)
        try:
            found = [json.loads(line) for line in lines]
        except ValueError:
            found = [None]
        begins = bool(found) or _line({"job": job}).startswith(cut_off)
        if not begins or not all(isinstance(entry, dict) for entry in found):
            raise VideoloadError(f"{self.file} is not a journal: move it")
        if not found:
            self._append({"job": job})
            return ""
        head, *entries = found
        self.rows = {entry["row"]: entry for entry in entries if "row" in entry}
        self._tables = [entry["table"] for entry in entries if "table" in entry]
        before = head.get("job") or {}
        differs = "; ".join(
            f"{name}: {before.get(name, 'none')} before, {job.get(name, 'none')} now"
            for name in {**before, **job}
            if before.get(name) != job.get(name)
        )
        return f"{self.file} is of other results ({differs})" if differs else ""

    def _flaw(self, table: Path) -> str:
        """Return why a table cannot be replaced, or ""."""
        if not table.exists() or xxh3_64_hexdigest(table.read_bytes()) in self._tables:
            return ""
        return f"{table} was changed since it was written"

    def keep(self, provenances: Mapping[str, Provenance]) -> list[str]:
        """Forget rows whose provenance is another one by now. Returns their names, sorted."""
        others = [
            name for name, provenance in provenances.items()
            if name in self.rows and not provenance.holds(self.rows[name])
        ]  # fmt: skip
        for name in others:
            del self.rows[name]
        return sorted(others)

    def add(self, name: str, provenance: Provenance, **found: Any) -> None:
        """Write a row that is done. Raises OSError."""
        entry = {"row": name, **provenance._asdict(), **found}
        if self.rows.get(name) != entry:  # else only its files were deleted
            self.rows[name] = entry
            self._append(entry)

    def write(self, table: Path, text: str) -> None:
        """Write a table: first into the journal that it is ours. "" deletes it. Raises OSError."""
        content = text.encode("utf-8", "surrogateescape")
        digest = xxh3_64_hexdigest(content)
        if not content:
            table.unlink(missing_ok=True)
            return
        if digest not in self._tables:
            self._tables.append(digest)
            self._append({"table": digest})
        with new_file(table, alone=True) as out:
            out.write(content)

    def _append(self, entry: Entry) -> None:
        self._raw.truncate(self._whole)  # without what a kill or a full disk cut off
        line = left = _line(entry)
        while left:
            left = left[self._raw.write(left) :]
        self._whole += len(line)

    def close(self) -> None:
        """Release it for another process."""
        self._raw.close()


def say_again(names: Iterable[str]) -> None:
    """Log that these rows are done again."""
    if again := sorted({*names}):
        _log.warning(
            "%d rows are computed again, like %s: their files, model or software may have changed",
            len(again),
            named(again[0]),
        )


def _line(entry: Entry) -> bytes:
    return json.dumps(entry).encode() + b"\n"

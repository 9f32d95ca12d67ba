"""Where results go on the disk, so that a run that was killed resumes, and one that is called
again does what is missing.

Each place (a table, a folder of tables, a folder of arrays) has a journal of its own beside it. Its
head says what windows there are; each further line names a row of the catalog whose results are
there, and the model and the files that they are of. Where these are others by now, the results are
deleted, and the row is done again. Results are written first, and then their line. So after a kill
the row is done once more, with the same files. The lines of a table stand in its journal: when a
run ends, the table is written from it, in the order of the catalog.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

import numpy as np
from xxhash import xxh3_64_hexdigest

from videoload.catalog.catalog import Catalog
from videoload.clips.rows import Video
from videoload.errors import VideoloadError
from videoload.logs import Log
from videoload.plan.identity import Identity
from videoload.storage.new_files import new_file
from videoload.storage.paths import pieces_of
from videoload.tools.predict_journal import Entry, PredictionJournal
from videoload.tools.predict_table import HEAD, WindowTable
from videoload.tools.predict_windows import FileScores
from videoload.tools.provenance import Provenance

Target = str | os.PathLike[str] | None
Writers = Mapping[str, Callable[[BinaryIO, FileScores], None]]

_log = Log(__name__)


class ResultFiles:
    """A folder with files for each row, by their suffixes; or the file of a ``table`` of all rows,
    in the order of the catalog. ``entries``: the journal's line of each row that is done, by the
    row's name."""

    def __init__(
        self, journal: Path, settings: Mapping[str, str], names: Sequence[str],
        writers: Writers = MappingProxyType({}), table: Path | None = None,
    ) -> None:  # fmt: skip
        """Raises VideoloadError if there are other results; OSError."""
        self._folder, self._names, self._writers = journal.parent, names, writers
        self.table, self.path = table, table or journal.parent
        files = self._files(names) if table is None else [table]
        there = None if journal.exists() else next(filter(Path.exists, files), None)
        if there is not None:
            raise VideoloadError(f"{there} exists, and {journal.name} does not: write elsewhere")
        self._journal = PredictionJournal(journal, {"results": dict(settings)})
        entries = self._journal.entries
        self.entries = {entry["row"]: entry for entry in entries if "row" in entry}
        self._written = [entry["table"] for entry in entries if "table" in entry]
        found = Identity(settings).difference(self._journal.head.get("results") or {})
        flaw = f"{journal} is of other results ({found})" if found else ""
        if table is not None and table.exists():
            is_ours = xxh3_64_hexdigest(table.read_bytes()) in self._written
            flaw = flaw or f"{table} was changed since it was written" * (not is_ours)
        if flaw:
            self.close()
            raise VideoloadError(f"{flaw}: write elsewhere, or delete {journal} and the results")

    def _files(self, names: Iterable[str]) -> Iterator[Path]:
        return (self._folder / f"{name}{suffix}" for name in names for suffix in self._writers)

    def has(self, name: str) -> bool:
        """Whether the results of a row are there."""
        return name in self.entries and all(map(Path.exists, self._files([name])))

    def write(self, name: str, scores: FileScores, entry: Entry) -> None:
        """Write them, and this line of the journal. Raises OSError."""
        for file, write in zip(self._files([name]), self._writers.values(), strict=True):
            file.parent.mkdir(parents=True, exist_ok=True)
            with new_file(file, alone=True) as out:
                write(out, scores)
        if self.entries.get(name) != entry:  # else they were deleted
            self.entries[name] = entry
            self._journal.append(entry)

    def drop(self, name: str) -> None:
        """There are none of a row. Raises OSError."""
        self.entries.pop(name, None)
        for file in self._files([name]):
            file.unlink(missing_ok=True)

    def finish(self) -> None:
        """The run ends: write the table. Raises OSError."""
        if self.table is None:
            return
        done = (self.entries[name]["lines"] for name in self._names if name in self.entries)
        content = (HEAD + "".join(done)).encode("utf-8", "surrogateescape")
        digest = xxh3_64_hexdigest(content)
        if self._written[-1:] != [digest]:
            self._written.append(digest)
            self._journal.append({"table": digest})
        with new_file(self.table, alone=True) as out:
            out.write(content)

    def close(self) -> None:
        """Release it for another process."""
        self._journal.close()


class Results:
    """Results that are written to a table (``to_csv``, if it ends with ``.csv``), or to folders
    with files for each row, or both, or nowhere."""

    def __init__(
        self, to_csv: Target, to_npy: Target, settings: Mapping[str, str], table: WindowTable,
        marks: Mapping[str, Provenance],
    ) -> None:  # fmt: skip
        """Begin, or resume. ``marks``: of the rows of a catalog, by their names. Raises
        VideoloadError if there are results of other windows, or nothing can be written."""
        self._marks, self._names, self._lines = marks, (names := [*marks]), table
        self._places: list[ResultFiles] = []
        with_table = {**settings, "top": str(table.top), "names": repr(tuple(table.classes))}
        try:
            with _writing(to_csv or to_npy):
                if to_csv is not None and (file := Path(to_csv)).suffix.lower() == ".csv":
                    journal = file.with_name(f"{file.name}.progress")
                    self._places.append(ResultFiles(journal, with_table, names, table=file))
                elif to_csv is not None:
                    journal = Path(to_csv, ".csv.progress")
                    self._places.append(
                        ResultFiles(journal, with_table, names, {".csv": table.write})
                    )
                if to_npy is not None:
                    arrays = {".npy": _write_scores, ".times.npy": _write_times}
                    self._places.append(
                        ResultFiles(Path(to_npy, ".npy.progress"), settings, names, arrays)
                    )
                self._drop_others()
        except BaseException:
            self.close()
            raise

    def _drop_others(self) -> None:
        """Results that are not those of their row any more are none."""
        others = set[str]()
        for place in self._places:
            for name, mark in self._marks.items():
                if name in place.entries and not mark.holds(place.entries[name]):
                    place.drop(name)
                    others.add(name)
        if others:
            _log.warning("%d rows are done again, as %s: their results are not known to be of this "
                         "model and of these files", len(others), min(others))  # fmt: skip

    def lacks(self, row: int) -> bool:
        """Whether some place lacks the results of a row."""
        name = self._names[row]
        return not self._places or not all(place.has(name) for place in self._places)

    def save(self, row: int, scores: FileScores | None) -> None:
        """Write the results of a row where they lack; None: there are none, since it cannot be
        decoded. Raises VideoloadError."""
        name = self._names[row]
        for place in self._places:
            with _writing(place.path):
                if scores is None:
                    place.drop(name)
                elif not place.has(name):
                    entry = {"row": name, **self._marks[name]._asdict()}
                    if place.table is not None:
                        entry["lines"] = self._lines.lines(scores)
                    place.write(name, scores, entry)

    def finish(self) -> None:
        """The run ends, perhaps before all rows are done. Raises VideoloadError."""
        for place in self._places:
            with _writing(place.path):
                place.finish()

    def written(self) -> dict[str, int]:
        """Of each table or folder, how many rows have results there."""
        return {str(place.path): sum(map(place.has, self._names)) for place in self._places}

    def close(self) -> None:
        """Release it for another process."""
        for place in self._places:
            place.close()


def row_names(catalog: Catalog) -> list[str]:
    """A name for the results of each row: its path, and what distinguishes it from other rows of
    the file. Of a recording in pieces, its first piece, and how many follow. No two rows have the
    same one."""
    found, taken = [], set[str]()
    for video in catalog:
        first, *others = pieces_of(video.path)
        name = own = first + f"+{len(others)}" * bool(others) + segment_of(video)
        number = 1
        while name in taken or f"{name}.times" in taken:
            number += 1
            name = f"{own}.{number}"
        taken |= {name, f"{name}.times"}
        found.append(name)
    return found


def segment_of(video: Video) -> str:
    """Which part of its file a row is, exactly; empty if it is all of it."""
    if video.start_s is not None or video.end_s is not None:
        return f".{_exact(video.start_s or 0)}-{_exact(video.end_s)}s"
    if video.start or video.end is not None:
        return f".{video.start}-{'' if video.end is None else video.end}"
    return ""


def _exact(seconds: float | None) -> str:
    return "" if seconds is None else repr(float(seconds)).removesuffix(".0")


def _write_scores(file: BinaryIO, scores: FileScores) -> None:
    np.save(file, scores.scores)


def _write_times(file: BinaryIO, scores: FileScores) -> None:
    np.save(file, np.stack((scores.start_s, scores.end_s), axis=1))


@contextmanager
def _writing(place: object) -> Iterator[None]:
    """An OSError in here becomes a VideoloadError that names the file, or else this place."""
    try:
        yield
    except OSError as error:  # that of a full disk names no file
        what = error.filename or place
        raise VideoloadError(f"cannot write {what}: {error.strerror}") from None

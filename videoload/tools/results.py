"""Results on the disk, so that a killed run resumes, and a later run computes only missing results.

Each place (a table, a folder of tables, a folder of arrays) has a `Journal` beside it. Its job
describes the windows. Results are written first, and then their line in the journal. So after a
kill the row is done once more, with the same files. The lines of a table stand in its journal: when
a run ends, the table is written from it, in the order of the catalog.
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, NamedTuple

import numpy as np

from videoload import Catalog
from videoload.catalog.table_rows import escaped
from videoload.clips.rows import Video
from videoload.errors import SpecError
from videoload.storage.new_files import new_file, writing
from videoload.storage.paths import pieces_of
from videoload.tools.journal import Journal, Provenance, say_again
from videoload.tools.predict_windows import FileScores

Target = str | os.PathLike[str] | None
Writers = Mapping[str, Callable[[BinaryIO, FileScores], None]]

_COLUMNS = ("path", "start_s", "end_s", "class", "score")
TABLE_HEAD = ",".join(_COLUMNS) + "\n"


class WindowTable(NamedTuple):
    """The ``top`` classes of each window, the highest score first. ``classes``: their names. If
    there is another number of scores, names that ``are_given`` are refused, and others are the
    numbers from 0 on."""

    top: int
    classes: Sequence[str]
    are_given: bool = False

    def lines(self, file: FileScores) -> str:
        """Return the lines of a file. Raises SpecError."""
        if file.scores.ndim != 2:
            shape = list(file.scores.shape[1:])
            raise SpecError(f"a CSV needs a score for each class, the model gives {shape}: to_npy=")
        found = io.StringIO()
        csv.writer(found, lineterminator="\n").writerows(self._rows(file))
        return found.getvalue()

    def write(self, to: BinaryIO, file: FileScores) -> None:
        """Write a table of one file. Raises OSError, SpecError."""
        to.write((TABLE_HEAD + self.lines(file)).encode("utf-8", "surrogateescape"))

    def _rows(self, file: FileScores) -> Iterator[Sequence[str]]:
        count = file.scores.shape[1]
        if self.are_given and len(self.classes) != count:
            raise SpecError(
                f"classes= has {len(self.classes)} names, and the model gives {count} scores: give "
                "a name for each, or none"
            )
        known = self.classes if len(self.classes) == count else map(str, range(count))
        path, names = escaped(file.path), list(map(escaped, known))
        best = np.argsort(-file.scores, axis=1, kind="stable")[:, : self.top].tolist()
        for scores, start_s, end_s, chosen in zip(
            file.scores, file.start_s.tolist(), file.end_s.tolist(), best, strict=True
        ):
            for number in chosen:
                score = f"{scores[number]:.7g}"
                yield path, _seconds(start_s), _seconds(end_s), names[number], score


def _seconds(seconds: float) -> str:
    """Microseconds count; nothing if the time is not known."""
    return "" if math.isnan(seconds) else f"{seconds:.6f}".rstrip("0").rstrip(".")


class ResultFiles:
    """A folder with files for each row, by their suffixes; or the file of a ``table`` of all rows,
    in the order of the catalog."""

    def __init__(
        self, journal: Path, job: Mapping[str, str], names: Sequence[str],
        writers: Writers = MappingProxyType({}), table: Path | None = None,
    ) -> None:  # fmt: skip
        """Raise VideoloadError if there are other results; OSError."""
        self._folder, self._names, self._writers = journal.parent, names, writers
        self.table, self.path = table, table or journal.parent
        tables = [] if table is None else [table]
        self.journal = Journal(journal, job, tables=tables, others=self._files(names))

    def _files(self, names: Iterable[str]) -> Iterator[Path]:
        return (self._folder / f"{name}{suffix}" for name in names for suffix in self._writers)

    def has(self, name: str) -> bool:
        """Return whether the results of a row exist."""
        return name in self.journal.rows and all(map(Path.exists, self._files([name])))

    def write(
        self, name: str, scores: FileScores, provenance: Provenance, table: WindowTable
    ) -> None:
        """Write the results of a row, and then its line in the journal. Raises OSError,
        SpecError."""
        for file, write in zip(self._files([name]), self._writers.values(), strict=True):
            file.parent.mkdir(parents=True, exist_ok=True)
            with new_file(file, alone=True) as out:
                write(out, scores)
        self.journal.add(name, provenance, **({"lines": table.lines(scores)} if self.table else {}))

    def drop(self, name: str) -> None:
        """There are none of a row. Raises OSError."""
        self.journal.rows.pop(name, None)
        for file in self._files([name]):
            file.unlink(missing_ok=True)

    def finish(self) -> None:
        """The run ends: write the table. Raises OSError."""
        if self.table is not None:
            rows = self.journal.rows
            done = (rows[name]["lines"] for name in self._names if name in rows)
            self.journal.write(self.table, TABLE_HEAD + "".join(done))


class Results:
    """Results that are written to a table (``to_csv``, if it ends with ``.csv``), or to folders
    with files for each row, or both, or nowhere."""

    def __init__(
        self, to_csv: Target, to_npy: Target, settings: Mapping[str, str], table: WindowTable,
        provenances: Mapping[str, Provenance],
    ) -> None:  # fmt: skip
        """Begin, or resume. ``provenances``: of the rows of a catalog, by their names. Raises
        VideoloadError if there are results of other windows, or nothing can be written."""
        self._provenances, self._names, self._lines = provenances, (names := [*provenances]), table
        self._places: list[ResultFiles] = []
        job = {"job": "predict", **settings}
        with_table = {**job, "top": str(table.top), "names": repr(tuple(table.classes))}
        try:
            with writing(to_csv or to_npy):
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
                        ResultFiles(Path(to_npy, ".npy.progress"), job, names, arrays)
                    )
                self._drop_others()
        except BaseException:
            self.close()
            raise

    def _drop_others(self) -> None:
        """Results that are not those of their row any more are none."""
        others = set[str]()
        for place in self._places:
            for name in place.journal.keep(self._provenances):
                place.drop(name)
                others.add(name)
        say_again(others)

    def lacks(self, row: int) -> bool:
        """Return whether the results of a row are missing somewhere."""
        name = self._names[row]
        return not self._places or not all(place.has(name) for place in self._places)

    def save(self, row: int, scores: FileScores | None) -> None:
        """Write the results of a row where they are missing; None: there are none, since it cannot
        be decoded. Raises VideoloadError."""
        name = self._names[row]
        for place in self._places:
            with writing(place.path):
                if scores is None:
                    place.drop(name)
                elif not place.has(name):
                    place.write(name, scores, self._provenances[name], self._lines)

    def finish(self) -> None:
        """The run ends, perhaps before all rows are done. Raises VideoloadError."""
        for place in self._places:
            with writing(place.path):
                place.finish()

    def written(self) -> dict[str, int]:
        """Return how many rows have results in each table or folder."""
        return {str(place.path): sum(map(place.has, self._names)) for place in self._places}

    def close(self) -> None:
        """Release it for another process."""
        for place in self._places:
            place.journal.close()


def row_names(catalog: Catalog) -> list[str]:
    """Return a name for the results of each row: its path, and what distinguishes it from other
    rows of the file. Of a recording in pieces, its first piece, and how many follow. No two rows
    have the same one."""
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
    """Return the segment of a row in its file; empty if it is the whole file."""
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

"""Scores as the lines of a table, in CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

import numpy as np

from videoload.catalog.table_rows import escaped
from videoload.errors import SpecError
from videoload.tools.predict_windows import FileScores

_COLUMNS = ("path", "start_s", "end_s", "class", "score")
HEAD = ",".join(_COLUMNS) + "\n"


class WindowTable(NamedTuple):
    """The ``top`` classes of each window, the highest score first. ``classes``: their names. If
    there is another number of scores, names that ``are_given`` are refused, and others are the
    numbers from 0 on."""

    top: int
    classes: Sequence[str]
    are_given: bool = False

    def lines(self, file: FileScores) -> str:
        """The lines of a file. Raises SpecError."""
        if file.scores.ndim != 2:
            shape = list(file.scores.shape[1:])
            raise SpecError(f"a CSV needs a score for each class, the model gives {shape}: to_npy=")
        found = io.StringIO()
        csv.writer(found, lineterminator="\n").writerows(self._rows(file))
        return found.getvalue()

    def write(self, to: BinaryIO, file: FileScores) -> None:
        """Write a table of one file. Raises OSError, SpecError."""
        to.write((HEAD + self.lines(file)).encode("utf-8", "surrogateescape"))

    def _rows(self, file: FileScores) -> Iterator[Sequence[str]]:
        count = file.scores.shape[1]
        if self.are_given and len(self.classes) != count:
            raise SpecError(
                f"classes= has {len(self.classes)} names, and the model gives {count} scores"
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

"""Scores as the lines of a table, in CSV. Pure."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from videoload.errors import SpecError
from videoload.predictions.windows import FileScores

_COLUMNS = ("path", "start_s", "end_s", "class", "score")
HEAD = ",".join(_COLUMNS) + "\n"


class Table(NamedTuple):
    """The ``top`` classes of each window, the highest score first. ``classes``: their names; if
    there is another number of scores, the numbers from 0 on."""

    top: int
    classes: Sequence[str]

    def lines(self, file: FileScores) -> str:
        """The lines of a file. Raises SpecError."""
        if file.scores.ndim != 2:
            shape = list(file.scores.shape[1:])
            raise SpecError(f"a CSV needs a score for each class, the model gives {shape}: to_npy=")
        found = io.StringIO()
        csv.writer(found, lineterminator="\n").writerows(self._rows(file))
        return found.getvalue()

    def _rows(self, file: FileScores) -> Iterator[Sequence[str]]:
        count = file.scores.shape[1]
        names = self.classes if len(self.classes) == count else [str(n) for n in range(count)]
        best = np.argsort(-file.scores, axis=1, kind="stable")[:, : self.top].tolist()
        for scores, start_s, end_s, chosen in zip(
            file.scores, file.start_s.tolist(), file.end_s.tolist(), best, strict=True
        ):
            for number in chosen:
                score = f"{scores[number]:.7g}"
                yield file.path, _seconds(start_s), _seconds(end_s), names[number], score


def _seconds(seconds: float) -> str:
    """Microseconds count; nothing if the time is not known."""
    return "" if math.isnan(seconds) else f"{seconds:.6f}".rstrip("0").rstrip(".")

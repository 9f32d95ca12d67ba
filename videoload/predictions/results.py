"""Where results go on the disk, so that a run that was killed can go on.

When a file is complete, its results are written first, and then a line of the `journal`: which
video is next, at which step of the stream its windows begin, and how long the table is. What was
written after the last line is cut off by the next run. So no result is there twice.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from videoload.errors import BadVideo, VideoloadError
from videoload.journal import Journal
from videoload.plan.identity import Identity
from videoload.predictions.stitching import FileScores
from videoload.predictions.table import HEAD, Table

Target = str | os.PathLike[str] | None


class Results:
    """Results that are written to one table (``to_csv``, if it ends with ``.csv``), or to folders
    with a file for each video, or both.

    Attributes:
        next_video: All videos before this one are done.
        step: The step of the stream to go on from.
        failed: The videos that could not be decoded so far.
    """

    def __init__(self, to_csv: Target, to_npy: Target, identity: Identity, table: Table) -> None:
        """Begin, or go on. Raises VideoloadError if there are other results, or nothing can be
        written."""
        self._lines = table.lines
        self._npy = None if to_npy is None else Path(to_npy)
        csv = None if to_csv is None else Path(to_csv)
        is_one = csv is not None and csv.suffix.lower() == ".csv"
        self._table = csv if is_one else None
        self._csv = None if is_one else csv
        self.next_video = self.step = 0
        self.failed: list[BadVideo] = []
        self._journal: Journal | None = None
        folder = self._npy or self._csv
        place = folder and folder / ".progress"
        if self._table is not None:
            place = self._table.with_name(f"{self._table.name}.progress")
        if place is None:
            return
        try:
            self._begin(place, identity)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise _not_written(place, error) from None
            raise

    def _begin(self, place: Path, identity: Identity) -> None:
        if self._table is not None and self._table.exists() and not place.exists():
            raise VideoloadError(
                f"{self._table} exists, and {place.name} beside it does not: write to another file"
            )
        self._journal = Journal(place, {"stream": dict(identity.settings)})
        if found := identity.difference(self._journal.head.get("stream") or {}):
            raise VideoloadError(
                f"{place} is of other results ({found}): write to another place, or delete it and "
                "the results"
            )
        table_bytes = 0
        for entry in self._journal.entries:
            self.next_video, self.step = int(entry["video"]), int(entry["step"])
            self.failed += [BadVideo(*video) for video in entry["failed"]]
            table_bytes = int(entry["table"])
        if self._table is not None:
            with self._table.open("ab") as table:
                if table.tell() < table_bytes:
                    raise VideoloadError(
                        f"{self._table} was changed since it was written: delete it and {place}"
                    )
                table.truncate(table_bytes)
                if not table_bytes:
                    table.write(HEAD.encode())

    @property
    def are_kept(self) -> bool:
        """Whether they are written at all."""
        return self._journal is not None

    def save(
        self,
        scores: FileScores | None,
        name: str,
        *,
        next_video: int,
        step: int,
        failed: Sequence[BadVideo] = (),
    ) -> None:
        """All videos before ``next_video`` are done. The last one has these ``scores``, in files
        called ``name``; others have ``failed``. Raises VideoloadError."""
        if next_video == self.next_video:
            return
        self.next_video, self.step = next_video, step
        self.failed += failed
        if self._journal is None:
            return
        try:
            table_bytes = 0
            if scores is not None:
                self._write(scores, name)
            if self._table is not None:
                table_bytes = self._table.stat().st_size
            self._journal.append(
                {"video": next_video, "step": step, "table": table_bytes, "failed": failed}
            )
        except OSError as error:
            raise _not_written(error.filename or name, error) from None

    def close(self) -> None:
        """Another process may go on."""
        if self._journal is not None:
            self._journal.close()

    def _write(self, scores: FileScores, name: str) -> None:
        if self._npy is not None:
            times = np.stack((scores.start_s, scores.end_s), axis=1)
            for suffix, array in ((".npy", scores.scores), (".times.npy", times)):
                with _Unfinished(self._npy / f"{name}{suffix}") as unfinished:
                    np.save(unfinished, array)
        if self._csv is not None:
            with _Unfinished(self._csv / f"{name}.csv") as unfinished:
                unfinished.write_text(HEAD + self._lines(scores), encoding="utf-8")
        if self._table is not None:
            lines = self._lines(scores).encode("utf-8", "surrogateescape")
            with self._table.open("ab") as table:
                table.write(lines)


class _Unfinished:
    """A file that appears under its name when it is complete."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._unfinished = file.with_name(f".{file.name}.unfinished{file.suffix}")

    def __enter__(self) -> Path:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        return self._unfinished

    def __exit__(self, error: object, *more: object) -> None:
        if error is None:
            self._unfinished.replace(self._file)
        else:
            with suppress(OSError):
                self._unfinished.unlink()


def _not_written(file: str | Path, error: OSError) -> VideoloadError:
    return VideoloadError(f"cannot write {file}: {error.strerror}")

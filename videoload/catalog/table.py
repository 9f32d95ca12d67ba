"""The rows of a catalog: which segment of which file, and its label. Checked once, then constant.

Kept as columns, a str and 8 to 32 bytes each: those that hold nothing but defaults are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.clips.clip_spec import ClipSpec
from videoload.errors import CatalogError

Ints = npt.NDArray[np.int64]
Column = Sequence[int] | Sequence[int | None] | npt.NDArray[np.integer[Any]]

_UNKNOWN = -1  # in a column of ends or frame counts


class Video(NamedTuple):
    """One segment of one file, and its class.

    Attributes:
        path: Relative to the catalog's root, with ``/``.
        label: Index into the catalog's ``classes``.
        start: First source frame of the segment, counted from 0 in display order. Default 0.
        end: Source frame after the segment's last. Default None: the end of the file.
        frames: True frame count of the whole file (not of the segment), as ``videoload scan``
            finds it. Default None: not known.
    """

    path: str
    label: int
    start: int = 0
    end: int | None = None
    frames: int | None = None


class Part(NamedTuple):
    """The videos of one part of a mixture: those from ``start`` to before ``stop``.

    Attributes:
        name: As it was given to `mix`.
        start: Its first video's index in the catalog.
        stop: The index after that of its last video.
        share: Of the clips of the stream, more than 0 and up to 1.
        clip: Its own clip spec; None: the stream's.
    """

    name: str
    start: int
    stop: int
    share: float
    clip: ClipSpec | None


class Table:
    """The rows; ``paths`` are normal, and as in `Catalog` the other arguments. Raises CatalogError,
    as there."""

    __slots__ = ("_columns", "paths")

    def __init__(
        self,
        paths: list[str],
        labels: Column | None,
        starts: Column | None,
        ends: Column | None,
        frames: Column | None,
        *,
        classes: int,
        duplicates: bool,
        where: Callable[[int], str],
    ) -> None:
        label = _column("labels", labels, len(paths), -1)
        start = _column("starts", starts, len(paths), 0)
        end = _column("ends", ends, len(paths), _UNKNOWN)
        known = _column("frames", frames, len(paths), _UNKNOWN)
        last = np.maximum(start, end - 1)
        for wrong, flaw in (
            ((label < 0) | (label >= classes), "label {0} is not one of 0..{5}"),
            (start < 0, "start {1} is negative"),
            ((end != _UNKNOWN) & (end <= start), "end {2} (exclusive) is not after start {1}"),
            ((known != _UNKNOWN) & (last >= known), "frame {4} lies outside its {3} frames"),
        ):
            if wrong.any():
                i = int(wrong.argmax())
                numbers = (label[i], start[i], end[i], known[i], last[i], classes - 1)
                raise CatalogError(f"{where(i)}: {paths[i]!r}: {flaw.format(*numbers)}")
        self.paths = _one_str_a_file(paths, start, end, where, duplicates=duplicates)
        self._columns = _told({"label": label, "start": start, "end": end, "frames": known})

    @property
    def labels(self) -> Ints:
        """Label of each row."""
        return self._columns["label"]

    @property
    def segments(self) -> tuple[Ints, Ints, Ints]:
        """The columns of starts, ends and frame counts, in full."""
        unknown = np.full(len(self.paths), _UNKNOWN)
        start = self._columns.get("start", np.zeros(len(self.paths), np.int64))
        return start, self._columns.get("end", unknown), self._columns.get("frames", unknown)

    @property
    def segment_frames(self) -> Ints:
        """Length of each segment, -1 where it is not known."""
        start, end, frames = self.segments
        end = np.where(end == _UNKNOWN, frames, end)
        return np.where(end == _UNKNOWN, _UNKNOWN, end - start)

    def video(self, i: int) -> Video:
        """Row ``i``, from 0."""
        path, label = self.paths[i], self._columns["label"].item(i)
        if len(self._columns) == 1:  # as in most catalogs: a stream asks for each clip's
            return Video(path, label)
        start, end, frames = self._item("start", i), self._item("end", i), self._item("frames", i)
        return Video(path, label, start or 0, end, frames)

    def _item(self, name: str, i: int) -> int | None:
        column = self._columns.get(name)
        if column is None or (number := column.item(i)) == _UNKNOWN:
            return None
        return int(number)

    def take(self, rows: Ints, *, duplicates: bool) -> Table:
        """Some of the rows, in this order."""
        if not len(rows):
            raise CatalogError("there are no videos: a catalog needs at least one")
        if not duplicates and len(np.unique(rows)) < len(rows):
            at, times = np.unique(rows, return_counts=True)
            twice = int(at[times.argmax()])
            raise CatalogError(
                f"{self.paths[twice]!r} is chosen twice, the same segment: drop one, or say "
                "duplicates=True"
            )
        new = object.__new__(Table)
        new.paths = tuple([self.paths[i] for i in rows.tolist()])
        new._columns = _told({name: column[rows] for name, column in self._columns.items()})
        return new

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Table)
            and self.paths == other.paths
            and self._columns.keys() == other._columns.keys()
            and all(np.array_equal(c, other._columns[name]) for name, c in self._columns.items())
        )

    __hash__ = None  # type: ignore[assignment]


def _told(columns: dict[str, Ints]) -> dict[str, Ints]:
    """Those columns that do not hold defaults alone, read-only."""
    default = {"start": 0, "end": _UNKNOWN, "frames": _UNKNOWN}
    told = {name: c for name, c in columns.items() if name == "label" or (c != default[name]).any()}
    for column in told.values():
        column.setflags(write=False)
    return told


def _column(name: str, values: Column | None, count: int, default: int) -> Ints:
    """A copy; None, of a value or of the whole column, is the default."""
    if values is None:
        values = np.full(count, default)
    elif not isinstance(values, np.ndarray):
        values = np.array([default if value is None else value for value in values])
    if values.dtype.kind not in "iu" or not np.can_cast(values.dtype, np.int64):
        raise CatalogError(f"{name} must be whole numbers that fit int64, not {values.dtype}")
    if values.shape != (count,):
        raise CatalogError(f"{name} has the shape {values.shape}, but there are {count} paths")
    return values.astype(np.int64)


def _one_str_a_file(
    paths: list[str], starts: Ints, ends: Ints, where: Callable[[int], str], *, duplicates: bool
) -> tuple[str, ...]:
    """The paths, one str for each file. Raises CatalogError where a segment stands there twice,
    unless ``duplicates`` are wanted."""
    if len(set(paths)) == len(paths):
        return tuple(paths)
    first: dict[str, int] = {}
    file = np.fromiter((first.setdefault(p, i) for i, p in enumerate(paths)), np.int64, len(paths))
    rows = np.stack((file, starts, ends))
    order = np.lexsort(rows)
    twice = (np.diff(rows[:, order]) == 0).all(axis=0)
    if twice.any() and not duplicates:
        i, j = order[twice.argmax() :][:2].tolist()
        raise CatalogError(
            f"{where(j)}: {paths[j]!r} is the same segment as {where(i)}: drop one, or say "
            "duplicates=True"
        )
    return tuple(paths[i] for i in file.tolist())

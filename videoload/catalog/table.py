"""`Table`: the content of a catalog. Checked once, then constant."""

from __future__ import annotations

import copy
import operator
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
import numpy.typing as npt

from videoload.catalog import targets as targets_
from videoload.catalog.columns import Listed, is_list, normal_path
from videoload.catalog.folders import open_root
from videoload.clips.rows import COLUMNS, OF_FILE, UNKNOWN, Video
from videoload.clips.sample_spec import SampleParts
from videoload.clips.step_times import StepTimes
from videoload.errors import CatalogError

Ints = npt.NDArray[np.int64]
Seconds = Sequence[float] | Sequence[float | None] | npt.NDArray[np.floating[Any]]
HINTS = frozenset(("places",))  # that decide nothing
Column = Sequence[int] | Sequence[int | None] | npt.NDArray[np.integer[Any]]


def class_name(classes: Sequence[str], label: int) -> str:
    """Return the name of a label's class, "" for none."""
    return classes[label] if label >= 0 else ""


class MixPart(NamedTuple):
    """One part of a mixture: the videos from ``start`` to before ``stop``.

    Attributes:
        name: Its name in the call of `mix`.
        start: Index of its first video in the catalog.
        stop: Index after its last video.
        share: Its share of the stream's clips, more than 0 and up to 1.
    """

    name: str
    start: int
    stop: int
    share: float


class Table:
    """All that a `Catalog` holds: its rows, segments of files with their labels, and what else
    decides its samples. See `catalog.table_of`.

    Attributes:
        root, classes, paths, targets, parts, stats: As the catalog has them.
        columns: Those in which something is given, by the field of `Video`: int64 [N], float64 [N],
            or for boxes float32 [N, 4], for places bytes [N].
        sample_parts: The parts of each sample, if these are several files.
        steps: The times of the steps of each row, of `from_lerobot`.
        windows: What was counted of each row: see `plan.windows`.
    """

    __slots__ = (
        "classes", "columns", "parts", "paths", "root", "sample_parts", "stats", "steps",
        "targets", "windows",
    )  # fmt: skip

    def __init__(self, listed: Listed, *, duplicates: bool) -> None:
        """Raise CatalogError if a column is wrong, or unless ``duplicates`` are allowed, if a
        segment occurs twice."""
        self.root: Path | str | None = None if listed.root is None else open_root(listed.root)
        self.classes = listed.classes
        self.parts: tuple[MixPart, ...] = ()
        self.sample_parts: SampleParts | None = None
        self.windows: Ints | None = None
        self.steps: tuple[StepTimes, ...] | None = None
        self.stats: Mapping[str, Mapping[str, npt.NDArray[Any]]] = {}
        where = listed.where
        paths = [normal_path(path, where, i) for i, path in enumerate(listed.paths)]
        if not paths:
            raise CatalogError("there are no videos: a catalog needs at least one")
        given = {name: _array(name, listed.columns.get(name), len(paths)) for name in COLUMNS}
        label, start, end, known, at, start_s, end_s, at_s, box, *_ = given.values()
        ends = end != UNKNOWN
        last = np.maximum(np.maximum(start, end - 1), at)
        has_none = (at == UNKNOWN) & np.isnan(at_s)
        most = len(listed.classes) - 1
        for wrong, flaw in (
            ((label < UNKNOWN) | (label > most), f"label {{label}} is not one of 0..{most}"),
            (start < 0, "start {start} is negative"),
            (
                (end != UNKNOWN) & (end <= start),
                "end {end} (exclusive) is not after start {start}",
            ),
            (
                (known != UNKNOWN) & (last >= known),
                "frame {last} lies outside its {frames} frames",
            ),
            (
                ~(np.isnan(start_s) & np.isnan(end_s)) & ((start > 0) | ends),
                "give start and end (frames) or start_s and end_s (seconds), not both",
            ),
            (start_s < 0, "start_s {start_s} s is negative"),
            (
                np.isinf([start_s, end_s, at_s]).any(0),
                "start_s {start_s} s, end_s {end_s} s and at_s must be finite",
            ),
            (end_s <= np.nan_to_num(start_s), "end_s {end_s} s is not after start_s {start_s} s"),
            (at < UNKNOWN, "at {at} is negative"),
            (
                (at != UNKNOWN) & ((at < start) | (ends & (at >= end))),
                "the moment at {at} lies outside its segment",
            ),
            (at_s < 0, "at_s is negative"),
            ((at != UNKNOWN) & ~np.isnan(at_s), "give at (a frame) or at_s, not both"),
            (
                (box[:, 0] >= box[:, 2]) | (box[:, 1] >= box[:, 3]) | np.isinf(box).any(1),
                "box {box} must be left, top, right, bottom in pixels",
            ),
            ((box[:, 2:] < 1).all(1), "box {box} must be in pixels, not in shares of the picture"),
            (has_none & ~has_none.all(), "there is no moment (at, at_s), and other rows have one"),
        ):
            if wrong.any():
                i = int(wrong.argmax())
                row = {name: column[i] for name, column in given.items()} | {"last": last[i]}
                row["start_s"] = np.nan_to_num(row["start_s"])
                raise CatalogError(f"{where(i)}: {paths[i]!r}: {flaw.format(**row)}")
        self.columns = _filled(given)
        self.paths = _one_str_a_file(paths, self.columns, listed, duplicates=duplicates)
        self.targets: targets_.Targets | None = None
        if listed.targets is not None:
            self.targets = targets_.checked(listed.targets, len(paths), self.paths)

    def __len__(self) -> int:
        return len(self.paths)

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a column by the field of `Video`, read-only; -1 or NaN: not given."""
        found, default = self.columns.get(name), COLUMNS[name][1]
        if found is None:
            return np.broadcast_to(default, (len(self), *default.shape))
        return found

    @property
    def segments(self) -> tuple[Ints, Ints, Ints]:
        """The columns of starts, ends and frame counts; -1 is an unknown end or count."""
        return self.column("start"), self.column("end"), self.column("frames")

    @property
    def seconds(self) -> npt.NDArray[np.float64] | None:
        """start_s, end_s and at_s, [3, N]; None if none is given."""
        names = ("start_s", "end_s", "at_s")
        return np.stack([*map(self.column, names)]) if self.columns.keys() & {*names} else None

    @property
    def has_moments(self) -> bool:
        """Whether rows have a moment."""
        return not self.columns.keys().isdisjoint(("at", "at_s"))

    @property
    def is_of_whole_files(self) -> bool:
        """Whether no row is a segment."""
        return self.columns.keys().isdisjoint(("start", "end", "start_s", "end_s"))

    @property
    def segment_frames(self) -> Ints:
        """Length of each segment, -1 if it is not known."""
        start, end, frames = self.segments
        end = np.where(end == UNKNOWN, frames, end)
        in_seconds = ~(np.isnan(self.column("start_s")) & np.isnan(self.column("end_s")))
        return np.where((end == UNKNOWN) | in_seconds, UNKNOWN, end - start)

    def video(self, index: SupportsIndex, without: Set[str] = frozenset()) -> Video:
        """Return a row, ``without`` some of its columns; negative ones count from the end. Raises
        IndexError, TypeError."""
        try:
            i, videos = operator.index(index), len(self)
        except TypeError:
            raise TypeError("for a list of numbers, as from KFold: catalog.subset([...])") from None
        if not -videos <= i < videos:
            raise IndexError(f"video {i} of a catalog of {videos}")
        row: dict[str, Any] = {}
        for name in self.columns.keys() - without:
            column = self.columns[name]
            value = column[i].tolist()
            if name == "box":
                value = np.nan if np.isnan(value).any() else tuple(value)
            if value != -1 and value == value:  # noqa: PLR0124 - NaN differs from itself
                row[name] = value
        return Video(self.paths[i], **row)

    def take(self, rows: Ints) -> Table:
        """Return some of the rows, in this order."""
        if not len(rows):
            raise CatalogError("there are no videos: a catalog needs at least one")
        return self.replaced(
            paths=[self.paths[i] for i in rows.tolist()],
            columns={name: column[rows] for name, column in self.columns.items()},
            targets=None if self.targets is None else targets_.subset(self.targets, rows),
            steps=None if self.steps is None else tuple(self.steps[i] for i in rows.tolist()),
            windows=None,
        )

    def replaced(self, **fields: Any) -> Table:
        """Return the same with other fields. Columns in which nothing is given are left out."""
        new = copy.copy(self)
        for name, value in fields.items():
            setattr(new, name, value)
        new.paths = tuple(new.paths)
        new.columns = _filled(new.columns) if "columns" in fields else new.columns
        return new

    def __eq__(self, other: object) -> bool:
        names = "root", "classes", "paths", "parts", "sample_parts", "steps"
        return (
            isinstance(other, Table)
            and all(getattr(self, name) == getattr(other, name) for name in names)
            and self.columns.keys() ^ other.columns.keys() <= HINTS
            and all(
                np.array_equal(column, other.columns[name], equal_nan=True)
                for name, column in self.columns.items()
                if name not in HINTS
            )
            and targets_.equal(self.targets, other.targets)
        )

    __hash__ = None  # type: ignore[assignment]


def columns_of(tables: Sequence[Table]) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of several tables, one after the other."""
    names = {name for table in tables for name in table.columns}
    return {name: np.concatenate([table.column(name) for table in tables]) for name in names}


def _filled(columns: dict[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Return the columns in which something is given, read-only, in one order."""
    found = {}
    for name, (_, default) in COLUMNS.items():
        column = columns.get(name)
        if column is not None and not np.array_equal(
            column, np.broadcast_to(default, column.shape), equal_nan=column.dtype.kind == "f"
        ):
            column.setflags(write=False)
            found[name] = column
    return found


def _array(field: str, values: Any, count: int) -> npt.NDArray[Any]:
    """Return the column as an array. None, as a value or as the whole column, is not given."""
    name, default = COLUMNS[field]
    if values is None:
        return np.broadcast_to(default, (count, *default.shape))
    if not is_list(values):
        raise CatalogError(f"{name} must be a list, not {values!r:.80}")
    if isinstance(values, np.ma.MaskedArray):
        values = values.filled(default) if values.ndim < 2 or field == "box" else values
    if not isinstance(values, np.ndarray):
        values = [default if value is None or value is np.ma.masked else value for value in values]
    if default.dtype.kind == "S":
        return np.array(values, np.bytes_)
    is_whole = default.dtype.kind == "i"
    try:
        array = np.array(values)
        if array.dtype.kind in "mM":  # as numbers, they would lose their unit
            raise CatalogError(f"{name} must be numbers, not {array.dtype}")
        array = array if is_whole else array.astype(default.dtype)
    except (TypeError, ValueError):
        raise CatalogError(f"{name} must be numbers") from None
    if is_whole and (array.dtype.kind not in "iu" or not np.can_cast(array.dtype, np.int64)):
        raise CatalogError(f"{name} must be integers that fit int64, not {array.dtype}")
    if array.shape != (count, *default.shape):
        raise CatalogError(f"{name} has the shape {array.shape}, but there are {count} paths")
    return array.astype(default.dtype, copy=False)


def _one_str_a_file(
    paths: list[str], columns: dict[str, npt.NDArray[Any]], given: Listed, *, duplicates: bool
) -> tuple[str, ...]:
    """Return the paths, with one str per file. Raises CatalogError if a segment occurs twice,
    unless ``duplicates`` are allowed."""
    if len(set(paths)) == len(paths):
        return tuple(paths)
    first: dict[str, int] = {}
    file = np.fromiter((first.setdefault(p, i) for i, p in enumerate(paths)), np.int64, len(paths))
    segment = [column.T for name, column in columns.items() if name not in OF_FILE]
    rows = np.nan_to_num(np.vstack((file, *segment)), nan=-1.0)
    order = np.lexsort(rows)
    twice = (np.diff(rows[:, order]) == 0).all(axis=0)
    if twice.any() and not duplicates:
        i, j = order[twice.argmax() :][:2].tolist()
        advice = "drop one, or give duplicates=True"
        if given.unused:
            advice = f"which columns distinguish them? Not used: {', '.join(given.unused)[:200]}"
        raise CatalogError(
            f"{given.where(j)}: {paths[j]!r} is the same segment as {given.where(i)}: {advice}"
        )
    return tuple(paths[i] for i in file.tolist())

"""The rows of a catalog: a segment of a file and its label. Checked once, then constant."""

from __future__ import annotations

import copy
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple, SupportsIndex, TypeVar

import numpy as np
import numpy.typing as npt

from videoload.clips.clip_spec import ClipSpec
from videoload.errors import CatalogError
from videoload.listings.columns import Columns, normal_path

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.floating[Any]]
Seconds = Sequence[float] | Sequence[float | None] | Floats
Array = TypeVar("Array", bound=npt.NDArray[Any])
Column = Sequence[int] | Sequence[int | None] | npt.NDArray[np.integer[Any]]

_UNKNOWN = -1  # in a column of labels, ends, frame counts or moments


class Video(NamedTuple):
    """One segment of one file, and its class.

    Attributes:
        path: Relative to the catalog's root, with ``/``.
        label: Index into the catalog's ``classes``; -1: none.
        start: First source frame of the segment, counted from 0 in display order. Default 0.
        end: Source frame after the segment's last. Default None: the end of the file.
        frames: True frame count of the whole file (not of the segment), as ``videoload scan``
            finds it. Default None: not known.
        start_s: When the segment starts, in seconds from the file's first frame, if it is given in
            seconds. Then ``start`` is 0 and ``end`` None. Default None.
        end_s: When it ends: its frames are those that a player begins to show before that. Default
            None: the end of the file.
        at: The frame that matters, counted from 0. Default None: none.
        at_s: The moment that matters, in seconds from the file's first frame. Default None.
        box: (left, top, right, bottom) of what matters, in pixels of the stored frame. Default
            None.
    """

    path: str
    label: int
    start: int = 0
    end: int | None = None
    frames: int | None = None
    start_s: float | None = None
    end_s: float | None = None
    at: int | None = None
    at_s: float | None = None
    box: tuple[float, float, float, float] | None = None


def class_name(classes: Sequence[str], label: int) -> str:
    """The name of a label's class, "" for none."""
    return classes[label] if label >= 0 else ""


class Part(NamedTuple):
    """One part of a mixture: the videos from ``start`` to before ``stop``.

    Attributes:
        name: Its name in the call of `mix`.
        start: Index of its first video in the catalog.
        stop: Index after its last video.
        share: Its share of the stream's clips, more than 0 and up to 1.
        clip: Its own clip spec; None: the stream's.
    """

    name: str
    start: int
    stop: int
    share: float
    clip: ClipSpec | None


class Table:
    """The rows of a `Catalog`. Raises CatalogError if a column is wrong, or unless ``duplicates``
    are allowed, if a segment comes twice.

    ``numbers`` has the columns label, start, end, frames and at, int64 [5, N]; ``seconds``, float64
    [3, N], has start_s, end_s and at_s, NaN: not given. It is None if there are none, like
    ``boxes``, float32 [N, 4].
    """

    __slots__ = ("boxes", "numbers", "paths", "seconds")

    def __init__(self, given: Columns, classes: int, *, duplicates: bool) -> None:
        where = given.where
        paths = [normal_path(path, where, i) for i, path in enumerate(given.paths)]
        if not paths:
            raise CatalogError("there are no videos: a catalog needs at least one")
        label = _column("labels", given.labels, len(paths), _UNKNOWN)
        start = _column("starts", given.starts, len(paths), 0)
        end = _column("ends", given.ends, len(paths), _UNKNOWN)
        known = _column("frames", given.frames, len(paths), _UNKNOWN)
        at = _column("at", given.ats, len(paths), _UNKNOWN)
        last = np.maximum(np.maximum(start, end - 1), at)
        seconds = np.stack([
            _seconds(name, values, len(paths))
            for name, values in (
                ("starts_s", given.starts_s), ("ends_s", given.ends_s), ("at_s", given.ats_s)
            )
        ])  # fmt: skip
        in_seconds = ~np.isnan(seconds[:2]).all(0)
        begin_s, end_s = np.where(np.isnan(seconds[0]), 0, seconds[0]), seconds[1]
        has_none = (at == _UNKNOWN) & np.isnan(seconds[2])
        for wrong, flaw in (
            ((label < _UNKNOWN) | (label >= classes), "label {0} is not one of 0..{5}"),
            (start < 0, "start {1} is negative"),
            ((end != _UNKNOWN) & (end <= start), "end {2} (exclusive) is not after start {1}"),
            ((known != _UNKNOWN) & (last >= known), "frame {4} lies outside its {3} frames"),
            (
                in_seconds & ((start > 0) | (end != _UNKNOWN)),
                "give start and end (frames) or start_s and end_s (seconds), not both",
            ),
            (begin_s < 0, "start_s {6} s is negative"),
            (np.isinf(seconds).any(0), "start_s {6} s, end_s {7} s and at_s must be finite"),
            (end_s <= begin_s, "end_s {7} s is not after start_s {6} s"),
            (at < _UNKNOWN, "at {8} is negative"),
            (seconds[2] < 0, "at_s is negative"),
            ((at != _UNKNOWN) & ~np.isnan(seconds[2]), "give at (a frame) or at_s, not both"),
            (has_none & ~has_none.all(), "there is no moment (at, at_s), and other rows have one"),
        ):
            if wrong.any():
                i = int(wrong.argmax())
                numbers = (label[i], start[i], end[i], known[i], last[i], classes - 1)
                told = flaw.format(*numbers, begin_s[i], end_s[i], at[i])
                raise CatalogError(f"{where(i)}: {paths[i]!r}: {told}")
        self.seconds = None if np.isnan(seconds).all() else _read_only(seconds)
        self.numbers = _read_only(np.stack((label, start, end, known, at)))
        self.boxes: Floats | None = None
        if given.boxes is not None:
            boxes = [[np.nan] * 4 if box is None else box for box in given.boxes]
            self.boxes = np.array(boxes, np.float32)
            if self.boxes.shape != (len(paths), 4):
                raise CatalogError(
                    f"boxes has the shape {self.boxes.shape}, but there are {len(paths)} paths: "
                    "left, top, right, bottom for each"
                )
            self.boxes = None if np.isnan(self.boxes).all() else _read_only(self.boxes)
        of_box = () if self.boxes is None else self.boxes.T
        rows = np.stack((start, end, at, *np.nan_to_num((*seconds, *of_box), nan=-1.0)))
        self.paths = _one_str_a_file(paths, rows, given, duplicates=duplicates)

    @property
    def labels(self) -> Ints:
        """Label of each row."""
        labels: Ints = self.numbers[0]
        return labels

    @property
    def segments(self) -> tuple[Ints, Ints, Ints]:
        """The columns of starts, ends and frame counts; -1 is an unknown end or count."""
        _, start, end, frames, _ = self.numbers
        return start, end, frames

    @property
    def has_moments(self) -> bool:
        """Whether a row has a moment."""
        in_seconds = self.seconds is not None and not np.isnan(self.seconds[2]).all()
        return in_seconds or bool((self.numbers[4] >= 0).any())

    @property
    def segment_frames(self) -> Ints:
        """Length of each segment, -1 if it is not known."""
        start, end, frames = self.segments
        end = np.where(end == _UNKNOWN, frames, end)
        lengths = np.where(end == _UNKNOWN, _UNKNOWN, end - start)
        if self.seconds is not None:
            lengths[~np.isnan(self.seconds[:2]).all(0)] = _UNKNOWN
        return lengths

    def video(self, index: SupportsIndex) -> Video:
        """A row; negative ones count from the end. Raises IndexError, TypeError."""
        try:
            i, videos = operator.index(index), len(self.paths)
        except TypeError:
            raise TypeError("for a list of numbers, as from KFold: catalog.subset([...])") from None
        if not -videos <= i < videos:
            raise IndexError(f"video {i} of a catalog of {videos}")
        i %= videos
        label, *numbers = self.numbers[:, i].tolist()
        start, end, frames, at = (None if number < 0 else number for number in numbers)
        start_s, end_s, at_s = None, None, None
        if self.seconds is not None:
            start_s, end_s, at_s = (None if np.isnan(s) else s for s in self.seconds[:, i].tolist())
        box = None
        if self.boxes is not None and not np.isnan(self.boxes[i]).any():
            box = tuple(self.boxes[i].tolist())
        return Video(self.paths[i], label, start or 0, end, frames, start_s, end_s, at, at_s, box)

    def segments_at(
        self, rows: list[int]
    ) -> list[tuple[str, int, int | None, float | None, float | None]]:
        """Path, start, end, start_s and end_s of these rows, as in `Video`."""
        if self.seconds is not None:
            videos = map(self.video, rows)
            return [(each.path, each.start, each.end, each.start_s, each.end_s) for each in videos]
        starts, ends = self.numbers[1:3, rows].tolist()
        return [
            (self.paths[row], start, None if end < 0 else end, None, None)
            for row, start, end in zip(rows, starts, ends, strict=True)
        ]

    def take(self, rows: Ints, *, duplicates: bool) -> Table:
        """Some of the rows, in this order."""
        if not len(rows):
            raise CatalogError("there are no videos: a catalog needs at least one")
        if not duplicates and len(np.unique(rows)) < len(rows):
            at, times = np.unique(rows, return_counts=True)
            twice = int(at[times.argmax()])
            raise CatalogError(
                f"the same segment of {self.paths[twice]!r} is chosen twice: drop one, or give "
                "duplicates=True"
            )
        new = copy.copy(self)
        new.paths = tuple([self.paths[i] for i in rows.tolist()])
        new.numbers = _read_only(self.numbers[:, rows])
        new.seconds = None if self.seconds is None else _read_only(self.seconds[:, rows])
        new.boxes = None if self.boxes is None else _read_only(self.boxes[rows])
        return new

    def with_paths(self, paths: Sequence[str]) -> Table:
        """The same rows with other paths."""
        new = copy.copy(self)
        new.paths = tuple(paths)
        return new

    @property
    def is_of_whole_files(self) -> bool:
        """Whether no row is a segment."""
        start, end, _ = self.segments
        in_seconds = self.seconds is not None and not np.isnan(self.seconds[:2]).all()
        return not in_seconds and not start.any() and bool((end == _UNKNOWN).all())

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Table)
            and self.paths == other.paths
            and np.array_equal(self.numbers, other.numbers)
            and _same(self.seconds, other.seconds)
            and _same(self.boxes, other.boxes)
        )

    __hash__ = None  # type: ignore[assignment]


def columns_of(tables: Sequence[Table], paths: Sequence[str], labels: Sequence[Ints]) -> Columns:
    """The rows of several tables, one after the other, with these paths and labels."""
    _, starts, ends, frames, ats = np.concatenate([table.numbers for table in tables], axis=1)
    seconds = [_or_nan(table.seconds, (3, len(table.paths))) for table in tables]
    starts_s, ends_s, ats_s = np.concatenate(seconds, axis=1)
    boxes = None
    if any(table.boxes is not None for table in tables):
        boxes = np.concatenate([_or_nan(t.boxes, (len(t.paths), 4)) for t in tables])
    return Columns(
        paths, np.concatenate(labels), starts, ends, frames, starts_s, ends_s, ats, ats_s, boxes
    )


def _or_nan(values: Floats | None, shape: tuple[int, int]) -> Floats:
    return np.full(shape, np.nan) if values is None else values


def _same(one: Floats | None, other: Floats | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other, equal_nan=True)


def _read_only(columns: Array) -> Array:
    columns.setflags(write=False)
    return columns


def _column(name: str, values: Column | None, count: int, default: int) -> Ints:
    """The column as an array. None, as a value or as the whole column, is the default."""
    if values is None:
        values = np.full(count, default)
    elif not isinstance(values, np.ndarray):
        values = np.array([default if value is None else value for value in values])
    if values.dtype.kind not in "iu" or not np.can_cast(values.dtype, np.int64):
        raise CatalogError(f"{name} must be whole numbers that fit int64, not {values.dtype}")
    if values.shape != (count,):
        raise CatalogError(f"{name} has the shape {values.shape}, but there are {count} paths")
    return values.astype(np.int64, copy=False)


def _seconds(name: str, values: Seconds | None, count: int) -> npt.NDArray[np.float64]:
    """The column as an array; NaN: not given."""
    if values is None:
        return np.full(count, np.nan)
    try:
        column = np.array([np.nan if value is None else value for value in values], np.float64)
    except (TypeError, ValueError):
        raise CatalogError(f"{name} must be numbers of seconds") from None
    if column.shape != (count,):
        raise CatalogError(f"{name} has the shape {column.shape}, but there are {count} paths")
    return column


def _one_str_a_file(
    paths: list[str], segments: Floats, given: Columns, *, duplicates: bool
) -> tuple[str, ...]:
    """The paths, with one str per file. Raises CatalogError if a segment (a column of ``segments``)
    comes twice, unless ``duplicates`` are allowed."""
    if len(set(paths)) == len(paths):
        return tuple(paths)
    first: dict[str, int] = {}
    file = np.fromiter((first.setdefault(p, i) for i, p in enumerate(paths)), np.int64, len(paths))
    rows = np.vstack((file, segments))
    order = np.lexsort(rows)
    twice = (np.diff(rows[:, order]) == 0).all(axis=0)
    if twice.any() and not duplicates:
        i, j = order[twice.argmax() :][:2].tolist()
        advice = "drop one, or give duplicates=True"
        if given.unused:
            advice = f"which columns tell them apart? Not used: {', '.join(given.unused)[:200]}"
        raise CatalogError(
            f"{given.where(j)}: {paths[j]!r} is the same segment as {given.where(i)}: {advice}"
        )
    return tuple(paths[i] for i in file.tolist())

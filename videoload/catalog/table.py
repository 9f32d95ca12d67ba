"""The rows of a catalog: a segment of a file and its label. Checked once, then constant."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, SupportsIndex, TypeVar

import numpy as np
import numpy.typing as npt

from videoload.clips.clip_spec import ClipSpec
from videoload.errors import CatalogError

Ints = npt.NDArray[np.int64]
Seconds = Sequence[float] | Sequence[float | None] | npt.NDArray[np.floating[Any]]
Array = TypeVar("Array", bound=npt.NDArray[Any])
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
        start_s: When the segment starts, in seconds from the file's first frame, if it is given in
            seconds. Then ``start`` is 0 and ``end`` None. Default None.
        end_s: When it ends: its frames are those that a player begins to show before that. Default
            None: the end of the file.
    """

    path: str
    label: int
    start: int = 0
    end: int | None = None
    frames: int | None = None
    start_s: float | None = None
    end_s: float | None = None


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
    """The rows of a `Catalog`, with its arguments; ``paths`` are normal. Raises CatalogError."""

    __slots__ = ("_columns", "paths", "seconds")

    def __init__(
        self,
        paths: list[str],
        labels: Column | None,
        starts: Column | None,
        ends: Column | None,
        frames: Column | None,
        starts_s: Seconds | None = None,
        ends_s: Seconds | None = None,
        *,
        classes: int,
        duplicates: bool,
        where: Callable[[int], str],
    ) -> None:
        if not paths:
            raise CatalogError("there are no videos: a catalog needs at least one")
        label = _column("labels", labels, len(paths), -1)
        start = _column("starts", starts, len(paths), 0)
        end = _column("ends", ends, len(paths), _UNKNOWN)
        known = _column("frames", frames, len(paths), _UNKNOWN)
        last = np.maximum(start, end - 1)
        seconds = np.stack([
            _seconds(name, values, len(paths))
            for name, values in (("starts_s", starts_s), ("ends_s", ends_s))
        ])  # fmt: skip
        in_seconds = ~np.isnan(seconds).all(0)
        begin_s, end_s = np.where(np.isnan(seconds[0]), 0, seconds[0]), seconds[1]
        for wrong, flaw in (
            ((label < 0) | (label >= classes), "label {0} is not one of 0..{5}"),
            (start < 0, "start {1} is negative"),
            ((end != _UNKNOWN) & (end <= start), "end {2} (exclusive) is not after start {1}"),
            ((known != _UNKNOWN) & (last >= known), "frame {4} lies outside its {3} frames"),
            (
                in_seconds & ((start > 0) | (end != _UNKNOWN)),
                "give start and end (frames) or start_s and end_s (seconds), not both",
            ),
            (begin_s < 0, "start_s {6} s is negative"),
            (np.isinf(seconds).any(0), "start_s {6} s and end_s {7} s must be finite"),
            (end_s <= begin_s, "end_s {7} s is not after start_s {6} s"),
        ):
            if wrong.any():
                i = int(wrong.argmax())
                numbers = (label[i], start[i], end[i], known[i], last[i], classes - 1)
                told = flaw.format(*numbers, begin_s[i], end_s[i])
                raise CatalogError(f"{where(i)}: {paths[i]!r}: {told}")
        self.seconds = None if not in_seconds.any() else _read_only(seconds)
        rows = np.stack((start, end, *np.nan_to_num(seconds, nan=-1.0)))
        self.paths = _one_str_a_file(paths, rows, where, duplicates=duplicates)
        self._columns = _read_only(np.stack((label, start, end, known)))

    @property
    def labels(self) -> Ints:
        """Label of each row."""
        labels: Ints = self._columns[0]
        return labels

    @property
    def segments(self) -> tuple[Ints, Ints, Ints]:
        """The columns of starts, ends and frame counts; -1 is an unknown end or count."""
        _, start, end, frames = self._columns
        return start, end, frames

    @property
    def segment_frames(self) -> Ints:
        """Length of each segment, -1 if it is not known."""
        start, end, frames = self.segments
        end = np.where(end == _UNKNOWN, frames, end)
        lengths = np.where(end == _UNKNOWN, _UNKNOWN, end - start)
        if self.seconds is not None:
            lengths[~np.isnan(self.seconds).all(0)] = _UNKNOWN
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
        label, start, end, frames = self._columns[:, i].tolist()
        start_s, end_s = None, None
        if self.seconds is not None:
            start_s, end_s = (None if np.isnan(s) else s for s in self.seconds[:, i].tolist())
        return Video(
            self.paths[i], label, start, None if end < 0 else end, None if frames < 0 else frames,
            start_s, end_s,
        )  # fmt: skip

    def segments_at(
        self, rows: list[int]
    ) -> list[tuple[str, int, int | None, float | None, float | None]]:
        """Path, start, end, start_s and end_s of these rows, as in `Video`."""
        if self.seconds is not None:
            videos = map(self.video, rows)
            return [(each.path, each.start, each.end, each.start_s, each.end_s) for each in videos]
        starts, ends = self._columns[1:3, rows].tolist()
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
        new = object.__new__(Table)
        new.paths = tuple([self.paths[i] for i in rows.tolist()])
        new._columns = _read_only(self._columns[:, rows])
        new.seconds = None if self.seconds is None else _read_only(self.seconds[:, rows])
        return new

    def with_paths(self, paths: Sequence[str]) -> Table:
        """The same rows with other paths."""
        new = object.__new__(Table)
        new.paths, new._columns, new.seconds = tuple(paths), self._columns, self.seconds
        return new

    @property
    def is_of_whole_files(self) -> bool:
        """Whether no row is a segment."""
        start, end, _ = self.segments
        return self.seconds is None and not start.any() and bool((end == _UNKNOWN).all())

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Table)
            and self.paths == other.paths
            and np.array_equal(self._columns, other._columns)
            and (self.seconds is None) is (other.seconds is None)
            and (
                self.seconds is None
                or other.seconds is None
                or np.array_equal(self.seconds, other.seconds, equal_nan=True)
            )
        )

    __hash__ = None  # type: ignore[assignment]


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
    paths: list[str],
    segments: npt.NDArray[np.float64],
    where: Callable[[int], str],
    *,
    duplicates: bool,
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
        raise CatalogError(
            f"{where(j)}: {paths[j]!r} is the same segment as {where(i)}: drop one, or give "
            "duplicates=True"
        )
    return tuple(paths[i] for i in file.tolist())

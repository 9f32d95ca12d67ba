"""What a model shall learn from each video, if that is not a class. Pure.

A catalog's *targets* are one column, or several with names. A column is an array with a row for
each video, or `PerFrame`: for each video, an array with a row for each of its source frames. A
batch gets the rows of the frames that its clips show. `Points` and `Boxes` are such columns of
marks in the picture, which follow what is done to it, `Steps` has values around the moments of
clips, and of `OneOf` each clip gets one value. The trainer looks targets up when it hands a batch
over; workers never see them.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from videoload.clips.affine import Floats, Matrices, are_mirrored, boxes_in, points_in
from videoload.clips.edges import pictures
from videoload.errors import CatalogError, SpecError

Ints = npt.NDArray[np.int64]
T = TypeVar("T")
_KINDS = "biufc"  # besides text
_LONG = "gG"  # np.longdouble and np.clongdouble, which TensorFlow does not have
_IS_PAD = "_is_pad"
_ONLY = "targets"  # the name of a column without a name, in messages
_MARKS = re.compile(  # what such columns are called
    r"(?<![a-z])((key)?points?|landmarks?|joints?|skeletons?|poses?|b?box(es)?)(?![a-z])",
    re.IGNORECASE,
)


class PerFrame:
    """Targets for each source frame, such as the phase of an action or the place of a hand.

    Examples:
        >>> phases = [np.arange(30) // 10 for _ in catalog]  # 30 frames in each video
        >>> catalog = catalog.with_targets(vl.PerFrame(phases))

    A batch has the rows of the frames that its clips show, [B, T, ...]. Beyond the ends of a video,
    a frame that is held (``edges="hold"``) has its own row again, and a black one (``"zero"``, also
    of ``short``) has zeros, or empty text.

    Args:
        arrays: An array for each video, in the catalog's order: [frames of the file, ...], with a
            row for each source frame of the whole file in display order. All have one type and row
            shape. Segments of a file may share one array, which is stored once.

    Raises:
        CatalogError: The arrays are not like this.
    """

    __slots__ = ("_arrays",)

    def __init__(self, arrays: Iterable[npt.ArrayLike]) -> None:
        # Segments of a file share one array. ``seen`` holds the objects, so that no other gets the
        # same id.
        seen: dict[int, tuple[object, npt.NDArray[Any]]] = {}
        found = []
        for i, array in enumerate(arrays):
            if id(array) not in seen:
                seen[id(array)] = array, array_of(f"array {i}", array)
            found.append(seen[id(array)][1])
        self._arrays = tuple(found)
        kinds = {(array.shape[1:], array.dtype) for array in self._arrays}
        if len(kinds) != 1:
            raise CatalogError(
                "frames need an array for each video, all of one type and row shape"
                + (f", not {len(kinds)}" if kinds else "")
            )

    def __len__(self) -> int:
        return len(self._arrays)

    def _each(self, call: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> PerFrame:
        """Return a copy with each array replaced. Shared arrays stay shared."""
        made = {id(array): call(array) for array in {id(a): a for a in self._arrays}.values()}
        return PerFrame([made[id(array)] for array in self._arrays])


class Steps:
    """Values at the steps of recordings, such as a robot's actions, around each clip's moment.

    Examples:
        >>> begins = 30 * np.arange(len(catalog))  # 30 steps in each video
        >>> actions = np.zeros((30 * len(catalog), 7), np.float32)
        >>> steps = vl.Steps(actions, begins, begins + 30, offsets=range(50))
        >>> catalog = catalog.with_targets({"action": steps})

    One array has the steps of all recordings, one after the other; a frame of a row is a step. A
    clip of ``sampling="at"``, or of ``"dense"`` with ``edges``, has a moment: the frame in its
    middle, or that of 0 in its ``offsets``. A batch gathers the values when it is handed over, so
    overlapping chunks cost no memory: [B, K, ...] for K ``offsets``, and beside them, bool [B, K],
    ``NAME_is_pad``: steps beyond the ends of the row, which repeat its first or last one. Without
    ``offsets``, it has the values of the moment, [B, ...].

    Args:
        values: Of each step, [S, ...].
        begins: The step at the first frame of each row, int [N].
        ends: The step after its last one, int [N].
        offsets: Steps from the moment, in any order. Default None.

    Raises:
        CatalogError: The arrays are not like this.
    """

    __slots__ = ("_bounds", "_offsets", "_values")

    def __init__(
        self,
        values: npt.ArrayLike,
        begins: npt.ArrayLike,
        ends: npt.ArrayLike,
        offsets: Iterable[int] | None = None,
    ) -> None:
        self._values = array_of("Steps", values)
        bounds = [np.asarray(each) for each in (begins, ends)]
        is_masked = np.ma.is_masked(begins) or np.ma.is_masked(ends)
        if is_masked or any(each.ndim != 1 or each.dtype.kind not in "iu" for each in bounds):
            raise CatalogError("begins and ends of Steps are whole numbers, one for each row")
        if len(bounds[0]) != len(bounds[1]):
            raise CatalogError(f"Steps have {len(bounds[0])} begins and {len(bounds[1])} ends")
        self._bounds = np.stack(bounds, axis=1).astype(np.int64)
        begin, end = self._bounds.T
        wrong = np.flatnonzero((begin < 0) | (begin >= end) | (end > len(self._values)))
        if len(wrong):
            raise CatalogError(
                f"Steps: row {wrong[0]} has the steps {begin[wrong[0]]} to {end[wrong[0]] - 1}, "
                f"of {len(self._values)}"
            )
        self._offsets = None if offsets is None else _whole([*offsets])

    def __len__(self) -> int:
        return len(self._bounds)

    @property
    def values(self) -> npt.NDArray[Any]:
        """The values of all steps of these rows, one row after the other, [S, ...], for a mean and
        a deviation."""
        rows = [self._values[begin:end] for begin, end in self._bounds.tolist()]
        return np.concatenate(rows)

    def _at(
        self, rows: npt.NDArray[np.int64], moments: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
        """Return the values of rows, so many frames after the first one of each; and which are
        beyond the ends. Raises IndexError: the moment is."""
        begin, end = self._bounds[rows].T
        at = begin + moments
        if ((at < begin) | (at >= end)).any():
            raise IndexError(int(moments[np.argmax((at < begin) | (at >= end))]))
        if self._offsets is None:
            return self._values[at], None
        wanted = at[:, None] + self._offsets
        found = np.clip(wanted, begin[:, None], end[:, None] - 1)
        return self._values[found], found != wanted


class OneOf:
    """Several values for each video, of which each clip gets one: captions by several people.

    Examples:
        >>> captions = [["a bow", "somebody aims"]] * len(catalog)  # a list for each video
        >>> catalog = catalog.with_targets({"caption": vl.OneOf(captions)})

    Which one follows from the stream's seed, the epoch and the clip, so it is the same in every
    run. Columns with as many values are drawn together: a caption, and its embedding. A catalog
    with a row for each value is `Catalog.explode`.

    Args:
        values: A list for each video, of one value at least: text, or numbers of one shape.

    Raises:
        CatalogError: The lists are not like this.
    """

    __slots__ = ("_bounds", "_values")

    def __init__(self, values: Iterable[Iterable[Any]]) -> None:
        rows = [*values]
        for at, row in enumerate(rows):
            if isinstance(row, str) or not isinstance(row, Iterable):
                raise CatalogError(
                    f"OneOf takes a list for each video, and row {at} is {row!r:.80}"
                )
        lists = [[*row] for row in rows]
        counts = np.array([*map(len, lists)], np.int64)
        if not counts.all():
            raise CatalogError(f"OneOf: row {int(counts.argmin())} has no value")
        every = [value for each in lists for value in each]
        if len({isinstance(value, str) for value in every}) > 1:  # NumPy converts numbers to text
            raise CatalogError("OneOf must be text or numbers, not both")
        self._values = array_of("OneOf", every)
        ends = np.cumsum(counts)
        self._bounds = np.stack([ends - counts, ends], axis=1)

    def __len__(self) -> int:
        return len(self._bounds)

    def _of(self, rows: npt.NDArray[np.int64], seeds: npt.NDArray[np.uint64]) -> npt.NDArray[Any]:
        """Return the values of rows, drawn by these seeds."""
        begin, end = self._bounds[rows].T
        at = begin + (seeds % (end - begin).astype(np.uint64)).astype(np.int64)
        found: npt.NDArray[Any] = self._values[at]
        return found


class Points:
    """Points of the picture, such as joints or landmarks, as targets that follow it.

    Examples:
        >>> xy = np.zeros((len(catalog), 3, 2))  # nose, left and right ear of each video
        >>> catalog = catalog.with_targets({"pose": vl.Points(xy, mirror=[(1, 2)])})

    Given in pixels of the stored frame, they come out in pixels of the clip, through crop, scale,
    pad, rotation and flip: float32 [B, K, 2], or of each frame [B, T, K, 2]; with k views [B, k, K,
    2] and [B, k, T, K, 2]. The centres of pixels are whole numbers. A point may lie outside of the
    clip. NaN stays NaN, and a missing frame (``short="zero"``) has NaN. What a ``transform`` moves
    is not followed.

    Args:
        xy: (x, y) of K points: an array [N, K, 2] with a row for each video; or a list with an
            array [frames of the file, K, 2] for each video, as in `PerFrame`.
        mirror: Pairs of points to swap when a clip is flipped: the left and the right hand. Default
            (): none.
        part: The part of a sample of several files that they were marked in. Frames are counted in
            the first clip's file. Default None: the first clip.

    Raises:
        CatalogError: The arrays are not like this, or ``mirror`` names other points.
    """

    __slots__ = ("_order", "_part", "_values")

    def __init__(
        self, xy: Any, mirror: Iterable[tuple[int, int]] = (), *, part: str | None = None
    ) -> None:
        self._values, self._part = _marks("Points", xy, 2, ("K", 2)), part
        pairs = [tuple(pair) for pair in mirror]
        named = [point for pair in pairs for point in pair]
        points = range(row_shape(self._values)[0])
        twice = len({*named}) < len(named) or any(len(pair) != 2 for pair in pairs)
        if twice or not {*named} <= {*points}:
            raise CatalogError(
                f"mirror= takes pairs of the points 0 to {len(points) - 1}, each once, not {pairs}"
            )
        order = list(points)
        for left, right in pairs:
            order[left], order[right] = right, left
        self._order = tuple(order)  # of the points of a flipped clip

    def __len__(self) -> int:
        return len(self._values)

    def _moved(self, points: Floats, matrices: Matrices) -> Floats:
        moved = points_in(points, matrices)
        return np.where(are_mirrored(matrices, points), moved[..., list(self._order), :], moved)


class Boxes:
    """Boxes of the picture, such as faces or detections, as targets that follow it.

    Examples:
        >>> boxes = np.tile([10, 20, 30, 40], (len(catalog), 1))  # left, top, right, bottom
        >>> catalog = catalog.with_targets({"face": vl.Boxes(boxes)})

    As `Points`: given in pixels of the stored frame, they come out in pixels of the clip, and are
    axis-parallel again: float32 [B, 4], or of each frame [B, T, 4]; with several boxes [B, K, 4]
    and [B, T, K, 4]. A box is (left, top, right, bottom) as in ``frame[top:bottom, left:right]``:
    edges of pixels are whole numbers, and (0, 0, width, height) is the whole frame. It may reach
    out of the clip.

    Args:
        boxes: An array [N, 4] or [N, K, 4] with a row for each video; or a list with an array
            [frames of the file, 4] or [frames of the file, K, 4] for each video, as in `PerFrame`.
        part: As in `Points`. Default None.

    Raises:
        CatalogError: The arrays are not like this.
    """

    __slots__ = ("_part", "_values")

    def __init__(self, boxes: Any, *, part: str | None = None) -> None:
        self._values, self._part = _marks("Boxes", boxes, 1, (4,)), part
        for array in arrays_of(self._values):
            if (wrong := (array[..., :2] > array[..., 2:]).any(-1)).any():
                raise CatalogError(
                    f"a box is left, top, right, bottom, and {array[wrong][0].tolist()} is none: "
                    "are yours x, y, width, height?"
                )

    def __len__(self) -> int:
        return len(self._values)

    def _moved(self, boxes: Floats, matrices: Matrices) -> Floats:
        return boxes_in(boxes, matrices)


Rows = npt.NDArray[Any] | PerFrame
Values = Rows | Steps | OneOf
Marks = Points | Boxes
Column = Values | Marks
Targets = Column | dict[str, Column]


def named(targets: Any) -> dict[str, Any]:
    """Return columns, or the arrays of a batch, by their names."""
    return targets if isinstance(targets, dict) else {_ONLY: targets}


def checked(targets: object, videos: int, paths: Sequence[str] = ()) -> Targets:
    """Return checked targets: read-only, with types that TensorFlow supports; one array per file,
    if the ``paths`` of the videos are given. Raises CatalogError."""
    if not isinstance(targets, Mapping):
        is_ours = isinstance(targets, Marks | PerFrame | Steps | OneOf)
        kind = type(targets).__name__ if is_ours else _ONLY
        return _column(kind, targets, videos, paths)
    if not targets or not all(isinstance(name, str) and name for name in targets):
        raise CatalogError(f"targets need names that are text, at least one: {list(targets)}")
    return {name: _column(name, column, videos, paths) for name, column in targets.items()}


def subset(targets: Targets, indices: Ints) -> Targets:
    """Return the targets of some of the videos."""
    return _each(targets, lambda column: _rows(column, indices))


def joined(parts: Mapping[str, Targets]) -> Targets:
    """Return the targets of several catalogs, one after the other. The names are for messages.
    Raises CatalogError."""
    (leader, first), *others = parts.items()
    own = _kinds(first)
    for name, other in others:
        theirs = _kinds(other)
        if differing := [each for each in {**own, **theirs} if own.get(each) != theirs.get(each)]:
            column = differing[0]
            one, two = (_text(kinds.get(column)) for kinds in (own, theirs))
            raise CatalogError(
                "to concatenate catalogs, their targets must have the same names, shapes and "
                f"types: {column} is {one} in {leader}, and {two} in {name}"
            )
    found = {name: _one([named(part)[name] for part in parts.values()]) for name in named(first)}
    return found if isinstance(first, dict) else found[_ONLY]


def batch(
    targets: Targets,
    videos: Ints,
    frames: Ints,
    affine: Matrices | dict[str, Matrices] | None,
    path_of: Callable[[int], str],
    moments: Ints | None = None,
    seeds: npt.NDArray[np.uint64] | None = None,
) -> npt.NDArray[Any] | dict[str, npt.NDArray[Any]]:
    """Return the targets of a batch with these videos, int64 [B], that shows these source frames,
    int64 [B, T] as `edges` has them, through these matrices, around these ``moments``, in frames
    from the first one of the row, drawn by these ``seeds``. Raises SpecError if a video has no
    target for a frame."""
    shown = pictures(frames)
    found: dict[str, npt.NDArray[Any]] = {}
    for name, column in named(targets).items():
        if isinstance(column, OneOf):
            assert seeds is not None
            found[name] = column._of(videos, seeds)
            continue
        if not isinstance(column, Steps):
            found[name] = _batch(column, videos, shown, affine, path_of)
            continue
        try:
            assert moments is not None
            found[name], is_pad = column._at(videos, moments)
        except IndexError as error:
            text = f"a clip is around frame {error} of its row, and Steps has no step there"
            raise SpecError(f"{name}: {text}") from None
        if is_pad is not None:
            found[name + _IS_PAD] = is_pad
    return found if isinstance(targets, dict) else found[_ONLY]


def shapes(
    targets: Targets, frames: tuple[int, ...]
) -> tuple[tuple[int, ...], str] | dict[str, tuple[tuple[int, ...], str]]:
    """Return shape and type of one clip's targets. ``frames`` is the shape of a clip's frame
    numbers. The type of text is "str"."""
    found: Any = _each(targets, lambda column: _shape(column, frames))
    for name, column in named(targets).items():
        if isinstance(column, Steps) and column._offsets is not None and isinstance(found, dict):
            found[name + _IS_PAD] = column._offsets.shape, "bool"
    return found  # type: ignore[no-any-return]


def equal(one: Targets | None, other: Targets | None) -> bool:
    """Return whether two targets are the same."""
    if one is None or other is None:
        return one is other
    return one is other or digest(one) == digest(other)


def exploded(targets: Targets | None, name: str | None) -> tuple[Ints, Targets]:
    """Return the rows of videos, each for each of its values in a column of `OneOf`; and their
    targets. Raises CatalogError."""
    columns = {} if targets is None else named(targets)
    many = [each for each, column in columns.items() if isinstance(column, OneOf)]
    column = columns.get(many[0] if name is None and len(many) == 1 else name or "")
    if not isinstance(column, OneOf):
        raise CatalogError(f"explode takes the name of a target with several values, of {many}")
    begins, ends = column._bounds.T
    rows = np.repeat(np.arange(len(column)), ends - begins)
    at = np.concatenate([np.arange(begin, end) for begin, end in column._bounds.tolist()])
    assert targets is not None
    of_rows, values = subset(targets, rows), array_of(_ONLY, column._values[at])
    if not isinstance(of_rows, dict):
        return rows, values
    return rows, {
        each: values if columns[each] is column else kept for each, kept in of_rows.items()
    }


def rows_per_frame(targets: Targets | None) -> dict[str, Ints]:
    """Return the number of rows of each video in each per-frame column, by name."""
    columns = targets if isinstance(targets, dict) else {type(targets).__name__: targets}
    values = {name: values_of(column) for name, column in columns.items() if column is not None}
    return {
        name: np.array([len(array) for array in each._arrays])
        for name, each in values.items()
        if isinstance(each, PerFrame)
    }


def marks_in(targets: Targets | None) -> dict[str, Marks]:
    """Return the columns of marks in the picture, by their names."""
    return {name: each for name, each in named(targets).items() if isinstance(each, Marks)}


def leading_boxes(targets: Targets | None) -> list[Rows]:
    """Return the columns of one box in each row or frame of the first part."""
    found = [
        column._values
        for column in marks_in(targets).values()
        if isinstance(column, Boxes) and column._part is None
    ]
    return [values for values in found if row_shape(values) == (4,)]


def part_of(column: Marks, parts: Iterable[str]) -> str:
    """Return the name of the part, among the ``parts`` of a sample, in whose pixels its marks are
    given."""
    return next(iter(parts)) if column._part is None else column._part


def look_like_marks(targets: Targets | None) -> list[str]:
    """Return columns of plain numbers that look like marks in the picture, by their names or by
    their rows, [..., K, 2]."""
    found = []
    for name, column in named(targets).items():
        if column is None or isinstance(column, Marks | Steps):
            continue
        row, dtype = _shape(column, ())
        if dtype != "str" and row and (_MARKS.search(name) or (len(row) > 1 and row[-1] == 2)):
            found.append(name)
    return found


def digest(targets: Targets) -> bytes:
    """Return a hash of the targets."""
    found = blake2b(repr(_kind(targets)).encode(), digest_size=16)
    for column in named(targets).values():
        if isinstance(column, Steps | OneOf):
            found.update(column._bounds.tobytes())
        for each in _digests(arrays_of(values_of(column))):
            found.update(each)
    return found.digest()


def _digests(arrays: Sequence[npt.NDArray[Any]]) -> list[bytes]:
    """Return a hash of each array, computed once for shared ones."""
    found = {id(array): _digest(array) for array in {id(a): a for a in arrays}.values()}
    return [found[id(array)] for array in arrays]


def _digest(array: npt.NDArray[Any]) -> bytes:
    found = blake2b(str(array.shape).encode(), digest_size=16)
    found.update(repr(array.tolist()).encode() if array.dtype.kind == "O" else array.tobytes())
    return found.digest()


def _column(name: str, values: object, videos: int, paths: Sequence[str]) -> Column:
    if isinstance(values, Marks):
        return with_values(values, values_of(_column(name, values._values, videos, paths)))
    column = values if isinstance(values, PerFrame | Steps | OneOf) else array_of(name, values)
    if len(column) != videos:
        raise CatalogError(f"{name} has {len(column)} rows, and there are {videos} videos")
    return _one_a_file(column, paths) if paths and isinstance(column, PerFrame) else column


def _one_a_file(column: PerFrame, paths: Sequence[str]) -> PerFrame:
    """Return the arrays with one per file: segments of a file share its array."""
    kept: dict[tuple[str, bytes], npt.NDArray[Any]] = {}
    named = zip(paths, _digests(column._arrays), strict=True)
    return PerFrame(
        [kept.setdefault(name, array) for name, array in zip(named, column._arrays, strict=True)]
    )


def _rows(column: Column, indices: Ints) -> Column:
    if isinstance(column, Marks):
        return with_values(column, values_of(_rows(column._values, indices)))
    if isinstance(column, PerFrame):
        return PerFrame([column._arrays[i] for i in indices.tolist()])
    if isinstance(column, Steps | OneOf):
        return _bounded(column, column._values, column._bounds[indices])
    assert isinstance(column, np.ndarray)
    rows = column[indices]
    rows.flags.writeable = False
    return rows


def _one(columns: Sequence[Column]) -> Column:
    if isinstance(first := columns[0], Marks):
        return with_values(first, values_of(_one(list(map(values_of, columns)))))
    per_frame = [column for column in columns if isinstance(column, PerFrame)]
    if per_frame:
        return PerFrame([array for column in per_frame for array in column._arrays])
    if isinstance(first, Steps | OneOf):
        return _in_one([column for column in columns if isinstance(column, Steps | OneOf)])
    arrays = [column for column in columns if isinstance(column, np.ndarray)]
    return array_of(_ONLY, np.concatenate(arrays))


def _bounded(
    column: Steps | OneOf, values: npt.NDArray[Any], bounds: npt.NDArray[np.int64]
) -> Steps | OneOf:
    """Return the column with other values, and where those of each row are."""
    new = copy.copy(column)
    new._values, new._bounds = values, bounds
    return new


def _in_one(columns: Sequence[Steps | OneOf]) -> Steps | OneOf:
    """Return the values of several catalogs; shared ones are stored once."""
    values = {id(column._values): column._values for column in columns}
    firsts = dict(zip(values, np.cumsum([0, *map(len, values.values())]).tolist(), strict=False))
    bounds = [column._bounds + firsts[id(column._values)] for column in columns]
    made = np.concatenate([*values.values()]) if len(values) > 1 else columns[0]._values
    return _bounded(columns[0], array_of(_ONLY, made), np.concatenate(bounds))


def _batch(
    column: Column,
    videos: Ints,
    frames: Ints,
    affine: Matrices | dict[str, Matrices] | None,
    path_of: Callable[[int], str],
    kind: str = "PerFrame",
) -> npt.NDArray[Any]:
    if isinstance(column, Marks):
        if affine is None:
            raise SpecError("points and boxes need the matrices of the clips")
        by = affine[part_of(column, affine)] if isinstance(affine, dict) else affine
        rows = _batch(column._values, videos, frames, None, path_of, type(column).__name__)
        if isinstance(column._values, PerFrame):
            rows[frames == -1] = np.nan
        elif by.ndim > 3:  # several views
            rows = rows[:, None]
        return column._moved(rows, by)
    if isinstance(column, np.ndarray):
        return column[videos]
    assert isinstance(column, PerFrame)
    found = []
    for video, shown in zip(videos.tolist(), frames, strict=True):
        array, last = column._arrays[video], int(shown.max())
        if last >= len(array):
            raise SpecError(
                f"{path_of(video)}: {kind} has {len(array)} frames, and a clip shows frame {last}"
            )
        row, is_black = array[np.maximum(shown, 0)], shown < 0
        if is_black.any():
            row[is_black] = "" if row.dtype.kind == "O" else 0
        found.append(row)
    return np.stack(found)


def _each(targets: Targets, call: Callable[[Column], T]) -> T | dict[str, T]:
    if isinstance(targets, dict):
        return {name: call(column) for name, column in targets.items()}
    return call(targets)


def _shape(column: Column, frames: tuple[int, ...]) -> tuple[tuple[int, ...], str]:
    values = values_of(column)
    array = arrays_of(values)[0]
    if isinstance(values, Steps):
        offsets = values._offsets
        return (*(() if offsets is None else offsets.shape), *array.shape[1:]), name_of(array.dtype)
    if not isinstance(values, PerFrame):  # each view shows marks elsewhere
        frames = () if values is column else frames[:-1]
    return (*frames, *array.shape[1:]), name_of(array.dtype)


def _kind(targets: Targets) -> tuple[object, ...]:
    return tuple((name, *kind) for name, kind in _kinds(targets).items())


def _kinds(targets: Targets) -> dict[str, tuple[object, ...]]:
    """Return the class, shape and type of each column, with the options of its class."""
    return {
        name: (*_kind_of(column), *_shape(column, ())) for name, column in named(targets).items()
    }


def _text(kind: tuple[object, ...] | None) -> str:
    return "missing" if kind is None else " ".join(str(each) for each in kind if each is not None)


def _kind_of(column: Column) -> Iterator[object]:
    yield type(values_of(column)).__name__
    if isinstance(column, Steps):
        yield None if column._offsets is None else tuple(column._offsets.tolist())
    if isinstance(column, Marks):
        yield from (type(column).__name__, column._part, getattr(column, "_order", None))


# Columns


def array_of(name: str, values: object) -> npt.NDArray[Any]:
    """Return a read-only array. A writable one is copied; a read-only memory map is not."""
    rows = values if isinstance(values, list | tuple) else (values,)
    if any(isinstance(row, np.ma.MaskedArray) and np.ma.is_masked(row) for row in rows):
        raise CatalogError(f"{name} has masked values: fill them, as values.filled(np.nan) does")
    try:
        array = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise CatalogError(f"{name} is no array of one shape: {error}") from None
    if array.dtype.kind == "U":
        array = array.astype(object)
    if array.dtype.kind == "O" and not all(isinstance(text, str) for text in array.flat):
        raise CatalogError(f"{name} must be numbers or text, not objects")
    if array.dtype.kind not in _KINDS + "O" or array.dtype.char in _LONG:
        raise CatalogError(f"{name} must be numbers or text, not {array.dtype}")
    if array.ndim < 1:
        raise CatalogError(f"{name} must have a row for each video, not be one value")
    if not array.dtype.isnative or array.flags.writeable:
        array = array.astype(array.dtype.newbyteorder("="))
        array.flags.writeable = False
    return array


@overload
def values_of(column: Marks) -> Rows: ...


@overload
def values_of(column: Column) -> Values: ...


def values_of(column: Column) -> Values:
    """Return the arrays of a column of marks; other columns are returned unchanged."""
    return column._values if isinstance(column, Points | Boxes) else column


def with_values(column: Marks, values: Values) -> Marks:
    """Return the column with other values."""
    assert not isinstance(values, Steps | OneOf)
    new = copy.copy(column)
    new._values = values
    return new


def _whole(offsets: list[Any]) -> Ints:
    """Return the offsets of `Steps`. Raises CatalogError."""
    found = np.array(offsets)
    if found.ndim != 1 or not len(found) or found.dtype.kind not in "iu":
        raise CatalogError(
            "offsets of Steps are whole numbers of steps, at least one, got "
            f"{offsets!r:.80}: of seconds, multiply by the steps a second"
        )
    return found.astype(np.int64)


def _marks(name: str, given: Any, dimensions: int, last: tuple[str | int, ...]) -> Rows:
    """Return marks as float32: an array [N, ..., *last], or `PerFrame` of arrays [frames, ...,
    *last]. Raises CatalogError."""
    wanted = ", ".join(map(str, last))
    takes = (
        f"{name} takes an array [videos, {wanted}], or a list with an array [frames, {wanted}] for "
        "each video"
    )
    try:
        if isinstance(given, list | tuple) and all(isinstance(x, np.ndarray) for x in given):
            given = PerFrame(given)
        values: Rows = given if isinstance(given, PerFrame) else array_of(name, given)
    except CatalogError as error:
        raise CatalogError(f"{takes}: {error}") from None
    row = row_shape(values)
    fits = len(row) == dimensions or (name == "Boxes" and len(row) == 2)
    if not fits or row[-1] != last[-1] or 0 in row:
        raise CatalogError(f"{takes}; here, a row has the shape {list(row)}")

    def floats(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if array.dtype.kind not in "iuf":
            raise CatalogError(f"{name} takes numbers of pixels, not {name_of(array.dtype)}")
        return array_of(name, array.astype(np.float32, copy=False))

    made = values._each(floats) if isinstance(values, PerFrame) else floats(values)
    known = [np.abs(array[np.isfinite(array)]) for array in arrays_of(made)]
    if max(each.max(initial=0) for each in known) <= 1 and any((each % 1).any() for each in known):
        raise CatalogError(
            f"{name} are in pixels, and these are all at most 1: multiply shares of the picture by "
            "its width and height"
        )
    return made


def arrays_of(values: Values) -> Sequence[npt.NDArray[Any]]:
    """Return the array, or that of each video."""
    if isinstance(values, Steps | OneOf):
        return (values._values,)
    return values._arrays if isinstance(values, PerFrame) else (values,)


def row_shape(values: Values) -> tuple[int, ...]:
    return arrays_of(values)[0].shape[1:]


def name_of(dtype: np.dtype[Any]) -> str:
    return "str" if dtype.kind == "O" else dtype.name

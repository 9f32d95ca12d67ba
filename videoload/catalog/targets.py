"""What a model shall learn from each video, if that is not a class. Pure.

A catalog's *targets* are one column, or several with names. A column is an array with a row for
each video, or `PerFrame`: for each video, an array with a row for each of its source frames. A
batch gets the rows of the frames that its clips show. `Points` and `Boxes` are such columns of
marks in the picture, which follow what is done to it. The trainer looks targets up when it hands a
batch over; workers never see them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from videoload.catalog.target_columns import (
    Column,
    Marks,
    PerFrame,
    Steps,
    array_of,
    arrays_of,
    name_of,
    values_of,
    with_values,
)
from videoload.clips.affine import Matrices
from videoload.clips.edges import pictures
from videoload.errors import CatalogError, SpecError

Ints = npt.NDArray[np.int64]
_IS_PAD = "_is_pad"
_ONLY = "targets"  # the name of a column without a name, in messages
_MARKS = re.compile(  # what such columns are called
    r"(?<![a-z])((key)?points?|landmarks?|joints?|skeletons?|poses?|b?box(es)?)(?![a-z])",
    re.IGNORECASE,
)


T = TypeVar("T")
Targets = Column | dict[str, Column]


def named(targets: Any) -> dict[str, Any]:
    """Columns, or the arrays of a batch, by their names."""
    return targets if isinstance(targets, dict) else {_ONLY: targets}


def checked(targets: object, videos: int, paths: Sequence[str] = ()) -> Targets:
    """The targets as a catalog keeps them: read-only, with types that TensorFlow knows; once for a
    file, if the ``paths`` of the videos are given. Raises CatalogError."""
    if not isinstance(targets, Mapping):
        kind = type(targets).__name__ if isinstance(targets, Marks | PerFrame | Steps) else _ONLY
        return _column(kind, targets, videos, paths)
    if not targets or not all(isinstance(name, str) and name for name in targets):
        raise CatalogError(f"targets need names that are text, at least one: {list(targets)}")
    return {name: _column(name, column, videos, paths) for name, column in targets.items()}


def subset(targets: Targets, indices: Ints) -> Targets:
    """The targets of some of the videos."""
    return _each(targets, lambda column: _rows(column, indices))


def joined(parts: Sequence[Targets]) -> Targets:
    """The targets of several catalogs, one after the other. Raises CatalogError."""
    if len({_kind(part) for part in parts}) != 1:
        raise CatalogError(
            "to join catalogs, their targets must have the same names, shapes and types, not "
            + " and ".join(sorted({str(_kind(part)) for part in parts}))
        )
    first = parts[0]
    if isinstance(first, dict):
        return {name: _one([part[name] for part in parts]) for name in first}  # type: ignore[index]
    return _one(list(parts))  # type: ignore[arg-type]


def batch(
    targets: Targets,
    videos: Ints,
    frames: Ints,
    affine: Matrices | dict[str, Matrices] | None,
    path_of: Callable[[int], str],
    moments: Ints | None = None,
) -> npt.NDArray[Any] | dict[str, npt.NDArray[Any]]:
    """The targets of a batch with these videos, int64 [B], that shows these source frames, int64
    [B, T] as `edges` has them, through these matrices, around these ``moments``, in frames from the
    first one of the row. Raises SpecError if a video has no target for a frame."""
    shown = pictures(frames)
    found: dict[str, npt.NDArray[Any]] = {}
    for name, column in named(targets).items():
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
    """Shape and type of one clip's targets. ``frames`` is the shape of a clip's frame numbers. The
    type of text is "str"."""
    found: Any = _each(targets, lambda column: _shape(column, frames))
    for name, column in named(targets).items():
        if isinstance(column, Steps) and column._offsets is not None and isinstance(found, dict):
            found[name + _IS_PAD] = column._offsets.shape, "bool"
    return found  # type: ignore[no-any-return]


def equal(one: Targets | None, other: Targets | None) -> bool:
    """Whether two targets are the same."""
    if one is None or other is None:
        return one is other
    return one is other or digest(one) == digest(other)


def rows_per_frame(targets: Targets | None) -> dict[str, Ints]:
    """For each column with a row for each frame, by its name, how many rows each video has."""
    columns = targets if isinstance(targets, dict) else {type(targets).__name__: targets}
    values = {name: values_of(column) for name, column in columns.items() if column is not None}
    return {
        name: np.array([len(array) for array in each._arrays])
        for name, each in values.items()
        if isinstance(each, PerFrame)
    }


def marks_in(targets: Targets | None) -> dict[str, Marks]:
    """The columns of marks in the picture, by their names."""
    return {name: each for name, each in named(targets).items() if isinstance(each, Marks)}


def part_of(column: Marks, parts: Iterable[str]) -> str:
    """The name among these ``parts`` of a sample of the one that its marks were made in."""
    return next(iter(parts)) if column._part is None else column._part


def look_like_marks(targets: Targets | None) -> list[str]:
    """Columns of plain numbers that look like marks in the picture, by their names or by their
    rows, [..., K, 2]."""
    found = []
    for name, column in named(targets).items():
        if column is None or isinstance(column, Marks | Steps):
            continue
        row, dtype = _shape(column, ())
        if dtype != "str" and row and (_MARKS.search(name) or (len(row) > 1 and row[-1] == 2)):
            found.append(name)
    return found


def digest(targets: Targets) -> bytes:
    """A hash of the targets."""
    found = blake2b(repr(_kind(targets)).encode(), digest_size=16)
    for column in named(targets).values():
        if isinstance(column, Steps):
            found.update(column._bounds.tobytes())
        for each in _digests(arrays_of(values_of(column))):
            found.update(each)
    return found.digest()


def _digests(arrays: Sequence[npt.NDArray[Any]]) -> list[bytes]:
    """A hash of each array; of one that comes again, made once."""
    found = {id(array): _digest(array) for array in {id(a): a for a in arrays}.values()}
    return [found[id(array)] for array in arrays]


def _digest(array: npt.NDArray[Any]) -> bytes:
    found = blake2b(str(array.shape).encode(), digest_size=16)
    found.update(repr(array.tolist()).encode() if array.dtype.kind == "O" else array.tobytes())
    return found.digest()


def _column(name: str, values: object, videos: int, paths: Sequence[str]) -> Column:
    if isinstance(values, Marks):
        return with_values(values, values_of(_column(name, values._values, videos, paths)))
    column = values if isinstance(values, PerFrame | Steps) else array_of(name, values)
    if len(column) != videos:
        raise CatalogError(f"{name} has {len(column)} rows, and there are {videos} videos")
    return _one_a_file(column, paths) if paths and isinstance(column, PerFrame) else column


def _one_a_file(column: PerFrame, paths: Sequence[str]) -> PerFrame:
    """Segments of a file share its array."""
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
    if isinstance(column, Steps):
        return column._with(column._values, column._bounds[indices])
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
    if isinstance(first, Steps):
        return _in_one([column for column in columns if isinstance(column, Steps)])
    arrays = [column for column in columns if isinstance(column, np.ndarray)]
    return array_of(_ONLY, np.concatenate(arrays))


def _in_one(columns: Sequence[Steps]) -> Steps:
    """The steps of several catalogs; those that come several times are kept once."""
    values = {id(column._values): column._values for column in columns}
    firsts = dict(zip(values, np.cumsum([0, *map(len, values.values())]).tolist(), strict=False))
    bounds = [column._bounds + firsts[id(column._values)] for column in columns]
    made = np.concatenate([*values.values()]) if len(values) > 1 else columns[0]._values
    return columns[0]._with(array_of(_ONLY, made), np.concatenate(bounds))


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
    return tuple(
        (name, *_kind_of(column), *_shape(column, ())) for name, column in named(targets).items()
    )


def _kind_of(column: Column) -> Iterator[object]:
    yield type(values_of(column)).__name__
    if isinstance(column, Steps):
        yield None if column._offsets is None else tuple(column._offsets.tolist())
    if isinstance(column, Marks):
        yield from (type(column).__name__, column._part, getattr(column, "_order", None))

"""What a model shall learn from each video, if that is not a class. Pure.

A catalog's *targets* are one column, or several with names. A column is an array with a row for
each video, or `PerFrame`: for each video, an array with a row for each of its source frames. A
batch gets the rows of the frames that its clips show. The trainer looks targets up when it hands a
batch over; workers never see them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from videoload.errors import CatalogError, SpecError

Ints = npt.NDArray[np.int64]
_KINDS = "biufc"  # besides text
_LONG = "gG"  # np.longdouble and np.clongdouble, which TensorFlow does not have
_ONLY = "targets"  # the name of a column without a name, in messages


class PerFrame:
    """Targets for each source frame, such as the phase of an action or the place of a hand.

        catalog = catalog.with_targets(vl.PerFrame([phases_of_video_0, phases_of_video_1]))

    A batch has the rows of the frames that its clips show, [B, T, ...]. A missing frame
    (``short="zero"``) has zeros, or empty text.

    Args:
        arrays: An array for each video, in the catalog's order: [frames of the file, ...], with a
            row for each source frame of the whole file in display order. All have one type and row
            shape. Segments of a file may share one array, which is kept once.

    Raises:
        CatalogError: The arrays are not like this.
    """

    __slots__ = ("_arrays",)

    def __init__(self, arrays: Iterable[npt.ArrayLike]) -> None:
        # Segments of a file share its array, which is kept once. ``seen`` keeps the objects alive,
        # so that no other has the same id.
        seen: dict[int, tuple[object, npt.NDArray[Any]]] = {}
        found = []
        for i, array in enumerate(arrays):
            if id(array) not in seen:
                seen[id(array)] = array, _array(f"array {i}", array)
            found.append(seen[id(array)][1])
        self._arrays = tuple(found)
        kinds = {(array.shape[1:], array.dtype) for array in self._arrays}
        if len(kinds) != 1:
            raise CatalogError(
                "per-frame targets need an array for each video, all of one type and row shape"
                + (f", not {len(kinds)}" if kinds else "")
            )

    def __len__(self) -> int:
        return len(self._arrays)


T = TypeVar("T")
Column = npt.NDArray[Any] | PerFrame
Targets = Column | dict[str, Column]


def checked(targets: object, videos: int, paths: Sequence[str] = ()) -> Targets:
    """The targets as a catalog keeps them: read-only, with types that TensorFlow knows; once for a
    file, if the ``paths`` of the videos are given. Raises CatalogError."""
    if not isinstance(targets, Mapping):
        return _column(_ONLY, targets, videos, paths)
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
    targets: Targets, videos: Ints, frames: Ints, path_of: Callable[[int], str]
) -> npt.NDArray[Any] | dict[str, npt.NDArray[Any]]:
    """The targets of a batch with these videos, int64 [B], that shows these source frames, int64
    [B, T]. Raises SpecError if a video has no target for a frame."""
    return _each(targets, lambda column: _batch(column, videos, frames, path_of))


def shapes(
    targets: Targets, frames: tuple[int, ...]
) -> tuple[tuple[int, ...], str] | dict[str, tuple[tuple[int, ...], str]]:
    """Shape and type of one clip's targets. ``frames`` is the shape of a clip's frame numbers. The
    type of text is "str"."""

    def shape(column: Column) -> tuple[tuple[int, ...], str]:
        if isinstance(column, PerFrame):
            row = column._arrays[0]
            return (*frames, *row.shape[1:]), _name(row.dtype)
        return column.shape[1:], _name(column.dtype)

    return _each(targets, shape)


def equal(one: Targets | None, other: Targets | None) -> bool:
    """Whether two targets are the same."""
    if one is None or other is None:
        return one is other
    return one is other or digest(one) == digest(other)


def rows_per_frame(targets: Targets | None) -> dict[str, Ints]:
    """For each column that is `PerFrame`, by its name, how many rows each video has."""
    columns = targets if isinstance(targets, dict) else {"PerFrame": targets}
    return {
        name: np.array([len(array) for array in column._arrays])
        for name, column in columns.items()
        if isinstance(column, PerFrame)
    }


def digest(targets: Targets) -> bytes:
    """A hash of the targets."""
    found = blake2b(repr(_kind(targets)).encode(), digest_size=16)
    for column in targets.values() if isinstance(targets, dict) else (targets,):
        arrays = column._arrays if isinstance(column, PerFrame) else (column,)
        for each in _digests(arrays):
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


def _array(name: str, values: object) -> npt.NDArray[Any]:
    """A read-only array. A writable one is copied; a read-only memory map is not."""
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


def _column(name: str, values: object, videos: int, paths: Sequence[str]) -> Column:
    column = values if isinstance(values, PerFrame) else _array(name, values)
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
    if isinstance(column, PerFrame):
        return PerFrame([column._arrays[i] for i in indices.tolist()])
    rows = column[indices]
    rows.flags.writeable = False
    return rows


def _one(columns: Sequence[Column]) -> Column:
    per_frame = [column for column in columns if isinstance(column, PerFrame)]
    if per_frame:
        return PerFrame([array for column in per_frame for array in column._arrays])
    return _array(_ONLY, np.concatenate([c for c in columns if not isinstance(c, PerFrame)]))


def _batch(
    column: Column, videos: Ints, frames: Ints, path_of: Callable[[int], str]
) -> npt.NDArray[Any]:
    if not isinstance(column, PerFrame):
        return column[videos]
    rows = []
    for video, shown in zip(videos.tolist(), frames, strict=True):
        array, last = column._arrays[video], int(shown.max())
        if last >= len(array):
            raise SpecError(
                f"{path_of(video)} has per-frame targets for {len(array)} frames, but a clip shows "
                f"frame {last}"
            )
        row = array[shown]
        if (shown < 0).any():  # black frames of a short video
            row[shown < 0] = "" if row.dtype.kind == "O" else 0
        rows.append(row)
    return np.stack(rows)


def _each(targets: Targets, call: Callable[[Column], T]) -> T | dict[str, T]:
    if isinstance(targets, dict):
        return {name: call(column) for name, column in targets.items()}
    return call(targets)


def _kind(targets: Targets) -> tuple[object, ...]:
    columns = targets.items() if isinstance(targets, dict) else ((_ONLY, targets),)
    return tuple((name, type(column).__name__, *shapes(column, ())) for name, column in columns)


def _name(dtype: np.dtype[Any]) -> str:
    return "str" if dtype.kind == "O" else dtype.name

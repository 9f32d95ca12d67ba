"""What an item is, where it is no clip: whatever a function makes of a file, or of a name.

An `ItemSpec` stands wherever a `ClipSpec` may. What both have in common is all that plan, leases,
slots and transport know of a sample: how many bytes it has, and how arrays look into them. In a
slot, and in a message, the samples of a lease are rows of bytes, one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from videoload.clips.clip_spec import FUNCTION, ClipSpec
from videoload.clips.layouts import array_bytes, as_arrays, shape_of, type_of
from videoload.errors import SpecError


@dataclass(frozen=True, slots=True)
class ItemSpec:
    """Items of any kind: a function of yours makes the arrays of each from a file, or from a name.

        def load(path, rng):
            return np.load(path)

        item = vl.ItemSpec(load="mydata:load", shape=(28, 28, 1), dtype="float32")
        stream = client.stream(catalog, item, batch_size=32, shuffle=True)

    It is called in the workers, which import its module; those that dial in must allow that
    (``--allow``). What it draws from ``rng``, a numpy.random.Generator made of the stream's seed,
    the epoch and the item's number in it, is the same on every worker and in every run.

    An item is bad, as a video may be, if the function raises an exception on it, exits, returns
    another shape or dtype, or ends or hangs its worker. What can only be a mistake in the function
    itself (NameError, AttributeError, TypeError, ImportError, a value that is no array) ends the
    stream with TransformError, and the text of the worker's traceback stands in it.

    Attributes:
        load: ``"package.module:function"``, called with (path, rng): the file's absolute path, a
            str. Where a catalog has segments, it is not told of them.
        shape: Of the array that it returns, each length at least 1; ``()`` is a number. For several
            arrays, which it returns as a dict, a dict of their shapes. In batches of a dict, each
            array is a view with gaps, which TensorFlow copies.
        dtype: Of the array: the name of a NumPy type (or what numpy.dtype takes) of booleans,
            integers, floats or complex numbers. For several arrays, a dict with the same names.
        files: False: the catalog's paths are names, numbers for example, and no file is looked at.
            The function is called with the name; the catalog needs no ``root``. Workers that dial
            in take no name with a ``/`` in it, or that is a file's. Default True.

    Raises:
        SpecError: A value is not as described.
    """

    load: str
    shape: tuple[int, ...] | dict[str, tuple[int, ...]]
    dtype: str | dict[str, str]
    files: bool = True

    def __post_init__(self) -> None:
        if not (isinstance(self.load, str) and FUNCTION.fullmatch(self.load)):
            raise SpecError(
                f'load must be "package.module:function", got {self.load!r}'
                " (a function of the main script cannot be imported by a worker)"
            )
        if not isinstance(self.files, bool):
            raise SpecError(f"files must be True or False, got {self.files!r}")
        shape: Any = self.shape
        dtype: Any = self.dtype
        if isinstance(shape, dict) != isinstance(dtype, dict):
            raise SpecError("shape and dtype are both of one array, or both dicts")
        if isinstance(shape, dict):
            named = all(isinstance(name, str) and name for name in shape)
            if not shape or not named or shape.keys() != dtype.keys():
                raise SpecError(
                    f"shape and dtype must have the same names, at least one, got {list(shape)} "
                    f"and {list(dtype)}"
                )
            lengths = {name: shape_of(f"shape[{name!r}]", shape[name]) for name in shape}
            types = {name: type_of(f"dtype[{name!r}]", dtype[name]) for name in shape}
            object.__setattr__(self, "shape", lengths)
            object.__setattr__(self, "dtype", types)
        else:
            object.__setattr__(self, "shape", shape_of("shape", shape))
            object.__setattr__(self, "dtype", type_of("dtype", dtype))

    def __hash__(self) -> int:
        return hash((self.load, self.files))  # a dict has none

    @property
    def frames_shape(self) -> tuple[int, ...]:
        """Shape of the ordinals of an item's source frames: there are none."""
        return (0,)

    @property
    def clip_bytes(self) -> int:
        """Bytes of one item."""
        if isinstance(self.shape, dict):
            return _record(self).itemsize
        assert isinstance(self.dtype, str)
        return array_bytes(self.shape, self.dtype)

    def arrays(self, rows: npt.NDArray[np.uint8]) -> Any:
        """The arrays of items, as views.

        Args:
            rows: Their bytes, uint8 [..., clip_bytes], contiguous.

        Returns:
            An array [..., *shape], or a dict of them.
        """
        if isinstance(self.shape, dict):
            items = rows.view(_record(self))[..., 0]
            return {name: items[name] for name in self.shape}
        assert isinstance(self.dtype, str)
        return as_arrays(rows, self.shape, self.dtype)


Spec = ClipSpec | ItemSpec


@lru_cache(maxsize=64)  # asked for several times an item
def _record(spec: ItemSpec) -> np.dtype[Any]:
    """Several arrays, one after the other."""
    shapes, types = spec.shape, spec.dtype
    assert isinstance(shapes, dict)
    assert isinstance(types, dict)
    return np.dtype([(name, types[name], shapes[name]) for name in shapes], align=True)

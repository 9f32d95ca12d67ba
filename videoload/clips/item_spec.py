"""What an item is: the arrays that a function makes from a file or a name.

An `ItemSpec` can be used wherever a `ClipSpec` can. Plan, leases, slots and transport only know
what both have in common: the bytes of a sample, and how arrays view them. In a slot and in a
message, the samples of a lease are rows of bytes, one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from videoload.arguments import readable
from videoload.clips.choices import Function, function_name
from videoload.clips.layouts import array_bytes, shape_of, type_of
from videoload.errors import SpecError


@readable
@dataclass(frozen=True, slots=True)
class ItemSpec:
    """Items of any kind: your function makes the arrays of each from a file or a name.

        def load(path, rng):  # in mydata.py
            return np.load(path)

        item = vl.ItemSpec(load=mydata.load, shape=(28, 28, 1), dtype="float32")
        stream = client.stream(catalog, item, batch_size=32, shuffle=True)

    The workers import the module and call the function. Workers that dial in must allow the module
    (``--allow``). ``rng`` is a numpy.random.Generator, seeded by the stream's seed, the epoch and
    the item's number in it, so its values are the same on every worker and in every run.

    An item is bad, like a video, if the function raises an exception, exits, returns another shape
    or dtype, or ends or hangs its worker. A mistake in the function itself (NameError,
    AttributeError, TypeError, ImportError, a value that is no array) ends the stream with
    TransformError, which has the worker's traceback.

    Attributes:
        load: A function of a module, or ``"package.module:function"``, called with (path, rng);
            path is the file's absolute path, a str. It does not get a catalog's segments. As a part
            of a sample (see `Catalog.side_by_side`), it is called with (path, rng, frames=...,
            times=...): what the clip of the sample shows, int64 and float64 [T]. Beyond the ends of
            a video (see ``edges``), the frame is the one that is held, or -1, and the time is NaN.
        shape: Shape of the array that it returns, each length at least 1; ``()`` is a number. If it
            returns a dict of arrays, a dict of their shapes. In batches of a dict, each array is a
            view with gaps, which TensorFlow copies.
        dtype: Type of the array: the name of a NumPy type (or what numpy.dtype takes) of booleans,
            integers, floats or complex numbers. For several arrays, a dict with the same names.
        files: False: the catalog's paths are names, such as numbers, and not files. The function
            gets the name, and the catalog needs no ``root``. Workers that dial in refuse names with
            a ``/`` and names of existing files. Default True.

    Raises:
        SpecError: A value is not like this.
    """

    load: Function
    shape: tuple[int, ...] | dict[str, tuple[int, ...]]
    dtype: str | dict[str, str]
    files: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "load", function_name("load", self.load))
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
        return hash((self.load, self.files))  # a dict cannot be hashed

    @property
    def clip_bytes(self) -> int:
        """Bytes of one item."""
        if isinstance(self.shape, dict):
            return record_of(self).itemsize
        assert isinstance(self.dtype, str)
        return array_bytes(self.shape, self.dtype)


@lru_cache(maxsize=64)  # used several times per item
def record_of(spec: ItemSpec) -> np.dtype[Any]:
    """Several arrays, one after the other."""
    shapes, types = spec.shape, spec.dtype
    assert isinstance(shapes, dict)
    assert isinstance(types, dict)
    return np.dtype([(name, types[name], shapes[name]) for name in shapes], align=True)

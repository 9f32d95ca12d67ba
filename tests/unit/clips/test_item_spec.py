"""Specs of items: their arrays in rows of bytes, and invalid ones."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoload.catalog.catalog import Catalog
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.item_spec import ItemSpec
from videoload.clips.sample_spec import arrays_of, reads_files
from videoload.errors import SpecError
from videoload.plan.options import StreamOptions
from videoload.plan.plan import Plan

LOAD = "package.module:function"
SHAPES = st.lists(st.integers(1, 4), max_size=3).map(tuple)
TYPES = st.sampled_from(["bool", "uint8", "int16", "float16", "float32", "float64", "complex128"])
ARRAYS = st.dictionaries(
    st.text(min_size=1, max_size=5), st.tuples(SHAPES, TYPES), min_size=1, max_size=4
)


def rows_of(spec: ItemSpec, rows: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.zeros((rows, spec.clip_bytes), np.uint8)


@given(SHAPES, TYPES, st.integers(0, 3))
def test_an_array_fills_its_rows_and_is_a_view_of_them(
    shape: tuple[int, ...], dtype: str, n: int
) -> None:
    spec = ItemSpec(LOAD, shape, dtype)
    rows = rows_of(spec, n)
    array = arrays_of(spec, rows)
    assert (array.shape, array.dtype) == ((n, *shape), np.dtype(dtype))
    assert array.nbytes == rows.nbytes, "no byte is wasted"
    assert array.flags.c_contiguous or not n, "TensorFlow takes it as it is"
    array[...] = True
    for row in rows:
        assert (arrays_of(spec, row) == np.ones(shape, dtype)).all()


@given(ARRAYS)
def test_several_arrays_share_a_row_and_no_byte(
    arrays: dict[str, tuple[tuple[int, ...], str]],
) -> None:
    shapes = {name: shape for name, (shape, _) in arrays.items()}
    types = {name: dtype for name, (_, dtype) in arrays.items()}
    spec = ItemSpec(LOAD, shapes, types)
    rows = rows_of(spec, 2)
    views = arrays_of(spec, rows)
    assert list(views) == list(arrays)
    for number, name in enumerate(views):
        assert (views[name].shape, views[name].dtype) == ((2, *shapes[name]), np.dtype(types[name]))
        assert views[name].flags.aligned
        views[name][...] = number + 1
    for number, name in enumerate(views):
        assert (views[name] == np.full((2, *shapes[name]), number + 1, types[name])).all()
        assert (arrays_of(spec, rows[1])[name] == views[name][1]).all()


def test_clips_are_rows_of_bytes_too() -> None:
    spec = ClipSpec(frames=2, size=(4, 6))
    rows = np.arange(3 * spec.clip_bytes, dtype=np.uint8).reshape(3, -1)
    clips = arrays_of(spec, rows)
    assert (clips.shape, clips.dtype) == ((3, *spec.shape), np.dtype(spec.dtype))
    assert np.shares_memory(clips, rows)
    assert reads_files(spec)


def test_a_numpy_type_is_kept_by_its_name() -> None:
    for dtype in ("f4", np.float32, np.dtype("float32"), "<f4"):
        made: Any = dtype
        assert ItemSpec(LOAD, (2,), made) == ItemSpec(LOAD, (2,), "float32")
    shapes: Any = {"a": [np.int64(2), 3], "b": []}
    several = ItemSpec(LOAD, shapes, {"a": "f8", "b": "?"})
    assert several.shape == {"a": (2, 3), "b": ()}
    assert several.dtype == {"a": "float64", "b": "bool"}
    assert hash(several) == hash(ItemSpec(LOAD, several.shape, several.dtype))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"load": "function"}, 'load must be a function of a module, or "package.module:function"'),
        ({"load": "__main__:f"}, "workers cannot import from a script or notebook: move it"),
        ({"load": None}, "load must be"),
        ({"shape": 3}, "shape must be a tuple of lengths, got 3"),
        ({"shape": (2, 0)}, "shape must be a whole number of at least 1, got 0"),
        ({"shape": (2.5,)}, "shape must be a whole number"),
        ({"shape": (True,)}, "shape must be a whole number"),
        ({"dtype": "object"}, "dtype must be the name of a NumPy type"),
        ({"dtype": "U5"}, "dtype must be the name"),
        ({"dtype": ">f4"}, "dtype must be the name"),
        ({"dtype": None}, "dtype must be the name"),
        ({"dtype": "no type"}, "dtype must be the name"),
        ({"dtype": "i4,f8"}, "dtype must be the name"),
        ({"dtype": "M8[s]"}, "dtype must be the name"),
        ({"shape": {"a": (2,)}}, "both of one array, or both dicts"),
        ({"dtype": {"a": "f4"}}, "both of one array, or both dicts"),
        ({"shape": {}, "dtype": {}}, "the same names, at least one"),
        ({"shape": {"": (2,)}, "dtype": {"": "f4"}}, "the same names"),
        ({"shape": {"a": (2,)}, "dtype": {"b": "f4"}}, "the same names"),
        ({"shape": {"a": (2,)}, "dtype": {"a": "O"}}, re.escape("dtype['a'] must be")),
        ({"shape": {"a": (0,)}, "dtype": {"a": "f4"}}, re.escape("shape['a'] must be")),
        ({"files": 1}, "files must be True or False"),
    ],
)
def test_an_invalid_item_spec_is_refused_in_one_line(fields: dict[str, Any], words: str) -> None:
    good: dict[str, Any] = {"load": LOAD, "shape": (2,), "dtype": "float32"}
    ItemSpec(**good)
    with pytest.raises(SpecError, match=rf"\A[^\n]*{words}[^\n]*\Z"):
        ItemSpec(**good | fields)


def test_an_epoch_has_each_item_once() -> None:
    catalog = Catalog([str(n) for n in range(7)], [0] * 7, ["all"])
    options = StreamOptions(2, True, 3, (0, 1), False, True, "substitute", 0.01)
    plan = Plan.of(catalog, ItemSpec(LOAD, (), "float32", files=False), options)
    assert sorted(sample.video for step in range(len(plan)) for sample in plan[step]) == [*range(7)]

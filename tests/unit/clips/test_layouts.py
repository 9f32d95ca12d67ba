"""Arrays of a sample as rows of bytes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoload.clips.layouts import array_bytes, as_arrays, shape_of, type_of
from videoload.errors import SpecError

SHAPES = st.lists(st.integers(1, 4), max_size=4).map(tuple)
TYPES = st.sampled_from(["bool", "uint8", "int16", "float16", "float32", "float64", "complex128"])


@given(SHAPES, TYPES, st.lists(st.integers(0, 3), max_size=2))
def test_rows_of_bytes_are_arrays_and_the_arrays_are_views_of_them(
    shape: tuple[int, ...], dtype: str, rows: list[int]
) -> None:
    told = np.zeros((*rows, array_bytes(shape, dtype)), np.uint8)
    arrays = as_arrays(told, shape, dtype)
    assert (arrays.shape, arrays.dtype) == ((*rows, *shape), np.dtype(dtype))
    assert arrays.nbytes == told.nbytes, "no byte is wasted"
    arrays[...] = True
    assert not told.size or told.any()


def test_lengths_and_types_are_kept_as_plain_values() -> None:
    shape: Any = [np.int64(3), 4]
    assert shape_of("shape", shape) == (3, 4)
    assert type(shape_of("shape", shape)[0]) is int
    for dtype in ("f4", np.float32, np.dtype("float32"), "<f4"):
        assert type_of("dtype", dtype) == "float32"


@pytest.mark.parametrize("shape", [3, None, "ab", (0,), (2.5,), (True,)])
def test_an_invalid_shape_is_refused_by_name(shape: Any) -> None:
    with pytest.raises(SpecError, match=re.escape("output[0] must be a")):
        shape_of("output[0]", shape)


@pytest.mark.parametrize("dtype", ["object", "O", "U5", ">f4", None, "no type", "i4,f8", "M8[s]"])
def test_an_invalid_type_is_refused_by_name(dtype: Any) -> None:
    with pytest.raises(SpecError, match="here must be the name of a NumPy type"):
        type_of("here", dtype)

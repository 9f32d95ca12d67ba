"""Parts of a frame, in numbers."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from videoload.spec.regions import scaled_size

patient = settings(deadline=None, max_examples=150)


@patient
@given(
    width=st.integers(1, 4000), height=st.integers(1, 4000), resize=st.integers(1, 500)
)  # fmt: skip
def test_the_short_side_becomes_resize_and_the_long_one_the_nearest_even_length(
    width: int, height: int, resize: int
) -> None:
    resize *= 2
    scaled = scaled_size(width, height, resize)
    short, long = (0, 1) if width <= height else (1, 0)
    exact = Fraction(resize * max(width, height), min(width, height))
    assert scaled[short] == resize
    assert scaled[long] % 2 == 0
    assert abs(scaled[long] - exact) <= 1
    assert scaled[long] >= resize


def test_without_resize_frames_keep_their_size() -> None:
    assert scaled_size(321, 243, None) == (321, 243)


@pytest.mark.parametrize(
    ("width", "height", "wanted"),
    [
        (320, 240, (170, 128)),
        (240, 320, (128, 170)),
        (128, 128, (128, 128)),
        (1280, 720, (228, 128)),
    ],
)
def test_usual_sizes_are_scaled_as_written_down(
    width: int, height: int, wanted: tuple[int, int]
) -> None:
    assert scaled_size(width, height, 128) == wanted

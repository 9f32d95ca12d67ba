"""Regions of a frame in pixels."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.thorough import either
from videoload.clips.clip_spec import covering, nearest_aspect
from videoload.clips.edges import held
from videoload.clips.regions import (
    Box,
    Rectangle,
    Size,
    box_region,
    corner,
    inside,
    letterbox,
    mirrored_back,
    resized_region,
    scaled_size,
    shown_box,
    turned_back,
)
from videoload.clips.rows import Video, box_of

patient = settings(deadline=None, max_examples=either(50, 150))


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


@given(st.tuples(*[st.integers(1, 3000)] * 2), st.tuples(*[st.integers(1, 1000)] * 2))
def test_a_frame_covers_a_size_with_one_side_of_its_length_and_no_more_than_needed(
    frame: Size, size: Size
) -> None:
    scaled = covering(frame, size)
    by = max(Fraction(size[axis], frame[axis]) for axis in (0, 1))
    assert any(scaled[axis] == size[axis] for axis in (0, 1))
    for axis in (0, 1):
        assert scaled[axis] >= size[axis]
        assert abs(scaled[axis] - frame[axis] * by) <= 1
        assert scaled[axis] in (size[axis], scaled[axis] // 2 * 2)


RATIOS = st.tuples(*[st.integers(1, 3000)] * 2)


@given(RATIOS, st.lists(RATIOS, min_size=1, max_size=5), st.integers(1, 5))
def test_the_nearest_aspect_is_nearest_by_the_logarithm_of_its_ratio_at_any_scale(
    frame: Size, sizes: list[Size], by: int
) -> None:
    apart = [abs(math.log(w / h) - math.log(frame[0] / frame[1])) for w, h in sizes]
    number = nearest_aspect(frame, sizes)
    assert apart[number] <= min(apart) + 1e-9
    assert nearest_aspect((by * frame[0], by * frame[1]), sizes) == number
    assert nearest_aspect(frame[::-1], [size[::-1] for size in sizes]) == number


@pytest.mark.parametrize(
    ("frame", "region"), [((100, 40), (23, 0, 53, 40)), ((40, 100), (0, 23, 40, 53))]
)
def test_a_frame_that_no_random_region_fits_is_shown_in_the_middle(
    frame: Size, region: Rectangle
) -> None:
    assert resized_region(frame, (1.0, 1.0), (3 / 4, 4 / 3), lambda: 0.5) == region


def test_the_box_of_a_clip_is_around_those_of_its_frames() -> None:
    def box(frames: list[int], rows: Any, start: int = 0) -> Any:
        row = Video("", start=start, boxes=np.array(rows, "<f4").tobytes())
        return box_of(row, np.array(frames))

    rows = [[10, 10, 20, 20], [np.nan] * 4, [5, 12, 18, 30]]
    assert box([0, 1], rows) == (10, 10, 20, 20)
    assert box([0, 2, -1], rows) == (5, 10, 20, 30)
    assert box([7, 9], rows, 7) == (5, 10, 20, 30), "the first row is that of the first frame"
    assert box([1, -1], rows) is None
    assert box([0, 1], [[0, 0, 0, 0], [1, 2, 3, 4]]) == (1, 2, 3, 4), "no area: no box"
    assert box([int(held(np.array(2)))], rows) == (5, 12, 18, 30), "what is shown decides"
    assert box([99], rows) == (5, 12, 18, 30), "behind the last one"
    assert box([4, 5], rows[:1]) == (10, 10, 20, 20), "that of the row"
    assert box_of(Video(""), np.array([0])) is None


SIDES = st.tuples(st.integers(1, 400), st.integers(1, 400))
BOXES = st.tuples(*[st.floats(-50, 400)] * 2, *[st.floats(0.5, 300)] * 2).map(
    lambda box: (box[0], box[1], box[0] + box[2], box[1] + box[3])
)


@given(box=BOXES, frame=SIDES, size=SIDES, scale=st.floats(0.5, 3))
def test_a_region_around_a_box_has_the_shape_of_the_clip_and_stays_in_the_frame_where_it_can(
    box: Box, frame: Size, size: Size, scale: float
) -> None:
    region = box_region(box, frame, size, scale)
    grown = max((box[2] - box[0]) / size[0], (box[3] - box[1]) / size[1]) * scale
    for axis in (0, 1):
        begin, length, whole = region[axis], region[2 + axis], frame[axis]
        assert abs(length - max(2, grown * size[axis])) <= 1
        assert length % 2 == 0
        if length <= whole:
            assert 0 <= begin <= whole - length
        else:
            assert begin <= 0 <= whole <= begin + length, "all of the frame is in it"
        middle = (box[axis] + box[2 + axis]) / 2
        if 0 < begin < whole - length - 1:
            assert abs(begin + length / 2 - middle) <= 1
            assert begin % 2 == 0, "so nothing is lost where chroma is cut"


@given(
    part=st.tuples(*[st.integers(0, 300)] * 2, *[st.integers(1, 300)] * 2), stored=SIDES,
    turns=st.integers(0, 3), mirrored=st.booleans(), scale=SIDES,
)  # fmt: skip
def test_a_box_is_turned_and_mirrored_as_its_frame_is(
    part: Rectangle, stored: Size, turns: int, *, mirrored: bool, scale: Size
) -> None:
    whole = stored[::-1] if turns % 2 else stored
    x, y, width, height = part
    box = x, y, x + width, y + height
    left, top, right, bottom = shown_box(box, stored, turns, mirrored, whole)
    shown = int(left), int(top), int(right - left), int(bottom - top)
    back = mirrored_back(shown, whole) if mirrored else shown
    assert turned_back(back, whole, turns) == part
    frame = whole[0] * scale[0], whole[1] * scale[1]
    everything = shown_box((0, 0, *stored), stored, turns, mirrored, frame)
    assert everything == pytest.approx((0, 0, *frame))


@given(
    region=st.tuples(*[st.integers(-300, 300)] * 2, *[st.integers(1, 600)] * 2),
    frame=SIDES, half=SIDES, even=st.booleans(),
)  # fmt: skip
def test_what_of_a_region_lies_in_the_frame_keeps_its_scale(
    region: Rectangle, frame: Size, half: Size, *, even: bool
) -> None:
    size = (2 * half[0], 2 * half[1])
    x, y = min(region[0], frame[0] - 1), min(region[1], frame[1] - 1)
    region = x, y, max(region[2], 1 - x), max(region[3], 1 - y)
    part, shown, place = inside(region, frame, size, even=even)
    assert (place is None) == (shown == size)
    for axis in (0, 1):
        begin, length = part[axis], part[2 + axis]
        assert 0 <= begin < begin + length <= frame[axis]
        assert begin == max(0, region[axis])
        assert begin + length == min(frame[axis], region[axis] + region[2 + axis])
        by, at = size[axis] / region[2 + axis], (place or (0, 0))[axis]
        step = 2 if even else 1
        assert abs(shown[axis] - length * by) <= step
        assert 0 <= at <= size[axis] - shown[axis]
        assert abs(at - (begin - region[axis]) * by) <= 2 * step
        assert not even or (at % 2, shown[axis] % 2) == (0, 0)


# Places


@pytest.mark.parametrize(
    ("crop", "frame", "places"),
    [
        ("three", (340, 256), [(0, 16), (58, 16), (116, 16)]),
        ("three", (256, 340), [(16, 0), (16, 58), (16, 116)]),
        ("three", (256, 256), [(0, 16), (16, 16), (32, 16)]),
        ("three", (341, 256), [(0, 16), (58, 16), (116, 16)]),  # an odd pixel is left at the end
        ("five", (340, 256), [(0, 0), (116, 0), (0, 32), (116, 32), (58, 16)]),
    ],
)
def test_crops_are_along_the_long_side_or_in_the_corners(
    crop: str, frame: Size, places: list[Size]
) -> None:
    assert [corner(crop, frame, (224, 224), number) for number in range(len(places))] == places


@pytest.mark.parametrize(
    ("frame", "even", "expected"),
    [
        ((320, 240), False, ((112, 84), (0, 14))),
        ((240, 320), False, ((84, 112), (14, 0))),
        ((320, 241), False, ((112, 84), (0, 13))),  # 84.35 lines, so 13.8 above
        ((320, 241), True, ((112, 84), (0, 14))),  # 84 lines, so 14 above and below
        ((1920, 1080), True, ((112, 62), (0, 24))),
        ((4000, 2), False, ((112, 1), (0, 55))),
        ((4000, 2), True, ((112, 2), (0, 54))),
    ],
)
def test_a_letterbox_keeps_the_shape_in_the_middle(
    frame: Size, even: bool, expected: tuple[Size, Size]
) -> None:
    assert letterbox(frame, (112, 112), even=even) == expected


# Turned frames


@patient
@given(
    whole=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    turns=st.integers(0, 3),
    data=st.data(),
)
def test_a_part_of_a_turned_frame_is_found_in_the_stored_frame(
    whole: tuple[int, int], turns: int, data: st.DataObject
) -> None:
    across, down = whole
    x, y = data.draw(st.integers(0, across - 1)), data.draw(st.integers(0, down - 1))
    width, height = data.draw(st.integers(1, across - x)), data.draw(st.integers(1, down - y))
    shown = np.arange(across * down).reshape(down, across)
    stored = np.rot90(shown, turns)  # which turns the other way round
    left, top, wide, tall = turned_back((x, y, width, height), whole, turns)
    part = np.rot90(stored[top : top + tall, left : left + wide], -turns)
    assert np.array_equal(part, shown[y : y + height, x : x + width])

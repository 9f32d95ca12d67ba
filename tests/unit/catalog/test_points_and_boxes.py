"""Points and boxes follow the pictures that they were marked in."""

from typing import Any

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.catalogs import refused
from videoload import Boxes, Catalog, PerFrame, Points, SpecError
from videoload.catalog import targets
from videoload.catalog.joining import targets_of
from videoload.clips.affine import boxes_in, points_in

CATALOG = Catalog([f"{i}.avi" for i in range(4)])
WHOLE = np.array([[1, 0, 0], [0, 1, 0]], np.float32)
MIRRORED = np.array([[-1, 0, 99], [0, 1, 0]], np.float32)  # of frames 100 wide
XY = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
NUMBERS = st.floats(-500, 500, width=32)
# What clips are: scaled by sides of their own, turned by 90 degrees, mirrored, moved.
MATRICES = st.builds(
    lambda scale, turn, move: np.c_[np.c_[scale] * np.array(turn), move].astype(np.float32),
    st.tuples(*[st.floats(0.125, 4, width=32)] * 2),
    st.sampled_from([
        turn for a in (1, -1) for b in (1, -1) for turn in ([[a, 0], [0, b]], [[0, a], [b, 0]])
    ]),
    st.tuples(NUMBERS, NUMBERS),
)  # fmt: skip


def moved(column: Any, matrices: Any, frames: Any = ((0,), (0,)), videos: Any = (0, 1)) -> Any:
    catalog = CATALOG.with_targets(column)
    affine = np.array(matrices, np.float32)
    got = targets_of(catalog, np.array(videos), np.array(frames), affine)
    shape, dtype = targets.shapes(catalog.targets, np.shape(frames)[1:])  # type: ignore[arg-type]
    assert (got.shape[1:], got.dtype) == (shape, dtype)
    return got


@given(arrays.arrays(np.float32, (2, 5, 3, 2), elements=NUMBERS), MATRICES, MATRICES)
def test_points_go_through_the_matrix_of_their_clip(xy: Any, one: Any, other: Any) -> None:
    got = points_in(xy, np.stack([one, other]))
    for clip, matrix in enumerate((one, other)):
        expected = np.concatenate([xy[clip], np.ones((5, 3, 1))], -1) @ matrix.T
        np.testing.assert_allclose(got[clip], expected, rtol=1e-4, atol=1e-2)


@given(arrays.arrays(np.float32, (1, 3, 4), elements=st.floats(0, 500, width=32)), MATRICES)
def test_boxes_stay_boxes_around_the_same_pixels(corners: Any, matrix: Any) -> None:
    one, other = corners[..., :2], corners[..., 2:]
    boxes = np.concatenate([np.minimum(one, other), np.maximum(one, other)], -1)
    got = boxes_in(boxes, matrix[None])
    assert (got[..., :2] <= got[..., 2:]).all()
    middle = points_in((boxes[..., :2] + boxes[..., 2:]) / 2 - 0.5, matrix[None])
    np.testing.assert_allclose((got[..., :2] + got[..., 2:]) / 2 - 0.5, middle, atol=1e-2)
    sides = (boxes[..., 2:] - boxes[..., :2]) @ np.abs(matrix[:, :2].T)
    np.testing.assert_allclose(got[..., 2:] - got[..., :2], sides, atol=1e-2)


def test_left_and_right_change_places_in_mirrored_clips_alone() -> None:
    got = moved(Points(XY, mirror=[(2, 1)]), [WHOLE, MIRRORED])
    assert got[0].tolist() == XY[0].tolist()
    assert got[1].tolist() == [[93, 7], [89, 11], [91, 9]]
    assert moved(Points(XY), [WHOLE, MIRRORED])[1].tolist() == [[93, 7], [91, 9], [89, 11]]


def test_what_is_not_known_stays_unknown_and_missing_frames_have_nothing() -> None:
    xy = XY.copy()
    xy[0, 1] = np.nan
    got = moved(Points(xy, mirror=[(0, 1)]), [MIRRORED, WHOLE])
    assert np.isnan(got[0, 0]).all()
    assert np.isfinite(got).sum() == 10
    frames = [[0, 2, -1], [1, 1, 1]]
    for column, size in (
        (Points([np.arange(18).reshape(3, 3, 2)] * 4), 2), (Boxes([np.ones((3, 3, 4))] * 4), 4),
    ):  # fmt: skip
        got = moved(column, [WHOLE, WHOLE], frames)
        assert got.shape == (2, 3, 3, size)
        assert np.isnan(got).nonzero()[0].tolist() == [0] * 3 * size


def test_each_view_shows_them_where_it_does() -> None:
    views = [[WHOLE, MIRRORED], [MIRRORED, WHOLE]]
    frames = np.zeros((2, 2, 4), int)
    assert moved(Points(XY), views, frames).shape == (2, 2, 3, 2)
    assert moved(Boxes(np.ones((4, 4))), views, frames).shape == (2, 2, 4)
    got = moved(Points([XY[:2]] * 4), views, frames)
    assert got.shape == (2, 2, 4, 3, 2)
    assert got[0, 0, 3].tolist() == XY[0].tolist() == got[1, 1, 3].tolist()


def test_marks_follow_their_videos_and_are_told_apart() -> None:
    told = {
        "pose": Points(XY, mirror=[(0, 2)]), "face": Boxes([np.full((2, 4), i) for i in range(4)]),
        "in b": Points(XY, part="b"),
    }  # fmt: skip
    catalog = CATALOG.with_targets(told)
    again = Catalog.concat([catalog[2:], catalog[:2]])
    affine = {"a": np.stack([MIRRORED] * 2), "b": np.stack([WHOLE] * 2)}
    frames = np.array([[1], [1]])
    one = targets_of(catalog, np.array([3, 0]), frames, affine)
    other = targets_of(again, np.array([1, 2]), frames, affine)
    for name in told:
        np.testing.assert_array_equal(one[name], other[name])
    assert one["in b"][0].tolist() == XY[3].tolist() != one["pose"][0].tolist()
    assert again == Catalog.concat([catalog[2:], catalog[:2]])
    same = Points(XY.astype(float), mirror=[(2, 0)])
    assert CATALOG.with_targets(same) == CATALOG.with_targets(told["pose"])
    boxes = Boxes(XY[:, 0].repeat(2, -1))
    for odd in (Points(XY), Points(XY, [(0, 1)]), XY, Points(XY, [(0, 2)], part="b"), boxes):
        assert CATALOG.with_targets(odd) != CATALOG.with_targets(told["pose"])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Points(np.zeros((4, 2))), ["K, 2]", "[2]"]),
        (lambda: Points(np.zeros((4, 3, 3))), ["[3, 3]"]),
        (lambda: Points([np.zeros((9, 2))] * 4), ["[2]"]),
        (lambda: Points(np.zeros((4, 3, 2)), [(0, 3)]), ["0 to 2"]),
        (lambda: Points(np.zeros((4, 3, 2)), [(0, 1), (1, 2)]), ["mirror="]),
        (lambda: Points(np.zeros((4, 3, 2)), [(0, 1, 2)]), ["mirror="]),  # type: ignore[list-item]
        (lambda: Points(np.full((4, 3, 2), "x")), ["str"]),
        (lambda: Boxes(np.zeros((4, 2))), [", 4]"]),
        (lambda: Boxes([np.zeros((9, 3, 3))] * 4), ["[3, 3]"]),
        (lambda: Boxes([[50, 20, 10, 30]]), ["[50.0, 20.0, 10.0, 30.0]"]),
        (lambda: Points(XY / 100), ["Points"]),
        (lambda: Boxes([np.full((9, 4), (0.1, 0.1, np.nan, 1))] * 4), ["Boxes"]),
        (lambda: CATALOG.with_targets(Points(XY[:3])), ["Points", "3", "4"]),
    ],
)
def test_other_arrays_are_refused(make: Any, words: list[str]) -> None:
    with refused(*words):
        make()


def test_without_matrices_there_are_no_marks() -> None:
    with pytest.raises(SpecError):
        targets_of(CATALOG.with_targets(Points(XY)), np.array([0]), np.array([[0]]))


@pytest.mark.parametrize(
    ("column", "looks"),
    [
        ({"pose": np.zeros((4, 6))}, True), ({"left_Joints": np.zeros((4, 3, 3))}, True),
        (np.zeros((4, 3, 2)), True), (PerFrame([np.zeros((9, 3, 2))] * 4), True),
        ({"checkpoint": np.zeros((4, 6))}, False), ({"pose": np.arange(4)}, False),
        (np.zeros((4, 2)), False), ({"pose": ["a"] * 4}, False), ({"pose": Points(XY)}, False),
        (np.eye(4), False),
    ],
)  # fmt: skip
def test_plain_arrays_that_look_like_marks_are_noticed(column: Any, looks: bool) -> None:
    assert bool(targets.look_like_marks(CATALOG.with_targets(column).targets)) is looks
    assert not targets.look_like_marks(None)

"""Cuts: no pixel of the crop is made of what was left out, and most of the rest is left out."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoload.clips.choices import Crop, Pixels
from videoload.clips.clip_params import ClipParams, clip_params
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.regions import scaled_size
from videoload.clips.video_info import VideoInfo
from videoload.pixels.crop import Cut, cut_frame, cut_length, is_cuttable

LENGTHS = st.integers(min_value=1, max_value=2000)


@given(data=st.data(), source=LENGTHS, scaled=LENGTHS)
def test_a_cut_holds_the_crop_and_what_it_is_made_of(
    data: st.DataObject, source: int, scaled: int
) -> None:
    length = data.draw(st.integers(1, scaled))
    at = data.draw(st.integers(0, scaled - length))
    begin, left, width, across = cut_length(source, scaled, at, length)
    assert 0 <= begin < begin + width <= source
    assert 0 <= left <= at < at + length <= left + across <= scaled
    for here, there in ((begin, left), (begin + width, left + across)):
        if (here, there) == (source, scaled):
            continue
        assert here % 2 == there % 2 == 0  # a chroma sample spans two pixels
        assert abs(Fraction(there * source, scaled) - here) <= Fraction(1, 8)
    # A pixel is made of what lies within one pixel of the larger grid on either side, in each
    # plane: chroma's grids are half as fine.
    reach = 2 * max(1.0, scaled / source)
    assert left == 0 or at - left >= reach
    assert left + across == scaled or left + across - at - length >= reach


def test_a_cut_spares_what_the_crop_does_not_show() -> None:
    assert cut_length(320, 170, 29, 112)[2] <= 0.8 * 320
    assert cut_length(1280, 456, 116, 224)[2] <= 0.62 * 1280
    assert cut_length(1920, 228, 58, 112)[2] <= 0.62 * 1920
    assert cut_length(256, 128, 0, 128) == (0, 0, 256, 128)


# Whole frames


def params_of(spec: ClipSpec, size: tuple[int, int], key: int = 0) -> ClipParams:
    return clip_params(spec, VideoInfo(100, Fraction(25), *size), key)


SIZES = st.tuples(st.integers(16, 900), st.integers(16, 900))


@given(
    size=SIZES,
    resize=st.sampled_from([32, 64, 128, 250]),
    crop=st.sampled_from(["center", "random", "resized"]),
    pixels=st.sampled_from(["yuv420p", "yuvj420p", "rgb24", "yuv422p", "pal8", "monob"]),
    wanted=st.tuples(st.integers(4, 32), st.integers(4, 32)),
    key=st.integers(0, 9),
)
def test_a_cut_lies_within_the_frame_and_the_crop_within_what_is_shown(
    size: tuple[int, int], resize: int, crop: Crop, pixels: str, wanted: tuple[int, int], key: int
) -> None:
    spec = ClipSpec(frames=1, resize=None if crop == "resized" else resize, size=wanted, crop=crop)
    chosen = params_of(spec, size, key)
    cut, (x, y) = cut_frame(spec, size, chosen, pixels)
    left, top, width, height = cut.region
    assert 0 <= left < left + width <= size[0]
    assert 0 <= top < top + height <= size[1]
    across, down = cut.scaled
    seen_x, seen_y, seen_width, seen_height = cut.shown
    assert 0 <= seen_x < seen_x + seen_width <= across
    assert 0 <= seen_y < seen_y + seen_height <= down
    assert 0 <= x <= x + spec.width <= seen_width
    assert 0 <= y <= y + spec.height <= seen_height


def test_a_cut_is_where_the_crop_is() -> None:
    spec = ClipSpec(frames=1, resize=128, size=(112, 112))
    chosen = params_of(spec, (1280, 720))
    cut, (x, y) = cut_frame(spec, (1280, 720), chosen, "yuv420p")
    across, down = scaled_size(1280, 720, 128)
    ratio_x, ratio_y = Fraction(1280, across), Fraction(720, down)
    assert cut.region[0] + (cut.shown[0] + x) * ratio_x == pytest.approx(
        chosen.part[0] * ratio_x, abs=float(ratio_x)
    )
    assert cut.region[1] + (cut.shown[1] + y) * ratio_y == pytest.approx(
        chosen.part[1] * ratio_y, abs=float(ratio_y)
    )
    assert cut.region[2] < 800, "the sides are left out"


def test_a_frame_that_cannot_be_cut_is_scaled_whole() -> None:
    spec = ClipSpec(frames=1, resize=64, size=(32, 32))
    chosen, scaled = params_of(spec, (640, 360)), scaled_size(640, 360, 64)
    cut, corner = cut_frame(spec, (640, 360), chosen, "monob")
    assert cut == Cut((0, 0, 640, 360), scaled, (0, 0, *scaled), scaled)
    assert corner == chosen.part[:2]


@pytest.mark.parametrize("pixels", ["yuv420p", "yuvj420p"])
def test_of_a_planar_frame_no_more_is_shown_than_the_crop_and_its_chroma(pixels: Pixels) -> None:
    spec = ClipSpec(frames=1, resize=128, size=(33, 35))
    cut, (x, y) = cut_frame(spec, (640, 360), params_of(spec, (640, 360)), pixels)
    assert (x, y) in {(a, b) for a in (0, 1) for b in (0, 1)}
    assert all(number % 2 == 0 for number in cut.shown[:2]), "chroma samples are whole"
    assert 35 <= cut.shown[2] <= 37
    assert 33 <= cut.shown[3] <= 35


@pytest.mark.parametrize("crop", ["random", "resized", "multiscale"])
def test_what_is_scaled_of_a_frame_does_not_depend_on_what_was_drawn(crop: Crop) -> None:
    spec = ClipSpec(frames=1, resize=128, size=(112, 112), crop=crop)
    for key in range(60):
        cut, _ = cut_frame(spec, (320, 240), params_of(spec, (320, 240), key), "yuv420p")
        assert (cut.region, cut.scaled) == ((0, 0, 320, 240), (170, 128))


@pytest.mark.parametrize(
    ("pixels", "fine"),
    [
        ("yuv420p", True), ("yuv422p", True), ("yuv444p", True), ("rgb24", True), ("gray", True),
        ("nv12", True), ("yuv420p10le", True), ("pal8", True), ("yuv410p", False),
        ("yuv411p", False), ("monow", False), ("monob", False),
    ],
)  # fmt: skip
def test_where_a_chroma_sample_spans_four_pixels_or_a_pixel_is_a_bit_nothing_is_cut(
    pixels: str, fine: bool
) -> None:
    assert is_cuttable(pixels) is fine

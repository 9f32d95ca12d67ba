"""A clip is cut out of the whole scaled frame; all kinds of pixels arrive."""

from dataclasses import replace
from fractions import Fraction
from typing import get_args

import numpy as np
import numpy.typing as npt
import pytest
from av.video.frame import VideoFrame

from tests.support.frames import FORMATS, clip_of, frame_of, picture
from tests.support.thorough import in_pairs
from videoload.clips.choices import Crop, Pixels
from videoload.clips.clip_params import clip_params
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.regions import letterbox, scaled_size
from videoload.clips.rows import Clip
from videoload.clips.video_info import VideoInfo
from videoload.decoding.filter_graphs import FilterGraphs
from videoload.decoding.planes import Buffer
from videoload.reading.containers import BrokenFileError

SIZES = ((320, 240), (240, 320), (1280, 720), (720, 480), (176, 144), (321, 243))
SOURCES = ("yuv420p", "yuvj420p", "rgb24", "yuv422p", "yuv420p10le")
INFO = VideoInfo(100, Fraction(25), 320, 240)
SMALL = INFO._replace(width=96, height=64)


def write(
    frame: VideoFrame,
    spec: ClipSpec,
    facts: VideoInfo,
    key: int = 0,
    graphs: FilterGraphs | None = None,
) -> Buffer:
    shown: Buffer = clip_of([frame], spec, facts, clip_params(spec, facts, Clip(key)), graphs)[0]
    return shown


def apart(one: Buffer, other: Buffer) -> tuple[float, int]:
    """Mean and greatest difference."""
    difference = np.abs(one.astype(int) - other)
    return float(difference.mean()), int(difference.max())


@pytest.mark.parametrize(
    ("resize", "size", "source", "pixels", "crop", "length"),
    in_pairs(
        [64, 128, 300, None], SIZES, SOURCES, get_args(Pixels), ["center", "random", "five"],
        [47, 48],
    ),
)  # fmt: skip
def test_a_crop_is_cut_out_of_the_scaled_frame_to_the_byte(
    resize: int, size: tuple[int, int], source: str, pixels: Pixels, crop: Crop, length: int
) -> None:
    length += length % 2 if pixels == "yuv420p" else 0
    facts, frame = VideoInfo(100, Fraction(25), *size), frame_of(picture(*size), source)
    spec = ClipSpec(1, resize=resize, size=(length, length), crop=crop, pixels=pixels)
    graphs = FilterGraphs()
    expected = whole(frame, spec, facts)
    for key in range(8):
        x, y, *_ = clip_params(spec, facts, Clip(key)).part
        shown = write(frame, spec, facts, key, graphs)[:length]
        assert np.array_equal(shown, expected[y : y + length, x : x + length])


def test_clips_whose_frames_have_as_many_lines_together_do_not_share_a_picture() -> None:
    frames, graphs = [frame_of(picture(320, 240), "yuv420p")] * 2, FilterGraphs()
    for _ in "12":
        for count, height in ((2, 16), (1, 32)):
            spec = ClipSpec(count, resize=64, size=(height, 32), jitter=(0.4, 0, 0, 0))
            params = clip_params(spec, INFO, Clip(1))
            shown = clip_of(frames[:count], spec, INFO, params, graphs)
            assert np.array_equal(shown, clip_of(frames[:count], spec, INFO, params))


@pytest.mark.parametrize("size", [(320, 240), (720, 480), (321, 243)])
def test_a_region_is_drawn_from_the_scaled_frame_and_scaled_from_that(
    size: tuple[int, int],
) -> None:
    facts, frame = VideoInfo(100, Fraction(25), *size), frame_of(picture(*size), "yuv420p")
    spec = ClipSpec(1, resize=128, size=(64, 48), crop="resized")
    small = whole(frame, replace(spec, pixels="yuv420p"), facts, planes=True)
    width, height = scaled_size(*size, 128)
    scaled = VideoFrame.from_ndarray(small.reshape(-1, width), "yuv420p")
    direct, at_once = replace(spec, resize=None), facts._replace(width=width, height=height)
    for key in range(8):
        assert (
            clip_params(direct, at_once, Clip(key)).region
            == clip_params(spec, facts, Clip(key)).part
        )
        expected = write(scaled, direct, at_once, key)
        assert np.array_equal(write(frame, spec, facts, key), expected)


def whole(frame: VideoFrame, spec: ClipSpec, facts: VideoInfo, *, planes: bool = False) -> Buffer:
    """All of a scaled frame; of yuv420p its luma, or all ``planes``."""
    width, height = scaled_size(facts.width, facts.height, spec.resize)
    everything = ClipSpec(1, resize=spec.resize, size=(height, width), pixels=spec.pixels)
    shown = write(frame, everything, facts)
    return shown if planes else shown[:height]


@pytest.mark.parametrize(("name", "range_", "matrix"), in_pairs(FORMATS, [0, 2], [2, 1]))
def test_every_kind_of_pixels_keeps_its_colors(name: str, range_: int, matrix: int) -> None:
    said = (matrix, range_) if name.startswith(("yuv", "nv", "uyvy")) else (2, 0)
    frame = frame_of(picture(320, 240), name, *said)
    truth = VideoFrame.from_ndarray(picture(320, 240), "rgb24")
    for changes in ({"resize": 128}, {}, {"crop": "resized"}):
        spec = ClipSpec(frames=1, size=(112, 112), **changes)
        wanted = write(truth, spec, INFO, 7)
        if name.startswith("gray"):
            wanted = np.repeat(luma(wanted)[..., None], 3, -1)
        mean, _ = apart(write(frame, spec, INFO, 7), wanted)
        assert mean < 7, changes


def spec_of(pixels: Pixels) -> ClipSpec:
    return ClipSpec(frames=1, resize=128, size=(112, 112), pixels=pixels)


def luma(rgb: Buffer) -> Buffer:
    weights: npt.NDArray[np.float64] = np.array((0.299, 0.587, 0.114))
    brightness: Buffer = np.rint(rgb @ weights).astype(np.uint8)
    return brightness


def test_frames_whose_size_changes_within_a_file_are_brought_to_its_first() -> None:
    spec, graphs = spec_of("rgb24"), FilterGraphs()
    sizes = ((320, 240), (640, 480), (320, 240))
    frames = [frame_of(picture(*size), "yuv420p") for size in sizes]
    made = clip_of(frames, spec, INFO, clip_params(spec, INFO, Clip(0)), graphs)
    assert np.array_equal(made[0], made[2])
    assert apart(made[0], made[1])[0] < 4


@pytest.mark.parametrize("pixels", get_args(Pixels))
def test_mirrored_frames_are_mirrored_frames(pixels: Pixels) -> None:
    frame, flip = frame_of(picture(320, 240), "yuv420p"), replace(spec_of(pixels), flip=True)
    turns = {clip_params(flip, INFO, Clip(key)).flip: key for key in range(20)}
    one, other = (
        planes_of(write(frame, flip, INFO, turns[each]), pixels) for each in (False, True)
    )
    plain = planes_of(write(frame, spec_of(pixels), INFO), pixels)
    for each, mirrored, own in zip(one, other, plain, strict=True):
        assert np.array_equal(each, own)
        assert np.array_equal(each, mirrored[:, ::-1])


@pytest.mark.parametrize("pixels", ["rgb24", "gray", "yuv420p"])
@pytest.mark.parametrize("turns", [1, 2, 3])
def test_turned_frames_are_turned_frames(pixels: Pixels, turns: int) -> None:
    frame = frame_of(picture(320, 240), "yuv420p")
    shown = ClipSpec(frames=1, resize=128, size=(100, 80), pixels=pixels, crop="five")
    size = (80, 100) if turns % 2 else (100, 80)
    stored = ClipSpec(frames=1, resize=128, size=size, pixels=pixels, crop="five")
    facts, channels = INFO._replace(quarter_turns=turns), shown.shape[3:]
    # Where the corners of what is shown lie in what is stored, clockwise.
    around = [0, 1, 3, 2]
    for number, crop in enumerate(around):
        [out] = clip_of([frame], shown, facts, clip_params(shown, facts, Clip(0, crop=crop)))
        at = around[(number - turns) % 4]
        [lying] = clip_of([frame], stored, INFO, clip_params(stored, INFO, Clip(0, crop=at)))
        top, left = out[:100].reshape(100, 80, *channels), lying[: size[0]]
        assert np.array_equal(top, np.rot90(left.reshape(*size, *channels), -turns))


@pytest.mark.parametrize("pixels", ["rgb24", "gray", "yuv420p"])
@pytest.mark.parametrize("source", ["yuv420p", "rgb24", "yuv411p"])
@pytest.mark.parametrize("turns", [0, 1, 2])
def test_a_padded_frame_is_the_stretched_one_within_black(
    turns: int, source: str, pixels: Pixels
) -> None:
    facts = INFO._replace(quarter_turns=turns, mirrored=turns == 2)
    frame = frame_of(picture(320, 240), source)
    for size in ((90, 120), (150, 120)):
        padded = ClipSpec(1, size=size, crop="pad", pixels=pixels, flip=True)
        (width, height), (x, y) = letterbox(
            facts.shown_size(padded), size[::-1], even=pixels == "yuv420p"
        )
        inner = replace(padded, size=(height, width), crop="stretch")
        shown = planes_of(write(frame, padded, facts), pixels)
        expected = planes_of(write(frame, inner, facts), pixels)
        for i, (plane, part) in enumerate(zip(shown, expected, strict=True)):
            half = 2 if i else 1
            where = np.s_[y // half : (y + height) // half, x // half : (x + width) // half]
            assert np.array_equal(plane[where], part)
            plane[where] = black = 0 if pixels != "yuv420p" else 128 if i else 16
            assert (plane == black).all()


def planes_of(frame: Buffer, pixels: Pixels) -> list[Buffer]:
    if pixels != "yuv420p":
        return [frame]
    height, width = frame.shape[0] * 2 // 3, frame.shape[1]
    flat, luma = frame.reshape(-1), height * width
    half = flat[luma:].reshape(2, height // 2, width // 2)
    return [flat[:luma].reshape(height, width), *half]


def test_all_random_crops_share_their_chains() -> None:
    graphs = FilterGraphs()
    frame = frame_of(picture(320, 240), "yuv420p")
    spec = ClipSpec(frames=1, resize=128, size=(112, 112), crop="random")
    for key in range(300):
        write(frame, spec, INFO, key, graphs)
    assert len(graphs) <= 4, "one for each way to begin within a sample"


def test_what_ffmpeg_cannot_scale_is_named() -> None:
    frame = VideoFrame(320, 240, "yuv420p")
    spec = spec_of("rgb24")
    facts = INFO._replace(width=100_000, height=1)  # wider than swscale goes
    with pytest.raises(BrokenFileError):
        clip_of([frame], spec, facts, clip_params(spec, INFO, Clip(0)))


@pytest.mark.parametrize("name", ["yuv420p", "yuv444p10le", "gbrp", "gray"])
def test_colors_that_ffmpeg_refuses_change_no_pixel(name: str) -> None:
    """Reserved and logarithmic values, and matrices that its scaler does not know."""
    for matrix in range(18):
        known = matrix if matrix in (1, 4, 7, 9) else 9 if matrix == 10 else 5
        expected = write(frame_of(picture(96, 64), name, known), spec_of("rgb24"), SMALL)
        for primaries, transfer in ((2, 2), (0, 0), (3, 3), (22, 9), (255, 255)):
            frame = frame_of(picture(96, 64), name, 1 if known == 1 else 2)
            frame.colorspace = matrix
            frame.color_primaries, frame.color_trc = primaries, transfer
            got = write(frame, spec_of("rgb24"), SMALL)
            assert np.array_equal(got, expected), (matrix, primaries)
            assert frame.colorspace == matrix


def noise(name: str = "gray16le") -> tuple[VideoFrame, npt.NDArray[np.uint16]]:
    """A frame of 320x240 with a value of its own in most pixels."""
    pixels = np.random.default_rng(0).integers(0, 65536, (240, 320), np.uint16)
    return VideoFrame.from_ndarray(pixels, name), pixels


@pytest.mark.parametrize("name", ["gray16le", "gray16be"])
def test_gray_of_16_bits_arrives_bit_for_bit(name: str) -> None:
    frame, pixels = noise(name)
    spec = ClipSpec(1, size=(240, 320), pixels="gray16")
    assert np.array_equal(write(frame, spec, INFO)[..., 0], pixels)
    turned = write(frame, replace(spec, size=(320, 240)), INFO._replace(quarter_turns=1))
    assert np.array_equal(turned[..., 0], np.rot90(pixels, -1))


def test_gray_of_8_bits_becomes_wider_and_of_10_bits_too() -> None:
    spec = ClipSpec(1, size=(240, 320), pixels="gray16")
    for name, most in (("gray", 255), ("gray10le", 1023)):
        pixels = np.arange(320 * 240).reshape(240, 320) % (most + 1)
        frame = VideoFrame.from_ndarray(pixels.astype(np.uint8 if most == 255 else "<u2"), name)
        got = write(frame, spec, INFO)[..., 0].astype(int)
        assert np.abs(got - pixels * 65535 / most).max() <= 65535 / most / 2, name


@pytest.mark.parametrize("crop", ["center", "random", "resized", "pad", "stretch"])
def test_the_nearest_pixel_has_a_value_of_the_source(crop: Crop) -> None:
    frame, pixels = noise()
    resize = None if crop in ("pad", "stretch") else 128
    spec = ClipSpec(1, resize=resize, size=(96, 101), crop=crop, pixels="gray16")
    got = write(frame, replace(spec, scaling="nearest"), INFO)
    inside = got[12:84] if crop == "pad" else got
    assert np.isin(inside, pixels).all()
    assert not np.isin(write(frame, spec, INFO), pixels).all(), "bilinear"


def test_the_nearest_pixel_is_the_one_in_the_middle() -> None:
    frame, pixels = noise()
    spec = ClipSpec(1, resize=128, size=(112, 112), pixels="gray16", scaling="nearest")
    rows, columns = ((np.arange(n) + 0.5) * m // n for n, m in ((128, 240), (170, 320)))
    expected = pixels[rows.astype(int)][:, columns.astype(int)][8:120, 29:141]
    assert np.array_equal(write(frame, spec, INFO)[..., 0], expected)

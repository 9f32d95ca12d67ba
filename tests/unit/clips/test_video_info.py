"""The properties of a video as bytes."""

import math
from array import array
from contextlib import suppress
from fractions import Fraction

import pytest

from videoload.clips.video_info import VideoInfo

INFOS = [
    VideoInfo(100, Fraction(30000, 1001), 320, 240),
    VideoInfo(2, Fraction(0), 321, 1, 3, mirrored=True),
    VideoInfo(3, Fraction(25), 64, 48, times=array("d", [0.0, 0.25, 1.5])),
    VideoInfo(9, Fraction(25), 64, 48, keys=bytes(16)),
    VideoInfo(3, Fraction(25), 720, 576, 1, pixel_aspect_ratio=Fraction(16, 11)),
]


def test_a_video_tells_its_frames_its_seconds_and_its_shape_as_it_is_shown() -> None:
    lengths = [(100, 100 * 1001 / 30000, 4 / 3), (2, math.nan, 1 / 321), (3, 2.25, 4 / 3),
               (9, 0.36, 4 / 3),
               (3, 0.12, 0.55)]  # fmt: skip
    for info, length in zip(INFOS, lengths, strict=True):
        assert info.file_summary == pytest.approx(length, nan_ok=True)


@pytest.mark.parametrize("info", INFOS)
def test_properties_survive_as_bytes_and_others_are_those_of_a_video_or_refused(
    info: VideoInfo,
) -> None:
    packed = info.to_bytes()
    assert VideoInfo.from_bytes(packed) == info
    for wrong in (b"", packed[:-1], packed[:10], packed + b"x", bytes(len(packed))):
        with pytest.raises(ValueError, match="video"):
            VideoInfo.from_bytes(wrong)
    for at in range(len(packed)):
        for value in range(256):
            wrong = packed[:at] + bytes((value,)) + packed[at + 1 :]
            with suppress(ValueError):
                assert isinstance(VideoInfo.from_bytes(wrong), VideoInfo)

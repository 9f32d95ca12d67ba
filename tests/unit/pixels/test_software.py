"""What a worker tells of its FFmpeg and its processor."""

from __future__ import annotations

import platform
import subprocess
import sys

import av
import pytest

from tests.support.waiting import SECOND
from videoload.pixels.software import software

# Forces FFmpeg to take another processor's code, and says what comes out.
ELSEWHERE = """
import ctypes, sys, av
from videoload import native
ffmpeg = ctypes.CDLL(av._core.__file__)
ffmpeg.av_force_cpu_flags(int(sys.argv[1]) or ffmpeg.av_get_cpu_flags())
native.switch_off("gathers")
from videoload.pixels.software import software
print(software())
"""


def test_the_software_names_what_decides_the_pixels() -> None:
    told = software()
    for library in ("libavcodec", "libavfilter", "libswscale"):
        assert f"{library} {'.'.join(map(str, av.library_versions[library]))}" in told
    assert platform.machine() in told
    assert len(told) <= 256, "it is a word of HELLO"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the flags are those of x86-64")
@pytest.mark.parametrize(("flags", "same"), [(0, True), (0x8, False)], ids=["own", "SSE alone"])
def test_processors_that_round_differently_are_told_apart(flags: int, same: bool) -> None:
    told = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(flags)],
        capture_output=True, check=True, text=True, timeout=60 * SECOND,
    ).stdout  # fmt: skip
    assert (told.strip() == software()) is same
    assert told.partition(", pixels ")[0] == software().partition(", pixels ")[0]

"""What a worker tells of its FFmpeg, its processor and its code."""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import av
import pytest

import videoload
from tests.support.waiting import SECOND
from videoload.decoding.software import software_and_code
from videoload.versions import ROOMS, code_digest

PACKAGE = Path(videoload.__file__).parent
LOADED = "import sys, videoload.decoding.decoder; print(*sys.modules)"
# Of what a decoder needs, this decides no byte of a clip.
REST = {
    "activity", "arguments", "backoff", "errors", "host", "logs", "native", "stopwatch", "versions",
}  # fmt: skip
# Forces FFmpeg to take another processor's code, and says what comes out.
ELSEWHERE = """
import ctypes, sys, av
from videoload import native
ffmpeg = ctypes.CDLL(av._core.__file__)
ffmpeg.av_force_cpu_flags(int(sys.argv[1]) or ffmpeg.av_get_cpu_flags())
native.switch_off("gathers")
from videoload.decoding.software import software_and_code
print(software_and_code())
"""


def test_the_software_names_what_decides_the_pixels() -> None:
    told = software_and_code()
    for library in ("libavcodec", "libavfilter", "libavformat", "libswscale"):
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
    assert (told.strip() == software_and_code()) is same
    assert told.partition(", pixels ")[0] == software_and_code().partition(", pixels ")[0]


def test_code_that_draws_otherwise_is_told_apart(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "videoload")
    anew = code_digest.__wrapped__
    assert anew(tmp_path / "videoload") == code_digest(PACKAGE)
    file = tmp_path / "videoload/clips/windows.py"
    file.write_text(file.read_text().replace("<", "<=", 1))
    assert anew(tmp_path / "videoload") != code_digest(PACKAGE)


def test_the_code_that_is_told_is_all_that_decides_a_clip() -> None:
    loaded = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, check=True, text=True,
        timeout=60 * SECOND,
    ).stdout.split()  # fmt: skip
    rooms = {name.split(".")[1] for name in loaded if name.startswith("videoload.")}
    assert rooms - REST == set(ROOMS)

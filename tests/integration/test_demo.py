"""The README's first command, on few videos, and timed for a few steps."""

from pathlib import Path

import pytest

from tests.support.needs import needs_tensorflow
from tests.support.programs import Programs
from tests.support.waiting import SECOND
from videoload.tools.demo import make_videos


@pytest.mark.slow
@needs_tensorflow
def test_the_demo_runs(programs: Programs, tmp_path: Path) -> None:
    make_videos(tmp_path / "shapes", 2, 1, frames=40)
    options = ("--videos", str(tmp_path / "shapes"), "--epochs", "1")
    program = programs.python("-m", "tests.support.small_demo", *options, imported="tensorflow")
    assert program.wait(150 * SECOND) == 0, program.err
    for words in ("8 videos", "4 classes: down, left, right, up", "25%", "waited", "no decoding"):
        assert words in program.out
    # No terminal: a line every few seconds, here at each step.
    for words in ("1 steps trained", "1 batches read", "1 batches decoded"):
        assert words in program.out.splitlines()

"""Keyword arguments on a command line are read as in a script. Nothing else is allowed."""

import pytest

from videoload import SpecError
from videoload.clips import call_text

NAMES = ["frames", "size", "crop", "flip", "fps"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('frames=16, size=(112, 112), crop="random"', ["16", "(112, 112)", "'random'"]),
        ("frames=16,size=(112,112),crop=random", ["16", "(112, 112)", "'random'"]),
        ("frames = 16,\n", ["16"]),
        ("flip=True, fps=12.5", ["True", "12.5"]),
        ("fps=None", ["None"]),
        ("frames=-1", ["-1"]),
        ("", []),
    ],
)
def test_arguments_are_read_as_python_reads_them(text: str, found: list[str]) -> None:
    assert [repr(value) for value in call_text.parse(text, NAMES, "--clip").values()] == found


@pytest.mark.parametrize(
    ("text", "named"),
    [
        *((text, "frames=16") for text in ("frames", "frames=", "16", "**{'frames': 16}",
          "frames=open('x')", "frames=1+1", "frames=1), g(2", "frames=1\0",
          "frames=" + 9000 * "(" + "1")),
        ("frames=16, strid=2", "strid=: there are frames, size, crop"),
    ],
)  # fmt: skip
def test_an_invalid_argument_is_reported_in_one_line(text: str, named: str) -> None:
    with pytest.raises(SpecError, match=rf"^--clip: [^\n]*{named}"):
        call_text.parse(text, NAMES, "--clip")

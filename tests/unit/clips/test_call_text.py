"""Keyword arguments on a command line are read as in a script. Nothing else is allowed."""

from __future__ import annotations

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
    ("text", "flaw"),
    [
        ("frames", "is not like: frames=16"),
        ("frames=", "is not like"),
        ("16", "is not like"),
        ("**{'frames': 16}", "is not like"),
        ("frames=open('x')", "is not like"),
        ("frames=1+1", "is not like"),
        ("frames=1), g(2", "is not like"),
        ("frames=16, strid=2", "--clip: there is no strid=: there are frames, size, crop"),
        ("frames=" + 9000 * "(" + "1", "is not like"),
        ("frames=1\0", "is not like"),
    ],
)  # fmt: skip
def test_an_invalid_argument_is_reported_in_one_line(text: str, flaw: str) -> None:
    with pytest.raises(SpecError) as raised:
        call_text.parse(text, NAMES, "--clip")
    assert flaw in str(raised.value)
    assert str(raised.value).startswith("--clip: ")

"""What the header of an MP4 tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.videos import make_avi
from videoload.index.moov import has_one_description, read_moov, shows_as_stored
from videoload.storage.content import Content
from videoload.storage.files import Folder


def moov(folder: Path, degrees: int, container: str = "mp4") -> bytes:
    make_avi(folder / "a.mp4", frames=3, degrees=degrees, container_format=container)
    return read_moov(Content(Folder(folder).resolve("a.mp4")))


@pytest.mark.parametrize("container", ["mp4", "mov"])
@pytest.mark.parametrize("degrees", [0, 90, 180])
def test_the_matrices_tell_whether_frames_are_turned(
    degrees: int, container: str, tmp_path: Path
) -> None:
    found = moov(tmp_path, degrees, container)
    assert has_one_description(found)
    assert shows_as_stored(found) == (degrees == 0)


def test_what_is_not_certain_is_not_said(tmp_path: Path) -> None:
    found = moov(tmp_path, 0)
    at = found.index(b"tkhd")
    doubts = {
        "no header": b"",
        "a version that is not known": found[: at + 4] + b"\2" + found[at + 5 :],
        "a track is missing": found.replace(b"tkhd", b"free"),
        "something that looks like another track": found + b"tkhd\0",
        "a compressed header": found + b"cmov",
        "a mirrored movie": found.replace(
            b"\0\1\0\0" + bytes(12) + b"\0\1\0\0", b"\xff\xff\0\0" + bytes(12) + b"\0\1\0\0", 1
        ),
    }
    for doubt, changed in doubts.items():
        assert changed != found, doubt
        assert not shows_as_stored(changed), doubt


def test_another_file_has_no_such_header(tmp_path: Path) -> None:
    make_avi(tmp_path / "a.avi", frames=3)
    assert read_moov(Content(Folder(tmp_path).resolve("a.avi"))) == b""
    assert not has_one_description(b"")

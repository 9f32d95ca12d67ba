"""Nothing is written through a link that somebody else has put into a folder."""

import os
from contextlib import closing, suppress
from pathlib import Path

import pytest

from videoload.storage.new_files import check_place, continued, new_file
from videoload.tools.journal import Journal


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A name that is a link to a file of somebody else."""
    (tmp_path / "theirs").write_bytes(b"theirs")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/file").symlink_to(tmp_path / "theirs")
    return tmp_path / "shared/file"


def are_whole(folder: Path) -> bool:
    return (folder / "theirs").read_bytes() == b"theirs"


@pytest.mark.parametrize("alone", [True, False])
def test_a_link_is_replaced_and_not_followed(place: Path, tmp_path: Path, *, alone: bool) -> None:
    (place.parent / ".file.unfinished").symlink_to(tmp_path / "theirs")
    with new_file(place, alone=alone) as out:
        out.write(b"ours")
    assert not place.is_symlink()
    assert place.read_bytes() == b"ours"
    assert are_whole(tmp_path)
    left = {file.name for file in place.parent.iterdir()}
    assert left == {"file"} if alone else {"file", ".file.unfinished"}


def test_a_file_stays_as_it_was_until_the_new_one_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")
    with suppress(ZeroDivisionError), new_file(file) as out:
        out.write(b"new")
        raise ZeroDivisionError
    check_place(file)
    assert file.read_bytes() == b"old"
    assert [*tmp_path.iterdir()] == [file]


def test_a_file_is_not_continued_through_a_link(place: Path, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="symbolic"):
        continued(place)
    (place.parent / "journal").symlink_to(tmp_path / "new")
    with pytest.raises(OSError, match="symbolic"):
        Journal(place.parent / "journal", {})
    assert are_whole(tmp_path)
    assert not (tmp_path / "new").exists()
    with closing(continued(tmp_path / "more")) as out:
        out.write(b"1")
    with closing(continued(tmp_path / "more")) as out:
        assert out.tell() == 1
        out.write(b"2")
    assert (tmp_path / "more").read_bytes() == b"12"


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", tmp_path, Path("/dev/stdout"), Path("/dev/null")):
        with pytest.raises(OSError, match="not a file"):
            check_place(place)
        with pytest.raises(OSError, match="not a file"), new_file(place):
            pass

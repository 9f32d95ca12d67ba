"""Files stay open only while they are met again, and never as another version."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from videoload.decoding.open_files import OpenFiles
from videoload.storage.files import Folder
from videoload.storage.video_file import VideoFile

MANY = 30  # visits after which it has been seen whether files are met again


class Opened:
    def __init__(self, file: VideoFile) -> None:
        self.file = file
        self.decoder = SimpleNamespace(memory_bytes=1)
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for i in range(MANY):
        (tmp_path / str(i)).write_bytes(b"a")
    return tmp_path


def visit(files: OpenFiles, file: VideoFile) -> Any:
    opened: Any = files.take(file) or Opened(file)
    files.put(opened)
    return opened


def test_a_file_that_is_met_again_and_again_stays_open(folder: Path) -> None:
    files, file = OpenFiles(), Folder(folder).resolve("0")
    for _ in range(MANY):
        opened = visit(files, file)
    assert visit(files, file) is opened
    files.close()
    assert opened.is_closed


def test_files_that_are_met_once_are_closed(folder: Path) -> None:
    files, storage = OpenFiles(), Folder(folder)
    assert all(visit(files, storage.resolve(str(i))).is_closed for i in range(MANY))


def test_a_file_that_was_replaced_is_not_taken_for_the_new_one(folder: Path) -> None:
    files, storage = OpenFiles(), Folder(folder)
    for _ in range(MANY):
        opened = visit(files, storage.resolve("0"))
    (folder / "new").write_bytes(b"b")
    (folder / "new").rename(folder / "0")
    assert files.take(storage.resolve("0")) is None
    assert opened.is_closed

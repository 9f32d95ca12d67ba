"""Files stay open only while they are met again, and never as another version."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.videos import make_avi
from videoload.decoding.decoder import Decoder
from videoload.decoding.open_files import OpenFiles
from videoload.reading.video import VideoReader
from videoload.stopwatch import Stopwatch
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


def test_a_file_like_the_last_one_gets_its_decoder_and_no_other_file_does(tmp_path: Path) -> None:
    for seed in range(3):
        make_avi(tmp_path / f"{seed}.avi", frames=4, seed=seed)
    make_avi(tmp_path / "other.avi", frames=4, size=(48, 64))
    make_avi(tmp_path / "reordered.avi", frames=8, b_frames=1)
    decoder, files, storage = Decoder(tmp_path), OpenFiles(), Folder(tmp_path)

    def opened(path: str) -> VideoReader:
        return files.open(storage.resolve(path), decoder.videos.index(path), Stopwatch())

    files.put(first := opened("0.avi"))
    other = opened("other.avi")
    assert other.decoder is not first.decoder
    files.put(other)
    second = opened("1.avi")
    assert second.decoder is first.decoder
    third = opened("2.avi")
    assert third.decoder is not second.decoder, "nobody gave it back"
    files.put(reordered := opened("reordered.avi"))
    assert opened("reordered.avi").decoder is not reordered.decoder
    for video in (second, third):
        video.close()

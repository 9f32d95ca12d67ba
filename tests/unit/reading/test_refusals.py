"""What a file is that is no video is told by its first bytes."""

from pathlib import Path

import pytest

from videoload.reading.refusals import codec_of, kind_of
from videoload.storage.files import Folder


def told(folder: Path, data: bytes) -> str | None:
    (folder / "a.avi").write_bytes(data)
    return kind_of(Folder(folder).resolve("a.avi"))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", ""),
        (bytes(100), "100"),
        (b"\n <!DOCTYPE html>", "HTML"),
        (b"version https://git-lfs.github.com/spec/v1", "git lfs pull"),
        (b"#EXTM3U\n", ""),
        (b"RIFF\0\0\0\0WAVE", "WAVE"),
        (b"DKIF", "IVF"),
    ],
)
def test_the_first_bytes_tell(tmp_path: Path, data: bytes, words: str) -> None:
    found = told(tmp_path, data)
    assert found is not None
    assert words in found


def test_an_avi_names_its_codec(tmp_path: Path) -> None:
    header = b"RIFF\0\0\0\0AVI vids" + bytes(8) + b"strf" + bytes(20) + b"XYZW"
    (tmp_path / "a.avi").write_bytes(header)
    assert codec_of(Folder(tmp_path).resolve("a.avi")) == "XYZW"

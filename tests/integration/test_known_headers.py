"""AVI files that begin as another one did: FFmpeg need not open them, and their indexes are the
same."""

from contextlib import closing
from pathlib import Path

import pytest

from tests.support.codecs import KINDS, Kind, make, named
from tests.support.packets import local
from tests.support.videos import make_avi
from videoload.reading.index import KnownHeaders, find_index
from videoload.reading.placed_video import CHUNK
from videoload.reading.plain_avi import read_plain_avi
from videoload.storage.content import Content


def index_of(path: Path, headers: KnownHeaders | None) -> bytes | None:
    """The index of a file, as it is kept on the disk; None if headers do not prove it."""
    index, video = find_index(local(path), lambda: None, headers=headers)
    if video is not None:
        video.close()
    return index and index.to_bytes()


def is_known(path: Path, headers: KnownHeaders) -> bool:
    """Whether FFmpeg need not open a file."""
    avi = read_plain_avi(path.read_bytes())
    with closing(Content(local(path))) as content:
        return avi is not None and headers.index_of(avi, content) is not None


def test_what_ffmpeg_told_of_other_files_changes_no_index(tmp_path: Path) -> None:
    headers = KnownHeaders()
    paths = [named(kind.name, tmp_path) for kind in KINDS if kind.name.startswith("mpeg4")]
    for path in paths * 2:
        assert index_of(path, headers) == index_of(path, None), path
    assert sum(is_known(path, headers) for path in paths) > len(paths) // 2


def test_files_that_differ_in_length_are_opened_once(tmp_path: Path) -> None:
    headers = KnownHeaders()
    one = make_avi(tmp_path / "one.avi", frames=20, seed=1)
    other = make_avi(tmp_path / "other.avi", frames=33, seed=2)
    index_of(one, headers)
    assert is_known(other, headers)
    assert index_of(other, headers) == index_of(other, None)


@pytest.mark.parametrize(
    ("chunk_name", "at"),
    [(b"strh", 4), (b"strh", 20), (b"strh", 24), (b"strh", 28), (b"strf", 4), (b"strf", 16)],
    ids=["handler", "scale", "rate", "start", "width", "codec"],
)
def test_a_file_whose_headers_say_something_else_is_opened(
    chunk_name: bytes, at: int, tmp_path: Path
) -> None:
    headers = KnownHeaders()
    plain = make(Kind("plain", "mpeg4"), tmp_path).read_bytes()
    for number, path in enumerate((tmp_path / "plain.avi", tmp_path / "other.avi")):
        data = bytearray(plain)
        data[data.index(chunk_name) + CHUNK.size + at] += number
        path.write_bytes(data)
        assert not is_known(path, headers)
        assert index_of(path, headers) == index_of(path, None)

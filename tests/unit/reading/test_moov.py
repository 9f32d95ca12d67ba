"""What the header of an MP4 tells."""

import struct
from pathlib import Path

import pytest

from tests.support.videos import make_avi
from videoload.reading.moov import display_offsets, has_one_description, read_moov
from videoload.storage.content import Content
from videoload.storage.files import Folder


@pytest.mark.parametrize("container", ["mp4", "mov"])
def test_a_usual_file_says_once_how_it_is_decoded(container: str, tmp_path: Path) -> None:
    make_avi(tmp_path / "a.mp4", frames=3, container_format=container)
    assert has_one_description(read_moov(Content(Folder(tmp_path).resolve("a.mp4"))))


def test_another_file_has_no_such_header(tmp_path: Path) -> None:
    make_avi(tmp_path / "a.avi", frames=3)
    assert read_moov(Content(Folder(tmp_path).resolve("a.avi"))) == b""
    assert not has_one_description(b"")


class Counted(Content):
    """Counts how often it is read."""

    reads = 0

    def read(self, at: int, length: int) -> bytes:
        self.reads += 1
        return super().read(at, length)


def test_the_way_to_the_header_is_not_endless(tmp_path: Path) -> None:
    make_avi(tmp_path / "a.mp4", frames=3, container_format="mp4")
    plain = (tmp_path / "a.mp4").read_bytes()
    at = plain.index(b"moov") - 4
    for boxes, is_found in ((10, True), (100_000, False)):
        (tmp_path / "b.mp4").write_bytes(plain[:at] + b"\0\0\0\x08free" * boxes + plain[at:])
        content = Counted(Folder(tmp_path).resolve("b.mp4"))
        assert (read_moov(content) != b"") == is_found
        assert content.reads < 2000


def box(kind: bytes, *content: bytes) -> bytes:
    inside = b"".join(content)
    return struct.pack(">I4s", 8 + len(inside), kind) + inside


def track(number: int, *tables: bytes) -> bytes:
    header = box(b"tkhd", bytes(12), struct.pack(">I", number), bytes(60))
    return box(b"trak", header, box(b"mdia", box(b"minf", box(b"stbl", *tables))))


def offsets(*runs: tuple[int, int]) -> bytes:
    return box(b"ctts", struct.pack(">II", 0, len(runs)), *(struct.pack(">Ii", *r) for r in runs))


def test_the_offsets_of_a_track_are_those_of_its_own_table() -> None:
    sound, video = track(1, offsets((9, 7))), track(2, box(b"stts"), offsets((1, 2), (3, -1)))
    found = display_offsets(box(b"mvhd") + sound + video, 2, 4)
    assert found is not None
    assert found.tolist() == [2, -1, -1, -1]


@pytest.mark.parametrize(
    "moov",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(track(1, offsets((4, 0))), id="another track"),
        pytest.param(track(2, offsets((3, 0))), id="too few"),
        pytest.param(track(2, offsets((5, 0))), id="too many"),
        pytest.param(track(2, offsets((4, 0)), offsets((4, 0))), id="two tables"),
        pytest.param(track(2, offsets((4, 1 << 30))), id="a senseless one"),
        pytest.param(track(2, offsets((4, 0)))[:-4], id="half a table"),
    ],
)
def test_offsets_that_are_not_clear_are_not_told(moov: bytes) -> None:
    assert display_offsets(moov, 2, 4) is None

"""The frames of a broken file depend on its bytes alone."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.codecs import Kind, named
from tests.support.routes import LONGER, compare, every_kind, look_at
from tests.support.thorough import either
from videoload.storage.files import Folder


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("how", "kinds", "mutants"),
    [("in any way", every_kind(), (120, 400)), ("one bit", LONGER, (120, 2400))],
    ids=["small files", "one bit"],
)
def test_broken_files_give_the_same_frames_by_every_way(
    how: str, kinds: Iterable[Kind], mutants: tuple[int, int]
) -> None:
    pytest.importorskip("obstore", reason="needs videoload[remote]")
    counts, differing = compare(either(*mutants), kinds, how)
    print(f"{dict(counts)}, {len(differing)} differ")
    assert not differing
    assert counts["proven"] > 8, "hardly any file was checked"
    assert how == "one bit" or min(counts["decoded"], counts["refused"]) > 8


def test_a_jpeg_picture_without_a_scan_takes_no_pixels_from_another(tmp_path: Path) -> None:
    path = named("mjpeg", tmp_path)
    *others, last = path.read_bytes().split(b"\xff\xda")
    path.write_bytes(b"\xff\xda".join(others) + b"\xff\x20" + last)
    for seed in range(5):
        known, _, differing = look_at(Folder(tmp_path).resolve(path.name), seed)
        assert known == "decoded"
        assert not differing


def test_a_dv_picture_without_its_header_takes_none_from_another(tmp_path: Path) -> None:
    path = named("dv", tmp_path)
    data = bytearray(path.read_bytes())
    begin = data.find(b"00d", data.find(b"movi") + len(data) // 2) + 8
    data[begin : begin + 480] = b"\xff" * 480
    path.write_bytes(data)
    for seed in range(3):
        known, _, differing = look_at(Folder(tmp_path).resolve(path.name), seed)
        assert known == "proven"
        assert not differing

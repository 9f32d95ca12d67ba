"""The packets of a file: from its container's index if that is complete and true, otherwise by a
pass that reads them all."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.avi_files import Chunk, chunk, join, open_dml, split
from tests.support.codecs import FRAMES, KINDS, Kind, make, named
from tests.support.packets import frames_of, prove_the_same, table_of
from tests.support.thorough import rest_nightly
from tests.support.videos import make_avi
from videoload.decoding.decoder import Decoder

# These have another layout than `tests.support.avi_files` can take apart.
OTHERS = {
    "mpeg4_no_index",
    "mpeg4_open_dml",
    "mpeg4_open_dml_bframes",
    "mpeg4_picture_behind_index",
    "mpeg4_truncated",
}
AVI = [
    kind for kind in KINDS if kind.container == "avi" and kind.is_proven and kind.name not in OTHERS
]
FIRST = [*{kind.codec: kind for kind in reversed(AVI)}.values()]  # one of each codec
AVI.sort(key=lambda kind: kind not in FIRST)


@pytest.mark.parametrize("kind", rest_nightly(AVI, usual=len(FIRST)), ids=lambda kind: kind.name)
def test_the_index_and_a_pass_over_the_packets_prove_the_same(kind: Kind, tmp_path: Path) -> None:
    path = named(kind.name, tmp_path)
    by_index, _ = table_of(path)
    header, chunks = split(path.read_bytes())
    # Nobody knows what it is, so the index may lack something.
    chunks.insert(1, Chunk(b"what", bytes(10), is_indexed=False))
    path.write_bytes(join(header, chunks))
    by_pass, is_by_index = table_of(path)
    assert not is_by_index
    assert prove_the_same(by_index, by_pass)


# How far an index is trusted


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An MPEG-4 file with a complete index."""
    path = make(Kind("plain", "mpeg4"), tmp_path_factory.mktemp("plain"))
    assert frames_of(path) == (FRAMES, True)
    return path.read_bytes()


def in_lists(data: bytes) -> bytes:
    return join(*split(data), in_lists_of=4)


def with_junk(data: bytes) -> bytes:
    header, chunks = split(data)
    junk = Chunk(b"JUNK", bytes(7), is_indexed=False)
    return join(header, [each for chunk in chunks for each in (chunk, junk)])


def with_zeros_behind_the_index(data: bytes) -> bytes:
    return data + bytes(999)


def with_a_title_that_names_the_list_of_packets(data: bytes) -> bytes:
    header, chunks = split(data)
    return join(header + chunk(b"LIST", b"INFO" + chunk(b"INAM", b"movi and others")), chunks)


def without_an_entry(data: bytes) -> bytes:
    header, chunks = split(data)
    return join(header, [*chunks[:5], chunks[5]._replace(is_indexed=False), *chunks[6:]])


def with_an_entry_that_names_another_place(data: bytes) -> bytes:
    at = data.rindex(b"idx1") + 8 + 5 * 16 + 8  # the place of the sixth chunk
    moved = int.from_bytes(data[at : at + 4], "little") + 2
    return data[:at] + moved.to_bytes(4, "little") + data[at + 4 :]


def with_a_picture_behind_the_index(data: bytes) -> bytes:
    return data + split(data)[1][1].packed


def name_of(change: Callable[[bytes], bytes]) -> str:
    return change.__name__


@pytest.mark.parametrize(
    "change",
    [
        in_lists,
        with_junk,
        with_zeros_behind_the_index,
        with_a_title_that_names_the_list_of_packets,
        open_dml,
    ],
    ids=name_of,
)
def test_an_index_is_trusted_if_the_chunks_confirm_it(
    change: Callable[[bytes], bytes], plain: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "changed.avi"
    path.write_bytes(change(plain))
    assert frames_of(path) == (FRAMES, True)


@pytest.mark.parametrize(
    ("change", "frames"),
    [
        (without_an_entry, FRAMES),
        (with_an_entry_that_names_another_place, FRAMES),
        (with_a_picture_behind_the_index, FRAMES + 1),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_an_index_that_the_chunks_contradict_is_not_believed(
    change: Callable[[bytes], bytes], frames: int, plain: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "changed.avi"
    path.write_bytes(change(plain))
    assert frames_of(path) == (frames, False)


def test_the_index_of_a_long_file_with_much_in_between_is_trusted(tmp_path: Path) -> None:
    path = make_avi(tmp_path / "long.avi", frames=2000, size=(16, 16))
    path.write_bytes(with_junk(path.read_bytes()))
    assert frames_of(path) == (2000, True)


def test_the_length_of_an_mp4s_boxes_is_not_trusted(tmp_path: Path) -> None:
    path = named("mp4_named_avi", tmp_path)
    plain = path.read_bytes()
    at = plain.rindex(b"moov") - 4
    far = b"\0\0\0\1moov" + (1 << 62).to_bytes(8, "big")
    # it is not a small file
    between = (5 << 20).to_bytes(4, "big") + b"free" + bytes((5 << 20) - 8)
    path.write_bytes(plain[:at] + between + far + plain[at + 8 :])
    assert frames_of(path) == (FRAMES, True)


# How they are read


@pytest.mark.parametrize(
    "name", ["mjpeg", "mpeg4_no_index", "mp4_hevc_named_avi", "ts_h264_named_avi"]
)
def test_small_packets_are_read_in_few_reads_each_with_a_sign_of_life(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = named(name, tmp_path)
    monkeypatch.setattr("videoload.storage.content.SMALL_BYTES", 0)
    seen, pread = list[str](), os.pread

    def read(file: int, length: int, at: int) -> bytes:
        seen.append("read")
        return pread(file, length, at)

    monkeypatch.setattr(os, "pread", read)
    Decoder(tmp_path).videos.info(path.name, lambda: seen.append("tick"))
    between = "".join(each[0] for each in seen).split("t")
    assert max(map(len, between)) <= 2
    assert seen.count("read") < 30


@pytest.mark.parametrize("name", ["matroska_ffv1_bt709_full", "mkv_h264_named_avi"])
def test_what_a_pass_cannot_keep_is_read_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = named(name, tmp_path)
    table, _ = table_of(path)
    assert table is not None
    monkeypatch.setattr("videoload.reading.packets.PASS_BYTES", 2000)
    assert prove_the_same(table_of(path)[0], table)

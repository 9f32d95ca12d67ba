"""Single flipped bits in the chunk headers and the index of AVI files, and in MKV files: the same
frames and pixels come out by every way, from a folder and from a bucket."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from av.video.frame import VideoFrame

from benchmarks.object_server import ObjectServer
from tests.support.avi_files import split
from tests.support.codecs import KINDS, Kind, make
from tests.support.thorough import either
from tests.support.waiting import SECOND
from videoload import ClipSpec, VideoError
from videoload.clips.rows import Clip, Video
from videoload.decoding.decoder import Decoder
from videoload.index.index import find_index, open_video
from videoload.reading.frame_decoder import checksum
from videoload.reading.frames import read_canonically, read_frames
from videoload.storage.files import LocalFile

pytest.importorskip("obstore", reason="needs videoload[remote]")
pytestmark = pytest.mark.timeout(120 * SECOND)

KINDS_OF_FILE = ["mpeg4_xvid", "mjpeg", "mpeg4_audio_first"]
LARGE_BYTES = 100_000
SPEC = ClipSpec(frames=3, size=(32, 32), short="hold")
# The field, and a bit of it: the letters of a name, small and large parts of a number.
CHUNK_BITS = {"name": (0, (2, 26)), "size": (4, (0, 12))}
LINE_BITS = {
    "name": (0, (2, 26)), "flags": (4, (4,)), "position": (8, (1, 14)), "size": (12, (0, 9)),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def threads_that_fetch(tmp_path_factory: pytest.TempPathFactory) -> None:
    """They stay for as long as the process."""
    root = tmp_path_factory.mktemp("nothing")
    with ObjectServer(root) as server, suppress(VideoError):
        Decoder(server.url).index("none.avi")


class LongAvi:
    """An AVI whose packets are the same few over and over, with the places of its fields."""

    def __init__(self, made: bytes, chunks: int, codec: bytes | None = None) -> None:
        header, few = split(made)
        packed = [chunk.packed for chunk in few]
        many = [i % len(few) for i in range(chunks)]
        at = np.cumsum([4, *(len(packed[i]) for i in many)])
        lines = b"".join(
            struct.pack("<4sIII", few[i].name, 0x10 * few[i].is_key, position, len(few[i].data))
            for i, position in zip(many, at[:-1].tolist(), strict=True)
        )
        movi = b"".join(packed[i] for i in many)
        body = header + struct.pack("<4sI4s", b"LIST", len(movi) + 4, b"movi") + movi
        self.chunks = (at[:-1] + len(header) + 8).tolist()
        self.index = len(body) + 8
        body += struct.pack("<4sI", b"idx1", len(lines)) + lines
        self.data = body[:4] + struct.pack("<I", len(body) - 8) + body[8:]

    def flipped(self, at: int, bit: int) -> bytes:
        """The file with one bit flipped."""
        changed = bytearray(self.data)
        changed[at + bit // 8] ^= 1 << bit % 8
        return bytes(changed)


def clips(decoder: Decoder, path: str, starts: Sequence[int]) -> dict[int, object]:
    """Frames and pixels of clips, or the error."""
    shown: dict[int, object] = {}
    for start in starts:
        out = np.zeros((1, *SPEC.shape), np.uint8)
        try:
            request = Clip(0, row=Video("", start=start, end=start + 3))
            frames = decoder.decode(path, SPEC, [request], out)
            shown[start] = frames.tolist(), out.tobytes()
        except VideoError as error:
            shown[start] = str(error)
    return shown


@pytest.mark.parametrize("name", KINDS_OF_FILE)
@pytest.mark.parametrize("chunks", [1, 900], ids="{} chunks".format)
def test_a_flipped_bit_gives_the_same_frames_by_every_way(
    name: str, chunks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if chunks > 1:  # is a large file here, so that few of its chunks are looked at
        for module in ("content", "files"):
            monkeypatch.setattr(f"videoload.storage.{module}.SMALL_BYTES", LARGE_BYTES)
    turn, step = KINDS_OF_FILE.index(name), either(3, 1)
    compare(name, chunks, (320, 240), LARGE_BYTES, tmp_path, slice(turn % step, None, step))


def compare(
    name: str, chunks: int, size: tuple[int, int], large: int, folder: Path, chosen: slice
) -> None:
    """Decode a file with each of its bits flipped, of the ``chosen`` ones of those that are listed
    above. A file of more than one chunk has more than ``large`` bytes."""
    kind = next(kind for kind in KINDS if kind.name == name)
    made = make(replace(kind, size=size), folder).read_bytes()
    avi = LongAvi(made, chunks)
    assert (len(avi.data) > large) == (chunks > 1)
    odd = sorted({min(chunks - 1, n) for n in (617, chunks * 2 // 3 + 1, chunks - 1)})
    places = [
        (number, avi.chunks[number] + at, bit)
        for number in odd
        for at, bits in CHUNK_BITS.values()
        for bit in bits
    ] + [
        (number, avi.index + 16 * number + at, bit)
        for number in odd[:1]
        for at, bits in LINE_BITS.values()
        for bit in bits
    ]
    root = folder / "files"
    root.mkdir()
    with ObjectServer(root) as server:
        for turn, (number, at, bit) in enumerate(places[chosen]):
            path = f"{turn}.avi"
            (root / path).write_bytes(avi.flipped(at, bit))
            near = [*range(max(0, number - 13), number + 14, 3), 0, chunks // 2]
            starts = [start for start in near if start < chunks]
            expected = clips(Decoder(root), path, starts)
            assert clips(Decoder(root), path, starts[::-1]) == expected, (number, at, bit)
            assert clips(Decoder(server.url), path, starts[::-1]) == expected, (number, at, bit)
            (root / path).unlink()


@pytest.mark.parametrize("name", ["mkv_h264_named_avi", "mkv_named_avi"])
def test_a_flipped_bit_gives_the_same_frames_with_and_without_seeks(
    name: str, tmp_path: Path
) -> None:
    kind = next(kind for kind in KINDS if kind.name == name)
    data = make(kind, tmp_path).read_bytes()
    index = Decoder(tmp_path).index(f"{name}.avi")
    blocks = [(position - 8, 14) for position in index.order.starts[:, 3].tolist()]
    cluster, cues = data.index(b"\x1f\x43\xb6\x75"), data.rindex(b"\x1c\x53\xbb\x6b")
    places = [(cues, len(data) - cues), (cluster, 16), *blocks]
    draw, starts = random.Random(name), [37, 3, 14, 26]
    root = tmp_path / "files"
    root.mkdir()
    with ObjectServer(root) as server:
        for turn in range(either(2 * len(places), 400)):
            begin, length = places[turn % len(places)]
            at, bit, changed = begin + draw.randrange(length), draw.randrange(8), bytearray(data)
            changed[at] ^= 1 << bit
            path = f"{turn}.mkv"
            (root / path).write_bytes(changed)
            decoder = Decoder(root)
            with suppress(VideoError):
                if (noted := decoder.index(path).noted) is not None:
                    noted.are_right = False
            expected = clips(decoder, path, sorted(starts))
            assert clips(Decoder(root), path, starts) == expected, (at, bit)
            assert clips(Decoder(server.url), path, starts) == expected, (at, bit)


def test_what_a_damaged_picture_of_hevc_shows_does_not_depend_on_the_frames_asked_for(
    tmp_path: Path,
) -> None:
    """Its decoder ends a damaged picture early without a word: the rest of it is what the memory
    held before."""
    params = "ctu=16:bframes=3:keyint=60:log-level=none:pools=none"
    kind = Kind("hevc", "libx265", container="mp4", size=(112, 80), frames=60,
                options={"preset": "superfast", "x265-params": params})  # fmt: skip
    data, file = make(kind, tmp_path).read_bytes(), tmp_path / "flipped.mp4"
    begin, end = data.index(b"mdat"), data.index(b"moov")
    draw = random.Random(0)
    for _ in range(either(10, 100)):
        changed = bytearray(data)
        changed[draw.randrange(begin + 4, end - 4)] ^= 1 << draw.randrange(8)
        file.write_bytes(changed)
        index, opened = find_index(LocalFile(str(file), file.stat()), lambda: None)
        assert index is not None
        assert opened is not None
        every = list(range(index.info.frames))
        shown: list[dict[int, int]] = [{}, {}, {}]
        for wanted, found in zip((every, every[::9]), shown, strict=False):
            fresh = open_video(opened.file, index)
            read_frames(fresh, index.order, wanted, _sums(found), lambda: None)
            fresh.close()
        read_canonically(opened, index.order, every, _sums(shown[2]), lambda: None)
        opened.close()
        assert shown[0] == shown[2]
        assert shown[1] == {ordinal: shown[2][ordinal] for ordinal in every[::9]}


def test_what_a_damaged_picture_of_mpeg4_shows_does_not_depend_on_what_its_decoder_has_met(
    tmp_path: Path,
) -> None:
    """FFmpeg complains of the end of a picture, or does not, by how those before it ended."""
    kind = Kind("mpeg4", "mpeg4", size=(320, 240), frames=60, options={"bf": "2"})
    data, file = make(kind, tmp_path).read_bytes(), tmp_path / "flipped.avi"
    begin, end = data.index(b"movi"), data.rindex(b"idx1")
    draw = random.Random(0)
    for number in range(either(60, 250)):
        changed = bytearray(data)
        changed[draw.randrange(begin + 100, end - 4)] ^= 1 << draw.randrange(8)
        if number % either(12, 1):
            continue
        file.write_bytes(changed)
        found = LocalFile(str(file), file.stat())
        index, _ = find_index(found, lambda: None)
        if index is None:
            continue
        alone: dict[int, int] = {}
        every = list(range(index.info.frames))
        video = open_video(found, index)
        read_canonically(video, index.order, every, _sums(alone), lambda: None)
        for ordinal in (*every[::3], *every[::3]):
            shown: dict[int, int] = {}
            if not read_frames(video, index.order, [ordinal], _sums(shown), lambda: None):
                video = open_video(found, index)
            assert shown == {ordinal: alone[ordinal]}
        video.close()


def _sums(found: dict[int, int]) -> Callable[[int, VideoFrame], None]:
    return lambda ordinal, frame: found.__setitem__(ordinal, checksum(frame))

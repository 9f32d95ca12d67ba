"""What headers prove of the order of frames, beside what a complete decode outputs: options of
encoders that change the order of pictures, in all containers."""

from __future__ import annotations

from contextlib import closing
from itertools import cycle
from pathlib import Path

import av
import numpy as np
import pytest

import videoload as vl
from tests.support.codecs import KINDS, Kind, make
from tests.support.thorough import rest_nightly
from videoload.index.index import find_index
from videoload.reading.containers import OpenedVideo, decode_all
from videoload.storage.files import LocalFile

_X264 = (
    "bframes=3:b-pyramid=normal", "open-gop=1:bframes=3:keyint=9", "bframes=0",
    "bframes=16:b-adapt=0:b-pyramid=strict", "bframes=1:b-pyramid=none",
    "intra-refresh=1:bframes=2", "interlaced=1:bframes=3", "ref=1:bframes=5", "keyint=1",
    "keyint=3:bframes=2:min-keyint=1",
    "weightp=2:bframes=4", "slices=4:bframes=3", "aud=1:pic-struct=1:bframes=3", "bluray-compat=1",
    "nal-hrd=cbr:filler=1:vbv-maxrate=300:vbv-bufsize=300:bitrate=300", "keyint=infinite:bframes=8",
)  # fmt: skip


def _kinds() -> list[Kind]:
    kinds = []
    for options, container in zip(_X264, cycle(("avi", "mp4", "matroska", "mpegts", "flv"))):
        params = {"preset": "fast", "x264-params": f"keyint=12:{options}:log-level=none"}
        kinds.append(Kind(f"h264 {options}", "libx264", options=params, container=container))
    return kinds


def _file(path: Path) -> LocalFile:
    return LocalFile(str(path), path.stat())


def _decoded(path: Path) -> tuple[list[int], int]:
    """The packet of each frame that a complete decode outputs, and how many packets it refuses."""
    with closing(OpenedVideo(_file(path), strict=False)) as opened:
        packets = [-1 if mark is None else mark.number for mark, _ in decode_all(opened, _tick)]
        return packets, opened.refused


def _tick() -> None:
    pass


@pytest.mark.parametrize("kind", rest_nightly(_kinds(), usual=4), ids=lambda kind: kind.name)
def test_the_order_that_headers_prove_is_the_one_of_a_complete_decode(
    kind: Kind, tmp_path: Path
) -> None:
    path = make(kind, tmp_path)
    index, opened = find_index(_file(path), _tick)
    if opened is not None:
        opened.close()
    packets, _ = _decoded(path)
    assert index is not None
    assert [index.ordinal(packet) for packet in packets] == list(range(index.info.frames))


def test_a_refused_picture_moves_no_other(tmp_path: Path) -> None:
    sound = make(next(kind for kind in KINDS if kind.name == "h264_bframes"), tmp_path)
    whole, damaged = sound.read_bytes(), tmp_path / "damaged.avi"
    with av.open(str(sound)) as container:
        packets = [bytes(packet) for packet in container.demux(video=0)]
    picture = next(packet for packet in packets if b"\0\0\1\1" in packet[:5])  # no reference
    begins = whole.index(picture)
    for bit in range(8 * (begins + 8), 8 * (begins + len(picture))):  # behind the counts
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        damaged.write_bytes(changed)
        if _decoded(damaged)[1] == 1:
            break
    with vl.open(sound) as one, vl.open(damaged) as other:
        assert len(one) == len(other)
        assert sum(np.array_equal(one[i], other[i]) for i in range(len(one))) == len(one) - 1

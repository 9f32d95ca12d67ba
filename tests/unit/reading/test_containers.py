"""Packets: what is noted of them for other processes, and where they end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import videoload as vl
from tests.support.videos import make_avi
from tests.support.waiting import SECOND
from videoload.reading import containers
from videoload.storage import files

NOTED = (
    "import av; from videoload.reading.containers import checksum_of; "
    "packet = av.Packet(b'coded'); assert packet.pos is None; print(checksum_of(packet))"
)


def test_a_packet_without_a_place_has_the_same_checksum_in_each_process() -> None:
    told = {
        subprocess.run(
            [sys.executable, "-c", NOTED], capture_output=True, check=True, timeout=60 * SECOND
        ).stdout
        for _ in range(3)
    }
    assert len(told) == 1


@pytest.mark.parametrize("container", ["avi", "matroska", "flv"])
def test_a_file_ends_where_nothing_follows_but_zeros(
    container: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    codec = "flv" if container == "flv" else "mpeg4"
    path = make_avi(tmp_path / "a.video", frames=9, codec=codec, container_format=container)
    os.truncate(path, 64 << 20)
    for module in (containers, files):
        monkeypatch.setattr(module, "MOST_BETWEEN", 1 << 20)
    read, pread = [0], os.pread

    def counted(file: int, length: int, at: int) -> bytes:
        data = pread(file, length, at)
        read[0] += len(data)
        return data

    monkeypatch.setattr(os, "pread", counted)
    with vl.open(path, cache=False) as video:
        assert len(video) == 9
    assert read[0] < 8 << 20
    assert path.name in caplog.text

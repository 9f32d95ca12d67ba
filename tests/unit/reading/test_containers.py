"""What is noted of packets, and kept for other processes."""

from __future__ import annotations

import subprocess
import sys

from tests.support.waiting import SECOND

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

"""A long file: a short sequence, encoded once, whose packets are repeated with later times."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import av
from av.packet import Packet

from benchmarks.videos import Recipe, make_video, new_packet

_FPS = 25  # of `make_video`
_SEQUENCE = Recipe("mpeg4", frames=360)


def make_long(path: Path, frames: int) -> None:
    """Write an AVI file of ``frames`` frames of MPEG-4, without B-frames."""
    short = path.with_name(f"short-{path.name}")
    make_video(short, _SEQUENCE, seed=0)
    with av.open(str(short)) as source, av.open(str(path), "w") as target:
        stream = source.streams.video[0]
        packets: list[Packet[Any]] = [packet for packet in source.demux(stream) if packet.size]
        copy = target.add_stream_from_template(stream)
        copy.time_base = Fraction(1, _FPS)  # an AVI file fills what is in between with empty chunks
        for number in range(frames):
            packet = packets[number % len(packets)]
            target.mux(new_packet(bytes(packet), copy, number, is_key=packet.is_keyframe))
    short.unlink()

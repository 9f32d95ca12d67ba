"""A recording, and the same cut into pieces without decoding it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import av

from tests.support.videos import KEYFRAME_EVERY, make_avi

PIECES = 11  # 10.avi comes after 9.avi
FRAMES = (PIECES - 1) * KEYFRAME_EVERY + 5


def cut(path: Path, out: Path, key_frames: int = 1) -> list[Path]:
    """Write the packets of an AVI into 0.avi, 1.avi, ... of so many key frames each."""
    out.mkdir(parents=True, exist_ok=True)
    with av.open(str(path)) as source:
        stream = source.streams.video[0]
        groups: list[list[Any]] = []
        for packet in source.demux(stream):
            if packet.size:
                groups += [[]] if packet.is_keyframe else []
                groups[-1].append(packet)
        made: list[Path] = []
        for first in range(0, len(groups), key_frames):
            packets = [packet for group in groups[first : first + key_frames] for packet in group]
            made.append(out / f"{len(made)}.avi")
            with av.open(str(made[-1]), "w") as piece:
                copy = cast(Any, piece).add_stream_from_template(stream)
                for number, packet in enumerate(packets):
                    packet.stream, packet.dts, packet.pts = copy, number, number
                    piece.mux(packet)
    return made


def make_pieces(root: Path, **how: Any) -> Path:
    """``root``/whole.avi, and the same in ``root``/run/0.avi, 1.avi, ..., 10.avi."""
    make_avi(root / "whole.avi", frames=FRAMES, **how)
    assert len(cut(root / "whole.avi", root / "run")) == PIECES
    return root

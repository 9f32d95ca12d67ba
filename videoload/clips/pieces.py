"""A recording in pieces: several videos, one after the other, as one. Pure.

Its frames are those of the first piece, then those of the next one, with one count. A piece begins
when the one before it ends: when its last frame was shown for as long as a frame lasts there.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.clips.video_info import VideoInfo

_MAX_DENOMINATOR = 1_000_000_000


class PieceAudio(NamedTuple):
    """``samples`` of audio from a piece, the first at ``begin`` seconds after its first frame."""

    piece: int
    begin: Fraction
    samples: int


class Run(NamedTuple):
    """Consecutive frames of a clip, at ``place`` in it, that a piece gives: its own ``frames``."""

    piece: int
    place: slice
    frames: npt.NDArray[np.int64]


class Pieces:
    """The pieces of a recording.

    Attributes:
        infos: What a clip depends on, of each piece.
        info: The same of the whole.
        firsts: The number of the first frame of each piece, and the number of frames.
    """

    def __init__(self, infos: Sequence[VideoInfo]) -> None:
        self.infos = tuple(infos)
        self.firsts = [0, *accumulate(info.num_frames for info in infos)]
        self.begins_s = [Fraction(0), *accumulate(map(_length_s, infos))]
        first, rates = infos[0], {info.fps for info in infos}
        frames, fps, times = self.firsts[-1], first.fps, None
        if not all(rates):
            fps = Fraction()
        elif len(rates) > 1 or any(info.times is not None for info in infos):
            own = [info.times_of(np.arange(info.num_frames)) for info in infos]
            shifted = [float(at) + each for at, each in zip(self.begins_s, own, strict=False)]
            times = array("d", np.concatenate(shifted).tobytes())
            fps = (frames / self.begins_s[-1]).limit_denominator(_MAX_DENOMINATOR)
        begins = None if any(info.begin_stream_s is None for info in infos) else Fraction()
        found = [at + info.key_frames for at, info in zip(self.firsts, infos, strict=False)]
        keys = None if all(info.keys is None for info in infos) else np.concatenate(found).tobytes()
        self.info = first._replace(
            num_frames=frames, fps=fps, times=times, begin_stream_s=begins, keys=keys
        )

    def misfit(self) -> tuple[int, str] | None:
        """Return the first piece whose frames are not like those of the first one, and why."""
        first, *others = map(_described, self.infos)
        for piece, found in enumerate(others, 1):
            if found != first:
                return piece, f"is {found}, and the first piece {first}"
        return None

    def runs(self, frames: npt.NDArray[np.int64]) -> list[Run]:
        """Yield the pieces that contain these frames; -1: a missing frame, which belongs to any
        piece."""
        shown = np.flatnonzero(frames >= 0)
        if not len(shown):
            return [Run(0, slice(0, len(frames)), frames)]
        # A missing one goes to the piece of the one before it, or of the first one.
        near = shown[np.maximum(np.searchsorted(shown, np.arange(len(frames)), "right") - 1, 0)]
        own = np.searchsorted(self.firsts, frames[near], "right") - 1
        edges = (np.flatnonzero(np.diff(own)) + 1).tolist()
        found = []
        for begin, end in pairwise([0, *edges, len(frames)]):
            piece, some = int(own[begin]), frames[begin:end]
            within = np.where(some < 0, -1, some - self.firsts[piece])
            found.append(Run(piece, slice(begin, end), within))
        return found

    def stretches(self, begin: Fraction, samples: int, rate: int) -> list[PieceAudio]:
        """Yield the pieces with the audio from ``begin`` on, in seconds from the first frame: so
        many samples, ``rate`` a second. Samples before the first piece belong to it, and samples
        after the last piece to that one."""
        edges = [math.floor((at - begin) * rate + Fraction(1, 2)) for at in self.begins_s[1:-1]]
        places = [0, *(min(max(edge, 0), samples) for edge in edges), samples]
        return [
            PieceAudio(piece, begin + Fraction(first, rate) - self.begins_s[piece], last - first)
            for piece, (first, last) in enumerate(pairwise(places))
            if first < last
        ]


def _length_s(info: VideoInfo) -> Fraction:
    """Return how long a video lasts, in seconds; 0 if unknown."""
    if info.times is None or info.num_frames < 2:
        return info.num_frames / info.fps if info.fps else Fraction()
    return Fraction(info.file_summary[1])


def _described(info: VideoInfo) -> str:
    """Return the properties that must be equal in all pieces."""
    turned = f", turned by {90 * info.quarter_turns} degrees" if info.quarter_turns else ""
    return f"{info.width}x{info.height} pixels{turned}{', mirrored' * info.mirrored}"

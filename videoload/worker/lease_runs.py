"""The clips of a lease by their videos, each of which is gone through once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from videoload.decoding.decoder import Request
from videoload.transport.messages import Clip, Lease


def runs(lease: Lease) -> Iterator[tuple[int, int]]:
    """Runs [first, last) of clips of the same video, cut by the same spec."""
    first = 0
    for _, run in groupby(
        range(len(lease.clips)), lambda at: (lease.clips[at].path, lease.spec_of(at))
    ):
        last = first + sum(1 for _ in run)
        yield first, last
        first = last


def requests(clips: list[Clip]) -> list[Request]:
    """What a decoder is asked for."""
    return [Request(clip.seed, clip.clip, clip.start, clip.end, clip.crop) for clip in clips]

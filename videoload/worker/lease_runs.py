"""The clips of a lease by their videos, and what is fetched for leases before their turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from videoload.decoding.decoder import Decoder, Request
from videoload.transport.messages import Clip, Lease
from videoload.worker.trainers import TrainerConnection


def runs(clips: list[Clip]) -> Iterator[tuple[int, int]]:
    """Runs [first, last) of clips of the same video."""
    first = 0
    for _, run in groupby(clips, key=lambda clip: clip.path):
        last = first + sum(1 for _ in run)
        yield first, last
        first = last


def requests(clips: list[Clip]) -> list[Request]:
    """What a decoder is asked for."""
    return [Request(clip.seed, clip.clip, clip.start, clip.end) for clip in clips]


def look_ahead(
    trainers: Iterable[TrainerConnection], decoder_of: Callable[[Lease], Decoder | None]
) -> None:
    """Have what waiting leases need fetched meanwhile, where files come from another host."""
    for trainer in trainers:
        for lease in trainer.leases:
            if lease.lease <= trainer.expected:
                continue
            trainer.expected = lease.lease
            decoder = decoder_of(lease)
            if decoder is None or not decoder.is_remote:
                continue
            for first, last in runs(lease.clips):
                clips = lease.clips[first:last]
                decoder.expect(clips[0].path, lease.asked, requests(clips))

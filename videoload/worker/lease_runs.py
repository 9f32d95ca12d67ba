"""The clips of a lease by their videos, each of which is gone through once: what is asked of the
decoder, before a lease's turn as well, and what is said of a clip that it cannot decode."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from videoload.decoding.decoder import Decoder, ShortVideoError
from videoload.decoding.prepared import Request
from videoload.errors import OneClipError, TransformError, VideoError, VideoloadError
from videoload.transport.messages import Clip, Failed, Lease
from videoload.worker.trainers import TrainerConnection

_log = logging.getLogger(__name__)


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
            if decoder is None or not decoder.fetches:
                continue
            for first, last in runs(lease):
                clips = lease.clips[first:last]
                decoder.expect(clips[0].path, lease.spec_of(first), requests(clips))


class ClipError(Exception):
    """Clip ``at`` of the lease cannot be decoded."""

    def __init__(self, at: int, why: VideoError) -> None:
        super().__init__(at, why)
        self.at = at
        self.why = why


def failure(lease: Lease, at: int, error: Exception) -> Failed:
    """What is said of a clip that cannot be decoded."""
    if isinstance(error, VideoError):
        return Failed(
            lease.lease, at, error.reason, dropped=isinstance(error, ShortVideoError),
            here_only=isinstance(error, OneClipError),
        )  # fmt: skip
    if isinstance(error, TransformError):
        return Failed(lease.lease, at, str(error), fatal=True)
    if not isinstance(error, VideoloadError):
        _log.exception("lease %d, clip %r", lease.lease, lease.clips[at].path)
    return Failed(lease.lease, at, f"{type(error).__name__}: {error}")

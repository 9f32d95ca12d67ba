"""The reference: the stream, decoded in this process, one clip after the other.

Short and obviously right. Whatever workers, sockets and shared memory do, the batches must equal
these byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from videoload.decoding.decoder import Decoder, Request, ShortVideoError, native_size
from videoload.errors import SpecError, VideoError
from videoload.spec.catalog import Catalog
from videoload.spec.clips import ClipSpec
from videoload.spec.plan import BatchInfo, Plan, StreamOptions
from videoload.spec.quarantine import Quarantine


def decode_serially(
    catalog: Catalog,
    clip: ClipSpec,
    batch_size: int,
    *,
    shuffle: bool = False,
    seed: int = 0,
    shard: tuple[int, int] = (0, 1),
    drop_remainder: bool = True,
    ordered: bool = True,
    on_error: Literal["substitute", "raise"] = "substitute",
    max_bad: float = 0.01,
    start_step: int = 0,
    epochs: int = 1,
    info: bool = False,
) -> Iterator[Any]:
    """The batches of ``Client.stream(...).batches(start_step, epochs, info)``, without workers.

    Yields (clips, labels), uint8 [B, *clip.shape] and int64 [B], and with ``info`` a BatchInfo
    after them; the arrays are the caller's. Raises SpecError for arguments that contradictory,
    VideoError (on_error="raise") and TooManyBadVideos.
    """
    options = StreamOptions(
        batch_size, shuffle, seed, shard, drop_remainder, ordered, on_error, max_bad
    )
    plan = Plan.of(catalog, clip, options)
    if catalog.root is None:
        raise SpecError("the catalog has no root: give root= the folder that holds its videos")
    clip = native_size(catalog, clip)
    return _batches(catalog, clip, plan, options, range(start_step, epochs * len(plan)), info)


def _batches(
    catalog: Catalog,
    clip: ClipSpec,
    plan: Plan,
    options: StreamOptions,
    steps: range,
    with_info: bool,
) -> Iterator[Any]:
    assert catalog.root is not None
    decoder = Decoder(catalog.root)
    quarantine = Quarantine(catalog, plan, options)
    for step in steps:
        samples = plan[step]
        clips = np.empty((len(samples), *clip.shape), np.uint8)
        labels = np.empty(len(samples), np.int64)
        info = BatchInfo(step, labels.copy(), np.empty((len(samples), clip.frames), np.int64))
        for row, planned in enumerate(samples):
            sample = quarantine.replace(planned)
            while True:
                video = catalog[sample.video]
                try:
                    request = Request(sample.seed, sample.clip, video.start, video.end)
                    info.frames[row] = decoder.decode(
                        video.path, clip, [request], clips[row : row + 1]
                    )[0]
                    break
                except VideoError as error:
                    dropped = isinstance(error, ShortVideoError)
                    quarantine.add(sample.video, error.reason, dropped=dropped)
                    sample = quarantine.replace(sample)
            labels[row] = video.label
            info.video[row] = sample.video
        yield (clips, labels, info) if with_info else (clips, labels)

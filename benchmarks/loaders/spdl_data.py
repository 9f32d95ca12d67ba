"""SPDL: a pipeline of threads around FFmpeg calls that hold no GIL."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import spdl.io
from spdl.pipeline import PipelineBuilder

from benchmarks.loaders import Batch, Batches
from benchmarks.work import Item, Work

Clip = tuple[int, npt.NDArray[np.uint8]]


def batches(work: Work, items: Sequence[Item], processes: int, variant: str) -> Batches:
    """The filters scale before they convert. By time, only the clip's packets are read; files with
    wrong time stamps are read from end to end and asked for ordinals."""

    def read(item: Item) -> Clip:
        file, clip = work.files[item.file], work.clip
        (width, height), (x, y) = clip.scaled(file), clip.corner(file)
        filters = (
            f"scale={width}:{height}:flags=bilinear,format=yuv420p,format=rgb24,"
            f"crop={clip.crop}:{clip.crop}:{x}:{y}"
        )
        if file.timed:
            # A quarter of a frame early, so that no rounding of a time can lose or add one.
            first, last = ((at - 0.25) / file.fps for at in (item.start, item.start + clip.span))
            window = (first, last) if item.start else None  # it cannot seek an AVI file to 0
            packets = spdl.io.demux_video(work.path(file), timestamp=window)
            filters = f"trim=start={first}:end={last},framestep={clip.stride},{filters}"
            frames = spdl.io.decode_packets(packets, filter_desc=filters)
        else:
            packets = spdl.io.demux_video(work.path(file))
            ordinals = list(clip.ordinals(item.start))
            frames = spdl.io.sample_decode_video(packets, ordinals, filter_desc=filters)
        return item.number, spdl.io.to_numpy(spdl.io.convert_frames(frames))

    def stack(clips: list[Clip]) -> Batch:
        numbers, pixels = zip(*clips, strict=True)
        return np.array(numbers), np.stack(pixels)

    pipeline = (
        PipelineBuilder()
        .add_source(items)
        .pipe(read, concurrency=processes, output_order="completion")
        .aggregate(work.batch)
        .pipe(stack)
        .add_sink(2)
        .build(num_threads=processes)
    )
    with pipeline.auto_stop():
        yield from pipeline.get_iterator()

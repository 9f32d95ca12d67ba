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
    """Only the clip's packets are decoded; the filters scale before they convert."""

    def read(item: Item) -> Clip:
        file, clip = work.files[item.file], work.clip
        # Half a frame around, so that no rounding of a time can lose or add one.
        first, last = ((at - 0.5) / file.fps for at in (item.start, item.start + clip.span))
        (width, height), (x, y) = clip.scaled(file), clip.corner(file)
        filters = (
            f"trim=start={first}:end={last},framestep={clip.stride},"
            f"scale={width}:{height}:flags=bilinear,format=yuv420p,format=rgb24,"
            f"crop={clip.crop}:{clip.crop}:{x}:{y}"
        )
        packets = spdl.io.demux_video(work.path(file), timestamp=(first, last))
        frames = spdl.io.decode_packets(packets, filter_desc=filters)
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

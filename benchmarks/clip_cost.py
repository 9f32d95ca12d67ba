"""What a clip costs above the bare libav calls, on one core: `python -m benchmarks.clip_cost`.

The clip is UCF-101's: 16 frames, stride 2, of a 320x240 MPEG-4 AVI with a key frame every 12,
short side 128, crop 112x112. Two ways in alternation, the same windows for both:

    plain      open, seek to the key frame before, decode, two VideoReformatters (scale in yuv420p,
               then convert), copy the crop into a buffer; frame times taken at their word
    videoload  Decoder.decode: what a worker does for one clip of a lease, the index known

Prints the median milliseconds a clip of each, their ratio in each round, and the median ratio.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
from av.video.reformatter import Interpolation, VideoReformatter
from rich.console import Console
from rich.table import Table

from videoload.clips import ClipSpec, choose
from videoload.decode import Decoder, Request
from videoload.shapes import make_videos

CLIP = ClipSpec(frames=16, stride=2, resize=128, size=(112, 112), sampling="random")


def plain(path: Path, start: int, out: npt.NDArray[np.uint8]) -> None:
    """The clip that begins at frame ``start``, by the fewest libav calls there are."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_type = "NONE"
        stream.codec_context.thread_count = 1
        scale, convert = VideoReformatter(), VideoReformatter()
        container.seek(start, stream=stream)
        taken = 0
        for frame in container.decode(stream):
            if frame.pts is None or frame.pts < start + taken * CLIP.stride:
                continue
            small = scale.reformat(
                frame, 170, 128, format="yuv420p", interpolation=Interpolation.BILINEAR, threads=1
            )
            colour = convert.reformat(
                small, format="rgb24", interpolation=Interpolation.BILINEAR, threads=1
            )
            plane = colour.planes[0]
            rows = np.frombuffer(memoryview(plane), np.uint8).reshape(128, plane.line_size)
            out[taken] = rows[8:120, 29 * 3 : 141 * 3].reshape(112, 112, 3)
            taken += 1
            if taken == CLIP.frames:
                return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--clips", type=int, default=100, help="a round, each way")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make_videos(Path(folder), train_per_class=2, test_per_class=1, frames=180, seed=0)
        paths = sorted(p.relative_to(folder).as_posix() for p in Path(folder).rglob("*.avi"))
        decoder = Decoder(folder)
        facts = {path: decoder.index(path).facts for path in paths}
        ours = np.empty((1, *CLIP.shape), np.uint8)
        theirs = np.empty(CLIP.shape, np.uint8)
        key = 0
        for path in paths:  # every frame is checked once, then no more
            for key in range(60):
                decoder.decode(path, CLIP, [Request(key)], ours)
        times: list[tuple[float, float]] = []
        differ = 0
        for _ in range(arguments.rounds):
            spent = [0.0, 0.0]
            for turn in range(arguments.clips):
                key += 1
                path = paths[key % len(paths)]
                start = int(choose(CLIP, facts[path], key).frames[0])
                for way in (turn % 2, 1 - turn % 2):
                    began = time.perf_counter()
                    if way:
                        decoder.decode(path, CLIP, [Request(key)], ours)
                    else:
                        plain(Path(folder, path), start, theirs)
                    spent[way] += time.perf_counter() - began
                differ = max(differ, int(np.abs(ours[0].astype(int) - theirs).max()))
            times.append((spent[0] / arguments.clips * 1e3, spent[1] / arguments.clips * 1e3))
    table = Table(title="one clip, one core")
    for name in ("", "ms a clip (median)", "lowest", "highest"):
        table.add_column(name)
    for name, way in (("plain libav", 0), ("videoload", 1)):
        column = [pair[way] for pair in times]
        table.add_row(
            name, f"{statistics.median(column):.3f}", f"{min(column):.3f}", f"{max(column):.3f}"
        )
    ratios = sorted(ours_ms / plain_ms for plain_ms, ours_ms in times)
    console = Console()
    console.print(table)
    console.print(
        f"videoload / plain: median {statistics.median(ratios):.3f} "
        f"({ratios[0]:.3f} to {ratios[-1]:.3f}); pixels differ by at most {differ} levels"
    )


if __name__ == "__main__":
    main()

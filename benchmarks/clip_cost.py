"""What a clip costs above the bare libav calls, on one core: `python -m benchmarks.clip_cost`.

Clips of work `ucf` in two ways in alternation, the same windows for both:

    plain      the limit's loop (`benchmarks.loaders.bare`)
    videoload  Decoder.decode: what a worker does for one clip of a lease, the index known

Prints the median milliseconds a clip of each, and the median and range of their ratio in each
round.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.loaders.bare import Plain
from benchmarks.works import FOLDER, load
from videoload.clips.rows import Clip, Video
from videoload.decoding.decoder import Decoder


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--clips", type=int, default=100, help="clips a round and way")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the AVI files are kept")
    given = parser.parse_args()
    work = load("ucf", given.folder)
    clip = work.clip
    spec = clip.spec()
    decoder, loop = Decoder(work.root), Plain(work, tables=True)
    ours, theirs = np.empty((1, *spec.shape), np.uint8), np.empty(spec.shape, np.uint8)

    def decode(file: int, start: int) -> None:
        request = Clip(0, row=Video("", start=start, end=start + clip.span))
        decoder.decode(work.files[file].path, spec, [request], ours)

    for _, file, start in work.distinct:  # every frame is checked once, then no more
        decode(file, start)
    items = iter(work.items(given.rounds * given.clips))
    times: list[tuple[float, float]] = []
    differ = 0
    for _ in range(given.rounds):
        spent = [0.0, 0.0]
        for turn in range(given.clips):
            _, file, start = next(items)
            for way in (turn % 2, 1 - turn % 2):
                began = time.perf_counter()
                if way:
                    decode(file, start)
                else:
                    loop.read(work.files[file], start, theirs)
                spent[way] += time.perf_counter() - began
            differ = max(differ, int(np.abs(ours[0].astype(int) - theirs).max()))
        times.append((spent[0] / given.clips * 1e3, spent[1] / given.clips * 1e3))
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

"""Frames of one file by their numbers, beside torchcodec: `python -m benchmarks.random_access`.

The pattern of torchcodec's own benchmark: a file is opened, and gives

    uniform   10 frames, evenly spaced
    random    10 frames, drawn
    first     its first 100 frames

``cold``: `vl.open` has not met the file before. ``known``: it has, in this process. torchcodec is
measured with ``seek_mode="exact"``, its default, which scans the packets, and ``"approximate"``,
which trusts the header and the time stamps. Both decode in one thread, in turns; the figures are
milliseconds of CPU time (medians). A ratio over 1 says that videoload is quicker: cold beside
exact, known beside approximate.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

import videoload as vl
from benchmarks.figures import Row, parser, save, show
from benchmarks.videos import Recipe, make_video
from benchmarks.works import FOLDER
from videoload.recordings.tools import tools

Frames = npt.NDArray[np.uint8]
Read = Callable[[str, Sequence[int]], Frames]

RECIPES = {
    "mpeg4-320.avi": Recipe("mpeg4", 320, 240, 750),
    "mpeg4-720.avi": Recipe("mpeg4", 1280, 720, 300),
    "h264-320.mp4": Recipe("libx264", 320, 240, 750, 48, b_frames=2),
    "h264-720.mp4": Recipe("libx264", 1280, 720, 300, 48, b_frames=2),
}
_FEW, _FIRST = 10, 100
_NEAR = 6.0  # grey levels between the two conversions to RGB, on average


def patterns(frames: int, seed: int) -> dict[str, list[int]]:
    """The numbers of the frames that are asked for."""
    drawn = random.Random(seed)
    return {
        "uniform": np.linspace(0, frames - 1, _FEW).astype(int).tolist(),
        "random": [drawn.randrange(frames) for _ in range(_FEW)],
        "first": list(range(min(_FIRST, frames))),
    }


def cold(path: str, ordinals: Sequence[int]) -> Frames:
    """videoload, of a file that this process has not met."""
    tools.known.clear()
    return known(path, ordinals)


def known(path: str, ordinals: Sequence[int]) -> Frames:
    """videoload, of a file that this process has met."""
    with vl.open(path, cache=False) as video:
        return video.frames(ordinals)


def torchcodec(seek_mode: str) -> Read:
    """torchcodec."""
    from torchcodec.decoders import VideoDecoder

    def read(path: str, ordinals: Sequence[int]) -> Frames:
        decoder = VideoDecoder(path, dimension_order="NHWC", seek_mode=seek_mode)
        if len(ordinals) > _FEW:
            batch = decoder.get_frames_in_range(ordinals[0], ordinals[-1] + 1)
        else:
            batch = decoder.get_frames_at(list(ordinals))
        frames: Frames = batch.data.numpy()
        return frames

    return read


def measure(path: Path, frames: int, rounds: int) -> Sequence[Row]:
    """A row for each pattern of a file."""
    readers = {
        "cold": cold, "exact": torchcodec("exact"), "known": known,
        "approximate": torchcodec("approximate"),
    }  # fmt: skip
    rows: list[Row] = []
    for pattern in patterns(frames, 0):
        spent: dict[str, list[float]] = {name: [] for name in readers}
        for turn in range(rounds + 1):
            ordinals = patterns(frames, turn)[pattern]
            came = {}
            for name in sorted(readers, reverse=bool(turn % 2)):
                began = time.process_time()
                came[name] = readers[name](str(path), ordinals)
                if turn:
                    spent[name].append(time.process_time() - began)
            if not turn:
                _check(came)
        row: dict[str, Any] = {name: median(values) * 1e3 for name, values in spent.items()}
        row |= {
            "ratio": row["exact"] / row["cold"],
            "known_ratio": row["approximate"] / row["known"],
        }
        rows.append({"file": path.name, "pattern": pattern, **row})
    return rows


def _check(came: dict[str, Frames]) -> None:
    for name, frames in came.items():
        apart = np.abs(frames.astype(np.int16) - came["cold"]).mean(axis=(1, 2, 3)).max()
        assert apart < _NEAR, f"{name} gave other frames"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    made = parser(__doc__)
    made.add_argument("--file", choices=RECIPES, action="append", help="only this one")
    made.add_argument("--rounds", type=int, default=15)
    made.add_argument("--folder", type=Path, default=FOLDER / "access", help="where files are kept")
    given = made.parse_args(arguments)
    if find_spec("torchcodec") is None:
        raise SystemExit("torchcodec is not installed: pip install -e '.[bench]'")
    given.folder.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    for name in given.file or RECIPES:
        recipe, path = RECIPES[name], given.folder / name
        if not path.exists():
            unfinished = path.with_name(f"unfinished-{name}")
            make_video(unfinished, recipe, seed=0)
            unfinished.rename(path)
        rows += measure(path, recipe.frames, given.rounds)
    columns = {
        "file": "{file}",
        "frames": "{pattern}",
        "cold": "{cold:.1f}",
        "torchcodec": "{exact:.1f}",
        "ratio": "{ratio:.2f}",
        "known": "{known:.1f}",
        "approximate": "{approximate:.1f}",
        "ratio ": "{known_ratio:.2f}",
    }
    show("opening a file and reading frames, ms of CPU", rows, columns)
    save(given.json, "random_access", rows, rounds=given.rounds)


if __name__ == "__main__":
    main()

"""How long a trainer waits for its first batch, and for what: `python -m benchmarks.first_batch`.

From `Client(workers=2)` to the first batch in the reader's hands, on videos like those of UCF-101
that no worker has seen: 320x240 MPEG-4 files of 180 frames, clips of 16 frames, stride 2, 112x112.
The imports of the trainer itself are not counted; the files are in the page cache. The stages are
those of the worker that answered last for this batch:

    interpreter   until the worker process runs its first line
    imports       of `videoload.worker`
    hello         until it says HELLO: settings, sockets
    lease         until its first lease is there
    index         what each video that it meets tells of its frames
    decode        of the clips
    hand over     from its answer to the batch in the reader's hands

--imports lists what the worker's imports take (python -X importtime).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from unittest import mock

import videoload as vl
from benchmarks.figures import Row, Spread, parser, save, show, workers_are
from videoload.commands.made_videos import make_videos

CLIP = vl.ClipSpec(frames=16, stride=2, resize=128, size=(112, 112), sampling="random")
STAGES = ("interpreter", "imports", "hello", "lease", "index", "decode", "hand over")
_SHOWN = 25


def first_batch(catalog: vl.Catalog, seed: int, given: argparse.Namespace) -> dict[str, float]:
    """Seconds in all, and of each stage."""
    with TemporaryDirectory() as notes:
        with (
            workers_are("benchmarks.stamped"),
            mock.patch.dict(os.environ, VIDEOLOAD_STAMPS=notes, VIDEOLOAD_CACHE=""),
        ):
            began = time.monotonic()
            with vl.Client(workers=given.workers) as client:
                stream = client.stream(catalog, CLIP, given.batch, shuffle=True, seed=seed)
                next(stream.batches())
                got = time.monotonic()
        told = [json.loads(note.read_text()) for note in Path(notes).iterdir()]
    # Of the workers that had answered by then, the one that did so last.
    last = max((w for w in told if w.get("answered", got) < got), key=lambda w: w["answered"])
    index, decoding = (sum(end - at for at, end in last[name]) for name in ("indexes", "clips"))
    stages = {
        "interpreter": last["began"] - began,
        "imports": last["imported"] - last["began"],
        "hello": last["hello"] - last["imported"],
        "lease": last["lease"] - last["hello"],
        "index": index,
        "decode": decoding - index,
        "hand over": got - last["answered"],
    }
    return stages | {"in all": got - began, "clips": len(last["clips"])}


def imports() -> list[Row]:
    """What the worker's modules take to import, the heaviest first."""
    command = [sys.executable, "-X", "importtime", "-c", "import videoload.worker"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()
    rows: list[Row] = []
    for line in lines[1:]:
        own, below, module = line.removeprefix("import time:").split("|")
        rows.append({"module": module.strip(), "own": int(own) / 1e3, "below": int(below) / 1e3})
    return sorted(rows, key=lambda row: -row["below"])[:_SHOWN]


def main() -> None:
    """Measure, print, write."""
    made = parser(__doc__)
    made.add_argument("--workers", type=int, default=2)
    made.add_argument("--batch", type=int, default=8)
    made.add_argument("--rounds", type=int, default=9)
    made.add_argument("--videos", type=Path, metavar="DIR", help="your own videos")
    made.add_argument("--imports", action="store_true", help="only list the worker's imports")
    given = made.parse_args()
    if given.imports:
        columns = {"ms": "{below:.1f}", "of its own": "{own:.1f}", "module": "{module}"}
        show("imports of a worker", imports(), columns)
        return
    with TemporaryDirectory() as home:
        folder = given.videos or Path(home, "train")
        if given.videos is None:
            make_videos(Path(home), train_per_class=8, test_per_class=0, frames=180)
        catalog = vl.Catalog.from_folder(folder)
        rounds = [first_batch(catalog, seed, given) for seed in range(given.rounds)]
    clips = median(r["clips"] for r in rounds)
    rows: list[Row] = [
        {"stage": stage, "ms": Spread.of([r[stage] * 1e3 for r in rounds])}
        for stage in (*STAGES, "in all")
    ]
    columns = {
        "": "{stage}",
        "ms": "{ms.median:.0f}",
        "lowest": "{ms.lowest:.0f}",
        "highest": "{ms.highest:.0f}",
    }
    show(f"to the first {given.batch} clips ({clips:g} by the last worker)", rows, columns)
    save(given.json, "first_batch", rows, workers=given.workers, batch=given.batch, clips=clips)


if __name__ == "__main__":
    main()

"""What it costs to index a file that was never read: `python -m benchmarks.index_cost`.

On one core, for files of the works `ucf`, `first-hmdb`, `mjpeg` and `h264`, microseconds (medians):

    hot         `find_index`, which also opens the file, for one file after the other
    in a lease  as a worker does it: four files in a row, before four clips are decoded
    cold        one file, between two clips
    clip        a clip of a file that is indexed, opened for it
    share       of "in a lease" in the whole first visit to a file
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.figures import Row, parser, save, show
from videoload.comparison.work import FOLDER, Work, load
from videoload.decoding.decoder import Decoder
from videoload.decoding.prepared import Request
from videoload.index.index import find_index
from videoload.storage.files import Folder

WORKS = ("ucf", "first-hmdb", "mjpeg", "h264")
_LEASE_CLIPS = 4


class _Worker:
    """Does to the files of a work what a worker does, and takes the time."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._storage = Folder(work.root)
        self._decoder = Decoder(work.root)
        self._out = np.empty((1, *work.clip.spec().shape), np.uint8)
        self.clip_s: list[float] = []

    def prove(self, number: int) -> float:
        """Seconds to index a file."""
        file = self._storage.resolve(self._work.files[number].path)
        began = time.perf_counter()
        index, opened = find_index(file, lambda: None)
        proven = time.perf_counter()
        if opened is not None:
            opened.close()
        assert index is not None
        return proven - began

    def decode(self, number: int, start: int) -> None:
        """Decode a clip of a file that is not open."""
        segment = Request(0, start=start, end=start + self._work.clip.span)
        self._decoder.rest()
        self._decoder.index(self._work.files[number].path)
        began = time.perf_counter()
        self._decoder.decode(
            self._work.files[number].path, self._work.clip.spec(), [segment], self._out
        )
        self.clip_s.append(time.perf_counter() - began)


def cost(work: Work, rounds: int) -> Row:
    """One line of the table."""
    worker = _Worker(work)
    files = range(work.met or len(work.files))
    starts = {item.file: item.start for item in reversed(work.distinct)}
    hot = [worker.prove(number) for _ in range(rounds) for number in files]
    cold: list[float] = []
    leased: list[float] = []
    for turn in range(rounds):
        for at in range(0, len(files), _LEASE_CLIPS):
            lease = files[at : at + _LEASE_CLIPS]
            if turn % 2:
                leased += [worker.prove(number) for number in lease]
            for number in lease:
                if not turn % 2:
                    cold.append(worker.prove(number))
                worker.decode(number, starts[number])
    in_a_lease, clip = median(leased), median(worker.clip_s)
    return {
        "work": work.name,
        "frames": work.files[0].frames,
        "hot_us": median(hot) * 1e6,
        "lease_us": in_a_lease * 1e6,
        "cold_us": median(cold) * 1e6,
        "clip_us": clip * 1e6,
        "share": in_a_lease / (in_a_lease + clip),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    made = parser(__doc__)
    made.add_argument("--work", choices=WORKS, action="append", help="only this one")
    made.add_argument("--rounds", type=int, default=20, help="rounds through 32 files")
    made.add_argument("--folder", type=Path, default=FOLDER, help="where the files are kept")
    given = made.parse_args(arguments)
    given.folder.mkdir(parents=True, exist_ok=True)
    rows = [cost(load(name, given.folder), given.rounds) for name in given.work or WORKS]
    columns = {
        "work": "{work}",
        "frames": "{frames}",
        "hot": "{hot_us:.0f}",
        "in a lease": "{lease_us:.0f}",
        "cold": "{cold_us:.0f}",
        "clip": "{clip_us:,.0f}",
        "share": "{share:.1%}",
    }
    show("the index of a file, microseconds", rows, columns)
    save(given.json, "index_cost", rows, rounds=given.rounds)


if __name__ == "__main__":
    main()

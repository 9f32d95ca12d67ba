"""What kept frames save over the epochs of a training: `python -m benchmarks.epochs`.

Files like UCF-101's (`many`) and like HMDB-51's (`many-hmdb`: one key frame, packed B-pictures).
Each epoch takes a clip of each file, with a random window, a random crop and a flip that are drawn
anew. Two processes decode, and nothing trains. In turn:

    libav        no loader: bare libav decodes other random clips, with tables of key frames
    nothing      `Stream.dataset`; each epoch decodes its clips
    aligned      the same with windows that begin at keyframes, if it is asked for
    frames       as nothing, with a frame store, empty at the beginning
    half         the same with room for half of the frames
    torchcodec   a DataLoader over torchcodec, if it is installed; its crops are in the middle
    cache        `tf.data`'s cache() of the first epoch's clips: FROZEN, no later epoch draws anew

Clips a second of some epochs, and of the second half of all; the CPU seconds of all processes until
the end of some, medians over the rounds; and the GB on the disk. All workers are there before the
first epoch. The files are in the page cache, and so is what is kept if memory is large enough.

With --loop, videoload's ways go through `Stream.batches`, without TensorFlow; with --step-ms, a
trainer takes that long for each batch, on no core. With --json FILE.json, a plot goes to FILE.png.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import videoload as vl
from benchmarks import epochs_table
from benchmarks.figures import Row, parser, save, table
from benchmarks.loaders import LOADERS, MissingError, bare
from benchmarks.measure import Span, cpu_s
from benchmarks.work import Work
from benchmarks.works import FOLDER, WORKS, load

TORCHCODEC = "torchcodec"
WAYS = ("libav", "nothing", "aligned", "frames", "half", TORCHCODEC, "cache")
FILES = ("many", "many-hmdb")
EPOCHS = (1, 10, 30, 100)  # of the table, if there are so many
_PROCESSES = 2
_BARE_S = 20.0  # half of it for the warm-up
_STORE_GB = 100  # more than any of these works needs


class Run(NamedTuple):
    """Seconds and CPU seconds of all processes, since before the first epoch, at the end of each
    epoch; both begin with 0."""

    ended: list[float]
    spent: list[float]


def measure(
    way: str, work: Work, epochs: int, folder: Path, store_gb: float, *, loop: bool, step_s: float
) -> Run:
    """Run it in a fresh process. ``folder`` is empty, for what is kept."""
    if way == "libav":
        return _bare(work, epochs)
    if way == TORCHCODEC:
        return _timed(_loader(work, epochs), len(work.files) // work.batch, epochs, step_s)
    catalog = vl.Catalog(
        [file.path for file in work.files], [0] * len(work.files), ["a"], work.root
    )
    align = "keyframe" if way == "aligned" else None
    clip = work.clip.spec(sampling="random", crop="random", flip=True, align=align)
    options: dict[str, Any] = {}
    if way in ("frames", "half"):
        options = {"frame_store": folder, "frame_store_gb": store_gb}
    with vl.Client(workers=_PROCESSES, cache=False, **options) as client:
        client.wait_for_workers(_PROCESSES)
        stream = client.stream(catalog, clip, work.batch, shuffle=True, seed=0)
        batches: Iterator[Any]
        if loop:
            batches = stream.batches(epochs=epochs)
        elif way == "cache":
            batches = iter(stream.dataset(epochs=1).cache().repeat(epochs))
        else:
            batches = iter(stream.dataset(epochs=epochs))
        return _timed(batches, len(stream), epochs, step_s)


def _timed(batches: Iterator[Any], steps: int, epochs: int, step_s: float) -> Run:
    times, spent = [time.perf_counter()], [cpu_s()]
    for _ in range(epochs):
        for _ in range(steps):
            next(batches)
            time.sleep(step_s)
        times.append(time.perf_counter())
        spent.append(cpu_s())
    return Run([at - times[0] for at in times], [at - spent[0] for at in spent])


def _bare(work: Work, epochs: int) -> Run:
    """All epochs are alike, so one is measured."""
    clips = len(work.files) // work.batch * work.batch
    span = Span(time.monotonic() + _BARE_S)
    found = bare.timed(work, work.items(2 * clips), clips, span, _PROCESSES)
    numbers = range(epochs + 1)
    epoch_s, epoch_cpu_s = clips / found.clips_s, clips * found.cpu_s_a_clip
    return Run([n * epoch_s for n in numbers], [n * epoch_cpu_s for n in numbers])


def _loader(work: Work, epochs: int) -> Iterator[Any]:
    """Batches of a DataLoader whose processes are there."""
    from torch.utils.data import DataLoader

    loader = DataLoader(
        _RandomClips(work),
        batch_size=work.batch,
        shuffle=True,
        drop_last=True,
        num_workers=_PROCESSES,
        persistent_workers=True,
    )
    next(iter(loader))
    return (batch for _ in range(epochs) for batch in loader)


class _RandomClips:
    """A clip of each file, from a random frame on, flipped or not."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._read: Any = None

    def __len__(self) -> int:
        return len(self._work.files)

    def __getitem__(self, index: int) -> Any:
        import torch

        from benchmarks.loaders.readers import reader

        if self._read is None:
            self._read = reader(TORCHCODEC, self._work)
        file = self._work.files[index]
        clip = self._read(file, random.randrange(file.frames - self._work.clip.span + 1))
        clip = torch.from_numpy(clip)
        return clip.flip(2) if random.random() < 0.5 else clip


def rows_of(work: Work, ways: list[str], rounds: int, epochs: int, **how: Any) -> Iterator[Row]:
    """A row for each way; ``how``: see `measure`."""
    found: dict[str, list[Run]] = {way: [] for way in ways}
    kept = dict.fromkeys(ways, 0)
    fresh = multiprocessing.get_context("spawn")
    half_gb = 0.0
    for _ in range(rounds):
        for way in ways:
            with (
                TemporaryDirectory(dir=work.root.parent) as folder,
                ProcessPoolExecutor(1, mp_context=fresh) as process,
            ):
                room_gb = half_gb if way == "half" else _STORE_GB
                told = process.submit(measure, way, work, epochs, Path(folder), room_gb, **how)
                found[way].append(told.result())
                files = [file.stat() for file in Path(folder).rglob("*") if file.is_file()]
            kept[way] = sum(512 * file.st_blocks for file in files)
            if way == "frames":
                half_gb = sum(file.st_size for file in files) / 2e9
    clips = len(work.files) // work.batch * work.batch
    shown = [number for number in EPOCHS if number <= epochs]
    for way, runs in found.items():
        rates = [[clips / (b - a) for a, b in pairwise(run.ended)] for run in runs]
        first = epochs // 2  # of the later epochs
        later = [clips * (epochs - first) / (run.ended[-1] - run.ended[first]) for run in runs]
        spent = [median(run.spent[number] for run in runs) for number in range(epochs + 1)]
        yield {
            "files": work.name,
            "way": way,
            "name": epochs_table.NAMES[way],
            "clips_per_s": {
                number: median(rate[number - 1] for rate in rates) for number in shown
            },
            "later_clips_per_s": median(later),
            "cpu_s": {number: spent[number] for number in shown},
            "cpu_s_so_far": spent,
            "kept_gb": kept[way] / 1e9,
        }  # fmt: skip


def main() -> None:
    """Measure, print, write."""
    made = parser(__doc__)
    made.add_argument("--work", choices=WORKS, action="append", help="only these files")
    made.add_argument("--way", choices=WAYS[2:], action="append", help="only these, beside nothing")
    made.add_argument("--loop", action="store_true", help="without TensorFlow, and without cache")
    made.add_argument("--step-ms", type=float, default=0.0, help="of a trainer")
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--epochs", type=int, default=30, help="100: five minutes a round and work")
    made.add_argument("--folder", type=Path, default=FOLDER, help="where the AVI files are kept")
    given = made.parse_args()
    # so that what is kept is removed in that case too
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    ways = [*WAYS[:2], *(way for way in WAYS[2:] if way in (given.way or WAYS[3:]))]
    if given.loop and "cache" in ways:
        ways.remove("cache")
    if given.step_ms:  # there is no trainer
        ways.remove("libav")
    if TORCHCODEC in ways:
        try:
            LOADERS["DataLoader torchcodec"].load()
        except MissingError as why:
            print(f"without a DataLoader over torchcodec: {why}")
            ways.remove(TORCHCODEC)
    rows: list[Row] = []
    for name in given.work or FILES:
        work = load(name, given.folder)
        how = {"loop": given.loop, "step_s": given.step_ms / 1e3}
        found = list(rows_of(work, ways, given.rounds, given.epochs, **how))
        print(table(found, epochs_table.columns(given.epochs, list(found[0]["cpu_s"]))))
        rows += [{**row, "what": str(work)} for row in found]
        save(given.json, "epochs", rows, rounds=given.rounds, processes=_PROCESSES)
    if given.json:
        epochs_table.draw(rows, given.json.with_suffix(".png"))


if __name__ == "__main__":
    main()

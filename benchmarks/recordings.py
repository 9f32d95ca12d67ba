"""Every window of two recordings of 20 minutes: `python -m benchmarks.recordings`.

The frames show their numbers, in MJPEG at 15 frames a second and in MPEG-4 at 25, and the model
reads them. `vl.predict` runs in a process of its own, which is killed five times and started again.
Then each row of its table must show the frames and the seconds that it says, and the table must be
that of a run that was not killed.

After that, a recording of moving textures goes through one worker and through two, in turns:

    windows/s   that came out, by the clock; on a machine that does nothing else
    CPU         milliseconds of the workers for a window, however busy the machine is
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import videoload as vl
from benchmarks import long
from benchmarks.figures import Row, children, cpu_s, parser, save, show
from benchmarks.numbered import make_numbered, read_numbers
from videoload.comparison.work import FOLDER

MINUTES, _KILLS, _BATCH = 20, 5, 8
RECORDINGS = {"mjpeg.avi": ("mjpeg", 15), "mpeg4.avi": ("mpeg4", 25)}
WINDOWS = vl.ClipSpec(frames=16, stride=2, hop=8, sampling="dense", size=(64, 64))
_OF_TEXTURES = vl.ClipSpec(
    frames=16, stride=2, hop=8, sampling="dense", resize=128, size=(112, 112)
)  # fmt: skip


def catalog_of(folder: Path, minutes: float) -> vl.Catalog:
    """The recordings, made if they are not there."""
    counts = []
    for name, (codec, rate) in RECORDINGS.items():
        counts.append(round(minutes * 60 * rate))
        path = folder / f"{counts[-1]}" / name
        if not path.exists():
            unfinished = path.with_name(f"unfinished-{name}")
            make_numbered(unfinished, counts[-1], codec=codec, rate=rate)
            unfinished.rename(path)
    paths = [f"{count}/{name}" for count, name in zip(counts, RECORDINGS, strict=True)]
    return vl.Catalog(paths, root=folder, frames=counts)


def predict(folder: Path, minutes: float, table: Path, workers: int) -> None:
    """What the process does that is killed: the score of each frame is its number."""
    catalog = catalog_of(folder, minutes)
    with vl.Client(workers=workers, cache=False) as client:
        vl.predict(
            read_numbers, client, catalog, WINDOWS, _BATCH, to_csv=table, to_npy=table.parent,
            top=WINDOWS.frames, progress=False,
        )  # fmt: skip


def killed(folder: Path, minutes: float, table: Path, after_s: Sequence[float]) -> int:
    """Run `predict` in a process that is killed after so many seconds, once for each, and then in
    one that is not. Returns how often one was killed before its end."""
    script = "from benchmarks.recordings import predict; from pathlib import Path; " + (
        f"predict(Path({str(folder)!r}), {minutes}, Path({str(table)!r}), 2)"
    )
    count = 0
    for limit_s in (*after_s, None):
        process = subprocess.Popen([sys.executable, "-c", script])
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            count += 1
            continue
        if status:
            raise SystemExit(f"the process ended with status {status}")
    return count


def wrong(catalog: vl.Catalog, table: Path) -> tuple[int, int]:
    """How many windows there are in the results, and how many of them are wrong."""
    windows = bad = 0
    rates = [rate for _, rate in RECORDINGS.values()]
    for video, frames, rate in zip(catalog, catalog.segment_frames.tolist(), rates, strict=True):
        scores = np.load(table.parent / f"{video.path}.npy")
        times = np.load(table.parent / f"{video.path}.times.npy")
        count = WINDOWS.windows(frames)
        shown = 8 * np.arange(count)[:, None] + 2 * np.arange(16)
        if scores.shape != shown.shape:
            raise SystemExit(f"{video.path} has {len(scores)} windows, not {count}")
        right = (scores == shown).all(1) & (abs(times - shown[:, [0, -1]] / rate) < 1e-6).all(1)
        windows, bad = windows + count, bad + int(count - right.sum())
    return windows, bad


def rate(work: Any, workers: int) -> tuple[float, float]:
    """Windows a second through so many workers, and their CPU milliseconds for a window."""
    file = work.files[0]
    catalog = vl.Catalog([file.path], root=work.root, frames=[file.frames])
    marks: list[tuple[float, float]] = []

    def model(clips: Any) -> Any:
        if not marks:
            marks.append((time.perf_counter(), _cpu_s()))
        return np.zeros((len(clips), 1), np.float32)

    with vl.Client(workers=workers, cache=False) as client:
        client.wait_for_workers(workers)
        found = vl.predict(model, client, catalog, _OF_TEXTURES, _BATCH, progress=False)
        seconds, cpu = time.perf_counter() - marks[0][0], _cpu_s() - marks[0][1]
    windows = len(found.files[0].scores)
    return windows / seconds, cpu / windows * 1e3


def _cpu_s() -> float:
    return sum(sum(cpu_s(child).values()) for child in children(os.getpid()))


def main(arguments: Sequence[str] | None = None) -> None:
    """Check, measure, print, write."""
    made = parser(__doc__)
    made.add_argument("--minutes", type=float, default=MINUTES)
    made.add_argument("--kills", type=int, default=_KILLS)
    made.add_argument("--rounds", type=int, default=5, help="of one worker and two; 0: none")
    made.add_argument("--folder", type=Path, default=FOLDER / "recordings")
    given = made.parse_args(arguments)
    catalog = catalog_of(given.folder, given.minutes)
    tables = [given.folder / f"results-{os.getpid()}" / name for name in ("whole", "killed")]
    after_s: list[float] = []
    for table in tables:
        began = time.perf_counter()
        times = killed(given.folder, given.minutes, table / "all.csv", after_s)
        whole_s = time.perf_counter() - began
        # The last ones fall behind the first file's end, which is kept.
        after_s = [whole_s * (0.25 + 0.35 * turn / given.kills) for turn in range(given.kills)]
        windows, bad = wrong(catalog, table / "all.csv")
        print(f"killed {times} times: {windows} windows, {bad} wrong")
    same = len({(table / "all.csv").read_bytes() for table in tables}) == 1
    print("the tables are " + ("the same" if same else "different"))
    rows: list[Row] = []
    if given.rounds:
        work = long.make("mpeg4", given.folder, round(given.minutes * 60 * 25))
        one, two = zip(*((rate(work, 1), rate(work, 2)) for _ in range(given.rounds)), strict=True)
        rows.append(
            {
                "windows_s": median(r for r, _ in one),
                "two_windows_s": median(r for r, _ in two),
                "ratio": median(b[0] / a[0] for a, b in zip(one, two, strict=True)),
                "cpu_ms": median(c for _, c in one),
                "two_cpu_ms": median(c for _, c in two),
            }
        )
        columns = {
            "one worker, windows/s": "{windows_s:.0f}",
            "two": "{two_windows_s:.0f}",
            "ratio": "{ratio:.2f}",
            "CPU ms": "{cpu_ms:.2f}",
            "two ": "{two_cpu_ms:.2f}",
        }
        show("windows of one recording, 320x240 MPEG-4", rows, columns)
    save(given.json, "recordings", rows, minutes=given.minutes, rounds=given.rounds)
    if bad or not same:
        raise SystemExit(1)


if __name__ == "__main__":
    main()

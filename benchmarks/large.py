"""Many videos, each read once in an epoch: `python -m benchmarks.large`.

300 000 names (--videos) are hard links to the 32 files of a work (`ucf`), so that everything that
depends on names is large: the catalog, the plan, the indexes, the open files. Workers keep nothing
on disk, or frames in a store that holds a small part of them (--frame-store-gb). In each of two
shuffled epochs, the first clips are decoded for --seconds. Every --every seconds a row says

    clips/s   since the last row
    CPU ms    of all workers, a clip, since the last row: other programs hardly change it
    client    megabytes of this process: resident, and with shared pages divided (PSS)
    worker    the same of the largest worker

If memory is bounded, the second epoch is as fast as the first, and both columns are constant. The
links and the store are removed at the end.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import videoload as vl
from benchmarks.figures import Row, children, cpu_s, parser, save, show
from benchmarks.work import Work
from benchmarks.works import FOLDER, WORKS, load
from videoload.host import cores

BATCH = 8
EPOCHS = 2
_NAMES_A_FOLDER = 1000


@contextmanager
def named(work: Work, videos: int) -> Iterator[vl.Catalog]:
    """A catalog of this many names for the files of a work, inside the ``with``."""
    with TemporaryDirectory(dir=work.root.parent, prefix="large-") as root:
        paths = []
        for number in range(videos):
            folder, name = divmod(number, _NAMES_A_FOLDER)
            if name == 0:
                Path(root, f"{folder:04d}").mkdir()
            paths.append(f"{folder:04d}/{number:07d}.avi")
            os.link(work.path(work.files[number % len(work.files)]), f"{root}/{paths[-1]}")
        yield vl.Catalog(paths, root=root)


def memory_mb(pid: int) -> tuple[float, float]:
    """Memory of a process: resident, and its share of it."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    told = {line.split()[0]: int(line.split()[1]) for line in lines if line.endswith(" kB")}
    return told["Rss:"] * 1024 / 1e6, told["Pss:"] * 1024 / 1e6


def part_of_epoch(stream: vl.Stream, epoch: int, seconds: float, every: float) -> Iterator[Row]:
    """Decode the beginning of an epoch; one row every few seconds."""
    workers = children(os.getpid())
    batches = stream.batches(start_step=epoch * len(stream), epochs=epoch + 1)
    next(batches)
    began = last = time.perf_counter()
    clips = clips_before = 0
    spent = before = _spent_s(workers)
    for _ in batches:
        clips += BATCH
        now = time.perf_counter()
        if now - last < every:
            continue
        resident, share = memory_mb(os.getpid())
        of_workers = [memory_mb(worker) for worker in workers]
        now_spent = _spent_s(workers)
        yield {
            "epoch": epoch + 1,
            "seconds": now - began,
            "clips": clips,
            "clips_s": (clips - clips_before) / (now - last),
            "all_clips_s": clips / (now - began),
            "cpu_ms": (now_spent - before) / (clips - clips_before) * 1e3,
            "all_cpu_ms": (now_spent - spent) / clips * 1e3,
            "client_rss_mb": resident,
            "client_pss_mb": share,
            "worker_rss_mb": max(rss for rss, _ in of_workers),
            "worker_pss_mb": max(pss for _, pss in of_workers),
        }
        last, clips_before, before = time.perf_counter(), clips, now_spent
        if now - began >= seconds:
            return


def _spent_s(workers: list[int]) -> float:
    """CPU seconds of the workers so far."""
    return sum(sum(cpu_s(worker).values()) for worker in workers)


def main() -> None:
    """Measure, print, write."""
    made = parser(__doc__)
    made.add_argument("--videos", type=int, default=300_000)
    made.add_argument("--work", choices=WORKS, default="ucf")
    made.add_argument("--seconds", type=float, default=150.0, help="seconds of each epoch")
    made.add_argument("--every", type=float, default=15.0, help="seconds between two rows")
    made.add_argument("--workers", type=int, default=cores())
    made.add_argument("--folder", type=Path, default=FOLDER, help="where files are kept")
    made.add_argument("--frame-store-gb", type=float, metavar="GB", help="with a frame store")
    given = made.parse_args()
    # so that the links are removed in that case too
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    given.folder.mkdir(parents=True, exist_ok=True)
    work = load(given.work, given.folder)
    rows: list[Row] = []
    with (
        named(work, given.videos) as catalog,
        TemporaryDirectory(dir=given.folder) as store,
        vl.Client(
            workers=given.workers,
            cache=False,
            frame_store=None if given.frame_store_gb is None else store,
            frame_store_gb=given.frame_store_gb,
        ) as client,
    ):
        client.wait_for_workers(given.workers)
        clip = work.clip.spec(sampling="random")
        stream = client.stream(catalog, clip, BATCH, shuffle=True, seed=0)
        for epoch in range(EPOCHS):
            rows += part_of_epoch(stream, epoch, given.seconds, given.every)
    columns = {
        "epoch": "{epoch}",
        "after s": "{seconds:.0f}",
        "clips": "{clips:,}",
        "clips/s": "{clips_s:.0f}",
        "CPU ms": "{cpu_ms:.2f}",
        "client RSS": "{client_rss_mb:.1f}",
        "PSS": "{client_pss_mb:.1f}",
        "worker RSS": "{worker_rss_mb:.1f}",
        "PSS ": "{worker_pss_mb:.1f}",
    }
    show(f"{given.videos:,} videos; {given.workers} workers", rows, columns)
    ends = {row["epoch"]: row["all_clips_s"] for row in rows}
    print(", ".join(f"epoch {epoch}: {rate:.1f} clips/s" for epoch, rate in ends.items()))
    spent = {row["epoch"]: row["all_cpu_ms"] for row in rows}
    print(", ".join(f"epoch {epoch}: {ms:.2f} CPU ms" for epoch, ms in spent.items()))
    save(given.json, "large", rows, videos=given.videos, workers=given.workers)


if __name__ == "__main__":
    main()

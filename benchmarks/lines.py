"""Workers far away, and a line that is full: `python -m benchmarks.lines`.

The workers are simulated (`benchmarks.simulated`). Their messages go through a relay
(`benchmarks.relay`) that delays them and limits their rate. Three tables:

    far        four hosts of workers, 50 ms a clip, small ones, at round trips from 0 to 100 ms; the
               share is of the throughput without delay
    full       8 to 256 workers with clips of 2.4 MB behind a line of 1 Gb/s, which carries 49 of
               them a second
    cut        half of the workers are cut off for 30 s: clips/s before, meanwhile, and the time
               until the rate is as before
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import videoload as vl
from benchmarks.figures import Row, parser, save, show
from benchmarks.relay import Line, line
from benchmarks.simulated import crowd

HOSTS = 4
TRIPS_MS = (0, 1, 20, 50, 100)
WORKERS = (8, 16, 32, 64, 128, 256)
GBIT = 125e6  # bytes a second
SMALL = vl.ClipSpec(frames=16, stride=2, size=(8, 8), sampling="random")
LARGE = vl.ClipSpec(frames=16, stride=2, size=(224, 224), sampling="random")
CLIP_S, SPREAD = 0.05, 0.2
VIDEOS = 10_000
WARM_S = 3.0
_SETTLED = 0.95  # share of the rate before


class Reading:
    """A client, its workers behind lines, and a stream that is read and dropped."""

    def __init__(self, stream: vl.Stream, batch: int, lines: list[Line]) -> None:
        self.lines = lines
        self._batch = batch
        self._batches = stream.batches(epochs=1_000_000)

    def rate(self, seconds: float) -> float:
        """Clips a second over this many seconds, from one batch to a later one."""
        next(self._batches)
        began, clips = time.perf_counter(), 0
        while (took := time.perf_counter() - began) < seconds:
            next(self._batches)
            clips += self._batch
        return clips / took


@contextmanager
def reading(
    clip: vl.ClipSpec, workers: int, batch: int, slots: int, trip_s: float, bytes_per_s: float,
    hosts: int = HOSTS,
) -> Iterator[Reading]:  # fmt: skip
    """Workers on several hosts, each host with a line of its own, are at work."""
    catalog = vl.Catalog([f"v{i:05d}.avi" for i in range(VIDEOS)])
    with ExitStack() as stack:
        client = stack.enter_context(vl.Client(workers=0, listen="tcp://127.0.0.1:*"))
        stream = client.stream(catalog, clip, batch, shuffle=True, slots=slots)
        lines = []
        for _ in range(hosts):
            lines.append(stack.enter_context(line(client.endpoints[0], trip_s, bytes_per_s)))
            stack.enter_context(crowd(lines[-1].endpoint, workers // hosts, CLIP_S, SPREAD))
        client.wait_for_workers(workers)
        yield Reading(stream, batch, lines)


def far(trip_ms: float, workers: int, seconds: float) -> Row:
    """What four hosts deliver over a round trip of this length."""
    with reading(SMALL, workers, 8, 8 + 2 * workers, trip_ms / 1e3, math.inf) as read:
        read.rate(WARM_S)
        return {"trip_ms": trip_ms, "clips_per_s": read.rate(seconds)}


def full(workers: int, seconds: float) -> Row:
    """What arrives over a full line."""
    with reading(LARGE, workers, 8, 96, 0.001, GBIT, hosts=1) as read:
        read.rate(WARM_S)
        rate = read.rate(seconds)
    most = min(GBIT / LARGE.clip_bytes, workers / CLIP_S)
    return {"workers": workers, "clips_per_s": rate, "share": rate / most}


def cut(workers: int, seconds: float) -> Row:
    """Half of the workers are cut off for a while."""
    with reading(SMALL, workers, 8, 8 + workers, 0.001, math.inf, hosts=2) as read:
        read.rate(WARM_S)
        before = read.rate(5.0)
        read.lines[0].cut()
        meanwhile = read.rate(seconds)
        read.lines[0].heal()
        healed = time.perf_counter()
        after, back_s = 0.0, math.inf
        while time.perf_counter() < healed + 10.0 and math.isinf(back_s):
            after = read.rate(0.5)
            if after > _SETTLED * before:
                back_s = time.perf_counter() - healed
        after = read.rate(5.0)
    return {"before": before, "meanwhile": meanwhile, "after": after, "back_s": back_s}


def tables(given: argparse.Namespace) -> Iterator[tuple[str, list[Row], dict[str, str]]]:
    """Each title, its rows, and the columns to show."""
    if "far" in given.only:
        rows = [far(trip_ms, given.far_workers, given.seconds) for trip_ms in TRIPS_MS]
        shares: list[Row] = [
            {**row, "share": row["clips_per_s"] / rows[0]["clips_per_s"]} for row in rows
        ]
        columns = {
            "round trip": "{trip_ms} ms", "clips/s": "{clips_per_s:,.0f}", "share": "{share:.2f}",
        }  # fmt: skip
        yield f"{given.far_workers} workers on {HOSTS} hosts", shares, columns
    if "full" in given.only:
        rows = [full(workers, given.seconds) for workers in given.workers or WORKERS]
        columns = {"workers": "{workers}", "clips/s": "{clips_per_s:.1f}", "share": "{share:.2f}"}
        yield "clips of 2.4 MB, one line of 1 Gb/s", rows, columns
    if "cut" in given.only:
        columns = {
            "before": "{before:,.0f}", "meanwhile": "{meanwhile:,.0f}", "after": "{after:,.0f}",
            "back within": "{back_s:.1f} s",
        }  # fmt: skip
        title = f"clips/s, half of {given.far_workers} workers cut off for {given.cut_s:g} s"
        yield title, [cut(given.far_workers, given.cut_s)], columns


def main() -> None:
    """Measure, print, write."""
    made = parser(__doc__)
    made.add_argument("--only", action="append", choices=("far", "full", "cut"))
    made.add_argument(
        "--workers",
        type=int,
        action="append",
        help="numbers of workers at the full line; may be repeated",
    )
    made.add_argument(
        "--far-workers", type=int, default=32, help="number of workers for the tables far and cut"
    )
    made.add_argument("--cut-s", type=float, default=30.0, help="how long they are cut off")
    made.add_argument("--seconds", type=float, default=8.0, help="length of each measurement")
    given = made.parse_args()
    given.only = given.only or ["far", "full", "cut"]
    measured = []
    for title, rows, columns in tables(given):
        show(title, rows, columns)
        measured += [{"table": title, **row} for row in rows]
    save(given.json, "lines", measured, **vars(given))


if __name__ == "__main__":
    main()

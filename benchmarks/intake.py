"""What one client takes in from workers of other hosts: `python -m benchmarks.intake`.

Simulated workers (`benchmarks.simulated`) decode nothing and answer at once, over loopback, so that
only the line and the client are measured; they share its cores. Clips of 16 frames of 112x112 and
224x224, with and without keys. No loader can be faster than the kernel's TCP on the same cores
(`bare_tcp`):

    clips/s   read and dropped
    of TCP    share of bare TCP's clips a second, without messages and keys
    GB/s      of pixels
    io        CPU microseconds a clip of the client's I/O thread, which copies into the slot
    zmq       ... of ZeroMQ's threads, which receive and decipher
    reader    ... of the thread that reads the stream
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from statistics import median

import videoload as vl
from benchmarks.bare_tcp import bare_tcp
from benchmarks.figures import Row, client_cpu_s, parser, save, show
from benchmarks.simulated import crowd
from videoload.host import cores
from videoload.transport.keys import make_keys

_PROCESSES, _WORKERS = 2, 2  # in each
_CLIP_S, _SPREAD = 1e-4, 0.2
_BATCH, _VIDEOS = 32, 10_000
_WARM_S = 2.0


def intake(size: int, seconds: float, *, has_keys: bool) -> Row:
    """One measurement."""
    spec = vl.ClipSpec(frames=16, stride=2, size=(size, size), sampling="random")
    catalog = vl.Catalog([f"v{i:05d}.avi" for i in range(_VIDEOS)])
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        trainer, worker = map(str, make_keys(f"{folder}/keys")) if has_keys else (None, None)
        client = stack.enter_context(vl.Client(workers=0, listen="tcp://127.0.0.1:*", keys=trainer))
        for _ in range(_PROCESSES):
            stack.enter_context(crowd(client.endpoints[0], _WORKERS, _CLIP_S, _SPREAD, worker))
        client.wait_for_workers(_PROCESSES * _WORKERS)
        batches = client.stream(catalog, spec, _BATCH, shuffle=True).batches(epochs=1_000_000)
        warm = time.perf_counter() + _WARM_S
        while time.perf_counter() < warm:
            next(batches)
        before, began, clips = client_cpu_s(), time.perf_counter(), 0
        while (took := time.perf_counter() - began) < seconds:
            next(batches)
            clips += _BATCH
        spent = {name: 1e6 * (s - before[name]) / clips for name, s in client_cpu_s().items()}
    rate = clips / took
    return {
        "size": size,
        "keys": "with" if has_keys else "none",
        "clips_per_s": rate,
        "gb_per_s": rate * spec.clip_bytes / 1e9,
        "io": spent["io"],
        "zmq": spent["zmq"],
        "reader": spent["consumer"],
    }


def main() -> None:
    """Measure, print, write."""
    made = parser(__doc__)
    made.add_argument("--seconds", type=float, default=5.0, help="length of each measurement")
    made.add_argument("--rounds", type=int, default=3)
    given = made.parse_args()
    rows = []
    for size, has_keys in ((112, False), (224, False), (112, True), (224, True)):
        measured: list[Row] = []
        for _ in range(given.rounds):
            tcp = bare_tcp(
                16 * size * size * 3, given.seconds, processes=_PROCESSES, connections=_WORKERS
            )
            row = intake(size, given.seconds, has_keys=has_keys)
            measured.append({**row, "of_tcp": float(row["clips_per_s"]) / tcp})
        rate = median(float(row["clips_per_s"]) for row in measured)
        rows.append(min(measured, key=lambda row: abs(float(row["clips_per_s"]) - rate)))
    show(f"one client on {cores()} cores that the workers share", rows, {
        "clip": "16x{size}x{size}", "keys": "{keys}",
        "clips/s": "{clips_per_s:.0f}", "GB/s": "{gb_per_s:.2f}", "of TCP": "{of_tcp:.0%}",
        "io us": "{io:.0f}", "zmq us": "{zmq:.0f}", "reader us": "{reader:.0f}",
    })  # fmt: skip
    save(given.json, "intake", rows, rounds=given.rounds, seconds=given.seconds)


if __name__ == "__main__":
    main()

"""One trainer and very many workers: `python -m benchmarks.scale`.

The workers are simulated (`benchmarks.simulated`): they send real messages over real tcp sockets,
but wait 50 ms a clip instead of decoding. So W workers should deliver W / 50 ms clips a second, and
the client costs the difference. A consumer takes the batches and drops them. Prints for each number
of workers:

    clips/s, ideal   taken by the consumer, and the share of what the workers could deliver
    µs/clip          CPU of the client: its I/O thread, the reading thread, ZeroMQ
    client, (sim.)   cores kept busy by the client and by the simulator; if they are nearly all
                     cores, the figures are those of this machine, not of the client
    first            seconds from `Client.stream` to the first batch, with the workers connected
    MB               the client's own memory, and its slots

Then the other way round: how many leases a second one real worker takes whose decoding is free
(`benchmarks.free`), fed by a trainer that does nothing else.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import time
from tempfile import TemporaryDirectory

import zmq

import videoload as vl
from benchmarks.figures import (
    Row,
    client_cpu_s,
    cpu_s,
    parser,
    resident_bytes,
    save,
    show,
    workers_are,
)
from benchmarks.simulated import crowd
from videoload.processes.supervisor import Supervisor
from videoload.transport.messages import Clip, Hello, Lease, Result, Welcome
from videoload.transport.private_messages import WorkerSettings
from videoload.transport.sockets import Router

WORKERS = tuple(2**i for i in range(10))
CLIP = vl.ClipSpec(frames=16, stride=2, size=(8, 8), sampling="random")
VIDEOS = 10_000
_WARM_S = 2.0
_WARM_LEASES = 100
_BATCHES = 8  # clips counted at least; one worker alone takes 1.6 s for each


def scale(workers: int, given: argparse.Namespace) -> Row:
    """What one client gets from this many workers."""
    names = [f"Class{i % 101:03d}/v_Class{i % 101:03d}_g{i:05d}.avi" for i in range(VIDEOS)]
    catalog = vl.Catalog(names)
    with vl.Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        endpoint = client.endpoints[0]
        with crowd(endpoint, workers, given.clip_s, given.spread) as simulator:
            client.wait_for_workers(workers)
            asked = time.perf_counter()
            stream = client.stream(
                catalog, CLIP, given.batch, shuffle=True, seed=0, slots=given.slots
            )
            batches = stream.batches(epochs=1_000_000)
            next(batches)
            first_s = time.perf_counter() - asked
            while time.perf_counter() < asked + _WARM_S:
                next(batches)
            # From a batch to a later one.
            began, before, aside = (
                time.perf_counter(),
                client_cpu_s(),
                sum(cpu_s(simulator).values()),
            )
            clips, seconds = 0, 0.0
            while seconds < given.seconds or clips < _BATCHES * given.batch:
                next(batches)
                clips += given.batch
                seconds = time.perf_counter() - began
            spent = {who: after - before[who] for who, after in client_cpu_s().items()}
            simulating = sum(cpu_s(simulator).values()) - aside
            own, _ = resident_bytes(os.getpid())
    return {
        "what": "one client",
        "workers": workers,
        "clips_per_s": clips / seconds,
        "share": clips / seconds * given.clip_s / workers,
        **{who: cpu / clips * 1e6 for who, cpu in spent.items()},
        "client_us": sum(spent.values()) / clips * 1e6,
        "client_cores": sum(spent.values()) / seconds,
        "simulator_cores": simulating / seconds,
        "first_s": first_s,
        "own_mb": own / 1e6,
        "slots_mb": given.slots * given.batch * CLIP.clip_bytes / 1e6,
    }


def feed(lease_clips: int, given: argparse.Namespace) -> Row:
    """How many leases a second one real worker takes, two at a time."""
    clips = [Clip(f"v_{i:05d}.avi", i) for i in range(lease_clips)]
    with TemporaryDirectory() as root, zmq.Context() as context, workers_are("benchmarks.free"):
        router = Router(context, "tcp://127.0.0.1:*")
        supervisor = Supervisor()
        supervisor.start(1, WorkerSettings([router.endpoint], root=root))
        leases = itertools.count(1)
        done, began, before, own = 0, math.inf, 0.0, 0.0
        worker = supervisor.children[0].pid
        while time.perf_counter() < began + given.seconds:
            got = router.receive()
            if got is None:
                router.socket.poll(100)
                continue
            peer, message = got
            router.skip()
            if isinstance(message, Hello):
                peer.send(Welcome(0.25))
            for _ in range(2 * isinstance(message, Hello) + isinstance(message, Result)):
                peer.send(Lease(next(leases), CLIP, clips))
            done += isinstance(message, Result)
            if done == _WARM_LEASES and math.isinf(began):
                began, before = time.perf_counter(), sum(cpu_s(worker).values())
                own, done = time.thread_time(), 0
        seconds = time.perf_counter() - began
        spent, own = sum(cpu_s(worker).values()) - before, time.thread_time() - own
        supervisor.stop()
        router.close()
    return {
        "what": "one worker",
        "lease": lease_clips,
        "leases_per_s": done / seconds,
        "clips_per_s": done * lease_clips / seconds,
        "worker_us": spent / done * 1e6,
        "worker_cores": spent / seconds,
        "trainer_cores": own / seconds,
    }


def main() -> None:
    """Measure, print, write."""
    made = parser(__doc__)
    made.add_argument(
        "--workers", type=int, action="append", help="only this number; may be repeated"
    )
    made.add_argument(
        "--clip-s", type=float, default=0.05, help="seconds that a worker takes for a clip"
    )
    made.add_argument(
        "--spread", type=float, default=0.2, help="random share that is added or subtracted"
    )
    made.add_argument("--batch", type=int, default=32, help="clips in a batch")
    made.add_argument(
        "--slots", type=int, help="slots of the stream; by default enough for all workers"
    )
    made.add_argument("--seconds", type=float, default=5.0, help="length of each measurement")
    given = made.parse_args()
    counts = given.workers or WORKERS
    # Two leases of one clip are granted to each worker, and as many clips again wait.
    given.slots = given.slots or 8 + 4 * max(counts) // given.batch
    rows = [scale(workers, given) for workers in counts]
    columns = {
        "workers": "{workers}",
        "clips/s": "{clips_per_s:,.0f}",
        "ideal": "{share:.1%}",
        "µs/clip": "{client_us:.0f}",
        "I/O": "{io:.0f}",
        "reader": "{consumer:.0f}",
        "zmq": "{zmq:.0f}",
        "client": "{client_cores:.2f}",
        "(sim.)": "{simulator_cores:.2f}",
        "first": "{first_s:.2f}",
        "MB": "{own_mb:.0f}+{slots_mb:.0f}",
    }
    show(f"workers of {given.clip_s * 1e3:g} ms a clip, batches of {given.batch}", rows, columns)
    fed = [] if given.workers else [feed(clips, given) for clips in (1, 4, 16)]
    columns = {
        "clips a lease": "{lease}",
        "leases/s": "{leases_per_s:,.0f}",
        "clips/s": "{clips_per_s:,.0f}",
        "worker, µs/lease": "{worker_us:.0f}",
        "worker": "{worker_cores:.2f}",
        "trainer": "{trainer_cores:.2f}",
    }
    if fed:
        show("one real worker, decoding free", fed, columns)
    save(given.json, "scale", [*rows, *fed], **vars(given))


if __name__ == "__main__":
    main()

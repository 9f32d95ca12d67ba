"""Hundreds of workers in one process: `python -m tests.faults.light_workers ENDPOINT ROOT COUNT`.

Each has the connection of a real worker: it says HELLO, sends heartbeats, rests when it is refused,
and dials again. One thread and one decoder do the work of all. The program prints how many are
admitted whenever that changes, and why others are not.
"""

from __future__ import annotations

import logging
import sys
import time

import numpy as np
import numpy.typing as npt
import zmq

from videoload.decoding.decoder import Decoder
from videoload.transport.addresses import resolve
from videoload.transport.messages import Heartbeat, Lease, Result
from videoload.transport.private_messages import WorkerSettings
from videoload.worker.lease_runs import LeaseRuns
from videoload.worker.trainers import Trainers

_TURN_MS = 50


def main(endpoint: str, root: str, count: int) -> None:
    """Run for ever."""
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    settings = WorkerSettings([endpoint], root=root)
    workers = [Trainers(context, settings, resolve) for _ in range(count)]
    decoder = Decoder(root)
    welcomed, frames = -1, 0
    while True:
        now = time.monotonic()
        for worker in workers:
            worker.tick(now, Heartbeat(frames))
            if (got := worker.next_lease(time.monotonic())) is not None:
                connection, lease = got
                connection.say(*_decoded(decoder, lease))
                frames += 1
        connections = [connection for worker in workers for connection in worker]
        if (there := sum(connection.welcomed for connection in connections)) != welcomed:
            welcomed = there
            print("welcomed", welcomed, flush=True)
        dealers = [connection.dealer for connection in connections if connection.dealer is not None]
        zmq.zmq_poll([(dealer.socket, zmq.POLLIN) for dealer in dealers], _TURN_MS)


def _decoded(decoder: Decoder, lease: Lease) -> tuple[Result, npt.NDArray[np.uint8]]:
    assert lease.spec is not None
    pixels = np.empty((len(lease.clips), lease.spec.clip_bytes), np.uint8)
    runs = LeaseRuns(decoder, lease, pixels, lambda: None)
    runs.decode()
    runs.look_at_files()
    runs.result.decode_s = 0.001
    return runs.result, pixels


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))

"""Workers that decode nothing and take their time: `python -m benchmarks.simulated ENDPOINT ...`.

Hundreds of them live in one process, each with a DEALER of its own, each like a real worker to its
trainer: HELLO, at most one lease at work while the next one waits, RESULT with pixels when its time
is up, heartbeats that show progress when it has sent nothing else for a while.

They must not be a bottleneck themselves. One thread sleeps on the descriptors of all sockets and on
a heap of due times. A late answer does not make the next one late: a lease that was waiting counts
as begun when the one before it was due.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import math
import random
import select
import socket
import subprocess
import sys
import time
import uuid
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import zmq

from videoload import native
from videoload.clips.sample_info import info_type
from videoload.clips.sample_spec import SampleSpec, frames_shape
from videoload.pixels.software import software_and_code
from videoload.transport.messages import Bye, Heartbeat, Hello, Lease, Result, Welcome
from videoload.transport.sockets import Dealer

_GREET_S = 0.05  # how soon a HELLO is tried again that found no connection


class Crowd:
    """``workers`` workers of one trainer. A clip takes ``clip_s``, more or less by up to ``spread``
    (a share), drawn for each clip."""

    def __init__(
        self, endpoint: str, workers: int, clip_s: float, spread: float, keys: str | None = None
    ) -> None:
        self.clip_s = clip_s
        self.spread = spread
        self.draw = random.Random(0)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        native.allow_descriptors()
        self._context.set(zmq.MAX_SOCKETS, max(1023, 4 * workers))  # each has a monitor of two
        self._epoll = select.epoll()
        self._due: list[tuple[float, int, _Worker, bool]] = []
        self._numbers = itertools.count()
        self._workers: dict[int, _Worker] = {}
        for _ in range(workers):
            worker = _Worker(self, Dealer(self._context, endpoint, keys=keys))
            fd = int(worker.dealer.socket.getsockopt(zmq.FD))
            self._epoll.register(fd, select.EPOLLIN)
            self._workers[fd] = worker

    def wake(self, worker: _Worker, at: float, *, lease: bool) -> None:
        """Call the worker at that time: its lease is done, or a heartbeat may be due."""
        heapq.heappush(self._due, (at, next(self._numbers), worker, lease))

    def run(self) -> None:
        """Run for ever."""
        while True:
            wait_s = max(0.0, self._due[0][0] - time.monotonic()) if self._due else -1
            for fd, _ in self._epoll.poll(wait_s):
                self._workers[fd].read(time.monotonic())
            now = time.monotonic()
            while self._due and self._due[0][0] <= now:
                at, _, worker, lease = heapq.heappop(self._due)
                if lease:
                    worker.answer(at, now)
                else:
                    worker.beat(now)


class _Worker:
    def __init__(self, crowd: Crowd, dealer: Dealer) -> None:
        self.dealer = dealer
        self._crowd = crowd
        self._hello = Hello(
            uuid.uuid4().hex, socket.gethostname(), next(_PIDS), software_and_code()
        )
        self._leases: deque[Lease] = deque()  # the first one is at work
        self._takes_s = 0.0
        self._beat_s = 0.0  # not welcomed yet
        self._said = 0.0
        self._frames = 0
        self._crowd.wake(self, 0.0, lease=False)

    def read(self, now: float) -> None:
        """Read everything: the descriptor says only that something new has arrived."""
        while (message := self.dealer.receive()) is not None:
            if isinstance(message, Lease):
                self._leases.append(message)
                if len(self._leases) == 1:
                    self._begin(now)
            elif isinstance(message, Welcome):
                self._beat_s = message.beat_s
                self._say(Heartbeat(self._frames), now)
            elif isinstance(message, Bye):
                sys.exit(0)

    def answer(self, due: float, now: float) -> None:
        """The first lease is done."""
        lease, seconds = self._leases.popleft(), self._takes_s
        if self._leases:
            self._begin(due)
        clips, shown = len(lease.clips), math.prod(frames_shape(lease.spec))
        self._frames += clips * shown
        result = Result(lease.lease, _info(lease.spec, clips), seconds, [1] * clips)
        self._say(result, now, _pixels(lease.spec, clips))

    def beat(self, now: float) -> None:
        """Send what is due: HELLO, or a heartbeat."""
        if not self._said:
            self._say(self._hello, now)
        elif self._beat_s and now - self._said >= self._beat_s:
            self._frames += bool(self._leases)
            self._say(Heartbeat(self._frames), now)
        self._crowd.wake(self, max(now, self._said) + (self._beat_s or _GREET_S), lease=False)

    def _begin(self, at: float) -> None:
        crowd = self._crowd
        low, high = 1 - crowd.spread, 1 + crowd.spread
        clips = sum(crowd.draw.uniform(low, high) for _ in self._leases[0].clips)
        self._takes_s = crowd.clip_s * clips
        crowd.wake(self, at + self._takes_s, lease=True)

    def _say(
        self,
        message: Hello | Result | Heartbeat,
        now: float,
        pixels: npt.NDArray[np.uint8] | None = None,
    ) -> None:
        if self.dealer.send(message, pixels):
            self._said = now
        self.read(now)  # sending may have consumed the descriptor's event


_PIDS = itertools.count(1)


@lru_cache
def _info(spec: SampleSpec, clips: int) -> bytes:
    info = np.zeros(clips, info_type(spec))
    info["frames"] = np.arange(math.prod(frames_shape(spec))).reshape(frames_shape(spec))
    return info.tobytes()


@lru_cache
def _pixels(spec: SampleSpec, clips: int) -> npt.NDArray[np.uint8]:
    return np.zeros((clips, spec.clip_bytes), np.uint8)


@contextmanager
def crowd(
    endpoint: str, workers: int, clip_s: float, spread: float, keys: str | None = None
) -> Iterator[int]:
    """A process of simulated workers, with their keys in a folder; its process id."""
    words = ["--clip-s", clip_s, "--spread", spread, *(() if keys is None else ("--keys", keys))]
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.simulated", endpoint, *map(str, (workers, *words))]
    )
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    """The process that `crowd` starts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("endpoint", metavar="tcp://HOST:PORT")
    parser.add_argument("workers", type=int)
    parser.add_argument(
        "--clip-s", type=float, default=0.05, help="seconds that a worker takes for a clip"
    )
    parser.add_argument(
        "--spread", type=float, default=0.2, help="random share that is added or subtracted"
    )
    parser.add_argument("--keys", help="folder of a worker's keys")
    given = parser.parse_args()
    Crowd(given.endpoint, given.workers, given.clip_s, given.spread, given.keys).run()


if __name__ == "__main__":
    main()

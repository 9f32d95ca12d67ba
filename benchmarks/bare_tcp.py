"""What the kernel alone carries over loopback: the same bytes, from as many processes and
connections, received straight into shared memory, and nothing else."""

from __future__ import annotations

import itertools
import mmap
import multiprocessing
import os
import select
import socket
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection

_WARM_S = 1.0
_SLOTS = 16  # a connection
# The kernel doubles it. With its own choice of megabytes, bytes leave the cores' caches on their
# way, and each is fetched from memory twice: 2 650 clips/s instead of 3 800.
_SEND_BUFFER = 64 << 10


def bare_tcp(size: int, seconds: float, *, processes: int, connections: int) -> float:
    """Answers of ``size`` bytes a second, from pairs of processes with ``connections`` each."""
    context = multiprocessing.get_context("spawn")
    rates, made = [], []
    given: list[socket.socket | Connection] = []
    for _ in range(processes):
        listening = socket.create_server(("127.0.0.1", 0))
        there, here = context.Pipe(duplex=False)
        made += [
            context.Process(
                target=_receive, args=(listening, size, seconds, connections, here), daemon=True
            ),
            context.Process(
                target=_send, args=(listening.getsockname()[1], size, connections), daemon=True
            ),
        ]
        rates.append(there)
        given += [listening, here]
    for process in made:
        process.start()
    for end in given:  # so that a dead process is noticed
        end.close()
    try:
        return sum(float(there.recv()) for there in rates)
    finally:
        for process in made:
            process.kill()
            process.join()


def _receive(
    listening: socket.socket, size: int, seconds: float, connections: int, told: Connection
) -> None:
    memory = size * connections * _SLOTS  # more than a core's caches hold, like a loader's batch
    pixels = os.memfd_create("pixels")
    os.ftruncate(pixels, memory)
    slots = memoryview(mmap.mmap(pixels, memory))
    turns = itertools.cycle(range(0, memory, size))
    epoll = select.epoll()
    left: dict[int, tuple[socket.socket, memoryview]] = {}
    for _ in range(connections):
        end, _ = listening.accept()
        end.setblocking(False)
        left[end.fileno()] = end, slots[:0]
        epoll.register(end, select.EPOLLIN)
    count, began = 0, time.perf_counter() + _WARM_S
    while (now := time.perf_counter()) < began + seconds:
        for descriptor, _ in epoll.poll(0.1):
            end, rest = left[descriptor]
            if not rest:
                at = next(turns)
                rest = slots[at : at + size]
            rest = rest[end.recv_into(rest) :]
            count += not rest and now > began
            left[descriptor] = end, rest
    told.send(count / (now - began))


def _send(port: int, size: int, connections: int) -> None:
    def run() -> None:
        answer = os.urandom(size)  # zeros would all be one page
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)) as end:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
            while True:
                end.sendall(answer)

    threads = [threading.Thread(target=run) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

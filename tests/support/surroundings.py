"""Tries parts of videoload in surroundings that forbid something, each in a fork of this process:

    python -m tests.support.surroundings FOLDER

It prints what each of them said, as JSON. "died" is the signal that ended one."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tests.support.seccomp import forbid
from videoload import native
from videoload.engine.call_queue import CallQueue
from videoload.listings.folders import open_root
from videoload.processes.child import ChildProcess
from videoload.transport.context import new_context
from videoload.transport.metrics_port import Metric, MetricsPort
from videoload.transport.private_channel import PrivateChannel
from videoload.transport.private_messages import Share, Unshare
from videoload.transport.slots import Arena, Window


def context_without(*calls: str) -> str:
    forbid(*calls)
    new_context()
    return "made"


def memory_without(*calls: str) -> str:
    forbid(*calls)
    arena = Arena(2, 5000)
    arena.view(1, 0, (5000,))[:] = 7
    seen = Window(os.dup(arena.fd)).view(arena.stride, (5000,))
    return f"shared {int(seen.sum())}"


def limits() -> str:
    forbid("prlimit64")
    native.limit_memory()
    return f"{native.allow_descriptors()} descriptors"


def frozen() -> str:
    sys.frozen = True  # type: ignore[attr-defined]
    mine, theirs = socket.socketpair()
    with mine:
        ChildProcess("videoload.worker", theirs)
    return "started"


def no_folder() -> str:
    gone = Path(sys.argv[1], "gone")
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    sys.path.insert(0, "")
    mine, theirs = socket.socketpair()
    with mine:
        child = ChildProcess("json.tool", theirs)
        child.wait(20)
    return str(open_root("videos"))


def broken_pipe() -> str:
    """Everything that this process writes to has gone, and SIGPIPE is at its default."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for message in (Unshare(1), Share(1, b"/")):
        channel, theirs = PrivateChannel.pair()
        theirs.close()
        channel.send(message, 1 if isinstance(message, Share) else None)
    queue = CallQueue()
    queue.socket.close()
    queue.post(print)
    came, asked = threading.Event(), threading.Event()

    def collect() -> list[Metric]:
        asked.set()
        came.wait(5)
        return [Metric(f"m{i}", "gauge", "x" * 1000, [({}, i)]) for i in range(1000)]

    port = MetricsPort(0, collect, healthz=str, readyz=str)
    with closing(port):
        with socket.create_connection(("127.0.0.1", port.port)) as scraper:
            scraper.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            asked.wait(5)
        came.set()
        for _ in range(2):  # the first answer has met a closed connection before this one is made
            with socket.create_connection(("127.0.0.1", port.port)) as scraper:
                scraper.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
                while scraper.recv(1000):
                    pass
    return "survived"


CASES: dict[str, Callable[[], str]] = {
    "no eventfd": lambda: context_without("eventfd2"),
    "no scheduling": lambda: context_without("sched_setscheduler"),
    "no look at scheduling": lambda: context_without("sched_getscheduler"),
    "no threads": lambda: context_without("clone", "clone3"),
    "no memfd": lambda: memory_without("memfd_create"),
    "no prlimit": limits,
    "frozen": frozen,
    "no folder": no_folder,
    "SIGPIPE": broken_pipe,
}


def main() -> None:
    """Try all of them."""
    told = {}
    for name, case in CASES.items():
        reader, writer = os.pipe()
        if (pid := os.fork()) == 0:
            try:
                text = case()
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
            os.write(writer, text.encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            told[name] = pipe.read()
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            told[name] = f"died: {signal.Signals(os.WTERMSIG(status)).name}"
    print(json.dumps(told))


if __name__ == "__main__":
    main()

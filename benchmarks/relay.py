"""A line between a trainer and its workers, in a process of its own: `python -m benchmarks.relay`.

It listens, connects each connection to a trainer, and carries bytes. Every byte is delayed, and the
rate towards the trainer is limited for all connections together; connections that want more than
there is get equal shares, as on a line with tcp. `Line.cut` stops all traffic without ending a
connection, like a pulled cable.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

_READ_BYTES = 128 << 10
_WINDOW = 64  # reads on their way at once; more wait in the kernel
_NAP_S = 0.001  # a shorter wait is skipped, and the next one is longer for it


class Line:
    """The relay's process."""

    def __init__(self, target: str, away_s: float, bytes_per_s: float) -> None:
        command = [sys.executable, "-m", "benchmarks.relay", target, str(away_s), str(bytes_per_s)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.endpoint = f"tcp://127.0.0.1:{int(self._process.stdout.readline())}"

    def cut(self) -> None:
        """Stop all traffic."""
        self._say("cut")

    def heal(self) -> None:
        """Let everything that waited continue."""
        self._say("heal")

    def _say(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """End it, and its connections."""
        self._process.kill()
        self._process.communicate()


@contextmanager
def line(target: str, away_s: float = 0.0, bytes_per_s: float = math.inf) -> Iterator[Line]:
    """A line to ``target``, with a round trip of ``away_s`` and a limited rate towards it."""
    made = Line(target, away_s, bytes_per_s)
    try:
        yield made
    finally:
        made.close()


class _Relay:
    def __init__(self, target: str, away_s: float, bytes_per_s: float) -> None:
        url = urlsplit(target)
        self._target = url.hostname, url.port
        self._way_s = away_s / 2
        self._byte_s = 1 / bytes_per_s
        self._free = 0.0
        self._open = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until the standard input ends."""
        loop = asyncio.get_running_loop()
        self._open.set()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=1024)
        print(server.sockets[0].getsockname()[1], flush=True)
        words = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(words), sys.stdin)
        while word := await words.readline():
            if word == b"cut\n":
                self._open.clear()
            else:
                self._open.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, up = await asyncio.open_connection(*self._target)
        for source, sink, byte_s in ((reader, up, self._byte_s), (theirs, writer, 0.0)):
            task = asyncio.ensure_future(self._carry(source, sink, byte_s))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, byte_s: float
    ) -> None:
        now = asyncio.get_running_loop().time
        on_its_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_WINDOW)

        async def bring() -> None:
            while True:
                due, data = await on_its_way.get()
                await _until(due)
                await self._open.wait()
                if not data:
                    sink.close()
                    return
                sink.write(data)
                await sink.drain()

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(bring())
                data = b"-"
                while data:
                    data = await source.read(_READ_BYTES)
                    await self._open.wait()
                    leaves = now()
                    if byte_s:
                        leaves = self._free = max(leaves, self._free) + len(data) * byte_s
                        await _until(leaves)
                    await on_its_way.put((leaves + self._way_s, data))
        except* OSError:  # one side ended
            sink.close()


async def _until(due: float) -> None:
    left = due - asyncio.get_running_loop().time()
    if left > _NAP_S:
        await asyncio.sleep(left)


def main() -> None:
    """The process that `line` starts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("target", metavar="tcp://HOST:PORT")
    parser.add_argument("away_s", type=float, help="round trip in seconds")
    parser.add_argument("bytes_per_s", type=float, help="towards the target")
    given = parser.parse_args()
    relay = _Relay(given.target, given.away_s, given.bytes_per_s)
    asyncio.run(relay.run())


if __name__ == "__main__":
    main()

"""A proxy between workers that dial in and their trainer; it injects faults on request.

It understands ZMTP 3 just enough to act on whole messages:

    greeting, 64 bytes | frame | frame | ...
    frame = flags (1 = MORE, 2 = long, 4 = command) | length, 1 or 8 bytes | body

Commands (the handshake) pass untouched. Under CURVE each frame of a message is a sealed frame of
its own, and counts here as a message of one frame.

A `Fault` is armed with `Proxy.arm` and happens to the next message that it fits, once. Where in a
message it strikes is drawn from a seeded generator. After a fault everything continues as before,
as far as the two ends allow.

On an open connection it must not change the pixels or the fields of a message and keep their
lengths: only CURVE (or TCP's own checksum) could notice that. So `FLIP` and `LIE` strike only the
version frame, but any frame under CURVE.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import urlsplit

GREETING_BYTES = 64
_MORE, _LONG, _COMMAND = 1, 2, 4
_SEALED = b"\x07MESSAGE"
_START_S = 30.0
_READ_BYTES = 1 << 20


class Frame(NamedTuple):
    """One ZMTP frame."""

    flags: int
    body: bytes

    @property
    def more(self) -> bool:
        """Whether another frame of the same message follows."""
        return bool(self.flags & _MORE)

    @property
    def command(self) -> bool:
        """Whether this is the protocol's own, not an application's."""
        return bool(self.flags & _COMMAND)

    def encode(self, missing: int = 0) -> bytes:
        """The bytes on the wire. With ``missing``, the body is that much shorter than its header
        says."""
        length = len(self.body)
        flags = self.flags & ~_LONG | (_LONG if length > 255 else 0)
        header = bytes([flags]) + length.to_bytes(8 if length > 255 else 1, "big")
        return header + self.body[: length - missing]


Message = list[Frame]


class Kind(StrEnum):
    """The faults that can happen to a message."""

    CUT = "cut"  # the connection is reset instead of sending it
    CUT_WITHIN = "cut within a message"  # a part of it is sent, then the connection ends
    DELAY = "delay"  # it and everything after it come ``delay_s`` later
    HOLD = "hold"  # from here on nothing passes in either direction, until `release`
    DUPLICATE = "duplicate"
    DROP = "drop"
    SWAP = "swap"  # it comes after its successor
    TRUNCATE = "truncate"  # a frame is shorter, and says so
    LIE = "truncate and lie"  # a frame is shorter than its header says
    FLIP = "flip bytes"


class Way(StrEnum):
    """The direction of a message."""

    UP = "to the trainer"
    DOWN = "to the worker"


@dataclass(frozen=True)
class Fault:
    """Do ``kind`` to the next message in direction ``way`` that contains the bytes ``holding``."""

    kind: Kind
    way: Way = Way.UP
    holding: bytes = b""
    delay_s: float = 0.3


@dataclass(eq=False)
class _Connection:
    up: asyncio.StreamWriter
    down: asyncio.StreamWriter
    over: bool = False

    def cut(self) -> None:
        """Reset both sides."""
        self.over = True
        self.up.transport.abort()
        self.down.transport.abort()


@dataclass(eq=False)
class _Pump:
    """One direction of one connection."""

    connection: _Connection
    way: Way
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    late: list[Message] = field(default_factory=list)  # swapped: waits for its successor


class Proxy:
    """Listens at ``endpoint`` and connects everything that comes to ``target``. Use it in a
    ``with`` statement; all connections end with it."""

    def __init__(self, target: str, seed: int = 0) -> None:
        url = urlsplit(target)
        assert url.hostname is not None
        assert url.port is not None
        self._target = (url.hostname, url.port)
        self._draw = random.Random(seed)
        self._lock = threading.Lock()
        self._armed: list[Fault] = []
        self._connections: set[_Connection] = set()
        self._started: Future[tuple[asyncio.AbstractEventLoop, int]] = Future()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self.done: Counter[Kind] = Counter()  # faults that have happened

    def __enter__(self) -> Proxy:
        self._thread.start()
        self._loop, port = self._started.result(_START_S)
        self.endpoint = f"tcp://127.0.0.1:{port}"
        return self

    def __exit__(self, *error: object) -> None:
        self._call(self._stop.set)
        self._thread.join(_START_S)

    # Called from any thread

    def arm(self, *faults: Fault) -> None:
        """Let these faults happen, each to the first message that it fits."""
        with self._lock:
            self._armed += faults

    @property
    def connections(self) -> int:
        """The number of connections now."""
        return len(self._connections)

    def disarm(self) -> None:
        """Drop the faults that have not happened yet."""
        with self._lock:
            self._armed.clear()

    def release(self) -> None:
        """End a `Kind.HOLD`: everything that was held continues, in order."""
        self._call(self._open.set)

    def cut_all(self) -> None:
        """Reset every connection, now."""

        def cut() -> None:
            for connection in list(self._connections):
                connection.cut()

        self._call(cut)

    def _call(self, call: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(call)

    # The thread

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if not self._started.done():
                self._started.set_exception(error)
                return
            raise

    async def _serve(self) -> None:
        self._stop, self._open = asyncio.Event(), asyncio.Event()
        self._open.set()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            self._started.set_result((asyncio.get_running_loop(), port))
            await self._stop.wait()
            server.close()
            for connection in list(self._connections):
                connection.cut()
            self._open.set()
            while self._connections:  # so that they notice the cut
                await asyncio.sleep(0.01)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            theirs, up = await asyncio.open_connection(*self._target, limit=_READ_BYTES)
        except OSError:
            writer.transport.abort()
            return
        connection = _Connection(up, writer)
        self._connections.add(connection)
        pumps = [
            asyncio.ensure_future(self._pump(_Pump(connection, Way.UP, reader, up))),
            asyncio.ensure_future(self._pump(_Pump(connection, Way.DOWN, theirs, writer))),
        ]
        try:  # one side's end ends the other
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self._connections.discard(connection)
            up.close()
            writer.close()

    async def _pump(self, pump: _Pump) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            await self._open.wait()
            left = GREETING_BYTES
            while left:  # piece by piece, since each end waits for the other's first bytes
                data = await pump.reader.read(left)
                if not data:
                    return
                left -= len(data)
                await self._send(pump, data)
            message: Message = []
            while not pump.connection.over:
                frame = await read_frame(pump.reader)
                if frame.command and not frame.body.startswith(_SEALED):
                    await self._send(pump, frame.encode())
                    continue
                message.append(frame)
                if not frame.more:
                    await self._pass_on(pump, message)
                    message = []

    async def _send(self, pump: _Pump, data: bytes) -> None:
        await self._open.wait()
        pump.writer.write(data)
        await pump.writer.drain()

    async def _pass_on(self, pump: _Pump, message: Message) -> None:
        fault = self._due(pump.way, message)
        if fault is not None and fault.kind is Kind.HOLD:
            self._open.clear()
            self.done[fault.kind] += 1
            fault = None
        if fault is not None:
            await self._ACTS[fault.kind](self, pump, message, fault)
            # Counted when it is done, so that the count shows the effect.
            self.done[fault.kind] += 1
        else:
            await self._send(pump, encode(message))
        if pump.late and (fault is None or fault.kind is not Kind.SWAP):
            await self._send(pump, encode(pump.late.pop()))

    def _due(self, way: Way, message: Message) -> Fault | None:
        with self._lock:
            for fault in self._armed:
                if fault.way is way and any(fault.holding in frame.body for frame in message):
                    self._armed.remove(fault)
                    return fault
        return None

    # What happens

    async def _cut(self, pump: _Pump, message: Message, fault: Fault) -> None:
        pump.connection.cut()

    async def _cut_within(self, pump: _Pump, message: Message, fault: Fault) -> None:
        data = encode(message)
        await self._send(pump, data[: self._draw.randrange(1, len(data))])
        pump.connection.over = True  # a clean end, in the middle of a message

    async def _delay(self, pump: _Pump, message: Message, fault: Fault) -> None:
        await asyncio.sleep(fault.delay_s)
        await self._send(pump, encode(message))

    async def _duplicate(self, pump: _Pump, message: Message, fault: Fault) -> None:
        await self._send(pump, 2 * encode(message))

    async def _drop(self, pump: _Pump, message: Message, fault: Fault) -> None:
        pass

    async def _swap(self, pump: _Pump, message: Message, fault: Fault) -> None:
        if pump.late:  # one at a time
            await self._send(pump, encode(message))
        else:
            pump.late.append(message)

    async def _truncate(self, pump: _Pump, message: Message, fault: Fault) -> None:
        at = self._draw.choice([i for i, frame in enumerate(message) if frame.body])
        flags, body = message[at]
        shorter = Frame(flags, body[: self._draw.randrange(len(body))])
        await self._send(pump, encode([*message[:at], shorter, *message[at + 1 :]]))

    async def _lie(self, pump: _Pump, message: Message, fault: Fault) -> None:
        first, *rest = message
        missing = self._draw.randrange(1, len(first.body) + 1)
        await self._send(pump, first.encode(missing) + encode(rest))

    async def _flip(self, pump: _Pump, message: Message, fault: Fault) -> None:
        flags, body = message[0]
        flipped = bytearray(body)
        for _ in range(3):
            flipped[self._draw.randrange(len(body))] ^= 1 << self._draw.randrange(8)
        if flipped == body:
            flipped[0] ^= 1
        await self._send(pump, encode([Frame(flags, bytes(flipped)), *message[1:]]))

    _Act = Callable[["Proxy", _Pump, Message, Fault], Awaitable[None]]
    _ACTS: dict[Kind, _Act] = {  # noqa: RUF012
        Kind.CUT: _cut,
        Kind.CUT_WITHIN: _cut_within,
        Kind.DELAY: _delay,
        Kind.DUPLICATE: _duplicate,
        Kind.DROP: _drop,
        Kind.SWAP: _swap,
        Kind.TRUNCATE: _truncate,
        Kind.LIE: _lie,
        Kind.FLIP: _flip,
    }


def encode(message: Message) -> bytes:
    """The bytes of a message."""
    return b"".join(frame.encode() for frame in message)


async def read_frame(reader: asyncio.StreamReader) -> Frame:
    """The next frame. Raises IncompleteReadError at the end."""
    (flags,) = await reader.readexactly(1)
    length = int.from_bytes(await reader.readexactly(8 if flags & _LONG else 1), "big")
    return Frame(flags, await reader.readexactly(length))

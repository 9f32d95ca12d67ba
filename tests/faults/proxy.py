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
version, with which each message begins, but all of a frame under CURVE.
"""

import random
import socket
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO, NamedTuple, Self
from urllib.parse import urlsplit

from videoload.wire.messages import VERSION

_GREETING_BYTES = 64
_MORE, _LONG, _COMMAND = 1, 2, 4
_SEALED = b"\x07MESSAGE"


class Frame(NamedTuple):
    """One ZMTP frame."""

    flags: int
    body: bytes

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

    CUT = "cut"  # the connection ends instead of sending it
    CUT_WITHIN = "cut within a message"  # a part of it is sent, then the connection ends
    DELAY = "delay"  # it and everything after it come ``delay_s`` later
    HOLD = "hold"  # from here on nothing passes in either direction, until `release`
    DUPLICATE = "duplicate"
    DROP = "drop"
    SWAP = "swap"  # it comes after its successor
    TRUNCATE = "truncate"  # a frame is shorter, and says so
    LIE = "truncate and lie"  # a frame is shorter than its header says
    FLIP = "flip bits"


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


class Proxy:
    """Listens at ``endpoint`` and connects everything that comes to ``target``. Use it in a
    ``with`` statement; all connections end with it."""

    def __init__(self, target: str, seed: int = 0) -> None:
        url = urlsplit(target)
        self._target = url.hostname or "", url.port or 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{self._server.getsockname()[1]}"
        self._draw = random.Random(seed)
        self._lock = threading.Lock()
        self._armed: list[Fault] = []
        self._sockets: set[socket.socket] = set()
        self._passing = threading.Event()
        self._threads = [threading.Thread(target=self._accept)]
        self.done: Counter[Kind] = Counter()  # faults that have happened

    def __enter__(self) -> Self:
        self._passing.set()
        self._threads[0].start()
        return self

    def __exit__(self, *error: object) -> None:
        _end(self._server)
        self._threads[0].join()
        self._server.close()
        self.disarm()
        self.release()
        self.cut_all()
        for thread in self._threads:
            thread.join()

    def arm(self, *faults: Fault) -> None:
        """Let these faults happen, each to the first message that it fits."""
        with self._lock:
            self._armed += faults

    def disarm(self) -> None:
        """Drop the faults that have not happened yet."""
        with self._lock:
            self._armed.clear()

    def release(self) -> None:
        """End a `Kind.HOLD`: everything that was held continues, in order."""
        self._passing.set()

    def cut_all(self) -> None:
        """End every connection, now."""
        with self._lock:
            for each in self._sockets:
                _end(each)

    # Its threads

    def _accept(self) -> None:
        with suppress(OSError):  # it is over
            while True:
                worker, _ = self._server.accept()
                with self._lock:  # here, so that `__exit__` ends it, whatever its thread is at
                    self._sockets.add(worker)
                thread = threading.Thread(target=self._connect, args=[worker])
                self._threads.append(thread)
                thread.start()

    def _connect(self, worker: socket.socket) -> None:
        with worker, suppress(OSError), socket.create_connection(self._target) as trainer:
            with self._lock:
                self._sockets.add(trainer)
            down = threading.Thread(target=self._pump, args=[trainer, worker, Way.DOWN])
            down.start()
            self._pump(worker, trainer, Way.UP)
            down.join()
            with self._lock:
                self._sockets -= {worker, trainer}

    def _pump(self, source: socket.socket, sink: socket.socket, way: Way) -> None:
        """Pass messages on, in one direction of one connection."""
        late: list[bytes] = []  # swapped: waits for its successor
        message: Message = []
        with suppress(OSError, EOFError), source.makefile("rb") as read:
            left = _GREETING_BYTES
            while left:  # piece by piece, since each end waits for the other's first bytes
                data = source.recv(left)
                if not data:
                    raise EOFError
                left -= len(data)
                self._send(sink, data)
            while True:
                frame = _frame(read)
                if frame.flags & _COMMAND and not frame.body.startswith(_SEALED):
                    self._send(sink, frame.encode())
                    continue
                message.append(frame)
                if not frame.flags & _MORE:
                    self._pass_on(message, sink, way, late)
                    message = []
        for each in (source, sink):  # one side's end ends the other
            _end(each)

    def _send(self, sink: socket.socket, data: bytes) -> None:
        self._passing.wait()
        sink.sendall(data)

    def _pass_on(self, message: Message, sink: socket.socket, way: Way, late: list[bytes]) -> None:
        fault = self._due(message, way)
        kind = fault.kind if fault else None
        if kind is Kind.HOLD:
            self.done[kind] += 1
        elif fault is not None and kind is Kind.DELAY:
            time.sleep(fault.delay_s)
        before = b"".join(late)
        late[:] = [_encode(message)] if kind is Kind.SWAP else []
        self._send(sink, self._broken(message, kind) + before)
        if kind is not None and kind is not Kind.HOLD:
            self.done[kind] += 1  # when it is done, so that the count shows the effect
        if kind in (Kind.CUT, Kind.CUT_WITHIN):
            raise EOFError

    def _due(self, message: Message, way: Way) -> Fault | None:
        with self._lock:
            for fault in self._armed:
                if fault.way is way and any(fault.holding in frame.body for frame in message):
                    self._armed.remove(fault)
                    if fault.kind is Kind.HOLD:  # here, so that none begins after `disarm`
                        self._passing.clear()
                    return fault
        return None

    def _broken(self, message: Message, kind: Kind | None) -> bytes:
        """What is sent in the place of a message."""
        (first, *rest), draw, whole = message, self._draw, _encode(message)
        may_strike = len(first.body) if first.body.startswith(_SEALED) else len(VERSION)
        match kind:
            case Kind.CUT | Kind.DROP | Kind.SWAP:
                return b""
            case Kind.CUT_WITHIN:
                return whole[: draw.randrange(1, len(whole))]
            case Kind.DUPLICATE:
                return 2 * whole
            case Kind.TRUNCATE:
                at = draw.choice([i for i, frame in enumerate(message) if frame.body])
                flags, body = message[at]
                shorter = Frame(flags, body[: draw.randrange(len(body))])
                return _encode([*message[:at], shorter, *message[at + 1 :]])
            case Kind.LIE:
                return first.encode(len(first.body) - draw.randrange(may_strike)) + _encode(rest)
            case Kind.FLIP:
                flipped = bytearray(first.body)
                for at in draw.sample(range(may_strike), 3):
                    flipped[at] ^= 1 << draw.randrange(8)
                return _encode([Frame(first.flags, bytes(flipped)), *rest])
            case _:
                return whole


def _encode(message: Message) -> bytes:
    return b"".join(frame.encode() for frame in message)


def _frame(read: BinaryIO) -> Frame:
    """The next frame. Raises EOFError at the end."""
    flags = _exactly(read, 1)[0]
    length = int.from_bytes(_exactly(read, 8 if flags & _LONG else 1), "big")
    return Frame(flags, _exactly(read, length))


def _exactly(read: BinaryIO, length: int) -> bytes:
    data = read.read(length)
    if len(data) < length:
        raise EOFError
    return data


def _end(each: socket.socket) -> None:
    with suppress(OSError):  # it has ended
        each.shutdown(socket.SHUT_RDWR)

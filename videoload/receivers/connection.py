"""A data connection: TCP on which a worker of another host sends pixels, and nothing but pixels.

Messages stay on ZeroMQ. ZeroMQ cannot read from the socket straight into a slot: it receives each
message into memory of its own first, and this copy, for all workers together, limits a trainer. So
pixels may go past it, to a receiver: a process on the trainer's host that maps the slots.

    worker                                  trainer                       its receiver
      ticket (WELCOME brought it)  ───────>  whose is it? ── Adopt ─────>
      <────────────────────────────────────────────────────  greeting
      RESULT, by ZeroMQ            ───────>  where to? ───── Land ──────>
      head: lease, size; pixels    ────────────────────────────────────>  into the slot
                                             <────────────── Landed ────

A receiver reads nothing before the trainer has said where it goes. Until then the bytes wait in the
kernel, and TCP holds the worker back.

With keys, each piece is sealed with AES-128-GCM. WELCOME brings a new key under CURVE for each
offer, and the nonce counts. The ticket is not sealed. Somebody who overhears it can break the
connection by using it first, as anybody on the line could, but cannot send anything that is taken.
"""

from __future__ import annotations

import logging
import math
import socket
import struct
import threading
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import suppress
from functools import cache
from queue import SimpleQueue
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from videoload.errors import ProtocolError
from videoload.host import own_cache_bytes
from videoload.transport.messages import DataOffer

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_log = logging.getLogger(__name__)

TICKET_BYTES = KEY_BYTES = 16
_HEAD = struct.Struct("<QQ")  # lease, bytes
_GREETING = b"videoload/pixels"
_TAG = 16  # bytes that sealing adds to a piece
_PIECE = 256 << 10  # bytes sealed at once: they stay in a core's cache
_DIAL_S = 3.0
_NEAR_S = 2e-4  # a round trip that is shorter stays on one host, as a rule
# 2 * 64 KB (the kernel doubles it) in 0.2 ms are 640 MB/s, more than a worker decodes. Half of it
# is less than a packet on loopback, which would then wait for a timer.
_LEAST_NEAR_BUFFER = 64 << 10
_ROUND_TRIP = struct.Struct("=148xI")  # tcp_info.tcpi_min_rtt, microseconds
_MAX_BYTES = 1 << 30  # of an answer that goes nowhere


class Cipher:
    """Seals what one side sends, or opens it: each piece once, in order."""

    def __init__(self, key: bytes, *, of_receiver: bool) -> None:
        """``of_receiver``: the receiver is the sender. It has nonces of its own."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # not without keys

        self._aes: AESGCM = AESGCM(key)
        self._count = int(of_receiver) << 88

    def seal(self, piece: memoryview, into: memoryview) -> memoryview:
        """The sealed piece, which is written to ``into``."""
        sealed = into[: len(piece) + _TAG]
        self._aes.encrypt_into(self._nonce(), piece, None, sealed)
        return sealed

    def open(self, sealed: memoryview, into: memoryview) -> None:
        """Raises ProtocolError if the other side did not seal this piece."""
        from cryptography.exceptions import InvalidTag

        try:
            self._aes.decrypt_into(self._nonce(), sealed, None, into)
        except InvalidTag:
            raise ProtocolError("a piece was not sealed with its key") from None

    def _nonce(self) -> bytes:
        self._count += 1
        return self._count.to_bytes(12, "big")


class PixelReader:
    """A receiver's end. It reads only the answers that `land` announced."""

    def __init__(self, end: socket.socket, key: bytes = b"") -> None:
        """Greet the worker. ``end`` is connected, and its ticket was read. Raises OSError."""
        self.socket = end
        self._cipher = Cipher(key, of_receiver=False) if key else None
        self._sealed = memoryview(bytearray(_PIECE + _TAG))
        self._told: deque[tuple[int, Sequence[memoryview] | None]] = deque()
        self._landed = 0
        end.setblocking(False)
        greeting, cipher = memoryview(_GREETING), Cipher(key, of_receiver=True) if key else None
        end.sendall(greeting if cipher is None else cipher.seal(greeting, self._sealed))
        self._wanted = self._read_all()
        self._left = next(self._wanted)

    @property
    def is_told(self) -> bool:
        """Whether there is something to read."""
        return bool(self._told)

    def land(self, lease: int, into: Sequence[memoryview] | None) -> None:
        """The next answer is for ``lease`` and fills ``into``, one part after the other. With None
        it is dropped."""
        self._told.append((lease, into))

    def read(self) -> tuple[int, int | None]:
        """Read, to the end of one answer at most. Returns the number of bytes, and the lease
        whose answer is complete. Raises ProtocolError; EOFError or OSError if the connection
        ended."""
        came = 0
        while self._told:
            try:
                got = self.socket.recv_into(self._left)
            except BlockingIOError:
                break
            if not got:
                raise EOFError
            came += got
            self._left = self._left[got:]
            if not self._left:
                answers = len(self._told)
                self._left = next(self._wanted)
                if len(self._told) < answers:
                    return came, self._landed
        return came, None

    def _read_all(self) -> Generator[memoryview, None, None]:
        """Yields the memory to fill next."""
        head = memoryview(bytearray(_HEAD.size))
        while True:
            yield from self._fill(head)
            lease, size = _HEAD.unpack(head)
            told, into = self._told[0]
            expected = min(size, _MAX_BYTES) if into is None else sum(map(len, into))
            if lease != told or size != expected:
                raise ProtocolError(f"{size} bytes came for lease {lease}, not what was announced")
            if into is None:
                nowhere = memoryview(bytearray(_PIECE))
                for at in range(0, size, _PIECE):
                    yield from self._fill(nowhere[: size - at])
            elif self._cipher is None or len(into) == 1:
                for part in filter(None, into):
                    yield from self._fill(part)
            else:
                yield from self._fill_sealed(into, size)
            self._landed, _ = self._told.popleft()

    def _fill(self, into: memoryview) -> Generator[memoryview, None, None]:
        if self._cipher is None:
            yield into
            return
        for at in range(0, len(into), _PIECE):
            piece = into[at : at + _PIECE]
            sealed = self._sealed[: len(piece) + _TAG]
            yield sealed
            self._cipher.open(sealed, piece)

    def _fill_sealed(
        self, into: Sequence[memoryview], size: int
    ) -> Generator[memoryview, None, None]:
        """A sealed piece may belong to several parts."""
        opened, parts = memoryview(bytearray(_PIECE)), deque(into)
        for at in range(0, size, _PIECE):
            piece = opened[: size - at]
            yield from self._fill(piece)
            while piece:
                part = parts.popleft()
                fits = min(len(part), len(piece))
                part[:fits] = piece[:fits]
                piece = piece[fits:]
                if fits < len(part):
                    parts.appendleft(part[fits:])


class PixelSender:
    """A worker's end. A thread of its own dials and sends."""

    def __init__(self, host: str, offer: DataOffer) -> None:
        self.number = offer.connection
        self._address = host, offer.port
        self._offer = offer
        self._sealed = memoryview(bytearray(_PIECE + _TAG))
        self._answers: SimpleQueue[tuple[int, npt.NDArray[np.uint8]] | None] = SimpleQueue()
        self._socket: socket.socket | None = None
        self._closed = False
        self.is_open = False
        # A daemon: no exit waits for a host that does not answer.
        threading.Thread(target=self._run, name="pixels", daemon=True).start()

    def send(self, lease: int, pixels: npt.NDArray[np.uint8]) -> None:
        """Send an answer. Never waits. ``pixels`` must not be written to afterwards. If the
        connection breaks, the answer is lost and not missed: the trainer grants the clips again."""
        self._answers.put((lease, pixels))

    def close(self) -> None:
        """Disconnect. Answers that are not sent are dropped."""
        self._closed, self.is_open = True, False
        self._answers.put(None)
        if self._socket is not None:
            with suppress(OSError):  # wakes a thread that sends
                self._socket.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        try:
            with socket.create_connection(self._address, timeout=_DIAL_S) as self._socket:
                cipher = self._greet(self._socket)
                if _round_trip_s(self._socket) <= _NEAR_S:
                    buffer = near_buffer_bytes()
                    self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
                self._socket.settimeout(None)
                self.is_open = not self._closed
                _log.info("pixels go to port %d of %s", self._address[1], self._address[0])
                while not self._closed and self._send(self._answers.get(), cipher):
                    pass
        except (OSError, ProtocolError) as error:
            if not (self.is_open or self._closed):
                host, port = self._address
                _log.warning("pixels go by ZeroMQ, which costs that trainer more: "
                             "port %d of %s cannot be used: %s", port, host, error)  # fmt: skip
        finally:
            self.is_open = False

    def _send(
        self, answer: tuple[int, npt.NDArray[np.uint8]] | None, cipher: Cipher | None
    ) -> bool:
        if answer is None or self._socket is None:
            return False
        pixels = answer[1].reshape(-1).data
        for part in (memoryview(_HEAD.pack(answer[0], len(pixels))), pixels):
            if cipher is None:
                self._socket.sendall(part)
                continue
            for at in range(0, len(part), _PIECE):
                self._socket.sendall(cipher.seal(part[at : at + _PIECE], self._sealed))
        return True

    def _greet(self, end: socket.socket) -> Cipher | None:
        """Show the ticket. Returns the cipher for the answers."""
        key = self._offer.key
        end.sendall(self._offer.ticket)
        size = len(_GREETING) + (_TAG if key else 0)
        got, opened = b"", memoryview(bytearray(len(_GREETING)))
        while len(got) < size:
            if not (more := end.recv(size - len(got))):
                raise ProtocolError("it hung up")
            got += more
        if key:
            Cipher(key, of_receiver=True).open(memoryview(got), opened)
        if (bytes(opened) if key else got) != _GREETING:
            raise ProtocolError("it is no receiver of this trainer")
        return Cipher(key, of_receiver=False) if key else None


@cache
def near_buffer_bytes() -> int:
    """SO_SNDBUF of a connection to a trainer on the same host; the kernel doubles it. Bytes that
    wait in a large buffer leave the cores' caches, and take up to twice as long. With a small
    buffer, sender and reader take turns too often. With 2 MB of L2, 160 to 256 KB were the best."""
    return max(_LEAST_NEAR_BUFFER, own_cache_bytes() // 10)


def _round_trip_s(end: socket.socket) -> float:
    """The shortest round trip so far; infinite if the system does not know it."""
    with suppress(AttributeError, OSError, struct.error):  # TCP_INFO is Linux's
        info = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ROUND_TRIP.size)
        return float(_ROUND_TRIP.unpack(info)[0]) / 1e6
    return math.inf

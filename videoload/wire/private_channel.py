"""The private channel between a process and a worker that it started: a socket pair.

No other process can connect to it, so only this channel names roots and shared memory.

A worker reads its channel between two leases, so it may not read for the time of a clip, or of a
hang. Sending never blocks: messages without room stay in a queue until the worker reads. Two things
bound the queue. An arena that is dropped before it was sent is removed, so the queue refers only to
descriptors of live streams. And a worker that hangs and does not read is killed, and the queue ends
with the worker.
"""

from __future__ import annotations

import socket
from array import array
from collections import deque
from dataclasses import dataclass

from videoload.wire.messages import encode
from videoload.wire.private_messages import Private, Share, Unshare, unpack_private

# About forty messages. Linux limits how many descriptors of a user are on the way at once to what
# one process may have open, often 1024.
_BUFFER_BYTES = 16 << 10


@dataclass(eq=False, slots=True)
class _Unsent:
    """``left`` is not sent yet. ``descriptor`` goes with the first byte of the message."""

    message: Private
    left: bytes
    descriptor: int | None
    begun: bool = False


class PrivateChannel:
    """One end of the socket pair. Messages are MessagePack with their length in front. A descriptor
    can travel along."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self.is_full = False  # the rest can be sent when the socket becomes writable
        self._unsent: deque[_Unsent] = deque()
        self._received = bytearray()
        self._descriptors: deque[int] = deque()

    @classmethod
    def pair(cls) -> tuple[PrivateChannel, socket.socket]:
        """Return this process's end, and the end that the child inherits."""
        mine, theirs = socket.socketpair()
        mine.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        return cls(mine), theirs

    def send(self, message: Private, descriptor: int | None = None) -> None:
        """Send a message, now or in a later `flush`. Never waits.

        The descriptor stays the caller's, and must stay open until an `Unshare` of its arena is
        sent. A `Share` that still waits then is never sent. Messages to a process that has ended
        are dropped.
        """
        if isinstance(message, Unshare):
            self._take_back(message.arena)
        body = encode(message)
        self._unsent.append(_Unsent(message, len(body).to_bytes(4, "big") + body, descriptor))
        self.flush()

    def flush(self) -> None:
        """Send the messages that there is room for. To be called again and again; if the channel
        `is_full`, as soon as its socket is writable."""
        self.is_full = False
        if not self._unsent:
            return
        try:
            self.socket.setblocking(False)
            # NOSIGNAL: a child that has died must not end a program that set SIGPIPE back.
            while self._unsent:
                first = self._unsent[0]
                if first.descriptor is None or first.begun:
                    sent = self.socket.send(first.left, socket.MSG_NOSIGNAL)
                else:
                    # socket.send_fds drops its flags.
                    fds = array("i", [first.descriptor])
                    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)]
                    sent = self.socket.sendmsg([first.left], rights, socket.MSG_NOSIGNAL)
                first.left, first.begun = first.left[sent:], True
                if not first.left:
                    self._unsent.popleft()
        except BlockingIOError:
            self.is_full = True
        except ConnectionError:
            self._unsent.clear()
        except OSError:
            pass  # ETOOMANYREFS: other processes have to read first; the next flush tries again

    def receive(self, timeout_s: float) -> tuple[Private, int | None] | None:
        """Return the next message, with the descriptor of a `Share`; None after the timeout. Raises
        EOFError if the other process has ended, ProtocolError."""
        self.socket.settimeout(timeout_s)
        try:
            while (got := self._take()) is None:
                self._read()
        except (TimeoutError, BlockingIOError):
            return None
        return got

    def _read(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self.socket, 65536, 8)
        except ConnectionError:
            raise EOFError from None
        self._descriptors.extend(descriptors)
        if not data:
            raise EOFError
        self._received += data

    def _take(self) -> tuple[Private, int | None] | None:
        length = int.from_bytes(self._received[:4], "big")
        if len(self._received) < 4 + length or len(self._received) < 4:
            return None
        body = bytes(self._received[4 : 4 + length])
        del self._received[: 4 + length]
        message = unpack_private(body)
        return message, self._descriptors.popleft() if isinstance(message, Share) else None

    def _take_back(self, arena: int) -> None:
        for unsent in self._unsent:
            if isinstance(unsent.message, Share) and unsent.message.arena == arena:
                if not unsent.begun:
                    self._unsent.remove(unsent)
                return

    def close(self) -> None:
        """Close this end. The other process notices, and ends."""
        self._unsent.clear()
        self.socket.close()

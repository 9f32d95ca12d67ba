"""The private channel between a process and a worker that it started: a socket pair.

No other process can connect to it, so roots and shared memory are named there and nowhere else.
"""

from __future__ import annotations

import socket
from collections import deque

from videoload.transport.messages import Private, Share, pack_private, unpack_private

_CHANNEL_S = 5.0  # a worker that does not read its channel for so long is taken for dead


class PrivateChannel:
    """One end of the socket pair between a process and a worker that it started. Messages are
    MessagePack with their length in front; a file descriptor can travel along."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._received = bytearray()
        self._descriptors: deque[int] = deque()

    @classmethod
    def pair(cls) -> tuple[PrivateChannel, socket.socket]:
        """This process's end, and the one that the worker inherits."""
        mine, theirs = socket.socketpair()
        mine.settimeout(_CHANNEL_S)
        return cls(mine), theirs

    def send(self, message: Private, descriptor: int | None = None) -> None:
        """Raises OSError if the other process is gone or does not read."""
        body = pack_private(message)
        data = len(body).to_bytes(4, "big") + body
        if descriptor is None:
            self.socket.sendall(data)
            return
        sent = socket.send_fds(self.socket, [data], [descriptor])
        self.socket.sendall(data[sent:])

    def receive(self, timeout_s: float) -> tuple[Private, int | None] | None:
        """The next message, with the descriptor that a `Share` brings; None if none came in time.
        Raises EOFError if the other process is gone, ProtocolError."""
        self.socket.settimeout(timeout_s)
        try:
            while (message := self._take()) is None:
                data, descriptors, _, _ = socket.recv_fds(self.socket, 65536, 8)
                self._descriptors.extend(descriptors)
                if not data:
                    raise EOFError
                self._received += data
        except (TimeoutError, BlockingIOError):
            return None
        except ConnectionError:
            raise EOFError from None
        shared = isinstance(message, Share) and message.memory
        return message, self._descriptors.popleft() if shared else None

    def _take(self) -> Private | None:
        length = int.from_bytes(self._received[:4], "big")
        if len(self._received) < 4 + length or len(self._received) < 4:
            return None
        body = bytes(self._received[4 : 4 + length])
        del self._received[: 4 + length]
        return unpack_private(body)

    def close(self) -> None:
        """The other process sees the end of the channel, and ends."""
        self.socket.close()

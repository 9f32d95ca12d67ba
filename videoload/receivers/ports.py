"""The ports of data connections. A worker that dials one shows a ticket, and the connection is then
handed to the caller. Nothing here waits.

Anybody may dial, so everything is bounded. A connection without a ticket is closed after a few
seconds, and the oldest ones are closed if there are too many. One call accepts and reads a bounded
number of connections; the others wait in the kernel for the next call.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from videoload.errors import TransportError
from videoload.receivers.connection import TICKET_BYTES

_TICKET_S = 5.0  # the time in which a ticket is to be shown
_STRANGERS = 64  # connections without a ticket, beyond the expected ones
_BACKLOG = 1024
_ACCEPTED = 16  # connections that one call accepts at a port: about 1 ms


@dataclass(eq=False, slots=True)
class _Stranger:
    since: float
    shown: bytearray = field(default_factory=bytearray)


class DataPorts:
    """One port for each TCP address that a trainer listens at."""

    def __init__(self, bound: Mapping[str, str]) -> None:
        """Listen at the port after each TCP address, or at any free port if the address took any
        free port. ``bound`` maps endpoints to the addresses that were asked for. Raises
        TransportError."""
        self.numbers: dict[str, int] = {}  # by endpoint
        self._listening: list[socket.socket] = []
        self._strangers: dict[socket.socket, _Stranger] = {}
        self._is_full = False  # no descriptor is left, for now
        try:
            for endpoint, address in bound.items():
                if endpoint.startswith("tcp://"):
                    listening = _listen(endpoint, any_port=address.endswith(":*"))
                    self._listening.append(listening)
                    self.numbers[endpoint] = listening.getsockname()[1]
        except TransportError:
            self.close()
            raise

    def watched(self) -> list[socket.socket]:
        """Sockets that become readable when there is something for `arrived`."""
        return [*([] if self._is_full else self._listening), *self._strangers]

    def arrived(
        self, ready: Collection[object], expected: int
    ) -> Iterator[tuple[bytes, socket.socket]]:
        """Tickets that were shown, and their connections, which belong to the caller from now on.

        ``ready`` holds the descriptors of `watched` sockets that are readable. ``expected`` tickets
        may still be shown.
        """
        for end in [end for end in self._strangers if end.fileno() in ready]:
            if (ticket := self._read(end)) is not None:
                yield ticket, end
        for listening in [each for each in self._listening if each.fileno() in ready]:
            for _ in range(_ACCEPTED):
                if not self._accept(listening):
                    break
                if len(self._strangers) > expected + _STRANGERS:
                    oldest = next(iter(self._strangers))
                    if (ticket := self._read(oldest)) is not None:
                        yield ticket, oldest
                    elif oldest in self._strangers:
                        self._hang_up(oldest)

    def keep(self, now: float) -> None:
        """Close connections that showed no ticket in time."""
        self._is_full = False
        for end, stranger in list(self._strangers.items()):
            if now - stranger.since > _TICKET_S:
                self._hang_up(end)

    def close(self) -> None:
        """Stop listening and close all connections that were not handed over."""
        for end in [*self._listening, *self._strangers]:
            end.close()
        self._listening.clear()
        self._strangers.clear()

    def _accept(self, listening: socket.socket) -> bool:
        """Whether there was a connection to accept."""
        try:
            end, _ = listening.accept()
        except BlockingIOError:
            return False
        except OSError:  # no descriptor is left: not watched until `keep`, or this would spin
            self._is_full = True
            return False
        end.setblocking(False)
        self._strangers[end] = _Stranger(time.monotonic())
        return True

    def _read(self, end: socket.socket) -> bytes | None:
        """The ticket, once all of it has come."""
        shown, got = self._strangers[end].shown, b""
        try:
            got = end.recv(TICKET_BYTES - len(shown))
        except BlockingIOError:
            return None
        except OSError:
            pass
        shown += got
        if not got:
            self._hang_up(end)
        if len(shown) < TICKET_BYTES:
            return None
        del self._strangers[end]
        return bytes(shown)

    def _hang_up(self, end: socket.socket) -> None:
        del self._strangers[end]
        end.close()


def _listen(endpoint: str, *, any_port: bool) -> socket.socket:
    parts = urlsplit(endpoint)
    host, port = parts.hostname or "", 0 if any_port else (parts.port or 0) + 1
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        if port >= 1 << 16:
            raise OSError("there is no such port")
        listening = socket.create_server(
            (host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=host == "::"
        )
    except OSError as error:
        raise TransportError(
            f"cannot listen at port {port} of {host}, where receivers take pixels: {error}"
        ) from None
    listening.setblocking(False)
    return listening

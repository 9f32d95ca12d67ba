"""The ports that data connections come in by: who dials one shows a ticket, and then it is the
caller's, to hand on or to hang up on. Nothing here waits.

Anybody may dial. Who shows no ticket in time makes room, as do those that are here for longest
where there are too many.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from videoload.errors import TransportError
from videoload.receivers.connection import TICKET_BYTES

_TICKET_S = 5.0  # who dials shows its ticket within so long
_STRANGERS = 64  # connections at once of those that are not expected
_BACKLOG = 1024


@dataclass(eq=False, slots=True)
class _Stranger:
    since: float
    shown: bytearray = field(default_factory=bytearray)


class DataPorts:
    """One for each TCP address that a trainer listens at."""

    def __init__(self, bound: Mapping[str, str]) -> None:
        """Listen at the port after that of each TCP address, or at a free one where it took a free
        one. ``bound``: the address that was asked for, by the endpoint that it became. Raises
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
        """Sockets of which one becomes readable when somebody comes, or shows a ticket."""
        return [*([] if self._is_full else self._listening), *self._strangers]

    def arrived(
        self, ready: Collection[object], expected: int
    ) -> Iterator[tuple[bytes, socket.socket]]:
        """Tickets that were shown, and the connections, which are the caller's from now on; some
        `watched` sockets were found ``ready`` (their descriptors are in it). ``expected``: tickets
        that may be shown yet."""
        for listening in self._listening:
            while listening.fileno() in ready and self._accept(listening):
                if len(self._strangers) > expected + _STRANGERS:
                    first = next(iter(self._strangers))
                    if (ticket := self._read(first)) is not None:
                        yield ticket, first
                    elif first in self._strangers:
                        self._hang_up(first)
        for end in list(self._strangers):
            if (ticket := self._read(end)) is not None:
                yield ticket, end

    def keep(self, now: float) -> None:
        """Time passes."""
        self._is_full = False
        for end, stranger in list(self._strangers.items()):
            if now - stranger.since > _TICKET_S:
                self._hang_up(end)

    def close(self) -> None:
        """Listen no more."""
        for end in [*self._listening, *self._strangers]:
            end.close()
        self._listening.clear()
        self._strangers.clear()

    def _accept(self, listening: socket.socket) -> bool:
        """Whether there was one."""
        try:
            end, _ = listening.accept()
        except BlockingIOError:
            return False
        except OSError:  # to be asked again at once would take a core
            self._is_full = True
            return False
        end.setblocking(False)
        self._strangers[end] = _Stranger(time.monotonic())
        return True

    def _read(self, end: socket.socket) -> bytes | None:
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

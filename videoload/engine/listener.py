"""The sockets of a client: the addresses where remote workers connect, and what its I/O thread
polls."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable, Collection, Iterator, Sequence

import zmq

from videoload.engine.call_queue import CallQueue
from videoload.errors import ProtocolError
from videoload.logs import RateLimitedLog
from videoload.wire.addresses import private_endpoint
from videoload.wire.keys import KeyAuthenticator
from videoload.wire.messages import FromWorker
from videoload.wire.sockets import Peer, Router

_MAX_MESSAGES = 64  # read at one address before the other addresses and the clock have their turn


class Listener:
    """The bound sockets.

    Attributes:
        routers: One for each address, the private one last.
        private: The address for workers that this process starts, if there is one.
    """

    def __init__(self, calls: CallQueue, refusals: RateLimitedLog) -> None:
        """Polling also waits for ``calls``. Refused connections are logged in ``refusals``."""
        self.routers: list[Router] = []
        self.private: Router | None = None
        self._calls = calls
        self._refusals = refusals
        self._authenticator: KeyAuthenticator | None = None
        self._poller: zmq.Poller | None = None  # rebuilt when the channels change
        self._channels: dict[socket.socket, bool] = {}
        self._inspect_at = 0.0

    def open(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        addresses: Sequence[str],
        *,
        keys: str | None,
        insecure: bool,
        most: int,
    ) -> None:
        """Bind ``addresses``, for ``most`` connections at each. Raises TransportError."""
        if keys is not None:
            self._authenticator = KeyAuthenticator(
                context, keys, lambda line: self._refusals.add(line, time.monotonic())
            )
        admits = None if self._authenticator is None else self._authenticator.admits
        for address in addresses:
            self.routers.append(
                Router(context, address, keys=keys, insecure=insecure, most=most, admits=admits)
            )

    def open_private(
        self, context: zmq.Context[zmq.Socket[bytes]], children: Callable[[], Collection[int]]
    ) -> str:
        """Bind an address that only ``children`` can reach, once; returns it. Raises
        TransportError."""
        if self.private is None:
            self.private = Router(context, private_endpoint(), children=children)
            self.routers.append(self.private)
            self._poller = None
        return self.private.endpoint

    @property
    def rejected(self) -> int:
        """The number of connection attempts rejected because of their key."""
        unknown = 0 if self._authenticator is None else self._authenticator.rejected
        return unknown + sum(router.connections.rejected for router in self.routers)

    @property
    def endpoints(self) -> list[str]:
        """The addresses for remote workers."""
        return [router.endpoint for router in self.routers if router is not self.private]

    def poll(self, channels: dict[socket.socket, bool], until: float) -> Collection[object]:
        """Wait until something is ready, or until the time ``until``; returns what is ready.
        ``channels`` of child processes are polled too, for writing as well if the value is True."""
        if self._poller is None or channels != self._channels:
            self._poller, self._channels = zmq.Poller(), channels
            sockets = [router.socket for router in self.routers]
            sockets += [router.connections.events for router in self.routers]
            authenticator = [] if self._authenticator is None else [self._authenticator.socket]
            for socket_ in (self._calls.socket, *sockets, *authenticator):
                self._poller.register(socket_, zmq.POLLIN)
            for channel, is_full in channels.items():
                self._poller.register(channel, zmq.POLLIN | (zmq.POLLOUT if is_full else 0))
        wait_s = 0.0 if self._calls else min(until, self._inspect_at) - time.monotonic()
        ready = dict(self._poller.poll(max(0, math.ceil(wait_s * 1000))))
        if self._calls.socket.fileno() in ready:
            self._calls.clear_wake()
        if self._authenticator is not None:
            self._authenticator.refresh(time.monotonic())
            if self._authenticator.socket in ready:
                self._authenticator.answer()
        return ready

    def messages(
        self, ready: Collection[object]
    ) -> Iterator[tuple[Peer, FromWorker | ProtocolError]]:
        """Yield a bounded number of messages from each address. The pixels of each are still to be
        read or skipped."""
        for router in self.routers:
            for _ in range(_MAX_MESSAGES if router.socket in ready else 0):
                if (got := router.receive()) is None:
                    break
                yield got

    def inspect(self, ready: Collection[object]) -> None:
        """Close connections that cost too much, if it is time to look."""
        now = time.monotonic()
        events = (router.connections.events for router in self.routers)
        if now < self._inspect_at and not any(each in ready for each in events):
            return
        self._inspect_at = math.inf
        for router in self.routers:
            lines, again = router.connections.inspect(now)
            self._inspect_at = min(self._inspect_at, again)
            for line in lines:
                self._refusals.add(f"{line} ({router.endpoint})", now)

    def close(self) -> None:
        """Unbind. Messages have 0.2 s to be sent."""
        for router in self.routers:
            router.close(linger_ms=200)
        if self._authenticator is not None:
            self._authenticator.close()

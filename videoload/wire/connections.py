"""The connections to a trainer's socket, as the kernel knows them: peers, received bytes, and
connections that exceed limits.

ZeroMQ reports which descriptors it accepts (a socket monitor), and wrong keys, but not the received
bytes. It closes them in its own thread, and the kernel gives their numbers to others. So each has
one record, and this is the only table of them: descriptor, socket (by its inode), host, peer, and
what it may send. Each look is at a duplicate of the descriptor, which cannot change, and it counts
only if it is the socket that was accepted. All duplicates use one descriptor that is set aside, so
a look needs no free one.

One call handles a bounded number of events and looks.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable, Collection
from contextlib import suppress

import zmq

from videoload.wire.limits import UNKNOWN, Connection, judge

_EVENTS = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
# In the place of a descriptor: one side alone has keys, or both have them and they do not fit.
_OTHER_KEYS = zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH, zmq.PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC
_EVENT = struct.Struct("=hi")  # event and descriptor: zmq_socket_monitor(3)
_RECEIVED = struct.Struct("=128xQ")  # tcp_info.tcpi_bytes_received
_CREDENTIALS = struct.Struct("=iII")  # ucred: pid, uid, gid
_RESET = struct.pack("=ii", 1, 0)  # linger: on, for no time
_MAX_EVENTS = 256  # of one call: about 2 ms
_MAX_LOOKS = 512  # of one call: a look takes 4 us
# ZeroMQ takes 5 GB/s at most, over all connections: 100 MB between two looks at one connection.
# Looks take no more than a 25th of the time.
_LOOK_S, _LOOK_SHARE = 0.02, 25


class Connections:
    """The connections to one socket. Create it before the socket is bound."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        bound: zmq.Socket[bytes],
        most: int,
        children: Callable[[], Collection[int]] | None = None,
    ) -> None:
        """``most`` connections have room at once. ``children``, for a private address: the
        processes that may connect. Others are closed on at once."""
        self._most = most
        self.name: int | bytes | None = None  # the port, or the name of a Unix socket
        self.rejected = 0  # because of other keys than this side's
        self._children = children
        self._bound = bound
        self._open: dict[int, Connection] = {}  # by descriptor
        self._by_peer: dict[bytes, Connection] = {}
        self._has_other_keys = False  # the connection that ends next
        self._to_look_at: list[Connection] = []  # that this round of looks has still to see
        self._next_look = 0.0
        self._spare = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # The family determines the length of a name; AF_INET6 has room for AF_INET.
        family = socket.AF_INET6 if children is None else socket.AF_UNIX
        self._look = socket.socket(
            family, socket.SOCK_STREAM, 0, fileno=os.dup(self._spare.fileno())
        )
        self._lines: list[str] = []
        where = f"inproc://connections-{id(self)}"
        bound.monitor(where, _EVENTS)
        self.events = context.socket(zmq.PAIR)
        self.events.setsockopt(zmq.LINGER, 0)
        self.events.setsockopt(zmq.RCVHWM, 0)  # else ZeroMQ's thread would wait for this one
        self.events.connect(where)

    def __len__(self) -> int:
        return len(self._open)

    def of(self, descriptor: int, peer: bytes) -> Connection | None:
        """Return the connection on which ``peer`` sent, whose descriptor was this one by then; None
        if it is over. ZeroMQ reports a connection before a message of it can be read."""
        if (known := self._by_peer.get(peer)) is not None:
            return known
        while self.update():  # connections and disconnections with this number
            pass
        if (found := self._open.get(descriptor)) is None:
            return None
        # ZeroMQ numbers peers in order. Messages sent before a disconnection may be read last.
        number, other = (int.from_bytes(each[1:], "big") for each in (peer, found.peer))
        if found.peer and (number - other) % (1 << 32) >= 1 << 31:
            return None
        self._by_peer.pop(found.peer, None)
        found.peer = peer
        self._by_peer[peer] = found
        return found

    def update(self) -> bool:
        """Note new and closed connections, and return whether there may be more."""
        for _ in range(_MAX_EVENTS):
            try:
                frames = self.events.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                self._detach()
                return False
            event, number = _EVENT.unpack(frames[0])
            if event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
                self._has_other_keys = number in _OTHER_KEYS
                continue
            host = self._forget(number)
            if self._has_other_keys:
                self._has_other_keys = False
                self.rejected += 1
                self._lines.append(
                    f"a worker at {host} is rejected: it has no keys, or others than this trainer; "
                    "both need those of one 'videoload keygen'"
                )
            if event == zmq.EVENT_ACCEPTED and (inode := self._attach(number)) is not None:
                self._accept(number, inode)
        self._detach()
        return True

    def _forget(self, number: int) -> str:
        """Note that the connection of this descriptor has ended, and return its host."""
        if (ended := self._open.pop(number, None)) is None:
            return UNKNOWN
        self._by_peer.pop(ended.peer, None)
        return ended.host

    def inspect(self, now: float) -> tuple[list[str], float]:
        """Close connections that exceed their limits. Return a line with the reason for each, and
        when to look again (infinity: at the next connection)."""
        self.update()
        if self._children is None:
            received = self._received(now) if now >= self._next_look else {}
            for connection, why in judge(self._open.values(), received, self._most, now).items():
                if self._look_at(connection):
                    self._hang_up(why)
            self._detach()
        lines, self._lines = self._lines, []
        return lines, self._next_look if self._children is None and self._open else float("inf")

    def close(self) -> None:
        self._bound.disable_monitor()
        self.events.close()
        self._look.close()
        self._spare.close()

    def _received(self, now: float) -> dict[Connection, int]:
        """Return the bytes received on some connections; the next calls check the others."""
        began = time.perf_counter()
        received: dict[Connection, int] = {}
        self._to_look_at = self._to_look_at or list(self._open.values())
        looks, self._to_look_at = self._to_look_at[:_MAX_LOOKS], self._to_look_at[_MAX_LOOKS:]
        for connection in looks:
            if not self._look_at(connection):  # closed; ZeroMQ will report it
                continue
            with suppress(OSError, struct.error):
                info = self._look.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED.size)
                (received[connection],) = _RECEIVED.unpack(info)
        pause_s = _LOOK_SHARE * (time.perf_counter() - began)
        self._next_look = now + (pause_s if self._to_look_at else max(_LOOK_S, pause_s))
        return received

    def _accept(self, number: int, inode: int) -> None:
        with suppress(OSError):
            name = self._look.getsockname()
            if self.name != (name[1] if isinstance(name, tuple) else name):
                return  # it was closed meanwhile, and the number is another's now
        accepted = self._open[number] = Connection(time.monotonic(), number, inode)
        if self._children is None:
            with suppress(OSError):  # it has disconnected
                accepted.host = self._look.getpeername()[0].removeprefix("::ffff:")
            return
        with suppress(OSError, struct.error):
            credentials = self._look.getsockopt(
                socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
            )
            pid, _, _ = _CREDENTIALS.unpack(credentials)
            if pid != os.getpid() and pid not in self._children():
                self._hang_up(f"process {pid} is no worker of this trainer")

    def _look_at(self, connection: Connection) -> bool:
        """Look at a connection's socket from now on. False: it is closed."""
        is_open = self._open.get(connection.descriptor) is connection
        return is_open and self._attach(connection.descriptor) == connection.inode

    def _attach(self, number: int) -> int | None:
        """Look at a descriptor's socket from now on; returns its inode. None: it is closed."""
        try:
            os.dup2(number, self._look.fileno(), inheritable=False)
        except OSError:
            return None
        return os.fstat(self._look.fileno()).st_ino

    def _detach(self) -> None:
        """Let go of the last socket: when ZeroMQ closes it, the connection ends."""
        os.dup2(self._spare.fileno(), self._look.fileno(), inheritable=False)

    def _hang_up(self, why: str) -> None:
        with suppress(OSError):  # it has disconnected
            name = self._look.getpeername()
            # ZeroMQ's close then resets the connection. Otherwise a peer that is in the middle of
            # sending would not notice for a minute.
            self._look.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._look.shutdown(socket.SHUT_RDWR)
            who = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "a process of this host"
            self._lines.append(f"disconnected {who.removeprefix('::ffff:')}: {why}")

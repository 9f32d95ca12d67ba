"""The connections to a trainer's socket, as the kernel knows them: who is connected, how many bytes
came, and which connections go too far.

ZeroMQ reports which descriptors it accepts (a socket monitor), and that keys do not fit, but not
what comes on them. It closes them in its own thread, so a number may stand for another connection,
or another file, by the time it is used. So each look is at a duplicate, which cannot change, and it
counts only if it is the socket (by its inode) that was accepted. All duplicates use one descriptor
that is set aside, so a look needs no free descriptor.

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

from videoload.transport.limits import Limits

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
    """The connections to one socket. To be made before the socket is bound."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        bound: zmq.Socket[bytes],
        limits: Limits,
        children: Callable[[], Collection[int]] | None = None,
    ) -> None:
        """``children``, for a private address: the processes that may connect. Others are hung up
        on at once."""
        self.limits = limits
        self.name: int | bytes | None = None  # the port, or the name of a Unix socket
        self.turned_away = 0  # because of other keys than this side's
        self._children = children
        self._bound = bound
        self._inodes: dict[int, int] = {}
        self._hosts: dict[int, str] = {}
        self._has_other_keys = False  # the connection that ends next
        self._to_look_at: list[int] = []  # connections that this round of looks has still to see
        self._next_look = 0.0
        self._spare = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # The family says how long a name may be; one of AF_INET fits where AF_INET6 does.
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

    def update(self) -> None:
        """Note connections that came and went."""
        for _ in range(_MAX_EVENTS):
            try:
                frames = self.events.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                break
            event, number = _EVENT.unpack(frames[0])
            if event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
                self._has_other_keys = number in _OTHER_KEYS
                continue
            host = self._hosts.pop(number, "somebody")
            if self._has_other_keys:
                self._has_other_keys = False
                self.turned_away += 1
                self._lines.append(
                    f"{host} is turned away: it has no keys or others than this trainer; both need "
                    "those of one 'videoload keygen'"
                )
            self._inodes.pop(number, None)
            self.limits.disconnected(number)
            if event == zmq.EVENT_ACCEPTED and (inode := self._attach(number)) is not None:
                self._accept(number, inode)
        self._detach()

    def inspect(self, now: float) -> tuple[list[str], float]:
        """Hang up on connections that go too far. Returns a line for each, which says why, and when
        to look again (infinity: when somebody connects)."""
        self.update()
        if self._children is None:
            received = self._received(now) if now >= self._next_look else {}
            for number, why in self.limits.judge(received, now).items():
                if self._attach(number) == self._inodes[number]:
                    self._hang_up(why)
            self._detach()
        lines, self._lines = self._lines, []
        return lines, self._next_look if self._inodes else float("inf")

    def close(self) -> None:
        self._bound.disable_monitor()
        self.events.close()
        self._look.close()
        self._spare.close()

    def _received(self, now: float) -> dict[int, int]:
        """The bytes that came on some connections; the next calls look at the others."""
        began = time.perf_counter()
        received: dict[int, int] = {}
        self._to_look_at = self._to_look_at or list(self._inodes)
        looks, self._to_look_at = self._to_look_at[:_MAX_LOOKS], self._to_look_at[_MAX_LOOKS:]
        for number in looks:
            if self._attach(number) != self._inodes.get(number, 0):  # closed; ZeroMQ will say so
                continue
            with suppress(OSError, struct.error):
                info = self._look.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED.size)
                (received[number],) = _RECEIVED.unpack(info)
        pause_s = _LOOK_SHARE * (time.perf_counter() - began)
        self._next_look = now + (pause_s if self._to_look_at else max(_LOOK_S, pause_s))
        return received

    def _accept(self, number: int, inode: int) -> None:
        with suppress(OSError):
            name = self._look.getsockname()
            if self.name != (name[1] if isinstance(name, tuple) else name):
                return  # it was closed meanwhile, and the number is another's now
        self.limits.connected(number, time.monotonic())
        if self._children is None:
            self._inodes[number] = inode
            with suppress(OSError):  # it has hung up
                self._hosts[number] = self._look.getpeername()[0].removeprefix("::ffff:")
            return
        with suppress(OSError, struct.error):
            credentials = self._look.getsockopt(
                socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
            )
            pid, _, _ = _CREDENTIALS.unpack(credentials)
            if pid != os.getpid() and pid not in self._children():
                self._hang_up(f"process {pid} is no worker of this trainer")

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
        with suppress(OSError):  # it has hung up
            name = self._look.getpeername()
            # ZeroMQ's close then resets the connection. Otherwise a peer that is in the middle of
            # sending would not notice for a minute.
            self._look.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._look.shutdown(socket.SHUT_RDWR)
            who = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "a process of this host"
            self._lines.append(f"hung up on {who.removeprefix('::ffff:')}: {why}")

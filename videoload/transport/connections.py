"""The connections to a trainer's socket, as the kernel knows them: who is there, what came, and the
end of those that go too far.

ZeroMQ tells which descriptors it accepts (a socket monitor), not what came by them, and it closes
them in its own thread: a number may stand for another connection, or another file, by the time it
is used. So each look is at a duplicate, which cannot change under it, and what it finds counts only
if it is the very socket (its inode) that was accepted. The duplicates take the place of one
descriptor that was set aside: none has to be free when all are in use.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Collection
from contextlib import suppress

import zmq

from videoload.transport.limits import Limits

WATCHED = sys.platform == "linux"  # TCP_INFO and SO_PEERCRED are Linux's

_EVENTS = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED
_EVENT = struct.Struct("=hi")  # event and descriptor: zmq_socket_monitor(3)
_RECEIVED = struct.Struct("=128xQ")  # tcp_info.tcpi_bytes_received
_CREDENTIALS = struct.Struct("=iII")  # ucred: pid, uid, gid
_RESET = struct.pack("=ii", 1, 0)  # linger: on, for no time
# ZeroMQ takes 5 GB/s at most, over all connections: 100 MB between two looks. A look takes 4 us a
# connection, and no more than a 25th of the time.
_LOOK_S, _LOOK_SHARE = 0.02, 25


class Connections:
    """The connections to one socket; made before it is bound. ``children``, for a private address:
    the processes that may connect; others are hung up on at once."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        bound: zmq.Socket[bytes],
        limits: Limits,
        children: Callable[[], Collection[int]] | None = None,
    ) -> None:
        self.limits = limits
        self.name: int | bytes | None = None  # the port, or the name of a Unix socket
        self._children = children
        self._bound = bound
        self._inodes: dict[int, int] = {}
        self._spare = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # The family says how long a name may be; one of AF_INET fits where AF_INET6 does.
        family = socket.AF_INET6 if children is None else socket.AF_UNIX
        self._look = socket.socket(
            family, socket.SOCK_STREAM, 0, fileno=os.dup(self._spare.fileno())
        )
        self._told: list[str] = []
        where = f"inproc://connections-{id(self)}"
        bound.monitor(where, _EVENTS)
        self.events = context.socket(zmq.PAIR)
        self.events.setsockopt(zmq.LINGER, 0)
        self.events.setsockopt(zmq.RCVHWM, 0)  # else ZeroMQ's thread would wait for this one
        self.events.connect(where)

    def update(self) -> None:
        """Take note of those that came and went."""
        while True:
            try:
                frames = self.events.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                break
            event, number = _EVENT.unpack(frames[0])
            self._inodes.pop(number, None)
            self.limits.disconnected(number)
            if event == zmq.EVENT_ACCEPTED and (inode := self._see(number)) is not None:
                self._accept(number, inode)
        self._unsee()

    def inspect(self, now: float) -> tuple[list[str], float]:
        """Hang up on those that go too far. Returns why, a line for each, and when to look again
        (infinity: when someone comes)."""
        began = time.perf_counter()
        self.update()
        received: dict[int, int] = {}
        if self._children is None:
            for number, inode in list(self._inodes.items()):
                if self._see(number) != inode:  # closed; ZeroMQ will say so
                    continue
                with suppress(OSError, struct.error):
                    info = self._look.getsockopt(
                        socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED.size
                    )
                    (received[number],) = _RECEIVED.unpack(info)
            for number, why in self.limits.judge(received, now).items():
                if self._see(number) == self._inodes[number]:
                    self._hang_up(why)
            self._unsee()
        told, self._told = self._told, []
        if not received:
            return told, float("inf")
        pause_s = max(_LOOK_S, _LOOK_SHARE * (time.perf_counter() - began))
        return told, now + pause_s

    def close(self) -> None:
        """See no more."""
        self._bound.disable_monitor()
        self.events.close()
        self._look.close()
        self._spare.close()

    def _accept(self, number: int, inode: int) -> None:
        with suppress(OSError):
            name = self._look.getsockname()
            if self.name != (name[1] if isinstance(name, tuple) else name):
                return  # it was closed meanwhile, and the number is another's now
        if self._children is None:
            self._inodes[number] = inode
            self.limits.connected(number, time.monotonic())
            return
        with suppress(OSError, struct.error):
            credentials = self._look.getsockopt(
                socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
            )
            pid, _, _ = _CREDENTIALS.unpack(credentials)
            if pid != os.getpid() and pid not in self._children():
                self._hang_up(f"process {pid} is no worker of this trainer")

    def _see(self, number: int) -> int | None:
        """Look at a descriptor's socket from now on; returns its inode. None: it is closed."""
        try:
            os.dup2(number, self._look.fileno(), inheritable=False)
        except OSError:
            return None
        return os.fstat(self._look.fileno()).st_ino

    def _unsee(self) -> None:
        """Let go of the last: what ZeroMQ has closed is then at its end."""
        os.dup2(self._spare.fileno(), self._look.fileno(), inheritable=False)

    def _hang_up(self, why: str) -> None:
        with suppress(OSError):  # it has hung up
            name = self._look.getpeername()
            # So that ZeroMQ's close resets it: else one that is in the middle of sending would not
            # notice for a minute.
            self._look.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._look.shutdown(socket.SHUT_RDWR)
            who = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "a process of this host"
            self._told.append(f"hung up on {who.removeprefix('::ffff:')}: {why}")

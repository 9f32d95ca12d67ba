"""Sockets: ROUTER on the trainer's side, DEALER on the worker's.

The trainer binds a ROUTER, workers connect with a DEALER. Three settings are essential. With
ROUTER_MANDATORY the trainer learns at once that a worker is gone; otherwise messages to it vanish.
IMMEDIATE prevents a DEALER from queueing messages for a trainer that is not connected. LINGER is
bounded, so that no close hangs. High-water marks bound nothing here: leases do.

What an unknown peer can cost is bounded as well. The sender of a frame that is larger than any
lease is disconnected (MAXMSGSIZE), and so is a peer that connects and sends nothing
(HANDSHAKE_IVL). TCP holds back a peer that sends faster than it is read (RCVHWM, well above what a
worker owes). These settings cannot bound a message without an end: `limits` does.

An address beyond this host needs CURVE keys on both sides (`make_keys`). Without them, anybody
who reaches a trainer's port could send it any pixels, and any host that answers a worker could read
any video.
"""

from __future__ import annotations

import errno
import os
import re
import struct
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import zmq

from videoload.errors import ProtocolError, TransportError
from videoload.wire.addresses import all_interfaces, check_address
from videoload.wire.connections import Connections
from videoload.wire.keys import TRAINER, WORKER, load_key, own_keys
from videoload.wire.limits import Connection
from videoload.wire.messages import (
    FromTrainer,
    FromWorker,
    pack,
    unpack_from_trainer,
    unpack_from_worker,
)

PIXEL_BYTES = 1 << 30  # of a RESULT at most; leases are cut to fit
_BODY_BYTES = 64 << 20  # of a message without its pixels at most; a full LEASE has 1.3 MB
HANDSHAKE_MS = 10_000  # with a trainer whose I/O thread waits for its other threads
_CONNECT_MS = 1000  # the kernel's own first pause between two attempts
_BACKLOG = 1024  # connections not accepted yet; with 100, many of a thousand at once wait a second
_CONNECTIONS = 8192
_RECEIVED = 64  # messages of one worker that wait to be read; it owes half as many answers at most
_EVENT = struct.Struct("=Hi")  # event and its value: zmq_socket_monitor(3)
_REFUSALS = zmq.EVENT_HANDSHAKE_FAILED_AUTH, zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
_NO_DETAIL = zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
_ENDS = zmq.EVENT_DISCONNECTED | _NO_DETAIL | _REFUSALS[0] | _REFUSALS[1]
_DRAIN_MS = 2000  # a leaving worker waits at most this long until its last messages are sent


class RevokedKeyError(ProtocolError):
    """The key of a connection is not admitted any more."""


class Peer(NamedTuple):
    """A worker as a trainer's socket knows it, until it connects again."""

    router: Router
    identity: bytes

    def send(self, message: FromTrainer) -> bool:
        """Send a message; False if the worker is gone, or its queue is full."""
        try:
            frames = [self.identity, b"".join(pack(message))]
            self.router.socket.send_multipart(frames, zmq.DONTWAIT)
        except zmq.ZMQError as error:
            if error.errno in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                return False
            raise
        return True

    def admitted(self) -> None:
        """The last message was this worker's HELLO, and it is admitted."""
        if (connection := self.router.last) is not None:
            self.router.workers[self.identity] = connection
            connection.admitted()

    def granted(self, answer_bytes: int, leases: int) -> None:
        """The worker was given a lease with an answer of ``answer_bytes``, and holds ``leases``."""
        if (connection := self.router.workers.get(self.identity)) is not None:
            connection.granted(answer_bytes, leases)

    def left(self) -> None:
        """The worker has left."""
        if (connection := self.router.workers.pop(self.identity, None)) is not None:
            connection.left(time.monotonic())


class Router:
    """The trainer's side: one bound socket. It gives each connection a name of its own.

    Attributes:
        connections: What is connected, and may be closed.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        endpoint: str,
        *,
        keys: str | os.PathLike[str] | None = None,
        insecure: bool = False,
        pixel_bytes: int = PIXEL_BYTES,
        most: int = _CONNECTIONS,
        children: Callable[[], Collection[int]] | None = None,
        admits: Callable[[str], bool] | None = None,
    ) -> None:
        """Bind ``endpoint``, for ``most`` connections at once.

        A Unix socket without a file has no permissions, so processes of other users are not let in.
        With ``children``, only these processes are. ``admits`` returns whether the key of a
        connection is still admitted. Raises TransportError: the address is in use or
        needs keys.
        """
        check_address(endpoint, keys, insecure)
        self.workers: dict[bytes, Connection] = {}  # the connections of workers
        self.last: Connection | None = None  # the one of the last message; None if it is over
        self.more = False  # whether frames of the last message are still to be taken
        self._admits = admits
        with _socket(context, zmq.ROUTER, f"listen on {endpoint}", keys, TRAINER) as self.socket:
            self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
            self.socket.setsockopt(zmq.MAXMSGSIZE, max(pixel_bytes, _BODY_BYTES))
            self.socket.setsockopt(zmq.RCVHWM, _RECEIVED)
            self.socket.setsockopt(zmq.BACKLOG, _BACKLOG)
            if keys is not None:
                self.socket.curve_server = True
            else:
                # As with CURVE, libzmq then rejects ZMTP 1.0, for which it mistakes any noise. Its
                # handshake aborts the process if the socket is being closed (4.3.5,
                # zmtp_engine.cpp:422).
                self.socket.setsockopt_string(zmq.ZAP_DOMAIN, "videoload")
            if endpoint.startswith("ipc://"):
                self.socket.setsockopt(zmq.IPC_FILTER_UID, os.getuid())
            self.connections = Connections(context, self.socket, most, children)
            try:
                self.socket.bind(all_interfaces(endpoint))
            except BaseException:
                self.connections.close()
                raise
            # Sockets that are already bound do not change. From now on the socket numbers its peers
            # itself, and sends messages of one frame. Otherwise a peer could announce the number of
            # the next one, and libzmq ends a process that knows two peers by one name (4.3.5,
            # socket_base.cpp:2113).
            self.socket.setsockopt(zmq.ROUTER_RAW, 1)
        bound = str(self.socket.getsockopt_string(zmq.LAST_ENDPOINT))
        # An IPv4 address is returned as [::ffff:127.0.0.1], which people do not connect to.
        self.endpoint = re.sub(r"\[::ffff:([0-9.]+)\]", r"\1", bound)
        if endpoint.startswith("tcp://0.0.0.0:"):
            self.endpoint = f"tcp://0.0.0.0:{bound.rpartition(':')[2]}"
        is_tcp = bound.startswith("tcp://")
        address = bound.rpartition(":")[2] if is_tcp else bound.removeprefix("ipc://@")
        self.connections.name = int(address) if is_tcp else b"\0" + os.fsencode(address)

    def receive(self) -> tuple[Peer, FromWorker | ProtocolError] | None:
        """Return the next message and its sender, or None. Its pixels, if any, are still to be
        taken by `receive_pixels` or dropped by `skip`."""
        try:
            first = self.socket.recv(zmq.DONTWAIT, copy=False)
        except zmq.Again:
            return None
        peer, self.more = Peer(self, first.bytes), first.more
        frames: list[bytes] = []
        try:
            while self.more and len(frames) < 2:
                frame = self._next_frame()
                if not frames:
                    self._note(frame, peer.identity)
                if len(frame) > _BODY_BYTES:
                    raise ProtocolError(f"a message of {len(frame)} bytes, pixels apart")
                frames.append(frame.bytes)
            return peer, unpack_from_worker(frames)
        except ProtocolError as error:
            return peer, error

    def receive_pixels(self, into: Sequence[npt.NDArray[np.uint8]]) -> None:
        """Take the pixels into these arrays. Raises ProtocolError unless they fill them exactly."""
        got, size = 0, sum(array.nbytes for array in into)
        if self.more and len(into) == 1:
            got = self.socket.recv_into(into[0].reshape(-1).data)
            self.more = bool(self.socket.getsockopt(zmq.RCVMORE))
        elif self.more:
            pixels = np.frombuffer(self._next_frame().buffer, np.uint8)
            got, at = len(pixels), 0
            for array in into if got == size else ():
                array.reshape(-1)[:] = pixels[at : at + array.nbytes]
                at += array.nbytes
        if got != size or self.more:
            self.skip()
            raise ProtocolError(f"{got} bytes of pixels arrived, but the lease has {size}")

    def skip(self) -> None:
        """Drop what is left of the last message."""
        while self.more:
            self._next_frame()

    def _next_frame(self) -> zmq.Frame:
        frame = self.socket.recv(copy=False)
        self.more = frame.more
        return frame

    def sending(self) -> list[Peer]:
        """Return the workers that sent something since the last call, even a part of a message."""
        return [Peer(self, name) for name, each in self.workers.items() if each.take_growth()]

    def _note(self, frame: zmq.Frame, identity: bytes) -> None:
        """Note the end of this message. Raises RevokedKeyError."""
        if self._admits is not None and not self._admits(str(frame.get("User-Id"))):
            raise RevokedKeyError("its key was revoked")
        self.last = self.workers.get(identity)
        if self.last is None:
            self.last = self.connections.of(int(frame.get(zmq.SRCFD)), identity)
        if self.last is not None:
            self.last.completed = True

    def close(self, *, linger_ms: int = 0) -> None:
        """Unbind. Messages that are not sent within ``linger_ms`` are dropped."""
        self.connections.close()
        self.socket.close(linger=linger_ms)


class Dealer:
    """A worker's side: one connection to one trainer."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        endpoint: str,
        *,
        keys: str | os.PathLike[str] | None = None,
        insecure: bool = False,
        as_stranger: bool = False,
        once: bool = False,
    ) -> None:
        """Begin to connect to ``endpoint``. ``as_stranger``, without keys: with new, unknown keys.
        A trainer that has keys always sees and counts that, which it does not if this side sees
        first that it has none. ``once``: it does not connect again by itself. Raises
        TransportError: not an address, or no keys."""
        check_address(endpoint, keys, insecure)
        self.was_refused = False
        with _socket(context, zmq.DEALER, f"connect to {endpoint}", keys, WORKER) as self.socket:
            self.socket.setsockopt(zmq.IMMEDIATE, 1)
            self.socket.setsockopt(zmq.MAXMSGSIZE, _BODY_BYTES)
            self.socket.setsockopt(zmq.RECONNECT_IVL, -1 if once else 100)
            self.socket.setsockopt(zmq.RECONNECT_IVL_MAX, 250)
            # The kernel's own pauses between two attempts grow to half a minute. A line that works
            # again should be found at once.
            self.socket.setsockopt(zmq.CONNECT_TIMEOUT, _CONNECT_MS)
            if keys is not None:
                self.socket.curve_serverkey = load_key(Path(keys) / f"{TRAINER}.key")[0]
            elif as_stranger:
                public, self.socket.curve_secretkey = zmq.curve_keypair()
                self.socket.curve_publickey = self.socket.curve_serverkey = public
            self._ends = self.socket.get_monitor_socket(_ENDS)
            self._ends.setsockopt(zmq.RCVHWM, 0)  # else ZeroMQ's thread would wait for this one
            try:
                self.socket.connect(endpoint)
            except BaseException:
                self.socket.disable_monitor()
                self._ends.close()
                raise

    @property
    def is_connected(self) -> bool:
        """Return whether a message could be sent now."""
        return bool(self.socket.poll(0, zmq.POLLOUT))

    def hung_up(self) -> bool:
        """Return whether its connection ended since the last call. ZeroMQ makes another one. It
        ``was_refused`` if the other side disconnects, as a trainer with other keys does."""
        ended = False
        with suppress(zmq.Again):
            while frames := self._ends.recv_multipart(zmq.DONTWAIT):
                event, value = _EVENT.unpack(frames[0])
                ended |= event == zmq.EVENT_DISCONNECTED
                self.was_refused |= event in _REFUSALS
                # The other side may close before it has reported that it has keys, or others.
                self.was_refused |= event == _NO_DETAIL and value in (errno.EPIPE, errno.ECONNRESET)
        return ended

    def receive(self) -> FromTrainer | None:
        """Return the next message, or None. Raises ProtocolError."""
        try:
            return unpack_from_trainer(self.socket.recv_multipart(zmq.DONTWAIT))
        except zmq.Again:
            return None

    def send(self, message: FromWorker, pixels: npt.NDArray[np.uint8] | None = None) -> bool:
        """Send a message; False without a connection. Do not write to ``pixels`` afterwards."""
        try:
            self.socket.send_multipart(
                pack(message), zmq.DONTWAIT | (zmq.SNDMORE if pixels is not None else 0)
            )
            if pixels is not None:
                self.socket.send(pixels.data, zmq.DONTWAIT, copy=False)
        except zmq.Again:
            return False
        return True

    def close(self, *, drain: bool = False) -> None:
        """Disconnect. With ``drain``, wait until all messages are sent, for two seconds at most."""
        self.socket.disable_monitor()
        self._ends.close()
        self.socket.close(linger=_DRAIN_MS if drain else 0)


def check_dial(
    endpoint: str, *, keys: str | os.PathLike[str] | None = None, insecure: bool = False
) -> None:
    """Check what `Dealer` checks, without connecting. Raises TransportError."""
    check_address(endpoint, keys, insecure)
    if endpoint.startswith("tcp://") and not endpoint.rpartition(":")[2].strip("*0"):
        raise TransportError(f"cannot connect to {endpoint}: it has no port")
    if keys is not None:
        own_keys(keys, WORKER)
        load_key(Path(keys) / f"{TRAINER}.key")


@contextmanager
def _socket(
    context: zmq.Context[zmq.Socket[bytes]],
    kind: int,
    purpose: str,
    keys: str | os.PathLike[str] | None,
    role: str,
) -> Iterator[zmq.Socket[bytes]]:
    """A socket with the settings of both sides and the keys of ``role``. If the block fails, the
    socket is closed, and an error of ZeroMQ becomes "cannot ``purpose``", a TransportError."""
    made = context.socket(kind)
    try:
        made.setsockopt(zmq.LINGER, 0)
        made.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
        made.setsockopt(zmq.IPV6, 1)
        if keys is not None:
            made.curve_publickey, made.curve_secretkey = own_keys(keys, role)
        yield made
    except BaseException as error:
        made.close()  # else the context would never end
        if isinstance(error, zmq.ZMQError):
            raise TransportError(f"cannot {purpose}: {_reason(error)}") from None
        raise


def _reason(error: zmq.ZMQError) -> str:
    if error.errno == zmq.EADDRINUSE:
        return "the port is in use"
    if error.errno in (errno.ENODEV, errno.EADDRNOTAVAIL):
        return "this host has no such address; 0.0.0.0 means all that it has"
    return str(error.strerror or error)

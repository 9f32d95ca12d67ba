"""Sockets, keys and addresses: how messages get from here to there.

The trainer binds a ROUTER, workers dial in with a DEALER. Three settings carry the weight:
ROUTER_MANDATORY tells at once that a worker is gone (otherwise its messages vanish), IMMEDIATE
keeps a DEALER from queueing for a trainer that is not there, and LINGER is bounded, so that no
close hangs. High-water marks bound nothing here: leases do.

What a stranger at a port can cost is bounded as well. A frame larger than any lease hangs up on
its sender (MAXMSGSIZE); who connects and says nothing is hung up on (HANDSHAKE_IVL); a peer that
sends faster than it is listened to is held back by TCP (RCVHWM, well above what a worker owes).

An address beyond this host needs CURVE keys on both sides (`make_keys`), because whoever reaches a
trainer's port could send it any pixels, and whoever answers a worker could read any video.
"""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
import shutil
import socket
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt
import zmq
import zmq.auth

from videoload.errors import ProtocolError, TransportError
from videoload.transport.messages import (
    FromTrainer,
    FromWorker,
    Private,
    Share,
    pack,
    pack_private,
    unpack_from_trainer,
    unpack_from_worker,
    unpack_private,
)
from videoload.transport.slots import SHARED

Peer = tuple["Router", bytes]

PIXEL_BYTES = 1 << 30  # of a RESULT at most; leases are cut to fit
_BODY_BYTES = 64 << 20  # of a message without its pixels at most; a full LEASE has 1.3 MB
_HANDSHAKE_MS = 10_000  # with a trainer whose I/O thread has to wait for its other threads
_BACKLOG = 1024  # connections not accepted yet; with 100, of a thousand at once many wait a second
_RECEIVED = 64  # messages of one worker that wait to be taken in; it owes two answers and beats
_KNOCKS = 64  # connection attempts that are decided on in one go

_TRAINER, _WORKER, _ADMITTED = "trainer", "worker", "admitted"
_DRAIN_MS = 2000  # a leaving worker waits so long for its last words to be sent
_CHANNEL_S = 5.0  # a worker that does not read its channel for so long is as good as dead
_LOOPBACK_NAMES = ("localhost", "ip6-localhost")


def private_endpoint() -> str:
    """An address for this host's own workers: an abstract Unix socket, so no file to leave behind,
    or a loopback port where there is no such thing."""
    return f"ipc://@videoload-{secrets.token_hex(16)}" if SHARED else "tcp://127.0.0.1:*"


class Router:
    """The trainer's side: one bound socket, its peers known by routing id."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        endpoint: str,
        *,
        keys: str | os.PathLike[str] | None = None,
        insecure: bool = False,
        pixel_bytes: int = PIXEL_BYTES,
    ) -> None:
        """Bind ``endpoint``. Raises TransportError: address in use, no keys where they are due."""
        _check(endpoint, keys, insecure)
        with _socket(context, zmq.ROUTER, f"listen on {endpoint}", keys, _TRAINER) as self.socket:
            self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
            self.socket.setsockopt(zmq.MAXMSGSIZE, max(pixel_bytes, _BODY_BYTES))
            self.socket.setsockopt(zmq.RCVHWM, _RECEIVED)
            self.socket.setsockopt(zmq.BACKLOG, _BACKLOG)
            if keys is not None:
                self.socket.curve_server = True
            else:
                # Makes libzmq refuse ZMTP 1.0, which any noise can pass for, as CURVE does: its
                # handshake aborts the process if the socket is being closed (4.3.5,
                # zmtp_engine.cpp:422).
                self.socket.setsockopt_string(zmq.ZAP_DOMAIN, "videoload")
            self.socket.bind(endpoint)
        bound = str(self.socket.getsockopt_string(zmq.LAST_ENDPOINT))
        # An IPv4 address comes back as [::ffff:127.0.0.1], which is not what anybody would dial.
        self.endpoint = re.sub(r"\[::ffff:([0-9.]+)\]", r"\1", bound)

    def receive(self) -> tuple[Peer, FromWorker | ProtocolError] | None:
        """The next message and who sent it, or None. Its pixels, if any, are still to be taken by
        `receive_pixels` or dropped by `skip`."""
        try:
            identity = self.socket.recv(zmq.DONTWAIT)
        except zmq.Again:
            return None
        frames: list[bytes] = []
        try:
            while self.more and len(frames) < 2:
                frame = self.socket.recv(copy=False)
                if len(frame) > _BODY_BYTES:
                    raise ProtocolError(f"a message of {len(frame)} bytes, pixels apart")
                frames.append(frame.bytes)
            return (self, identity), unpack_from_worker(frames)
        except ProtocolError as error:
            return (self, identity), error

    @property
    def more(self) -> bool:
        """Whether frames of the last message are still to be taken."""
        return bool(self.socket.getsockopt(zmq.RCVMORE))

    def receive_pixels(self, into: npt.NDArray[np.uint8]) -> None:
        """Take the pixels into ``into``. Raises ProtocolError unless they fill it exactly."""
        got = self.socket.recv_into(into.reshape(-1).data) if self.more else 0
        if got != into.nbytes or self.more:
            self.skip()
            raise ProtocolError(f"{got} bytes of pixels came, the lease has {into.nbytes}")

    def skip(self) -> None:
        """Drop what is left of the last message."""
        while self.more:
            self.socket.recv(copy=False)

    def send(self, identity: bytes, message: FromTrainer) -> bool:
        """False if the worker is gone, or takes nothing any more."""
        try:
            self.socket.send_multipart([identity, *pack(message)], zmq.DONTWAIT)
        except zmq.ZMQError as error:
            if error.errno in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                return False
            raise
        return True

    def close(self) -> None:
        """Unbind. What was not sent yet is dropped."""
        self.socket.close(linger=0)


class Doorkeeper:
    """Lets in the workers whose public keys lie in the trainer's key folder, nobody else."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], keys: str | os.PathLike[str]
    ) -> None:
        admitted = Path(keys) / _ADMITTED
        if not admitted.is_dir():
            raise TransportError(
                f"no folder {admitted}: it holds the public keys of the workers that may dial in; "
                "make keys with: videoload keygen DIR, and give DIR/trainer here"
            )
        self._authenticator = zmq.auth.Authenticator(context)
        self._authenticator.start()
        self._authenticator.configure_curve(domain="*", location=admitted)
        assert self._authenticator.zap_socket is not None
        self.socket = self._authenticator.zap_socket

    def answer(self) -> None:
        """Decide on connection attempts that wait; those beyond a good many go on waiting."""
        for _ in range(_KNOCKS):
            if not self.socket.poll(0):
                return
            # The coroutine never waits: it is async only for the asyncio flavour's sake.
            answer = self._authenticator.handle_zap_message(self.socket.recv_multipart())
            with suppress(StopIteration):
                answer.send(None)

    def close(self) -> None:
        """Stop answering."""
        self._authenticator.stop()


class Dealer:
    """A worker's side: one connection to one trainer."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        endpoint: str,
        *,
        keys: str | os.PathLike[str] | None = None,
        insecure: bool = False,
    ) -> None:
        """Begin to dial ``endpoint``. Raises TransportError: not an address, or no keys."""
        _check(endpoint, keys, insecure)
        with _socket(context, zmq.DEALER, f"dial {endpoint}", keys, _WORKER) as self.socket:
            self.socket.setsockopt(zmq.IMMEDIATE, 1)
            self.socket.setsockopt(zmq.MAXMSGSIZE, _BODY_BYTES)
            self.socket.setsockopt(zmq.RECONNECT_IVL, 100)
            self.socket.setsockopt(zmq.RECONNECT_IVL_MAX, 2000)
            if keys is not None:
                self.socket.curve_serverkey = _load(Path(keys) / f"{_TRAINER}.key")[0]
            self.socket.connect(endpoint)

    def receive(self) -> FromTrainer | None:
        """The next message, or None. Raises ProtocolError."""
        try:
            return unpack_from_trainer(self.socket.recv_multipart(zmq.DONTWAIT))
        except zmq.Again:
            return None

    def send(self, message: FromWorker, pixels: npt.NDArray[np.uint8] | None = None) -> bool:
        """False if there is no connection now. ``pixels`` must not be written to afterwards."""
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
        """Hang up; with ``drain``, once what was said is sent, or after two seconds."""
        self.socket.close(linger=_DRAIN_MS if drain else 0)


@contextmanager
def _socket(
    context: zmq.Context[zmq.Socket[bytes]],
    kind: int,
    purpose: str,
    keys: str | os.PathLike[str] | None,
    role: str,
) -> Iterator[zmq.Socket[bytes]]:
    """A socket with what both sides set, and the ``role``'s own keys. It is closed if ``purpose``
    fails, with a TransportError."""
    made = context.socket(kind)
    try:
        made.setsockopt(zmq.LINGER, 0)
        made.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
        made.setsockopt(zmq.IPV6, 1)
        if keys is not None:
            made.curve_publickey, made.curve_secretkey = _own_keys(keys, role)
        yield made
    except (zmq.ZMQError, TransportError) as error:
        made.close()
        if isinstance(error, TransportError):
            raise
        raise TransportError(f"cannot {purpose}: {_reason(error)}") from None


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


def make_keys(folder: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Make CURVE keys for one trainer and its workers: ``folder``/trainer and ``folder``/worker,
    to be given as ``keys`` to each side. Raises TransportError if the folder holds keys."""
    base = Path(folder)
    trainer, worker = base / _TRAINER, base / _WORKER
    if trainer.exists() or worker.exists():
        raise TransportError(f"{base} holds keys already; they are not overwritten")
    try:
        (trainer / _ADMITTED).mkdir(parents=True, mode=0o700)
        worker.mkdir(mode=0o700)
        for home, name, others in (
            (trainer, _TRAINER, worker),
            (worker, _WORKER, trainer / _ADMITTED),
        ):
            public, secret = zmq.auth.create_certificates(home, name)
            Path(secret).chmod(stat.S_IRUSR | stat.S_IWUSR)
            shutil.copy(public, others)
            Path(public).unlink()
    except OSError as error:
        raise TransportError(f"cannot make keys in {base}: {error.strerror}") from None
    return trainer, worker


def check_dial(
    endpoint: str, *, keys: str | os.PathLike[str] | None = None, insecure: bool = False
) -> None:
    """Raises TransportError for what `Dealer` would refuse, without dialling."""
    _check(endpoint, keys, insecure)
    if keys is not None:
        _own_keys(keys, _WORKER)
        _load(Path(keys) / f"{_TRAINER}.key")


def is_name(endpoint: str) -> bool:
    """Whether the address names a host that has to be looked up."""
    if not endpoint.startswith("tcp://"):
        return False
    try:
        ipaddress.ip_address(urlsplit(endpoint).hostname or "")
    except ValueError:
        return True
    return False


def resolve(endpoint: str) -> list[str]:
    """The addresses that a name stands for, each once, as endpoints. A host with addresses of both
    families is one trainer, not two: then those of IPv4 count. Blocks, maybe for many seconds.

    Raises TransportError with the resolver's reason.
    """
    parts = urlsplit(endpoint)
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # UnicodeError: a label of 64 characters
        raise TransportError(getattr(error, "strerror", None) or str(error)) from None
    hosts = {str(address[0]): family for family, *_, address in found}
    four = [host for host, family in hosts.items() if family == socket.AF_INET]
    return [f"tcp://{host}:{parts.port}" for host in four] or [
        f"tcp://[{host}]:{parts.port}" for host in hosts
    ]


def is_local(endpoint: str) -> bool:
    """Whether only this host can reach the address."""
    if endpoint.startswith(("ipc://", "inproc://")):
        return True
    host = urlsplit(endpoint).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in _LOOPBACK_NAMES


def _check(endpoint: str, keys: object, insecure: bool) -> None:
    scheme, _, rest = endpoint.partition("://")
    host, _, port = rest.rpartition(":")
    bad_port = not (port == "*" or (port.isdecimal() and int(port) < 1 << 16))
    if scheme not in ("tcp", "ipc") or not rest or (scheme == "tcp" and (not host or bad_port)):
        raise TransportError(f"{endpoint!r} is not an address: tcp://HOST:PORT is")
    if not (keys or insecure or is_local(endpoint)):
        raise TransportError(
            f"{endpoint} can be reached from other hosts, so it needs keys: make them with "
            "'videoload keygen DIR' and give DIR/trainer to the trainer, DIR/worker to the "
            "workers; or accept anybody, with --insecure (insecure=True)"
        )


def _own_keys(folder: str | os.PathLike[str], role: str) -> tuple[bytes, bytes]:
    path = Path(folder) / f"{role}.key_secret"
    public, secret = _load(path)
    if secret is None:
        raise TransportError(f"{path} holds no secret key; make keys with: videoload keygen DIR")
    return public, secret


def _load(path: Path) -> tuple[bytes, bytes | None]:
    try:
        return zmq.auth.load_certificate(path)
    except (OSError, ValueError) as error:
        raise TransportError(
            f"no usable key {path} ({getattr(error, 'strerror', None) or error}); make keys with: "
            "videoload keygen DIR, and give DIR/trainer to the trainer, DIR/worker to the workers"
        ) from None


def _reason(error: zmq.ZMQError) -> str:
    if error.errno == zmq.EADDRINUSE:
        return "the port is in use"
    return str(error.strerror or error)

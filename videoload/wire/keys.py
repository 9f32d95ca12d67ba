"""CURVE keys (ZeroMQ RFC 26): the key files of both sides, and the check of peers that connect.

A trainer's folder holds its key pair and, under ``admitted/``, the public keys of the workers that
may connect; a worker's folder holds its own pair and the trainer's public key.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import zmq
import zmq.auth

from videoload.errors import StorageError, TransportError
from videoload.storage.daemon_pool import DaemonPool

TRAINER, WORKER = "trainer", "worker"

_ADMITTED = "admitted"
_MAX_HANDSHAKES = 64  # that one call decides on
_REFRESH_S = 1.5
_MOST_BYTES = 64 << 10  # of a key file

_Seen = list[tuple[str, int, int]]  # key files, with what changes when one of them does


def make_keys(folder: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Create CURVE keys for one trainer and its workers.

    Args:
        folder: It is created if it does not exist.

    Returns:
        ``folder``/trainer and ``folder``/worker, to be given as ``keys`` to each side.

    Raises:
        TransportError: The folder holds keys already, or cannot be written.
    """
    base = Path(folder)
    trainer, worker = base / TRAINER, base / WORKER
    if trainer.exists() or worker.exists():
        raise TransportError(f"{base} contains keys already; they are not overwritten")
    made: list[Path] = []
    try:
        for home in (trainer, worker):  # their parents get the usual mode
            home.mkdir(parents=True, mode=0o700)  # fails if another process has just created it
            made.append(home)
        (trainer / _ADMITTED).mkdir(mode=0o700)
        for home, name, others in (
            (trainer, TRAINER, worker),
            (worker, WORKER, trainer / _ADMITTED),
        ):
            public, secret = zmq.curve_keypair()
            _write_key(others / f"{name}.key", public)
            _write_key(home / f"{name}.key_secret", public, secret)
    except OSError as error:
        for half_made in made:
            shutil.rmtree(half_made, ignore_errors=True)
        raise TransportError(f"cannot create keys in {base}: {error.strerror}") from None
    return trainer, worker


def _write_key(file: Path, public: bytes, secret: bytes | None = None) -> None:
    """Write a key file in the format of `zmq.auth`. Only the owner can ever read a secret key."""
    lines = ["metadata", "curve", f'    public-key = "{public.decode()}"']
    lines += [] if secret is None else [f'    secret-key = "{secret.decode()}"']
    mode = 0o644 if secret is None else 0o600
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as out:
        out.write("\n".join(lines) + "\n")


def own_keys(folder: str | os.PathLike[str], role: str) -> tuple[bytes, bytes]:
    """Return the (public, secret) keys of a side. Raises TransportError."""
    path = Path(folder) / f"{role}.key_secret"
    if not path.exists() and (path.parent / role / path.name).exists():
        raise TransportError(f"{folder} has the keys of both sides: give {path.parent / role}")
    public, secret = load_key(path)
    if secret is None:
        raise TransportError(
            f"{path} contains no secret key; create keys with: videoload keygen DIR"
        )
    _refuse_others(path.parent, stat.S_IWOTH)
    return public, secret


def load_key(path: Path) -> tuple[bytes, bytes | None]:
    """Return the public key of a file, and the secret one if it holds one. Raises TransportError,
    also if other users of this host may read a secret key, or write any key."""
    try:
        status = path.stat()  # ZeroMQ would call a missing file invalid
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            raise ValueError(f"it is not a file, or has more than {_MOST_BYTES} bytes")
        public, secret = zmq.auth.load_certificate(path)
        _refuse_others(path, stat.S_IWOTH if secret is None else stat.S_IWOTH | stat.S_IROTH)
    except (OSError, ValueError) as error:
        raise TransportError(
            f"no usable key {path} ({getattr(error, 'strerror', None) or error}); create keys "
            f"with: "
            "videoload keygen DIR, and give DIR/trainer to the trainer, DIR/worker to the workers"
        ) from None
    return public, secret


def _refuse_others(path: Path, rights: int) -> None:
    """Raise TransportError if every user of this host has one of these rights, OSError."""
    found = path.stat().st_mode & rights
    if found & stat.S_IWOTH and not os.access(path, os.W_OK):  # a mount that is read-only
        found &= ~stat.S_IWOTH
    if found:
        may = "write to" if found & stat.S_IWOTH else "read"
        raise TransportError(
            f"every user of this host may {may} {path}: chmod o-rwx it (in Kubernetes, give its "
            "volume defaultMode: 0440)"
        )


class KeyAuthenticator:
    """Admits the workers whose public keys are in the trainer's folder, which is read again when it
    changes. ``tell`` is called with a line for the log, for each attempt with another key too.

    Attributes:
        rejected: How many connection attempts with other keys there were.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        keys: str | os.PathLike[str],
        tell: Callable[[str], object] = lambda line: None,
    ) -> None:
        admitted = Path(keys) / _ADMITTED
        if not admitted.is_dir():
            raise TransportError(
                f"no folder {admitted}: it contains the public keys of the workers that may "
                f"connect; "
                "create keys with: videoload keygen DIR, and give DIR/trainer here"
            )
        _refuse_others(admitted, stat.S_IWOTH)
        self.rejected = 0
        self._seen = _files(admitted)
        self._keys = {load_key(Path(path))[0] for path, *_ in self._seen}
        self._refresh_at = time.monotonic() + _REFRESH_S
        self._reader = DaemonPool("videoload-keys", 1)
        self._reading: Future[_Read] | None = None
        with suppress(StorageError):  # its thread starts now, and not in the middle of a stream
            self._reading = self._reader.start(partial(_changed, admitted, self._seen))
        self._authenticator = zmq.auth.Authenticator(context)
        self._authenticator.start()
        self._folder, self._tell = admitted, tell
        self._address = ""  # of the peer that `callback` decides on
        self._authenticator.configure_curve_callback(credentials_provider=self)
        assert self._authenticator.zap_socket is not None
        self.socket = self._authenticator.zap_socket

    def answer(self) -> None:
        """Decide on waiting connection attempts, a bounded number at a time."""
        for _ in range(_MAX_HANDSHAKES):
            if not self.socket.poll(0):
                return
            request = self.socket.recv_multipart()
            address = request[3].decode(errors="replace") if len(request) > 3 else ""
            self._address = address.removeprefix("::ffff:")
            # The coroutine never waits: it is async only because of the asyncio flavour.
            answer = self._authenticator.handle_zap_message(request)
            with suppress(StopIteration):
                answer.send(None)

    def refresh(self, now: float) -> None:
        """Have another thread read the folder again, and use the result. If it cannot be read, the
        keys do not change: a training run does not end with a file server."""
        if self._reading is not None and self._reading.done():
            self._take(self._reading.result())
            self._reading = None
        if self._reading is None and now >= self._refresh_at:
            self._refresh_at = now + _REFRESH_S
            with suppress(StorageError):  # no thread can be started now
                self._reading = self._reader.start(partial(_changed, self._folder, self._seen))

    def _take(self, read: _Read) -> None:
        for line in read.lines:
            self._tell(line)
        if read.keys is not None:
            added, removed = len(read.keys - self._keys), len(self._keys - read.keys)
            self._tell(f"{self._folder} has changed: {added} keys added, {removed} removed")
            self._keys = read.keys
        self._seen = read.seen

    def admits(self, key: str) -> bool:
        """Return whether this key is admitted now: that of a connection, as ZeroMQ names it."""
        return key.encode() in self._keys

    def callback(self, domain: str, key: bytes) -> bool:
        """Return whether this key (as `zmq.auth` asks) is admitted."""
        if key in self._keys:
            return True
        self.rejected += 1
        self._tell(f"a worker at {self._address} is rejected: its key is not in {self._folder}")
        return False

    def close(self) -> None:
        self._authenticator.stop()
        self._reader.stop()


class _Read(NamedTuple):
    """What was seen in the folder, and its keys if they have changed."""

    seen: _Seen
    keys: set[bytes] | None = None
    lines: tuple[str, ...] = ()


def _changed(folder: Path, before: _Seen) -> _Read:
    """Read the folder again, if it is not as it was ``before``."""
    keys, lines = set(), []
    try:
        seen = _files(folder)
        if seen == before:
            return _Read(seen)
        for path, *_ in seen:
            try:
                keys.add(load_key(Path(path))[0])
            except TransportError as error:  # it is being written, perhaps
                lines.append(str(error))
        folder.stat()  # it may have been unmounted meanwhile, with its files
    except OSError as error:
        line = f"{folder}: {error.strerror}; the keys that were read before stay admitted"
        return _Read([], lines=(line,) if before else ())
    return _Read(seen, keys, tuple(lines))


def _files(folder: Path) -> _Seen:
    """Return the key files of a folder, and what changes when one of them does. Raises OSError."""
    found = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".key"):
            with suppress(FileNotFoundError):  # it was deleted just now
                status = (folder / name).stat()  # of the file that a link leads to
                found.append((str(folder / name), status.st_mtime_ns, status.st_ino))
    return found

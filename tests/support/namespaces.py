"""Network namespaces: hosts, or pods, on this machine.

A namespace lives as long as its descriptor and the processes in it, and its devices live as long as
the namespace. So there is nothing to clean up after a crash.
"""

from __future__ import annotations

import ctypes
import os
import subprocess

_CLONE_NEWNET = 0x40000000


class Namespace:
    """A network namespace with nothing in it but lo. Everything that starts in its ``with`` block
    lives there: processes, threads, and the sockets of their `Client`."""

    def __init__(self) -> None:
        home = _here()
        try:
            _libc("unshare", _CLONE_NEWNET)
            self.fd = _here()
            _libc("setns", home, _CLONE_NEWNET)
        finally:
            os.close(home)
        self.path = f"/proc/{os.getpid()}/fd/{self.fd}"

    def __enter__(self) -> Namespace:
        self._home = _here()
        _libc("setns", self.fd, _CLONE_NEWNET)
        return self

    def __exit__(self, *error: object) -> None:
        _libc("setns", self._home, _CLONE_NEWNET)
        os.close(self._home)

    def ip(self, *arguments: str) -> None:
        """Run ``ip`` there."""
        with self:
            subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=10)


def enter(path: str) -> None:
    """From now on this thread, and what it starts, lives in the namespace at that path."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _libc("setns", descriptor, _CLONE_NEWNET)
    finally:
        os.close(descriptor)


def _here() -> int:
    """The namespace of the calling thread, held open."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _libc(call: str, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, call)(*arguments):
        raise OSError(ctypes.get_errno(), f"{call}: {os.strerror(ctypes.get_errno())}")

"""Libraries that replace Python's threads and sockets with their own.

A blocking poll in one of their threads stops all of them, and the client's I/O thread polls.
"""

from __future__ import annotations

import sys

from videoload.errors import VideoloadError

_PARTS = ("thread", "socket", "select", "subprocess")


def check_threads() -> None:
    """Raise VideoloadError if gevent or eventlet has patched what a client uses."""
    gevent, eventlet = (sys.modules.get(name) for name in ("gevent.monkey", "eventlet.patcher"))
    for name, is_patched in (
        ("gevent", gevent and gevent.is_module_patched),
        ("eventlet", eventlet and eventlet.is_monkey_patched),
    ):
        patched = [part for part in _PARTS if is_patched and is_patched(part)]
        if patched:
            raise VideoloadError(
                f"{name} has replaced {', '.join(patched)} of this process, and a client needs the "
                "system's: train in a process without its monkey patch"
            )

"""Ports of this host that nobody uses."""

from __future__ import annotations

import socket
from contextlib import ExitStack


def free_port() -> int:
    """A port that is free now."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Several free ports."""
    with ExitStack() as stack:
        servers = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
        ]
        return [server.getsockname()[1] for server in servers]


def free_pair() -> int:
    """A free port whose next port is free too."""
    return next(port for port in free_ports(64) if _is_free(port + 1))


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True

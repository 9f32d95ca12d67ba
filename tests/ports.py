"""Ports of this host that nobody uses."""

from __future__ import annotations

import socket
from contextlib import ExitStack


def free_port() -> int:
    """One that is free now."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Different ones."""
    with ExitStack() as stack:
        servers = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
        ]
        return [server.getsockname()[1] for server in servers]

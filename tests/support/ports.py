"""Ports of this host that nobody uses."""

import socket
from itertools import islice
from pathlib import Path
from random import Random

_LOWEST = 10_000


def free_port() -> int:
    """A port that is free now."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Several free ports. None of them is one that the kernel gives to somebody else meanwhile."""
    given = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    ports = range(_LOWEST, int(given[0]))
    if len(ports) < 10 * count:
        ports = range(_LOWEST, 65536)
    found = [*islice(filter(_is_free, Random().sample(ports, len(ports))), count)]
    assert len(found) == count
    return found


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True

"""Addresses: which are valid, who can reach them, and what a host name resolves to."""

from __future__ import annotations

import ipaddress
import secrets
import socket
from urllib.parse import urlsplit

from videoload.errors import TransportError
from videoload.transport.slots import SHARED

_LOOPBACK_NAMES = ("localhost", "ip6-localhost")


def private_endpoint() -> str:
    """An address for the workers that this process starts: an abstract Unix socket, so that no
    file is left behind, or a loopback port where there are none."""
    return f"ipc://@videoload-{secrets.token_hex(16)}" if SHARED else "tcp://127.0.0.1:*"


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
    """The addresses that a host name resolves to, each once, as endpoints. A host with addresses of
    both families is one trainer, not two: then those of IPv4 count. May block for many seconds.

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


def check_address(endpoint: str, keys: object, insecure: bool) -> None:
    """Raises TransportError where it is no address, or needs keys and there are none."""
    scheme, _, rest = endpoint.partition("://")
    host, _, port = rest.rpartition(":")
    bad_port = not (port == "*" or (port.isdecimal() and int(port) < 1 << 16))
    bad_host = not host or set(host) & set(" ,/")  # such as two addresses in one
    if scheme not in ("tcp", "ipc") or not rest or (scheme == "tcp" and (bad_host or bad_port)):
        raise TransportError(f"{endpoint!r} is not an address: tcp://HOST:PORT is")
    if not (keys or insecure or is_local(endpoint)):
        raise TransportError(
            f"{endpoint} can be reached from other hosts, so it needs keys: make them with "
            "'videoload keygen DIR' and give DIR/trainer to the trainer, DIR/worker to the "
            "workers; or accept anybody, with --insecure (insecure=True)"
        )

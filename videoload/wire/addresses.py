"""Addresses: which ones are valid, who can reach them, and what a host name resolves to."""

from __future__ import annotations

import ipaddress
import re
import secrets
import socket
from urllib.parse import urlsplit

from videoload.errors import TransportError

_LOOPBACK_NAMES = ("localhost", "ip6-localhost")


def private_endpoint() -> str:
    """Return an address for the workers that this process starts: an abstract Unix socket, which
    leaves no file behind."""
    return f"ipc://@videoload-{secrets.token_hex(16)}"


def is_name(endpoint: str) -> bool:
    """Return whether the address names a host that has to be looked up."""
    if not endpoint.startswith("tcp://"):
        return False
    try:
        ipaddress.ip_address(urlsplit(endpoint).hostname or "")
    except ValueError:
        return True
    return False


def resolve(endpoint: str) -> list[str]:
    """Return the addresses that a host name resolves to, as endpoints, those of IPv4 first. May
    block for many seconds. Raises TransportError with the resolver's reason."""
    try:
        parts = urlsplit(endpoint)
        found = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:  # UnicodeError: a label of 64 characters
        raise TransportError(getattr(error, "strerror", None) or str(error)) from None
    hosts = {str(address[0]): family for family, *_, address in found}
    four, six = (
        [host for host, family in hosts.items() if family == wanted]
        for wanted in (socket.AF_INET, socket.AF_INET6)
    )
    shown = [*four, *(f"[{host}]" for host in six)]
    return [f"tcp://{host}:{parts.port}" for host in shown]


def all_interfaces(endpoint: str) -> str:
    """Return the addresses to bind: 0.0.0.0 means IPv6 as well, if the host has it."""
    return endpoint.replace("tcp://0.0.0.0:", "tcp://*:")


def is_local(endpoint: str) -> bool:
    """Return whether only this host can reach the address."""
    if endpoint.startswith("ipc://"):
        return True
    host = urlsplit(endpoint).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in _LOOPBACK_NAMES


def _is_tcp(rest: str) -> bool:
    host, _, port = rest.rpartition(":")
    if not re.fullmatch(r"\*|[0-9]{1,5}", port, re.ASCII) or (port != "*" and int(port) >= 1 << 16):
        return False
    if set(host) & set(":[]"):
        try:
            ipaddress.IPv6Address(host.removeprefix("[").removesuffix("]"))
        except ValueError:
            return False
        return host[0] == "[" and host[-1] == "]"
    return bool(host) and not set(host) & set(" ,/@")  # e.g. two addresses in one


def check_address(endpoint: str, keys: object, insecure: bool) -> None:
    """Raise TransportError if this is no address, or if it needs keys and there are none."""
    scheme, _, rest = endpoint.partition("://")
    if not endpoint.isprintable():  # a NUL, or bytes that are no UTF-8
        rest = ""
    is_private = scheme == "ipc" and rest.startswith("@")  # `private_endpoint`
    if not (is_private or (scheme == "tcp" and _is_tcp(rest))):
        raise TransportError(f"{endpoint!r} is not an address: tcp://HOST:PORT is")
    if not (keys or insecure or is_local(endpoint)):
        raise TransportError(
            f"{endpoint} can be reached from other hosts, so it needs keys: make them with "
            "'videoload keygen DIR' and give DIR/trainer to the trainer, DIR/worker to the "
            "workers; or accept anybody, with --insecure (insecure=True)"
        )

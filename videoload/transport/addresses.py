"""Addresses: which ones are valid, who can reach them, and what a host name resolves to."""

from __future__ import annotations

import ipaddress
import re
import secrets
import socket
import stat
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from videoload.errors import TransportError

_MAX_PATH = 107  # in a sockaddr_un
_LOOPBACK_NAMES = ("localhost", "ip6-localhost")


def private_endpoint() -> str:
    """An address for the workers that this process starts: an abstract Unix socket, which leaves no
    file behind."""
    return f"ipc://@videoload-{secrets.token_hex(16)}"


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
    """The addresses that a host name resolves to, as endpoints. A host with IPv4 and IPv6 addresses
    is one trainer, so only its IPv4 addresses count. May block for many seconds. Raises
    TransportError with the resolver's reason."""
    try:
        parts = urlsplit(endpoint)
        found = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:  # UnicodeError: a label of 64 characters
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


def claim_socket_file(endpoint: str) -> Path | None:
    """The absolute path of the Unix socket that is to be bound; None if the address has no file.
    ZeroMQ deletes whatever is there, so this raises TransportError if the file is no socket, or if
    somebody listens at it."""
    if not endpoint.startswith("ipc://") or endpoint.startswith("ipc://@"):
        return None
    file = Path(endpoint.removeprefix("ipc://")).absolute()
    try:
        is_socket = stat.S_ISSOCK(file.lstat().st_mode)
    except OSError:
        return file  # there is no file, or ZeroMQ says why it cannot be bound
    if not is_socket:
        raise TransportError(f"cannot listen on {endpoint}: {file} is there, and is no socket")
    with socket.socket(socket.AF_UNIX) as other, suppress(OSError):
        other.connect(str(file))
        raise TransportError(f"cannot listen on {endpoint}: address in use")
    return file


def check_address(endpoint: str, keys: object, insecure: bool) -> None:
    """Raises TransportError if this is no address, or if it needs keys and there are none."""
    scheme, _, rest = endpoint.partition("://")
    if not endpoint.isprintable():  # a NUL, or bytes that are no UTF-8
        rest = ""
    if scheme not in ("tcp", "ipc") or not rest or (scheme == "tcp" and not _is_tcp(rest)):
        raise TransportError(f"{endpoint!r} is not an address: tcp://HOST:PORT is")
    if scheme == "ipc" and len(rest.encode()) > _MAX_PATH:
        raise TransportError(f"{endpoint}: the path of a Unix socket has {_MAX_PATH} bytes at most")
    if not (keys or insecure or is_local(endpoint)):
        raise TransportError(
            f"{endpoint} can be reached from other hosts, so it needs keys: make them with "
            "'videoload keygen DIR' and give DIR/trainer to the trainer, DIR/worker to the "
            "workers; or accept anybody, with --insecure (insecure=True)"
        )

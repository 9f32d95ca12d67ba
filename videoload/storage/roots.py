"""Roots: a folder of this host, or the URL of a bucket or a web server.

A URL stands in messages and travels to the workers, so it holds no credentials. Each process takes
them from its environment, or from the machine's role.

URLs need the extra ``[remote]`` (obstore), which is imported when the first URL is opened.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from videoload.errors import StorageError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

T = TypeVar("T")

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SCHEMES = ("s3", "gs", "az", "abfs", "abfss", "http", "https")
_CONNECT_S = 5.0
_SILENCE_S = 20.0  # a request is made again if no byte of its answer comes for so long
_NEVER = timedelta(days=1)  # a whole answer may take any time
_STATUS = re.compile(r"\b([345]\d\d) ([A-Z][A-Za-z ]+)")


def is_url(root: str | os.PathLike[str]) -> bool:
    """Whether a root is a URL, and not a folder of this host."""
    return isinstance(root, str) and _SCHEME.match(root) is not None


def normal_url(root: str) -> str:
    """The URL as it is kept and shown: without a ``/`` at its end. Raises ValueError."""
    try:
        parts = urlsplit(root)
    except ValueError:
        raise ValueError("the root is no URL that can be read") from None
    shown = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(
            f"the root {shown} may hold no user, key or query: whoever sees a message would see "
            "them; put credentials into the environment"
        )
    if parts.scheme not in _SCHEMES:
        raise ValueError(f"the root {shown} is none of {', '.join(f'{s}://' for s in _SCHEMES)}")
    if not parts.netloc:
        raise ValueError(f"the root {shown} names no bucket or host")
    path = posixpath.normpath(parts.path).rstrip("/") if parts.path else ""
    if parts.path.rstrip("/") != path:
        raise ValueError(f"the root {shown} may hold no '.', '..' or '//'")
    return f"{parts.scheme}://{parts.netloc}{path}"


def check_extra(url: str) -> None:
    """Raises StorageError if the extra that URLs need is not installed."""
    if find_spec("obstore") is None:
        raise StorageError(f"{url}: pip install 'videoload[remote]' to read it")


def open_store(url: str) -> ObjectStore:
    """The store of the objects below a URL. It is not asked anything yet. Raises StorageError."""
    check_extra(url)
    from obstore.exceptions import BaseError
    from obstore.store import from_url

    try:
        return from_url(
            url,
            client_options={
                "allow_http": True,  # S3 has no such endpoint unless the user names one
                "connect_timeout": timedelta(seconds=_CONNECT_S),
                "read_timeout": timedelta(seconds=_SILENCE_S),
                "timeout": _NEVER,
            },
            # The caller tries again, and logs it.
            retry_config={"max_retries": 0, "retry_timeout": _NEVER},
        )
    except (BaseError, ValueError) as error:
        raise StorageError(f"{url} cannot be opened: {why(error)}") from None


def why(error: Exception) -> str:
    """What is wrong, without any address, header or credential."""
    text = str(error)
    if "NoSuchBucket" in text:
        return "there is no such bucket"
    if status := _STATUS.search(text):
        return f"{status[1]} {status[2].strip()}"
    if "timed out" in text or "Timeout" in text:
        return "it does not answer in time"
    if "redential" in text or "metadata" in text:
        return "there are no credentials for it"
    if "Content-Length" in text:
        return "it does not tell how long a file is (HTTP Content-Length)"
    return f"it cannot be reached{_by_proxy()}"


def _by_proxy() -> str:
    """Which variables send requests by a proxy, if any does."""
    from urllib.request import getproxies_environment

    found = [f"{name}_proxy" for name in getproxies_environment() if name != "no"]
    return f" (requests go by the proxy of {' and '.join(found)}; see no_proxy)" if found else ""


def files_below(url: str, folder: str) -> list[str]:
    """The paths, relative to the URL, of all files in a folder of it ("": the URL itself), sorted.
    Raises StorageError."""
    parts = _list(url, lambda obstore, store: list(obstore.list(store, prefix=folder or None)))
    return sorted(meta["path"] for part in parts for meta in part)


def folders_in(url: str) -> list[str]:
    """The names of the folders in a URL, sorted. Raises StorageError."""
    listed = _list(url, lambda obstore, store: obstore.list_with_delimiter(store))
    return sorted(name.rstrip("/").rpartition("/")[2] for name in listed["common_prefixes"])


def _list(url: str, ask: Callable[[Any, ObjectStore], T]) -> T:
    store = open_store(url)
    import obstore
    from obstore.exceptions import BaseError

    if type(store).__name__ == "HTTPStore":
        raise StorageError(
            f"{url} cannot be listed: a web server tells no names; give a list of them (from_csv, "
            "from_list with classes)"
        )
    try:
        return ask(obstore, store)
    except (BaseError, OSError) as error:
        raise StorageError(f"{url} cannot be listed: {why(error)}") from None

"""Roots: a folder of this host, or the URL of a bucket or a web server.

A URL is what can be shown to anybody: it stands in messages, and travels to the workers of this
host. So it holds no credentials; those come from the environment of each process, or from the
machine's role, as everywhere in the cloud.

The extra ``[remote]`` (obstore) is needed for URLs, and is imported when the first one is opened.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from videoload.errors import StorageError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SCHEMES = ("s3", "gs", "az", "abfs", "abfss", "http", "https")
_CONNECT_S = 5.0
_SILENCE_S = 20.0  # a request is made again if no byte of its answer comes for so long
_NEVER = timedelta(days=1)  # a whole answer may take any time
_STATUS = re.compile(r"\b([345]\d\d) ([A-Z][A-Za-z ]+)")


def is_url(root: str | os.PathLike[str]) -> bool:
    """Whether a root is no folder of this host."""
    return isinstance(root, str) and _SCHEME.match(root) is not None


def normal_url(root: str) -> str:
    """The URL as it is kept and shown: no ``/`` at its end. Raises ValueError in one line."""
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
    """What answers for the objects below a URL; nothing is asked of it yet. Raises StorageError."""
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
            # Whoever asks tries again, and says so.
            retry_config={"max_retries": 0, "retry_timeout": _NEVER},
        )
    except (BaseError, ValueError) as error:
        raise StorageError(f"{url} cannot be opened: {why(error)}") from None


def why(error: Exception) -> str:
    """What is wrong, in words that hold no address, header or credential."""
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
    return "it cannot be reached"


def files_below(url: str, folder: str) -> Iterator[str]:
    """The paths, relative to the URL, of all files in a folder of it ("": the URL itself), rising.
    Raises StorageError."""
    store = _listed(url)
    import obstore
    from obstore.exceptions import BaseError

    found: list[str] = []
    try:
        for part in obstore.list(store, prefix=folder or None):
            found += [meta["path"] for meta in part]
    except (BaseError, OSError) as error:
        raise StorageError(f"{url} cannot be listed: {why(error)}") from None
    yield from sorted(found)


def folders_in(url: str) -> list[str]:
    """The names of the folders in a URL, rising. Raises StorageError."""
    store = _listed(url)
    import obstore
    from obstore.exceptions import BaseError

    try:
        listed = obstore.list_with_delimiter(store)
    except (BaseError, OSError) as error:
        raise StorageError(f"{url} cannot be listed: {why(error)}") from None
    return sorted(name.rstrip("/").rpartition("/")[2] for name in listed["common_prefixes"])


def _listed(url: str) -> ObjectStore:
    store = open_store(url)
    if type(store).__name__ == "HTTPStore":
        raise StorageError(
            f"{url} cannot be listed: a web server tells no names; give a list of them (from_csv, "
            "from_list with classes)"
        )
    return store

"""Datasets of Hugging Face's hub, below ``hf://datasets/ORG/NAME@REVISION``.

The hub redirects each request for a file to its delivery network, by a signed address that is valid
for a while. obstore follows it and shows only its end, and the hub limits requests. So requests are
made here: a file is requested once, its parts are read from the signed address, and its version is
the hub's hash of its content, for which the network has another tag.

The token goes to the hub alone, by scheme, host and port, and a signed address, which lets
everybody read, into no message. A redirect leads to https or to the hub's own host, or is refused.
"""

from __future__ import annotations

import base64
import json
import os
import posixpath
import re
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from cachetools import LRUCache

from videoload.errors import StorageError
from videoload.versions import own_version

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse

    from obstore import ObjectMeta

Span = tuple[int, int]

_HUB = "https://huggingface.co"
_URL = re.compile(
    r"hf://datasets/([\w.-]+/[\w.-]+)(?:@(refs/(?:convert|pr)/[^/@]+|[^/@]+))?(?:/(.+))?"
)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_NEXT = re.compile(r'<([^<>]*)>[^<>]*\brel="?next\b')
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")
_LATER_S = 1.0  # the seconds in the hub's answer are rounded
_RESET = re.compile(r"\bt=(\d+)")
_TOKEN = re.compile(r"[!-~]+")
_LOOPBACK = "127.0.0.1", "::1", "localhost"
_CHUNK_BYTES = 64 << 10
_MAX_JSON_BYTES = 64 << 20
_MAX_REDIRECTS = 5
_KNOWN_FILES = 20_000  # whose signed address is known


class LaterError(OSError):
    """The hub requires to retry after so many seconds."""

    def __init__(self, text: str, after_s: float) -> None:
        super().__init__(text)
        self.after_s = after_s


def is_dataset(url: str) -> bool:
    """Return whether a URL is of a hub."""
    return url.startswith("hf://")


class Dataset(NamedTuple):
    """A folder of a dataset at a revision; "": the one that the hub shows."""

    name: str
    revision: str
    folder: str

    @classmethod
    def of(cls, url: str) -> Self:
        """Raises ValueError."""
        if (found := _URL.fullmatch(url)) is None:
            raise ValueError(
                f"the root {url} is not a dataset: hf://datasets/ORG/NAME, hf://datasets/ORG/NAME@"
                "REVISION or a folder of one can be read"
            )
        return cls(found[1], unquote(found[2] or ""), found[3] or "")

    @property
    def is_pinned(self) -> bool:
        """Whether the revision is a commit, which never changes."""
        return _COMMIT.fullmatch(self.revision) is not None

    def at(self, commit: str) -> str:
        """Return the URL at a commit."""
        return f"hf://datasets/{self.name}@{commit}" + f"/{self.folder}" * bool(self.folder)


class Answer:
    """The bytes of a part of a file, which follow later, and its ``meta`` data."""

    def __init__(self, meta: ObjectMeta, pieces: Iterator[bytes]) -> None:
        self.meta = meta
        self._pieces = pieces

    def stream(self, min_chunk_size: int = 0) -> Iterator[bytes]:
        """Yield pieces of 64 kB. Raises OSError."""
        return self._pieces


class _Signed(NamedTuple):
    """The temporary address of a file's bytes, and the hub's metadata of it."""

    address: str
    tag: str
    size: int


class _Reply(NamedTuple):
    """An answer, whose bytes follow later."""

    origin: tuple[str, str]
    connection: HTTPConnection
    response: HTTPResponse

    @property
    def is_file(self) -> bool:
        return self.response.status in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT)

    def read(self, length: int) -> bytes:
        """Raises OSError."""
        from http.client import HTTPException

        try:
            data: bytes = self.response.read(length)
        except (HTTPException, OSError) as error:
            self.connection.close()
            raise _without_secrets(error) from None
        return data


class Hub:
    """A dataset. It is thread-safe; each request is sent once. Errors are those of obstore, and
    OSError."""

    def __init__(self, url: str, connect_s: float, silence_s: float) -> None:
        """``silence_s``: an answer may pause for so long. Raises ValueError."""
        self._dataset = Dataset.of(url)
        self._url = url
        self._home = urlsplit(endpoint())
        self._connect_s, self._silence_s = connect_s, silence_s
        self._signed: LRUCache[str, _Signed] = LRUCache(_KNOWN_FILES)
        self._again_at = 0.0  # no request is sent before
        self._lock = threading.Lock()
        self._idle: dict[tuple[str, str], list[HTTPConnection]] = {}
        self._process, self._is_closed = os.getpid(), False

    def commit(self) -> str:
        """Return the commit that the revision is now."""
        path = f"/revision/{quote(self._dataset.revision, safe='')}" * bool(self._dataset.revision)
        found, _ = self._api(path)
        commit = found.get("sha") if isinstance(found, dict) else None
        if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
            raise StorageError(f"{self._url}: the hub's answer contains no commit")
        return commit

    def page(self, folder: str, query: str) -> tuple[list[ObjectMeta], list[str], str | None]:
        """Return the files and folders in a folder, by their paths from the root, and the ``query``
        of the next page. Raises FileNotFoundError if there is no such folder."""
        path = quote(posixpath.join(self._dataset.folder, folder))
        revision = quote(self._dataset.revision, safe="")
        found, link = self._api(f"/tree/{revision}" + f"/{path}" * bool(path), query)
        files: list[ObjectMeta] = []
        folders: list[str] = []
        try:
            for each in found:
                name = posixpath.relpath(f"/{each['path']}", f"/{self._dataset.folder}")
                if each["type"] == "file":
                    of = each.get("lfs") or each
                    files.append(_meta(name, int(of["size"]), _tag(of["oid"])))
                else:
                    folders.append(name)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise StorageError(f"{self._url}: the hub lists its files in an unknown way") from None
        # Only the query is taken from the link: the token goes with it.
        following = _NEXT.search(link)
        return files, folders, None if following is None else urlsplit(following[1]).query

    def get(self, name: str, span: Span | None = None) -> Answer:
        """Return the bytes [begin, end) of a file, or as many as it has. Raises FileNotFoundError
        if the dataset has no such file."""
        with self._lock:
            signed = self._signed.get(name)
        if signed is not None:
            reply = self._request(signed.address, span)
            if reply.is_file:
                return self._answer(reply, span, signed.tag, signed.size)
            reply.connection.close()  # the signature has expired
        path = quote(posixpath.join(self._dataset.folder, name))
        revision = quote(self._dataset.revision, safe="")
        url = self._at(f"/datasets/{self._dataset.name}/resolve/{revision}/{path}")
        tag, size = "", -1
        for _ in range(_MAX_REDIRECTS):
            reply = self._request(url, span)
            if reply.origin == _origin(self._home):
                told = reply.response.headers
                tag = _tag(told["X-Linked-Etag"] or told["ETag"] or "") or tag
                size = int(told["X-Linked-Size"] or size)
            if reply.is_file:
                # A commit never changes, so it is a version as well.
                answer = self._answer(reply, span, tag or _tag(self._dataset.revision), size)
                if reply.origin != _origin(self._home):
                    size, tag = answer.meta["size"], answer.meta["e_tag"] or ""
                    with self._lock:
                        self._signed[name] = _Signed(url, tag, size)
                return answer
            url = self._redirected(reply, url)
        raise OSError("following redirects leads nowhere")

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, {}
        if self._process == os.getpid():
            for connection in [each for some in idle.values() for each in some]:
                connection.close()

    def _at(self, path: str, query: str = "") -> str:
        return f"{self._home.geturl()}{path}" + f"?{query}" * bool(query)

    def _api(self, path: str, query: str = "") -> tuple[Any, str]:
        """Return the hub's answer about the dataset, and its links to more."""
        url = self._at(f"/api/datasets/{self._dataset.name}{path}", query)
        for _ in range(_MAX_REDIRECTS):
            reply = self._request(url, None)
            if not reply.is_file:
                url = self._redirected(reply, url)
                continue
            data = reply.read(_MAX_JSON_BYTES)
            self._give_back(reply)
            try:
                return json.loads(data), reply.response.headers["Link"] or ""
            except (ValueError, RecursionError):
                raise StorageError(f"{self._url}: the hub's answer is not JSON") from None
        raise OSError("following redirects leads nowhere")

    def _redirected(self, reply: _Reply, url: str) -> str:
        """Return the target of a redirect. Raises its error."""
        status, told = reply.response.status, reply.response.headers
        reply.read(_CHUNK_BYTES)
        self._give_back(reply)
        if status // 100 != 3 or not told["Location"]:
            raise self._error(reply)
        to = urlsplit(urljoin(url, str(told["Location"])))
        is_own = (to.scheme, to.hostname) == (self._home.scheme, self._home.hostname)
        if "@" in to.netloc or not (is_own or (to.scheme == "https" and to.hostname)):
            where = f"{to.scheme}://{to.hostname}"
            raise StorageError(f"{self._url}: its redirect to {where} is refused: it is not https")
        return to.geturl()

    def _error(self, reply: _Reply) -> Exception:
        """Return the error in an answer without a file."""
        from http.client import responses

        from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

        status, told = reply.response.status, reply.response.headers
        text = f"{status} {responses.get(status, 'Unknown')}"
        if reply.origin != _origin(self._home):
            return OSError(text)
        reset = _RESET.search(told["RateLimit"] or "")
        after = reset[1] if reset is not None else told["Retry-After"] or ""
        if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
            if not after.isdecimal():
                return OSError(text)
            self._again_at = monotonic() + int(after) + _LATER_S
            return LaterError(text, int(after) + _LATER_S)
        code = told["X-Error-Code"] or ""
        if code == "RevisionNotFound":
            return StorageError(f"{self._url}: there is no such revision")
        if status == HTTPStatus.NOT_FOUND and code != "RepoNotFound":
            return FileNotFoundError(text)
        if status not in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND):
            return OSError(text)
        if self._token() is None or code in ("RepoNotFound", "GatedRepo"):
            is_what = "is gated" if code == "GatedRepo" else "is private, or does not exist"
            key = "the token may not read it" if self._token() else "there is no token in HF_TOKEN"
            return StorageError(f"{self._url} {is_what}, and {key} ({text})")
        if status == HTTPStatus.FORBIDDEN:
            return PermissionDeniedError(text)
        return UnauthenticatedError(text)  # tokens expire, and are replaced

    def _answer(self, reply: _Reply, span: Span | None, tag: str, size: int) -> Answer:
        """Return the part of a file in an answer, cut out of all bytes if the hub sent them. Raises
        OSError."""
        response = reply.response
        begin, end = span or (0, 1 << 62)
        try:
            here, total = 0, int(response.headers["Content-Length"])
            if response.status == HTTPStatus.PARTIAL_CONTENT:
                of = _CONTENT_RANGE.fullmatch(response.headers["Content-Range"] or "")
                here, total = (-1, -1) if of is None else (int(of[1]), int(of[2]))
            if total != (total if size < 0 else size) or here not in (0, begin):
                raise ValueError
        except (TypeError, ValueError):
            reply.connection.close()
            raise OSError("the answer contains other bytes than requested") from None
        pieces = self._read(reply, begin - here, max(0, min(end, total) - begin))
        # If no bytes are needed, none are read: the first piece is here, and the rest is dropped.
        pieces = chain([next(pieces, b"")], pieces)
        return Answer(_meta("", total, tag), pieces)

    def _read(self, reply: _Reply, skip: int, left: int) -> Iterator[bytes]:
        """Yield the next bytes of an answer, without the first ones. Raises OSError."""
        try:
            while left:
                if not (piece := reply.read(min(_CHUNK_BYTES, skip + left))):
                    raise OSError("the answer is truncated")
                dropped = min(skip, len(piece))
                skip, left = skip - dropped, left - (len(piece) - dropped)
                if dropped < len(piece):
                    yield piece[dropped:]
        finally:
            if left:
                reply.connection.close()
            else:
                self._give_back(reply)

    # Connections

    def _request(self, url: str, span: Span | None) -> _Reply:
        """Raises OSError."""
        from http.client import HTTPException

        parts = urlsplit(url)
        origin = _origin(parts)
        headers = {"User-Agent": f"videoload/{own_version()}", "Accept-Encoding": "identity"}
        if span is not None:
            headers["Range"] = f"bytes={span[0]}-{span[1] - 1}"
        if origin == _origin(self._home):
            if (wait_s := self._again_at - monotonic()) > 0:
                raise LaterError("429 Too Many Requests", wait_s)
            if key := self._token():
                headers["Authorization"] = f"Bearer {key}"
        target = f"{parts.path or '/'}" + f"?{parts.query}" * bool(parts.query)
        while True:
            idle = self._take_idle(origin)
            try:
                connection = idle or self._connect(parts)
            except OSError as error:
                raise _without_secrets(error) from None
            try:
                connection.request("GET", target, headers=headers)
                return _Reply(origin, connection, connection.getresponse())
            except (HTTPException, OSError, ValueError) as error:
                connection.close()
                # The other side may have closed an idle one.
                if idle is None or isinstance(error, TimeoutError):
                    raise _without_secrets(error) from None

    def _token(self) -> str | None:
        is_safe = self._home.scheme == "https" or self._home.hostname in _LOOPBACK
        return token() if is_safe else None

    def _connect(self, to: SplitResult) -> HTTPConnection:
        from http.client import HTTPConnection, HTTPSConnection
        from urllib.request import getproxies, proxy_bypass

        assert to.hostname is not None
        kind: Callable[..., HTTPConnection]
        kind = HTTPSConnection if to.scheme == "https" else HTTPConnection
        proxy = urlsplit("" if proxy_bypass(to.hostname) else getproxies().get(to.scheme, ""))
        if proxy.hostname:
            connection = kind(proxy.hostname, proxy.port or 80, timeout=self._connect_s)
            user = f"{unquote(proxy.username or '')}:{unquote(proxy.password or '')}"
            key = f"Basic {base64.b64encode(user.encode()).decode()}"
            headers = {"Proxy-Authorization": key} if proxy.username else {}
            connection.set_tunnel(to.hostname, to.port, headers)
        else:
            connection = kind(to.hostname, to.port, timeout=self._connect_s)
        try:
            connection.connect()
        except BaseException:
            connection.close()
            raise
        connection.sock.settimeout(self._silence_s)
        return connection

    def _take_idle(self, origin: tuple[str, str]) -> HTTPConnection | None:
        with self._lock:
            if self._process != os.getpid():  # those of a forked process are its parent's
                self._process, self._idle = os.getpid(), {}
            idle = self._idle.get(origin)
            return idle.pop() if idle else None

    def _give_back(self, reply: _Reply) -> None:
        """Reuse the connection of an answer for the next request, if all of it was read."""
        with self._lock:
            if reply.response.isclosed() and not self._is_closed:
                self._idle.setdefault(reply.origin, []).append(reply.connection)
                return
        reply.connection.close()


def _meta(path: str, size: int, tag: str) -> ObjectMeta:
    never = datetime.fromtimestamp(0, UTC)
    return {"path": path, "last_modified": never, "size": size, "e_tag": tag, "version": None}


def _origin(parts: SplitResult) -> tuple[str, str]:
    return parts.scheme, parts.netloc.lower()


def _tag(told: str) -> str:
    """Return the tag as in the hub's API; "" is unchanged."""
    name = told.removeprefix("W/").strip('"')
    return f'"{name}"' if name else ""


def _without_secrets(error: Exception) -> OSError:
    """Return the text of a fault, without any address."""
    if isinstance(error, TimeoutError):
        return OSError("timed out")
    is_certificate = "CERTIFICATE_VERIFY_FAILED" in str(error)
    return OSError("CERTIFICATE_VERIFY_FAILED" if is_certificate else type(error).__name__)


def endpoint() -> str:
    """Return the address of the hub. Raises ValueError."""
    found = os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or _HUB
    parts = urlsplit(found)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ValueError("HF_ENDPOINT must be an address like https://huggingface.co")
    return found


def token() -> str | None:
    """Return the token of this user: ``HF_TOKEN``, or what `hf auth login` wrote."""
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = os.environ.get("HF_HOME") or posixpath.join(home, "huggingface")
    file = os.environ.get("HF_TOKEN_PATH") or posixpath.join(folder, "token")
    found = os.environ.get("HF_TOKEN", "").strip()
    try:
        found = found or Path(file).expanduser().read_text().strip()
    except (OSError, ValueError, RuntimeError):
        return None
    return found if _TOKEN.fullmatch(found) else None

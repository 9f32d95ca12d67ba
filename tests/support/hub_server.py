"""A hub of Hugging Face and its delivery network, on two ports of this host.

GET /api/datasets/ORG/NAME[/revision/REV]           the commit
GET /api/datasets/ORG/NAME/tree/REV[/FOLDER]?...    what is in it, by pages
GET /datasets/ORG/NAME/resolve/REV/PATH             redirects: a small file to another path of
                                                    the hub, all others to the network
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from contextlib import ExitStack
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pytest

NAME = "org/name"
TOKEN = "hf_very-secret-token"
SMALL = 1000  # bytes of a file that the hub sends itself

Answer = tuple[int, dict[str, str], bytes]


class HubServer:
    """Serves the commits of one dataset inside the ``with``.

    ``branches``: by name, the commit. ``token``: the one that may read it; "" for everybody.
    ``busy``: answers to come that say 429, with these headers. ``page``: entries of a page.
    ``signed``: the signature that the network takes now. ``elsewhere``: where files are redirected
    to instead. ``asked`` are the requests to the hub, ``fetched`` those to the network.
    """

    def __init__(self, folder: Path) -> None:
        self.commits: dict[str, dict[str, bytes]] = {}
        self.branches: dict[str, str] = {}
        self.token, self.gated = "", False
        self.busy: list[dict[str, str]] = []
        self.page = 1000
        self.signed = "first"
        self.elsewhere = ""
        self.lies = False  # of sizes
        self.connections = 0
        self.asked: list[str] = []
        self.asked_at: list[float] = []
        self.fetched: list[str] = []
        self.leaked: list[str] = []  # requests to the network that had a token
        self.ranges: list[str] = []
        self._exit = ExitStack()
        self._tags = count()
        self.commit(folder)

    def commit(self, folder: Path, branch: str = "main") -> str:
        """Put what is in a folder onto a branch. Returns the commit."""
        files = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*")) if path.is_file()
        }  # fmt: skip
        sha = hashlib.sha1(f"{len(self.commits)}".encode()).hexdigest()
        self.commits[sha], self.branches[branch] = files, sha
        return sha

    def __enter__(self) -> HubServer:
        self.url = self._serve(self._of_hub)
        self.network = self._serve(self._of_network)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        where: TracebackType | None,
    ) -> None:  # fmt: skip
        self._exit.close()

    def use(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        """Let this process take it for the hub, and have no token."""
        for name in ("HF_TOKEN", "HF_TOKEN_PATH"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HF_HOME", str(folder / "hf"))
        monkeypatch.setenv("HF_ENDPOINT", self.url)

    def _serve(self, answer: Any) -> str:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                status, headers, body = answer(self.path, self.headers)
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None: ...

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def process_request(self, request: Any, address: Any) -> None:
                open_sockets.append(request)
                hub.connections += 1
                super().process_request(request, address)

        open_sockets: list[Any] = []
        hub = self
        server = Server(("127.0.0.1", 0), Handler)
        server.block_on_close = False
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()

        def stop() -> None:
            server.shutdown()
            thread.join()
            server.server_close()
            for each in open_sockets:
                each.close()

        self._exit.callback(stop)
        return f"http://127.0.0.1:{server.server_port}"

    def _of_hub(self, target: str, headers: Message) -> Answer:
        parts = urlsplit(target)
        path = parts.path
        self.asked_at.append(time.monotonic())
        self.asked.append(f"{path}?{parts.query}" if parts.query else path)
        if self.busy:
            return 429, self.busy.pop(0), b"too many"
        if self.token and headers["Authorization"] != f"Bearer {self.token}":
            code = "GatedRepo" if self.gated else "RepoNotFound"
            return 401, {"X-Error-Code": code}, b"Invalid username or password."
        api, file = f"/api/datasets/{NAME}", f"/datasets/{NAME}/resolve/"
        if path.startswith("/cached/"):
            sha, _, name = path.removeprefix("/cached/").partition("/")
            data = self.commits[sha][unquote(name)]
            return _part(data, headers, {"ETag": f'"{_sha1(data)}"'}, self.ranges)
        if path.startswith(file):
            revision, _, name = path.removeprefix(file).partition("/")
            return self._file(unquote(revision), unquote(name))
        if not path.startswith(api):
            return 404, {"X-Error-Code": "RepoNotFound"}, b""
        kind, _, rest = path.removeprefix(api).strip("/").partition("/")
        revision, _, folder = (rest or "main").partition("/")
        commit = self._commit(unquote(revision))
        if commit is None:
            return 404, {"X-Error-Code": "RevisionNotFound"}, b""
        if kind != "tree":
            return 200, {}, json.dumps({"id": NAME, "sha": commit}).encode()
        return self._tree(commit, unquote(folder), parse_qs(parts.query), path)

    def _commit(self, revision: str) -> str | None:
        sha = self.branches.get(revision, revision)
        return sha if sha in self.commits else None

    def _file(self, revision: str, name: str) -> Answer:
        sha = self._commit(revision)
        if sha is None:
            return 404, {"X-Error-Code": "RevisionNotFound"}, b""
        if (data := self.commits[sha].get(name)) is None:
            return 404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": sha}, b"no such entry"
        told = {"X-Repo-Commit": sha}
        if self.elsewhere:
            return 302, {**told, "Location": self.elsewhere}, b""
        if len(data) < SMALL:
            return 307, {**told, "Location": f"/cached/{sha}/{quote(name)}"}, b"moved"
        told |= {"X-Linked-Etag": f'"{_sha256(data)}"', "X-Linked-Size": str(len(data) + self.lies)}
        address = f"{self.network}/{_sha256(data)}?signature={self.signed}"
        return 302, {**told, "ETag": '"of the redirect"', "Location": address}, b"found"

    def _tree(self, sha: str, folder: str, query: dict[str, list[str]], path: str) -> Answer:
        below = f"{folder}/" if folder else ""
        files = {n: data for n, data in self.commits[sha].items() if n.startswith(below)}
        if not files:
            return 404, {"X-Error-Code": "EntryNotFound"}, b""
        entries: dict[str, dict[str, Any]] = {}
        for name, data in files.items():
            steps = name[len(below) :].split("/")
            for at in range(1, len(steps)):
                inner = below + "/".join(steps[:at])
                entries[inner] = {"type": "directory", "oid": "0" * 40, "size": 0, "path": inner}
            entries[name] = {"type": "file", "oid": _sha1(data), "size": len(data), "path": name}
            if len(data) >= SMALL:
                entries[name]["oid"] = "1" * 40  # of what stands for it in Git
                entries[name]["lfs"] = {
                    "oid": _sha256(data), "size": len(data), "pointerSize": 134,
                }  # fmt: skip
        listed = [entries[name] for name in sorted(entries)]
        if query["recursive"] != ["true"]:
            listed = [each for each in listed if "/" not in each["path"][len(below) :]]
        begin = int(query.get("cursor", ["0"])[0])
        end = begin + self.page
        # A mirror's links lead to the hub itself.
        link = f'<https://huggingface.co{path}?recursive=true&cursor={end}>; rel="next"'
        headers = {"Link": link} if end < len(listed) else {}
        return 200, headers, json.dumps(listed[begin:end]).encode()

    def _of_network(self, target: str, headers: Message) -> Answer:
        self.fetched.append(target)
        if headers["Authorization"] or TOKEN in str(headers):
            self.leaked.append(target)
        parts = urlsplit(target)
        if parts.query != f"signature={self.signed}":
            return 403, {}, b"expired"
        for files in self.commits.values():
            for data in files.values():
                if _sha256(data) == parts.path.strip("/"):
                    tag = f'"{next(self._tags)}"'  # each of its hosts has another one
                    return _part(data, headers, {"ETag": tag}, self.ranges)
        return 404, {}, b""


def _part(data: bytes, headers: Message, told: dict[str, str], ranges: list[str]) -> Answer:
    ranges.append(headers["Range"] or "")
    if not headers["Range"]:
        return 200, told, data
    begin, end = map(int, headers["Range"].removeprefix("bytes=").split("-"))
    if begin >= len(data):
        return 416, {**told, "Content-Range": f"bytes */{len(data)}"}, b""
    part = data[begin : end + 1]
    told = {**told, "Content-Range": f"bytes {begin}-{begin + len(part) - 1}/{len(data)}"}
    return 206, told, part


def _sha1(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()

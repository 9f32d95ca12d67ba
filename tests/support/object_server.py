"""A web server, and a public bucket of S3, for the files in one folder.

It answers GET and HEAD with ranges, with the delay, line and faults that it is given, and counts
requests. It costs 0.1 ms a request, which is why it uses no framework.

    http://127.0.0.1:PORT/PATH            the file PATH of the folder, or its key in S3
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import deque
from email.utils import formatdate
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from urllib.parse import unquote
from zlib import crc32

from tests.support.waiting import SECOND

_RANGE = re.compile(rb"(?i)\r\nrange: *bytes=(\d+)-(\d*)")
_MATCH = re.compile(rb"(?i)\r\nif-match: *([^\r]+)")
_TURN_BYTES = 8 << 10  # that a connection sends before it is the next one's turn on the line


class ObjectServer:
    """Serves ``folder`` from a thread inside the ``with``.

    ``latency_s`` is added to each answer. ``line_rate``: bytes/s that all answers share.
    ``silent_after``: after so many bytes, the answers on the line go silent, once. ``fault`` is
    None, a status such as 503 for every request, ``"silence"`` (no answer) or ``"cut"`` (the
    connection is closed in the middle of an answer). ``statuses``: the same for single files (0: no
    answer), or the whole answer; 307 leads to the file itself. With ``parts`` False it sends only
    whole files, as Python's own server does. With ``weak`` its ETags are weak, so that no If-Match
    matches.
    ``elsewhere``: the URL of another server, to which each request is redirected.
    """

    def __init__(self, folder: Path, latency_s: float = 0.0, *, bucket: str = "") -> None:
        self.folder = folder
        self.latency_s = latency_s
        self.bucket = bucket
        self.parts = True
        self.line_rate = 0.0
        self.silent_after = 0
        self.fault: int | str | None = None
        self.statuses: dict[str, int | bytes] = {}
        self.weak = False
        self.elsewhere = ""
        self.requests: list[tuple[str, int]] = []  # the path, and how many bytes are sent
        self.heads: list[bytes] = []  # the same requests
        self.line_bytes = 0  # that went over the line, with all headers
        self.port = 0
        self._kept: dict[str, tuple[tuple[int, int], bytes]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self._sending: deque[tuple[_Connection, memoryview]] = deque()  # in turn, over the line
        self._line_free_at = 0.0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def bytes_sent(self) -> int:
        return sum(sent for _, sent in self.requests)

    def __enter__(self) -> ObjectServer:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.listen(), self._loop).result(30 * SECOND)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(30 * SECOND)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30 * SECOND)
        self._loop.close()

    async def listen(self, port: int = 0) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self._server

    def answer(self, head: bytes) -> bytes | None:
        """The whole answer to a request; None if there is no answer."""
        line = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
        path = unquote(line[1].partition("?")[0]).lstrip("/")
        self.heads.append(head)
        if self.elsewhere:
            where = f"{self.elsewhere}/{path}".encode()
            return _status(307, headers=b"Location: %b\r\n" % where)
        if self.fault == "silence":
            self.requests.append((path, 0))
            return None
        if isinstance(self.fault, int):
            self.requests.append((path, 0))
            return _status(self.fault)
        if self.bucket:
            bucket, _, path = path.partition("/")
            if bucket != self.bucket:
                return _status(404, b"<Error><Code>NoSuchBucket</Code></Error>")
        if path in self.statuses:
            self.requests.append((path, 0))
            if self.statuses[path] == 0:
                return None
            given, itself = self.statuses[path], b"Location: /%b\r\n" % path.encode()
            return given if isinstance(given, bytes) else _status(given, headers=itself)
        data = self._content(path)
        if data is None:
            self.requests.append((path, 0))
            return _status(404, b"<Error><Code>NoSuchKey</Code></Error>")
        tag = b'"%08x%x"' % (crc32(data[:4096]), self._kept[path][0][1])
        tag = b"W/" + tag if self.weak else tag
        wanted = _MATCH.search(head)
        if wanted and (self.weak or wanted[1] != tag):
            return _status(412)
        changed = formatdate(self._kept[path][0][0] / 1e9, usegmt=True).encode()
        described = b"ETag: %b\r\nLast-Modified: %b\r\nAccept-Ranges: bytes\r\n" % (tag, changed)
        part = _RANGE.search(head) if self.parts else None
        if part is not None:
            begin, size = int(part[1]), len(data)
            end = min(size, int(part[2]) + 1) if part[2] else size
            if begin >= size:
                return _status(416)
            data = data[begin:end]
            first = b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes %d-%d/%d\r\n" % (
                begin, end - 1, size,
            )  # fmt: skip
        else:
            first = b"HTTP/1.1 200 OK\r\n"
        is_head = line[0] == "HEAD"
        self.requests.append((path, 0 if is_head else len(data)))
        length = b"Content-Length: %d\r\n\r\n" % len(data)
        return b"".join((first, described, length, b"" if is_head else data))

    def send(self, connection: _Connection, answer: bytes) -> None:
        """Send it over the line, in turn with other answers."""
        self._sending.append((connection, memoryview(answer)))
        if len(self._sending) == 1:
            self._line_free_at = max(self._line_free_at, asyncio.get_running_loop().time())
            self._go_on()

    def _go_on(self) -> None:
        loop = asyncio.get_running_loop()
        if 0 < self.silent_after <= self.line_bytes:
            self._sending.clear()
            self.silent_after = 0
        while self._sending and self._line_free_at <= loop.time():
            connection, data = self._sending.popleft()
            if (sent := connection.write(data[:_TURN_BYTES])) and data[sent:]:
                self._sending.append((connection, data[sent:]))
            self.line_bytes += sent
            self._line_free_at += sent / self.line_rate
        if self._sending:
            loop.call_at(self._line_free_at, self._go_on)

    def _content(self, path: str) -> bytes | None:
        file = self.folder / path
        if ".." in path.split("/") or not file.is_file():
            return None
        status = file.stat()
        known = (status.st_mtime_ns, status.st_size)
        if self._kept.get(path, (None, b""))[0] != known:
            self._kept[path] = known, file.read_bytes()
        return self._kept[path][1]

    async def _end(self) -> None:
        assert self._server is not None
        self._server.close()
        for _ in range(3):  # also those that are just accepted
            await asyncio.sleep(0)
            for connection in list(self._connections):
                connection.close()


class _Connection(asyncio.Protocol):
    def __init__(self, server: ObjectServer) -> None:
        self._server = server
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server._connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._server._connections.discard(self)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while b"\r\n\r\n" in self._buffer:
            head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
            answer = self._server.answer(head)
            if answer is None:
                continue
            if self._server.latency_s:
                loop = asyncio.get_running_loop()
                loop.call_later(self._server.latency_s, self._send, answer)
            else:
                self._send(answer)

    def _send(self, answer: bytes) -> None:
        if self._server.fault == "cut":
            self.write(memoryview(answer)[: len(answer) // 2])
            if self._transport is not None:
                self._transport.close()
        elif self._server.line_rate:
            self._server.send(self, answer)
        else:
            self.write(memoryview(answer))

    def write(self, data: memoryview) -> int:
        """How many bytes could be sent: none if the other side is gone."""
        if self._transport is None or self._transport.is_closing():
            return 0
        self._transport.write(data)
        return len(data)


def _status(number: int, body: bytes = b"", headers: bytes = b"") -> bytes:
    head = b"HTTP/1.1 %d %b\r\n%bContent-Length: %d\r\n\r\n"
    return head % (number, HTTPStatus(number).phrase.encode(), headers, len(body)) + body

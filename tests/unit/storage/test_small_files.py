"""Small files are bounded before memory is taken, and asked for until they come."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from videoload.errors import StorageError
from videoload.storage.small_files import read_small

MOST = 3 << 20
TOLD = {"Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT"}


@contextmanager
def server(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}"
        made.shutdown()
        thread.join()


def send(to: BaseHTTPRequestHandler, status: int, body: bytes, size: int | None = None) -> None:
    """``size``: what the object is said to have."""
    told = dict(TOLD)
    if status == 200:
        begin, end = map(int, to.headers["Range"].removeprefix("bytes=").split("-"))
        status, size, body = 206, len(body) if size is None else size, body[begin : end + 1]
        told["Content-Range"] = f"bytes {begin}-{begin + len(body) - 1}/{size}"
    to.send_response(status)
    told |= {"Content-Length": str(len(body)), "Connection": "close"}
    for name, value in told.items():
        to.send_header(name, value)
    to.end_headers()
    to.close_connection = True
    to.wfile.write(body)


def test_a_file_of_a_folder_is_read_up_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a").write_bytes(b"x" * 100)
    assert read_small(tmp_path, "in/a", 100) == b"x" * 100
    with pytest.raises(StorageError, match="in/a has more than 99 bytes"):
        read_small(tmp_path, "in/a", 99)
    for name in ("../a", "/dev/zero", "in/../../a", "in", "none", "\0"):
        with pytest.raises(StorageError):
            read_small(tmp_path / "in" if name == "../a" else tmp_path, name, 100)


def test_pipes_and_devices_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        with pytest.raises(StorageError, match=name):
            read_small(tmp_path, name, 100)


@pytest.mark.parametrize("name", ["meta/info.json", "meta/416.json"])
def test_an_object_is_asked_for_again_and_read_in_parts(name: str) -> None:
    pytest.importorskip("obstore")
    body, asked = bytes(range(256)) * 10_000, []

    def answer(to: BaseHTTPRequestHandler) -> None:
        asked.append(to.headers["Range"])
        send(to, 503, b"") if len(asked) == 1 else send(to, 200, body)

    with server(answer) as url:
        assert read_small(url, name, MOST) == body
    assert len(asked) == 3


@pytest.mark.parametrize("size", [1 << 50, MOST + 1])
def test_the_size_of_an_object_is_looked_at_before_it_is_taken(size: int) -> None:
    pytest.importorskip("obstore")
    with (
        server(lambda to: send(to, 200, b"x" * (2 << 20), size)) as url,
        pytest.raises(StorageError, match="more than"),
    ):
        read_small(url, "meta/info.json", MOST)


def test_an_object_that_is_not_there_is_not_asked_for_again() -> None:
    pytest.importorskip("obstore")
    asked = []

    def answer(to: BaseHTTPRequestHandler) -> None:
        asked.append(to.path)
        send(to, 404, b"")

    with server(answer) as url, pytest.raises(StorageError, match="none"):
        read_small(url, "none", MOST)
    assert len(asked) == 1

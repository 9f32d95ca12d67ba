"""Roots are folders or URLs; no message shows a secret."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.support.catalogs import refused
from tests.support.servers import KEYS
from videoload import activity
from videoload.activity import Activity
from videoload.catalog.catalog import Catalog
from videoload.errors import StorageError, VideoError
from videoload.storage import stores
from videoload.storage.files import Folder
from videoload.storage.roots import (
    copy_name,
    files_below,
    folders_in,
    index_of,
    is_url,
    normal_url,
    open_storage,
)
from videoload.storage.stores import why

SECRET = "hunter2"


def test_a_root_with_a_scheme_is_a_url_and_any_other_a_folder(tmp_path: Path) -> None:
    assert all(map(is_url, ("s3://bucket", "gs://b/x", "http://host:80/a", "HTTPS://h", "x://")))
    others = ("/data", "C:/data", "s3:/bucket", "a/b://c", "", Path("/x"))
    assert not any(is_url(other) for other in others)
    assert isinstance(open_storage(tmp_path), Folder)


@pytest.mark.parametrize(
    ("root", "normal"),
    [
        ("s3://bucket/", "s3://bucket"),
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
        ("http://host:8080/a b", "http://host:8080/a b"),
    ],
)
def test_a_normal_url_has_no_slash_at_its_end(root: str, normal: str) -> None:
    assert normal_url(root) == normal_url(normal) == normal
    assert index_of(f"{root}/index") == f"{normal}/index"


@pytest.mark.parametrize(
    "root",
    [
        f"s3://key:{SECRET}@bucket/a", f"https://{SECRET}@host/a", f"https://host/a?sig={SECRET}",
        f"https://host/a#{SECRET}", "ftp://host/a", "file:///etc", "memory://a", "s3://", "s3:///a",
        "s3://bucket/../other", "s3://bucket/a//b", "s3://[",
    ],
)  # fmt: skip
def test_a_url_that_cannot_be_a_root_is_refused_without_its_secrets(root: str) -> None:
    with pytest.raises(ValueError, match="root") as caught:
        normal_url(root)
    assert SECRET not in str(caught.value)
    with refused("root"):
        Catalog(["a.avi"], [0], ["any"], root)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"403 Forbidden: <Key>{SECRET}</Key>", "403"),
        (f"Authorization: {SECRET}: operation timed out", "in time"),
        (f"<Code>NoSuchBucket</Code> {SECRET}", "bucket"),
        (f"no credential in {SECRET}", "credentials"),
        (f"non-2xx status code: 302 Found: {SECRET}", "302"),
        (f"Content-Length Header missing from response {SECRET}", "Content-Length"),
        (f"error sending request for url {SECRET}", "reached"),
    ],
)
def test_the_reason_of_an_error_shows_no_address_or_secret(text: str, told: str) -> None:
    assert told in why(RuntimeError(text))
    assert SECRET not in why(RuntimeError(text))


OBJECTS = [f"v/{number:03}.avi" for number in range(180)]


class Listing(BaseHTTPRequestHandler):
    """A bucket of S3 with objects. Each answer has 60; the next one begins behind the last."""

    answers: ClassVar[list[int]] = []  # statuses; then all is well
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        query = dict(parse_qsl(urlsplit(self.path).query))
        self.asked.append(query.get("continuation-token") or query.get("start-after") or "")
        status, body = self.answers.pop(0) if self.answers else 200, ""
        if status == 200:
            left = [name for name in OBJECTS if name > self.asked[-1]]
            token = f"<NextContinuationToken>{left[:60][-1]}</NextContinuationToken>"
            told = "<Size>1</Size><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            listed = [f"<Contents><Key>{name}</Key>{told}</Contents>" for name in left[:60]]
            body = (
                f"<ListBucketResult><IsTruncated>{str(len(left) > 60).lower()}</IsTruncated>"
                f"{token * (len(left) > 60)}{''.join(listed)}"
                "<CommonPrefixes><Prefix>v/</Prefix></CommonPrefixes></ListBucketResult>"
            )
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *told: object) -> None: ...


@pytest.fixture
def listing(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Listing]]:
    pytest.importorskip("obstore", reason="needs videoload[remote]")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Listing)
    endpoint = f"http://127.0.0.1:{server.server_port}"
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": endpoint, "AWS_REGION": "any"}.items():
        monkeypatch.setenv(name, value)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    Listing.answers, Listing.asked = [], []
    yield Listing
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_listing_is_asked_again_from_where_it_was_broken_off(listing: type[Listing]) -> None:
    """One 503 ended a training before it began."""
    listing.answers = [503, 200, 200, 503, 503]
    assert files_below("s3://b", "") == OBJECTS
    assert "v/099.avi" in listing.asked, "two answers came, in parts of 50 names"
    listing.answers = [500]
    assert folders_in("s3://b") == ["v"]


def test_a_listing_without_an_end_is_broken_off(
    listing: type[Listing], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("videoload.storage.roots._MOST_LISTED", 100)
    with pytest.raises(StorageError, match=r"s3://b.*100"):
        files_below("s3://b", "")
    assert len(listing.asked) <= 3


@pytest.mark.parametrize(
    "status",
    [503, 403],
)
def test_a_listing_that_fails_says_why(
    status: int, listing: type[Listing], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "GIVE_UP_S", 0.2)
    listing.answers = [status] * 100
    with pytest.raises(StorageError, match=f"s3://b.*{status}"):
        files_below("s3://b", "v")
    assert (len(listing.asked) > 1) == (status == 503)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    for ask in (open_storage, folders_in):
        with pytest.raises(StorageError, match=r"s3://b.*obstore"):
            ask("s3://b")


def test_a_proxy_is_named_where_a_server_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("http", "https", "all", "no"):
        for variable in (f"{name}_proxy", f"{name}_proxy".upper()):
            monkeypatch.delenv(variable, raising=False)
    error = OSError("tcp connect error")
    assert "proxy" not in why(error)
    monkeypatch.setenv("https_proxy", f"http://me:{SECRET}@proxy:3128")
    monkeypatch.setenv("no_proxy", "localhost")
    assert "https_proxy" in why(error)
    assert SECRET not in why(error)


def look_for_a_file(root: str) -> None:
    folder = Folder(root)
    (Path(root) / "here.avi").write_bytes(b"video")
    folder.fingerprint("here.avi")
    with pytest.raises(VideoError, match="here"):
        folder.resolve("Here.AVI")


@pytest.mark.parametrize("look", [copy_name, Folder, look_for_a_file])
def test_whoever_looks_at_a_root_says_so_while_it_waits(
    look: Callable[[str], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for name in ("stat", "lstat", "scandir", "listdir"):
        real = getattr(os, name)

        def call(path: Any, real: Any = real, **options: Any) -> Any:
            if str(path).startswith(str(tmp_path)):
                seen.append((activity.now[0], activity.reads.file))
            return real(path, **options)

        monkeypatch.setattr(os, name, call)
    before = activity.now[0]
    look(str(tmp_path))
    assert seen
    assert all(at == Activity.READING and str(tmp_path) in path for at, path in seen)
    assert activity.now[0] == before

"""Roots are folders or URLs; no message shows a secret."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.support.catalogs import refused
from tests.support.servers import KEYS
from videoload.catalog.catalog import Catalog
from videoload.errors import StorageError
from videoload.storage import stores
from videoload.storage.files import Folder
from videoload.storage.remote import RemoteStorage
from videoload.storage.roots import files_below, folders_in, is_url, normal_url, open_storage
from videoload.storage.stores import why

SECRET = "hunter2"


@pytest.mark.parametrize(
    "root", ["s3://bucket", "gs://b/x", "http://host:80/a", "HTTPS://h", "x://"]
)
def test_a_root_with_a_scheme_is_a_url(root: str) -> None:
    assert is_url(root)


@pytest.mark.parametrize("root", ["/data", "C:/data", "s3:/bucket", "a/b://c", "", Path("/x")])
def test_any_other_root_is_a_folder(root: str | Path) -> None:
    assert not is_url(root)


@pytest.mark.parametrize(
    ("root", "normal"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
        ("http://host:8080/a b", "http://host:8080/a b"),
    ],
)
def test_a_normal_url_has_no_slash_at_its_end(root: str, normal: str) -> None:
    assert normal_url(root) == normal


@pytest.mark.parametrize(
    ("root", "words"),
    [
        (f"s3://key:{SECRET}@bucket/a", "no user"),
        (f"https://{SECRET}@host/a", "no user"),
        (f"https://host/a?sig={SECRET}", "no user, key or query"),
        (f"https://host/a#{SECRET}", "no user, key or query"),
        ("ftp://host/a", "none of s3://"),
        ("file:///etc", "none of s3://"),
        ("memory://a", "none of s3://"),
        ("s3://", "no bucket or host"),
        ("s3:///a", "no bucket or host"),
        ("s3://bucket/../other", "no '.', '..'"),
        ("s3://bucket/a//b", "no '.', '..'"),
        ("s3://[", "no URL that can be read"),
    ],
)
def test_a_url_that_cannot_be_a_root_is_refused_without_its_secrets(root: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        normal_url(root)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)
    with refused(words):
        Catalog(["a.avi"], [0], ["any"], root)


def test_a_catalog_keeps_a_url_and_asks_nothing_of_it() -> None:
    catalog = Catalog(["a.avi"], [0], ["any"], "s3://no-such-bucket-anywhere/x/")
    assert catalog.root == "s3://no-such-bucket-anywhere/x"
    assert catalog == Catalog(["a.avi"], [0], ["any"], "s3://no-such-bucket-anywhere/x")
    assert "root=s3://no-such-bucket-anywhere/x" in repr(catalog)
    assert catalog.subset([0]).root == catalog.root


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"403 Forbidden: <Key>{SECRET}</Key>", "403 Forbidden"),
        (f"Authorization: {SECRET}: operation timed out", "it does not answer in time"),
        (f"<Code>NoSuchBucket</Code> {SECRET}", "there is no such bucket"),
        (f"no credential in {SECRET}", "there are no credentials for it"),
        (f"non-2xx status code: 302 Found: {SECRET}", "302 Found"),
        (f"Content-Length Header missing from response {SECRET}", "how long a file is"),
        (f"error sending request for url {SECRET}", "it cannot be reached"),
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


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (503, "s3://b does not answer for 0.2 s: 503 Service Unavailable"),
        (403, "s3://b cannot be listed: 403 Forbidden"),
    ],
)
def test_a_listing_that_fails_says_why(
    status: int, why: str, listing: type[Listing], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "GIVE_UP_S", 0.2)
    listing.answers = [status] * 100
    with pytest.raises(StorageError, match=why):
        files_below("s3://b", "v")
    assert (len(listing.asked) > 1) == (status == 503)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    for ask in (open_storage, folders_in):
        with pytest.raises(StorageError, match=r"s3://b: pip install obstore"):
            ask("s3://b")


def test_a_proxy_is_named_where_a_server_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("http", "https", "all", "no"):
        for variable in (f"{name}_proxy", f"{name}_proxy".upper()):
            monkeypatch.delenv(variable, raising=False)
    error = OSError("tcp connect error")
    assert why(error) == "it cannot be reached"
    monkeypatch.setenv("https_proxy", f"http://me:{SECRET}@proxy:3128")
    monkeypatch.setenv("no_proxy", "localhost")
    by = "requests go by the proxy of https_proxy; see no_proxy"
    assert why(error) == f"it cannot be reached ({by})"


def test_a_folder_has_a_storage_of_its_own(tmp_path: Path) -> None:
    assert isinstance(open_storage(tmp_path), Folder)


def test_a_url_has_a_storage_that_fetches() -> None:
    pytest.importorskip("obstore", reason="needs videoload[remote]")
    storage = open_storage("s3://no-such-bucket-anywhere/x")
    assert isinstance(storage, RemoteStorage)
    assert (storage.root, storage.fetches) == ("s3://no-such-bucket-anywhere/x", True)

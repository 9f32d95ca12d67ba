"""Roots are folders or URLs; no message shows a secret."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.catalogs import refused
from videoload.catalog.catalog import Catalog
from videoload.errors import StorageError
from videoload.storage.roots import folders_in, is_url, normal_url, open_store, why

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


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    for ask in (open_store, folders_in):
        with pytest.raises(StorageError, match=r"s3://b: pip install 'videoload\[remote\]'"):
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

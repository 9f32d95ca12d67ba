"""A bucket is found by its name, and its credentials are sent to nobody else."""

from pathlib import Path

import pytest

from tests.support.object_server import ObjectServer
from tests.support.remote_files import LONG, read_bytes
from tests.support.servers import KEYS
from videoload.errors import StorageError
from videoload.storage.roots import open_storage

pytest.importorskip("obstore", reason="needs videoload[remote]")


def test_a_missing_bucket_is_named(server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.bucket = "clips"
    for name, value in (("ENDPOINT_URL", server.url), ("SKIP_SIGNATURE", "true")):
        monkeypatch.setenv(f"AWS_{name}", value)
    with pytest.raises(StorageError, match="s3://clip"):
        open_storage("s3://clip").resolve("a.avi")


def test_a_signature_is_not_sent_to_the_host_that_a_bucket_redirects_to(
    server: ObjectServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor are credentials of a bucket sent to a web server."""
    with ObjectServer(folder, bucket="clips") as other:
        server.elsewhere = other.url
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": server.url}.items():
            monkeypatch.setenv(name, value)
        for url in ("s3://clips", f"{other.url}/clips"):
            assert read_bytes(open_storage(url), LONG, 9)
        assert all(b"authorization: AWS4-HMAC-SHA256 Credential=mine" in h for h in server.heads)
        assert len(other.heads) == 2
        sent = b"".join(other.heads).lower()
        secret = KEYS["AWS_SECRET_ACCESS_KEY"].encode()
        assert not any(word in sent for word in (b"authorization", b"credential", secret))

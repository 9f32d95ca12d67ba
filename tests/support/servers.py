"""Web servers and buckets of this host, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

BUCKET = "clips"
KEYS = {"AWS_ACCESS_KEY_ID": "mine", "AWS_SECRET_ACCESS_KEY": "very-secret-key"}


@contextmanager
def bucket(folder: Path) -> Iterator[dict[str, str]]:
    """A real S3 server with the files of a folder below ``s3://clips/data``. Yields the environment
    variables that lead to it."""
    pytest.importorskip("obstore", reason="needs videoload[remote]")
    server = pytest.importorskip("moto.server", reason="needs moto").ThreadedMotoServer(
        port=0, verbose=False
    )
    obstore: Any = pytest.importorskip("obstore")
    server.start()
    try:
        host, port = server.get_host_and_port()
        home = f"http://{host}:{port}"
        store = obstore.store.S3Store(
            BUCKET, endpoint=home, region="us-east-1", access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
            secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
            client_options={"allow_http": True},
        )  # fmt: skip
        _create(home)
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                obstore.put(store, f"data/{file.relative_to(folder).as_posix()}", file.read_bytes())
        yield {"AWS_ENDPOINT_URL": home, "AWS_REGION": "us-east-1", **KEYS}
    finally:
        server.stop()


_SCOPE = "20260101/us-east-1/s3/aws4_request"


def _create(home: str) -> None:
    from urllib.request import Request, urlopen

    # moto accepts any signature, but needs one.
    signed = {"Authorization": f"AWS4-HMAC-SHA256 Credential=mine/{_SCOPE}"}
    with urlopen(Request(f"{home}/{BUCKET}", method="PUT", headers=signed), timeout=10):
        pass

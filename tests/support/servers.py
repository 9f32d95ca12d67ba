"""Web servers and buckets of this host, for tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

import videoload as vl
from tests.support.object_server import ObjectServer
from tests.support.waiting import SECOND

BUCKET = "clips"
KEYS = {"AWS_ACCESS_KEY_ID": "mine", "AWS_SECRET_ACCESS_KEY": "very-secret-key"}


@contextmanager
def objects(folder: Path, first: str, delay_s: float = 0.0) -> Iterator[ObjectServer]:
    """A web server with the files of a folder. The ``first`` one is read, since obstore keeps an
    event loop from then on."""
    pytest.importorskip("obstore", reason="needs videoload[remote]")
    with ObjectServer(folder, delay_s) as made:
        vl.open(f"{made.url}/{first}").close()
        yield made


@contextmanager
def bucket(folder: Path) -> Iterator[dict[str, str]]:
    """A real S3 server with the files of a folder below ``s3://clips/data``. Yields the environment
    variables that lead to it."""
    pytest.importorskip("obstore", reason="needs videoload[remote]")
    server = pytest.importorskip("moto.server", reason="needs moto").ThreadedMotoServer(
        port=0, verbose=False
    )
    server.start()
    try:
        host, port = server.get_host_and_port()
        home = f"http://{host}:{port}"
        _ask("POST", f"{home}/moto-api/reset")  # it keeps what is in its process
        _ask("PUT", f"{home}/{BUCKET}")
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                key = quote(f"data/{file.relative_to(folder).as_posix()}")
                _ask("PUT", f"{home}/{BUCKET}/{key}", file.read_bytes())
        yield {"AWS_ENDPOINT_URL": home, "AWS_REGION": "us-east-1", **KEYS}
    finally:
        server.stop()


_SCOPE = "20260101/us-east-1/s3/aws4_request"


def _ask(method: str, url: str, data: bytes = b"") -> None:
    # moto accepts any signature, but needs one.
    signed = f"AWS4-HMAC-SHA256 Credential=mine/{_SCOPE}"
    headers = {"Authorization": signed, "Content-Type": "video/x-msvideo"}
    with urlopen(Request(url, data, headers, method=method), timeout=60 * SECOND):
        pass


def asked(server: ObjectServer) -> list[tuple[str, int]]:
    """The requests for videos, and how many bytes of each were sent."""
    return [each for each in server.requests if not each[0].endswith(".videoload-index")]

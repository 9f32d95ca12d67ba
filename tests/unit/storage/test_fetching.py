"""Parts of objects: requests are made again until they are answered, and failures are named."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from benchmarks.object_server import ObjectServer
from tests.support.servers import KEYS
from tests.support.thorough import rest_nightly
from tests.support.waiting import SECOND, wait_until
from videoload.errors import StorageError
from videoload.storage import fetching, stores
from videoload.storage.fetching import Fetcher, NoPartsError, Part
from videoload.storage.files import ChangedError
from videoload.storage.stores import RefusedError, UnavailableError

pytest.importorskip("obstore", reason="needs videoload[remote]")

DATA = bytes(range(256)) * 8


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ObjectServer]:
    (tmp_path / "a.avi").write_bytes(DATA)
    (tmp_path / "empty.avi").touch()
    with ObjectServer(tmp_path) as made:
        yield made


@pytest.fixture
def fetcher(server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fetcher]:
    monkeypatch.setattr(stores, "GIVE_UP_S", 0.3)
    monkeypatch.setattr(fetching, "_OBJECT_S", 0.1)
    made = Fetcher(server.url)
    yield made
    made.stop()


def get(fetcher: Fetcher, name: str, begin: int, end: int, tag: str = "") -> Part:
    return fetcher.wait(fetcher.start(partial(fetcher.get, name, begin, end, tag)))


def test_a_part_comes_with_size_and_version_of_the_object(fetcher: Fetcher) -> None:
    part = get(fetcher, "a.avi", 10, 20)
    assert (bytes(part.data), part.size) == (DATA[10:20], len(DATA))
    assert get(fetcher, "a.avi", 2000, 9000, part.tag).data == DATA[2000:]
    empty = get(fetcher, "empty.avi", 0, 100)
    assert (bytes(empty.data), empty.size) == (b"", 0)
    assert fetcher.came == 10 + 48


def test_a_missing_object_is_named_at_once(fetcher: Fetcher) -> None:
    with pytest.raises(UnavailableError, match="No such file"):
        get(fetcher, "b.avi", 0, 10)


def test_another_version_of_an_object_is_an_error(fetcher: Fetcher, server: ObjectServer) -> None:
    version = get(fetcher, "a.avi", 0, 10).tag
    (server.folder / "a.avi").write_bytes(b"other")
    with pytest.raises(ChangedError):
        get(fetcher, "a.avi", 0, 10, version)


@pytest.mark.parametrize("fault", [503, 403, "cut"])
def test_a_request_is_made_again_until_the_fault_has_passed(
    fault: int | str, fetcher: Fetcher, server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "GIVE_UP_S", 30 * SECOND)
    server.fault = fault
    asked = fetcher.start(partial(fetcher.get, "a.avi", 0, 9))

    def repair() -> None:
        if server.requests:
            server.fault = None

    fetcher.tick = repair
    assert fetcher.wait(asked).data == DATA[:9]
    assert len(server.requests) > 1


@pytest.mark.parametrize(
    ("fault", "what"),
    [
        (503, "does not answer for 0.3 s: 503"),
        (403, "refuses all requests for 0.3 s: 403 Forbidden; renew the credentials"),
        (401, "refuses all requests for 0.3 s: 401 Unauthorized"),
        ("cut", "does not answer for 0.3 s: it cannot be reached"),
    ],
)
def test_a_lasting_fault_is_named(
    fault: int | str, what: str, fetcher: Fetcher, server: ObjectServer
) -> None:
    server.fault = fault
    with pytest.raises(StorageError, match=f"{server.url} {what}"):
        get(fetcher, "a.avi", 0, 9)
    assert server.requests


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    "answer",
    [
        403, 401, 500, 503, 307, b"what?\r\n\r\n",
        b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 5-99/1152921504606846976\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
    ],
)  # fmt: skip
def test_an_object_that_cannot_be_read_while_the_storage_answers_is_named(
    answer: int | bytes, is_first: bool, fetcher: Fetcher, server: ObjectServer
) -> None:
    if not is_first:
        get(fetcher, "a.avi", 0, 9)
    server.statuses["b.avi"] = answer
    for _ in range(2):
        with pytest.raises(RefusedError):
            get(fetcher, "b.avi", 0, 9)
    server.fault = 403
    with pytest.raises(StorageError, match=r"refuses all requests for 0.3 s: 403"):
        get(fetcher, "b.avi", 0, 9)


def test_an_object_that_is_gone_is_named_at_once(fetcher: Fetcher, server: ObjectServer) -> None:
    server.statuses["a.avi"] = 410
    with pytest.raises(UnavailableError, match="410 Gone"):
        get(fetcher, "a.avi", 0, 9)
    assert len(server.requests) == 1


def test_a_weak_tag_tells_versions_and_is_never_asked_for(
    fetcher: Fetcher, server: ObjectServer
) -> None:
    server.weak = True
    part = get(fetcher, "a.avi", 0, 10)
    assert part.tag.startswith('W/"')
    assert get(fetcher, "a.avi", 10, 20, part.tag).data == DATA[10:20]
    (server.folder / "a.avi").write_bytes(b"another object")
    with pytest.raises(ChangedError):
        get(fetcher, "a.avi", 10, 20, part.tag)


def test_an_answer_may_take_any_time_as_long_as_bytes_come(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also longer than the storage may be silent, and than it may fail."""
    monkeypatch.setattr("videoload.storage.stores._SILENCE_S", 0.8 * SECOND)
    data = DATA * 200
    (server.folder / "b.avi").write_bytes(data)
    server.line_rate = len(data) / (2 * SECOND)
    monkeypatch.setattr(stores, "GIVE_UP_S", 0.1)
    fetcher = Fetcher(server.url)
    assert get(fetcher, "b.avi", 0, len(data)).data == data
    assert len(server.requests) < 3  # a busy machine may be silent once itself
    fetcher.stop()


def test_what_came_before_a_silence_is_kept_and_only_the_rest_is_asked_for(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("videoload.storage.stores._SILENCE_S", 0.5 * SECOND)
    data = DATA * 200
    (server.folder / "b.avi").write_bytes(data)
    server.line_rate, server.silent_after = 3e6, 200_000
    monkeypatch.setattr(stores, "GIVE_UP_S", 30 * SECOND)
    fetcher = Fetcher(server.url)
    assert get(fetcher, "b.avi", 0, len(data)).data == data
    first, *_, last = server.requests
    assert first == ("b.avi", len(data))
    assert last[1] <= len(data) - 200_000 + fetching._CHUNK_BYTES
    fetcher.stop()


@pytest.mark.parametrize(
    ("rate", "parts", "fewest", "most"), rest_nightly([(600e3, 12, 2, 7), (1e9, 40, 32, 32)])
)
def test_fewer_requests_are_made_at_once_where_the_line_is_slow(
    rate: float, parts: int, fewest: int, most: int, fetcher: Fetcher, server: ObjectServer
) -> None:
    (server.folder / "b.avi").write_bytes(DATA * 32)

    server.line_rate = rate
    asked = [fetcher.start(partial(fetcher.get, "b.avi", 0, 1 << 16)) for _ in range(parts)]
    for future in asked:
        assert len(fetcher.wait(future).data) == 1 << 16
    assert fewest <= fetcher.threads.limit <= most


def test_what_is_waited_for_comes_before_what_is_not(
    fetcher: Fetcher, server: ObjectServer
) -> None:
    """Its request is the next one after those that are on their way. The order is noted here: what
    begins at the same time may reach the server in any order."""
    begun: list[int] = []

    def ask(length: int) -> Part:
        begun.append(length)
        return fetcher.get("b.avi", 0, length)

    (server.folder / "b.avi").write_bytes(DATA * 32)
    server.line_rate = 16e3  # nothing comes before somebody waits
    asked = [fetcher.start(partial(ask, 40_000 + n)) for n in range(30)]
    wait_until(lambda: len(server.requests) == fetching._FIRST_AT_ONCE, 30 * SECOND)

    def quicken() -> None:
        server.line_rate, server._line_free_at = 1e9, 0.0

    fetcher.tick = quicken
    fetcher.wait(asked[-1])
    assert begun.index(40_029) == fetching._FIRST_AT_ONCE
    fetcher.stop()


def test_a_fault_is_one_warning_in_a_while(
    fetcher: Fetcher, server: ObjectServer, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("videoload.storage.stores._TELL_S", 0.05)
    server.fault = 503
    with caplog.at_level(logging.WARNING), pytest.raises(StorageError):
        get(fetcher, "a.avi", 0, 9)
    assert caplog.messages == [f"{server.url}: 503 Service Unavailable; still trying"]


def test_an_object_that_is_sent_whole_is_read_only_from_its_beginning_and_others_in_parts(
    tmp_path: Path, fetcher: Fetcher, server: ObjectServer
) -> None:
    data = DATA * 500
    for name in ("b.avi", "c.avi"):
        (tmp_path / name).write_bytes(data)
    server.parts = False
    first = get(fetcher, "b.avi", 0, 10)
    assert (first.size, bytes(first.data)) == (len(data), data[:10])
    assert not get(fetcher, "empty.avi", 0, 10).data
    server.parts = True
    with pytest.raises(NoPartsError):
        get(fetcher, "b.avi", 1, 2)
    requests = len(server.requests)
    assert get(fetcher, "b.avi", 0, first.size + 1, first.tag).data == data
    with (tmp_path / "whole").open("w+b") as file:
        fetcher.wait(fetcher.start(partial(fetcher.get, "b.avi", 0, len(data), "", file)))
        file.flush()
        assert (tmp_path / "whole").read_bytes() == data
    assert server.requests[requests:] == 2 * [("b.avi", len(data))]
    assert get(fetcher, "c.avi", 1, 2).data == data[1:2]
    assert not fetcher.sends_parts("b.avi")
    assert fetcher.sends_parts("c.avi")


def test_a_wait_for_a_silent_server_can_be_ended(fetcher: Fetcher, server: ObjectServer) -> None:
    server.fault = "silence"

    class Ended(BaseException):
        pass

    def end() -> None:
        raise Ended

    fetcher.tick = end
    with pytest.raises(Ended):
        get(fetcher, "a.avi", 0, 9)
    began = time.monotonic()
    fetcher.stop()
    assert time.monotonic() - began < 10 * SECOND  # it would be silent for longer


def test_a_missing_bucket_is_named(server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.bucket = "clips"
    for name, value in (("ENDPOINT_URL", server.url), ("SKIP_SIGNATURE", "true")):
        monkeypatch.setenv(f"AWS_{name}", value)
    wrong = Fetcher("s3://clip")
    try:
        with pytest.raises(StorageError, match="s3://clip: there is no such bucket"):
            get(wrong, "a.avi", 0, 9)
    finally:
        wrong.stop()


def test_a_signature_is_not_sent_to_the_host_that_a_bucket_redirects_to(
    server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor are credentials of a bucket sent to a web server."""
    with ObjectServer(tmp_path, bucket="clips") as other:
        server.elsewhere = other.url
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": server.url}.items():
            monkeypatch.setenv(name, value)
        fetcher = Fetcher("s3://clips")
        assert get(fetcher, "a.avi", 0, 9).data == DATA[:9]
        fetcher.stop()
        assert all(b"authorization: AWS4-HMAC-SHA256 Credential=mine" in h for h in server.heads)
        web = Fetcher(f"{other.url}/clips")
        assert get(web, "a.avi", 0, 9).data == DATA[:9]
        web.stop()
        assert len(other.heads) == 2
        sent = b"".join(other.heads).lower()
        secret = KEYS["AWS_SECRET_ACCESS_KEY"].encode()
        assert not any(word in sent for word in (b"authorization", b"credential", secret))

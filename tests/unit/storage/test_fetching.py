"""Parts of objects: asked for again until they come, and what cannot come is named."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from benchmarks.object_server import ObjectServer
from videoload.errors import StorageError
from videoload.storage.fetching import ChangedError, Fetcher, Part

pytest.importorskip("obstore", reason="needs videoload[remote]")

DATA = bytes(range(256)) * 8


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ObjectServer]:
    (tmp_path / "a.avi").write_bytes(DATA)
    (tmp_path / "empty.avi").touch()
    with ObjectServer(tmp_path) as made:
        yield made


@pytest.fixture
def fetcher(server: ObjectServer) -> Iterator[Fetcher]:
    made = Fetcher(server.url, give_up_s=0.3)
    yield made
    made.stop()


def get(fetcher: Fetcher, name: str, begin: int, end: int, version: str | None = None) -> Part:
    return fetcher.wait(fetcher.start(partial(fetcher.get, name, begin, end, version), end - begin))


def test_a_part_comes_with_the_size_and_the_version(fetcher: Fetcher) -> None:
    part = get(fetcher, "a.avi", 10, 20)
    assert (bytes(part.data), part.size) == (DATA[10:20], len(DATA))
    assert get(fetcher, "a.avi", 2000, 9000, part.version).data == DATA[2000:]
    empty = get(fetcher, "empty.avi", 0, 100)
    assert (bytes(empty.data), empty.size) == (b"", 0)
    assert (fetcher.coming, fetcher.came) == (0, 10 + 48)


def test_what_is_not_there_is_not_waited_for(fetcher: Fetcher) -> None:
    with pytest.raises(FileNotFoundError):
        get(fetcher, "b.avi", 0, 10)


def test_another_version_is_told_apart(fetcher: Fetcher, server: ObjectServer) -> None:
    version = get(fetcher, "a.avi", 0, 10).version
    (server.folder / "a.avi").write_bytes(b"other")
    with pytest.raises(ChangedError):
        get(fetcher, "a.avi", 0, 10, version)


@pytest.mark.parametrize("fault", [503, 403, "cut"])
def test_a_fault_that_passes_is_not_noticed(
    fault: int | str, fetcher: Fetcher, server: ObjectServer
) -> None:
    server.fault = fault
    asked = fetcher.start(partial(fetcher.get, "a.avi", 0, 9), 9)

    def repair() -> None:
        if server.requests:
            server.fault = None

    fetcher.tick = repair
    assert fetcher.wait(asked).data == DATA[:9]
    assert len(server.requests) > 1


@pytest.mark.parametrize(
    ("fault", "why"), [(503, "503"), (403, "403 Forbidden"), ("cut", "cannot be reached")]
)
def test_a_fault_that_stays_is_named(
    fault: int | str, why: str, fetcher: Fetcher, server: ObjectServer
) -> None:
    server.fault = fault
    with pytest.raises(StorageError, match=rf"{server.url} does not answer for 0.3 s: .*{why}"):
        get(fetcher, "a.avi", 0, 9)
    assert len(server.requests) > 2


def test_people_are_told_of_a_fault_once_in_a_while(
    fetcher: Fetcher, server: ObjectServer, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("videoload.storage.fetching._TELL_S", 0.05)
    server.fault = 503
    with caplog.at_level(logging.WARNING), pytest.raises(StorageError):
        get(fetcher, "a.avi", 0, 9)
    assert caplog.messages == [f"{server.url}: 503 Service Unavailable; still trying"]


def test_a_server_of_whole_files_gives_parts_as_well(
    tmp_path: Path, fetcher: Fetcher, server: ObjectServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.parts = False
    data = DATA * 500
    (tmp_path / "b.avi").write_bytes(data)
    size, version = get(fetcher, "b.avi", 0, 10)[1:]
    assert size == len(data)
    assert not get(fetcher, "empty.avi", 0, 10).data
    assert get(fetcher, "b.avi", 0, size + 1, version).data == data
    assert caplog.messages == []
    for begin, end in ((0, 1), (1, 2), (size // 2, size // 2 + 100_000), (size - 5, size + 5)):
        assert get(fetcher, "b.avi", begin, end, version).data == data[begin:end]
    assert caplog.messages == [
        f"{server.url}: it does not serve parts of files (HTTP Range), so that all that lies "
        "before a part is read as well"
    ]


def test_who_waits_is_not_kept_from_ending(fetcher: Fetcher, server: ObjectServer) -> None:
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
    assert time.monotonic() - began < 1


def test_a_bucket_that_is_not_there_is_named(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.bucket = "clips"
    for name, value in (("ENDPOINT_URL", server.url), ("SKIP_SIGNATURE", "true")):
        monkeypatch.setenv(f"AWS_{name}", value)
    wrong = Fetcher("s3://clip")
    try:
        with pytest.raises(StorageError, match="s3://clip: there is no such bucket"):
            get(wrong, "a.avi", 0, 9)
    finally:
        wrong.stop()

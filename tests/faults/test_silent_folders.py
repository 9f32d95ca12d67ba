"""A folder that answers nobody for a while (NFS whose server restarts): it is named, its workers
are waited for, and the stream goes on byte for byte when it is back."""

import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.faults.stalling import build
from tests.support.digests import digests
from tests.support.ports import free_port
from tests.support.processes import children_of
from tests.support.programs import Program, Programs
from tests.support.scrapes import get
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until
from videoload import Catalog, Client, ClipSpec, StorageError, decode_serially

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("silent folders")]

CLIP = ClipSpec(frames=4, resize=32, size=(32, 32), crop="center")
BATCH, EPOCHS = 2, 100


@dataclass(frozen=True)
class Mount:
    """The folder of videos, for the processes that have this environment."""

    root: Path
    env: dict[str, str]
    _away: Path

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Meanwhile, no call about it returns."""
        self._away.touch()
        try:
            yield
        finally:
            self._away.unlink()


@pytest.fixture
def mount(videos: Videos, tmp_path: Path) -> Mount:
    library, away = build(tmp_path), tmp_path / "away"
    if library is None:
        pytest.skip("no C compiler here")
    env = {"LD_PRELOAD": library, "STALLS_WHILE": away, "STALLS_BELOW": videos.root}
    return Mount(videos.root, {name: str(value) for name, value in env.items()}, away)


def seconds_in(verdict: str) -> int:
    """For how long the folder has been silent, by the verdict."""
    return max(map(int, re.findall(r" (\d+) s\b", verdict)), default=0)


@pytest.fixture
def expected(videos: Videos) -> list[str]:
    return digests(decode_serially(videos.catalog, CLIP, BATCH, epochs=EPOCHS))


def worker(programs: Programs, mount: Mount, *endpoints: str) -> Program:
    """``videoload worker``, which supervises one process."""
    dials = [word for endpoint in endpoints for word in ("--connect", endpoint)]
    words = ("worker", *dials, "--root", str(mount.root), "--workers", "1")
    return programs.videoload(*words, env=mount.env, imported="")


@pytest.mark.parametrize("who", ["children", "dialled in"])
def test_a_folder_that_is_silent_is_named_and_waited_for(
    who: str, mount: Mount, expected: list[str], programs: Programs,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """Its workers are neither killed nor lost."""
    for name, value in mount.env.items() if who == "children" else ():
        monkeypatch.setenv(name, value)
    with (
        ThreadPoolExecutor(1) as pool,
        Client(
            workers=int(who == "children"), listen="tcp://127.0.0.1:*", stall_s=2 * SECOND,
            cache=False, metrics_port=0,
        ) as client,
    ):  # fmt: skip
        host = None if who == "children" else worker(programs, mount, client.endpoints[0])
        client.wait_for_workers(1, 60 * SECOND)
        before = children_of(os.getpid() if host is None else host.pid)
        stream = client.stream(Catalog.from_folder(mount.root), CLIP, BATCH)
        batches = stream.batches(epochs=EPOCHS)
        got = digests([next(batches)])
        with mount.silent():
            rest = pool.submit(digests, batches)
            wait_until(lambda: str(mount.root) in caplog.text, 60 * SECOND)
            wait_until(lambda: "does not respond" in stream.stats().verdict, 60 * SECOND)
            stats = stream.stats()
            assert stats.bottleneck == "storage"
            assert str(mount.root) in stats.verdict
            assert client.metrics_port is not None
            lines = get(client.metrics_port, "/metrics")[1].splitlines()
            [away_s] = [float(line.split()[-1]) for line in lines if "unavailable_s" in line[:33]]
            assert away_s >= 5
            wait_until(lambda: seconds_in(stream.stats().verdict) >= 8, 60 * SECOND)
            client.wait_for_workers(1, 30 * SECOND)
        assert got + rest.result(60 * SECOND) == expected
        assert children_of(os.getpid() if host is None else host.pid) == before
    assert "no longer counted" not in caplog.text
    assert "hangs" not in caplog.text + ("" if host is None else host.err)


def test_a_worker_that_starts_meanwhile_is_there_and_the_stream_ends_after_the_time_for_storage(
    mount: Mount, programs: Programs, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        ThreadPoolExecutor(1) as pool,
        Client(
            workers=0, listen="tcp://127.0.0.1:*", storage_timeout_s=6 * SECOND, cache=False
        ) as client,
        mount.silent(),
    ):  # fmt: skip
        host = worker(programs, mount, client.endpoints[0])
        client.wait_for_workers(1, 60 * SECOND)
        stream = client.stream(Catalog.from_folder(mount.root), CLIP, BATCH)
        ended = pool.submit(list, stream.batches(epochs=1))
        with pytest.raises(StorageError, match=str(mount.root)):
            ended.result(60 * SECOND)
        assert str(mount.root) in stream.stats().verdict
        assert len(children_of(host.pid)) == 1
        assert "hangs" not in host.err
    assert "no longer counted" not in caplog.text


def test_a_worker_that_waits_for_a_folder_greets_other_trainers_meanwhile(
    mount: Mount, expected: list[str], programs: Programs
) -> None:
    """And serves both when the folder is back."""
    later = f"tcp://127.0.0.1:{free_port()}"
    catalog = Catalog.from_folder(mount.root)
    with (
        ThreadPoolExecutor(1) as pool,
        ExitStack() as clients,
        Client(workers=0, listen="tcp://127.0.0.1:*", cache=False) as client,
    ):
        host = worker(programs, mount, client.endpoints[0], later)
        client.wait_for_workers(1, 60 * SECOND)
        batches = client.stream(catalog, CLIP, BATCH).batches(epochs=EPOCHS)
        got = digests([next(batches)])
        with mount.silent():
            rest = pool.submit(digests, batches)
            other = clients.enter_context(Client(workers=0, listen=later, cache=False))
            other.wait_for_workers(1, 60 * SECOND)
        assert digests(other.stream(catalog, CLIP, BATCH).batches(epochs=EPOCHS)) == expected
        assert got + rest.result(60 * SECOND) == expected
        assert "hangs" not in host.err

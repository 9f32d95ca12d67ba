"""A client: which workers it admits, what it says if it cannot start, and its end."""

import copy
import gc
import os
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.digests import digest
from tests.support.processes import arena_bytes, children_of
from tests.support.programs import Programs
from tests.support.scrapes import get
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until
from videoload import Client, ClipSpec, TransportError, WorkerError, decode_serially
from videoload.wire.keys import make_keys

SMALL = ClipSpec(frames=4, resize=36, size=(32, 32), sampling="random", clips_per_video=3)


@pytest.mark.slow
def test_keys_admit_the_right_worker_and_refuse_one_with_other_keys(
    videos: Videos, programs: Programs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("prometheus_client", reason="needs videoload[metrics]")
    trainer, worker = make_keys(tmp_path / "ours")
    _, stranger = make_keys(tmp_path / "theirs")
    # The stranger knows the trainer's public key, as anybody may.
    (stranger / "trainer.key").write_bytes((worker / "trainer.key").read_bytes())
    with Client(workers=0, listen="tcp://127.0.0.1:*", keys=trainer, metrics_port=0) as client:
        endpoint, port = client.endpoints[0], client.metrics_port
        assert port
        naked = programs.impatient_worker(endpoint, videos.root)
        naked.wait_for("--keys", 30 * SECOND)
        assert 'refused_total{cause="key"} 0' not in get(port, "/metrics")[1]
        refused = programs.impatient_worker(endpoint, videos.root, str(stranger))
        refused.wait_for("this key", 30 * SECOND)
        with pytest.raises(WorkerError, match="0 of 1"):
            client.wait_for_workers(1, timeout_s=0.3 * SECOND)
        programs.worker(endpoint, videos.root, "--keys", str(worker))
        client.wait_for_workers(1, timeout_s=30 * SECOND)
        stream = client.stream(videos.catalog, SMALL, 3, shuffle=True)
        assert digest(stream) == digest(decode_serially(videos.catalog, SMALL, 3, shuffle=True))
        assert len(client.workers) == 1
        wait_until(lambda: str(trainer / "admitted") in caplog.text, 30 * SECOND)
        assert "127.0.0.1" in caplog.text
        assert all("a worker at " in line for line in caplog.messages if "rejected" in line)


@pytest.mark.slow
def test_a_worker_whose_key_is_revoked_counts_as_one_with_another_key(
    videos: Videos, programs: Programs, tmp_path: Path
) -> None:
    pytest.importorskip("prometheus_client", reason="needs videoload[metrics]")
    trainer, worker = make_keys(tmp_path / "keys")
    with Client(workers=0, listen="tcp://127.0.0.1:*", keys=trainer, metrics_port=0) as client:
        programs.worker(client.endpoints[0], videos.root, "--keys", str(worker))
        client.wait_for_workers(1, timeout_s=30 * SECOND)
        (trainer / "admitted/worker.key").unlink()
        wait_until(lambda: not client.workers, 30 * SECOND)

        def refused(cause: str) -> bool:
            metrics = get(client.metrics_port or 0, "/metrics")[1]
            return f'refused_total{{cause="{cause}"}} 0' not in metrics

        wait_until(lambda: refused("key"), 30 * SECOND)
        assert not refused("hello")


def test_a_worker_does_not_make_a_thread_for_each_core_of_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    others = set(children_of(os.getpid()))
    with Client(workers=1) as client:
        client.wait_for_workers(1, 30 * SECOND)
        [worker] = {*children_of(os.getpid())} - others
        tasks = Path(f"/proc/{worker}/task").iterdir()
        names = [(task / "comm").read_text() for task in tasks]
        environment = Path(f"/proc/{worker}/environ").read_bytes().split(b"\0")
    assert b"TOKIO_WORKER_THREADS=2" in environment  # obstore's threads, if it is used
    # One decodes, one watches its reads.
    assert sum(not name.startswith("ZMQ") for name in names) == 2, names


@pytest.mark.parametrize("port", [None, 0])
def test_a_client_that_cannot_listen_leaves_nothing(port: int | None) -> None:
    if port is not None:
        pytest.importorskip("prometheus_client", reason="needs videoload[metrics]")
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        before = set(threading.enumerate())
        with pytest.raises(TransportError) as caught:  # it keeps all frames that it came through
            Client(workers=1, listen=client.endpoints[0], metrics_port=port)
        assert client.endpoints[0] in str(caught.value)
        with pytest.raises(TransportError, match=r"192\.0\.2\.1:5555"):
            Client(workers=0, listen="tcp://192.0.2.1:5555", insecure=True, metrics_port=port)
        assert set(threading.enumerate()) <= before, caught.value


def test_what_cannot_be_copied_or_indexed_says_what_to_do(videos: Videos) -> None:
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        stream = client.stream(videos.catalog, SMALL, 4)
        for copied in (copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="Client"):
                copied(client)
            with pytest.raises(TypeError, match="Stream"):
                copied({"callback": [stream]})
        with pytest.raises(TypeError, match=r"catalog\.subset"):
            stream[[1, 2]]


def test_slots_that_do_not_fit_into_memory_are_refused_before_they_are_allocated(
    videos: Videos, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in a container: beyond its limit the kernel kills it.
    left = 3 * 10**9
    monkeypatch.setattr("videoload.host.memory_left", lambda: left)
    huge = ClipSpec(frames=100, size=(1000, 1000), resize=1000)  # 0.3 GB
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        for slots, how in ((None, "slots=.* 4"), (2, "GB"), (5, "slots=.* 5")):
            with pytest.raises(MemoryError, match=f"GB.*{how}"):
                client.stream(videos.catalog, huge, 6, slots=slots)
        left = 40 * 10**6
        small = ClipSpec(frames=10, size=(200, 200), resize=200)  # 1.2 MB
        found, held = list[int](), list[Any]()
        for size in (1, 4, 7):
            before = arena_bytes()
            held.append(client.stream(videos.catalog, small, size))
            found.append((arena_bytes() - before) // (size * 1_200_000))
        assert found == [8, 6, 4], "8, or three quarters of what is left"


def test_the_workers_of_a_dropped_client_end(videos: Videos) -> None:
    client = Client(workers=2)
    stream = client.stream(videos.catalog, SMALL, 3)
    list(stream)
    del stream, client
    gc.collect()
    wait_until(lambda: not children_of(os.getpid()), 30 * SECOND)

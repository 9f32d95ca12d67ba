"""Workers on a real Ray cluster of two nodes; one node is lost."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.digests import digest
from tests.support.ports import free_ports
from tests.support.programs import Program, Programs
from tests.support.videos import make_avi
from tests.support.waiting import SECOND, wait_until
from videoload import Catalog, Client, ClipSpec, SpecError, decode_serially
from videoload.ray import RayWorkers
from videoload.trainer.ray_workers import _Actor
from videoload.transport.keys import make_keys
from videoload.transport.private_messages import WorkerSettings

pytestmark = [
    pytest.mark.timeout(500 * SECOND),
    pytest.mark.skipif(find_spec("ray") is None, reason="no Ray here"),
]

TRAINER = """
    import logging, os, sys
    import ray
    import videoload as vl
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
    from pathlib import Path
    from tests.support.digests import digest
    from tests.integration.test_bottlenecks import CLIP, catalog as catalog_of_files
    from tests.integration.test_ray import BATCH, EPOCHS, SPEC
    from tests.support.waiting import SECOND, wait_until

    folder, cluster = sys.argv[1:]
    # All workers are on the node that will be lost: Ray's SPREAD sometimes leaves it empty.
    ray.init(cluster, log_to_driver=False, logging_level=logging.ERROR)
    [lost] = [n["NodeID"] for n in ray.nodes() if "node:__internal_head__" not in n["Resources"]]
    there = {"scheduling_strategy": NodeAffinitySchedulingStrategy(lost, soft=True)}

    def batches(stream):
        for step, batch in enumerate(stream.batches(epochs=EPOCHS)):
            if step == 10:
                print("ten batches", flush=True)
                wait_until(lambda: os.path.exists(f"{folder}/cut"), 60 * SECOND)
                wait_until(lambda: workers.placed < 3, 60 * SECOND)
                print("fewer", flush=True)
            yield batch

    with (
        vl.Client(workers=0, listen="tcp://0.0.0.0:*", keys=f"{folder}/keys/trainer") as client,
        vl.ray.RayWorkers(
            client, 3, root=f"{folder}/videos", keys=f"{folder}/keys/worker", options=there
        ) as workers,
    ):
        client.wait_for_workers(3, 60 * SECOND)
        assert workers.placed == workers.count == 3
        first = {worker.name for worker in client.workers}
        catalog = vl.Catalog.from_folder(f"{folder}/videos")
        stream = client.stream(catalog, SPEC, BATCH, shuffle=True, seed=3)
        print("digest", digest(batches(stream)))
        wait_until(lambda: workers.placed == 3, 60 * SECOND)
        client.wait_for_workers(3, 60 * SECOND)
        assert not {worker.name for worker in client.workers} & first
        print("three again", flush=True)
        workers.scale(1)
        wait_until(lambda: len(client.workers) == 1, 60 * SECOND)
        workers.close()
        wait_until(lambda: not client.workers, 60 * SECOND)
        print("none", flush=True)
        try:
            workers.scale(2)
        except vl.ClosedError as error:
            print(error, flush=True)
        forgotten = vl.ray.RayWorkers(
            client, 1, root=f"{folder}/videos", keys=f"{folder}/keys/worker"
        )
        client.wait_for_workers(1, 60 * SECOND)
        del forgotten
        wait_until(lambda: not client.workers, 60 * SECOND)
        print("forgotten ones end", flush=True)
        slow = catalog_of_files(Path(folder, "slow"), 0, files=100)
        with vl.ray.RayWorkers(
            client, root=str(slow.root), keys=f"{folder}/keys/worker", cluster=cluster, most=3,
            allow=["tests.support.transforms"],
        ) as workers:
            assert workers.count == 2
            for _ in client.stream(slow, CLIP, 1).batches(epochs=10):
                if workers.count == 3:
                    break
            print("grew to", workers.count, flush=True)
    print("closed")
"""
SPEC = ClipSpec(frames=4, stride=2, resize=32, size=(32, 32), sampling="random")
BATCH, EPOCHS = 4, 12


@pytest.fixture
def cluster(programs: Programs) -> Iterator[tuple[Program, str, Path]]:
    """A cluster, its address, and the folder of its logs."""
    folder = Path(tempfile.mkdtemp(prefix="vl-ray-"))  # sockets have short names
    program = programs.python("-m", "tests.support.ray_cluster", str(folder))
    try:
        program.wait_for("the cluster is at ", 180 * SECOND)
        yield program, program.out.split()[-1], folder
        program.signal(signal.SIGTERM)
        program.wait(60 * SECOND)
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # a process of a failed cluster may still write


@pytest.mark.slow
@pytest.mark.nightly  # a cluster of Ray takes as much of a machine as a tenth of all tests
def test_losing_a_node_in_mid_epoch_changes_nothing(
    programs: Programs, cluster: tuple[Program, str, Path], tmp_path: Path
) -> None:
    host, address, logs = cluster
    for number in range(10):
        make_avi(tmp_path / f"videos/a/{number}.avi", frames=24, size=(48, 64), seed=number)
    make_keys(tmp_path / "keys")
    trainer = programs.script(TRAINER, str(tmp_path), address)
    trainer.wait_for("ten batches", 150 * SECOND)
    host.signal(signal.SIGUSR1)
    host.wait_for("cut off", 60 * SECOND)
    (tmp_path / "cut").touch()
    assert trainer.wait(150 * SECOND) == 0, trainer.err
    catalog = Catalog.from_folder(tmp_path / "videos")
    right = digest(decode_serially(catalog, SPEC, BATCH, epochs=EPOCHS, shuffle=True, seed=3))
    expected = [
        "ten batches", "fewer", f"digest {right}", "three again", "none",
        "these workers are closed; make new ones", "forgotten ones end", "grew to 3", "closed",
    ]  # fmt: skip
    # Ray says more.
    assert [line for line in trainer.out.splitlines() if line in expected] == expected
    secret = (tmp_path / "keys/worker/worker.key_secret").read_text().split('"')[-2]
    for log in filter(Path.is_file, logs.rglob("logs/*")):
        assert secret not in log.read_text(errors="replace"), log

    # The same from the command line, for a trainer that knows nothing of Ray.
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 0)):
        with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
            fleet = programs.videoload(
                "ray", "--workers", "2", "--connect", client.endpoints[0],
                "--root", str(tmp_path / "videos"), "--cluster", address,
            )  # fmt: skip
            fleet.wait_for("Ray placed 2 of 2 workers\n", 60 * SECOND)
            client.wait_for_workers(2, 60 * SECOND)
            batches = client.stream(catalog, SPEC, BATCH)
            assert digest(batches) == digest(decode_serially(catalog, SPEC, BATCH))
            fleet.signal(number)
            assert fleet.wait(30 * SECOND) == status, fleet.err
            wait_until(lambda: not client.workers, 30 * SECOND)


def test_a_node_that_cannot_store_keys_says_so_and_tries_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    actor = _Actor(WorkerSettings(["tcp://127.0.0.1:9"], root="/"), {})
    wait_until(lambda: "trying again in" in caplog.text, 30 * SECOND)
    assert "No such file or directory: '/nowhere/videoload-" in caplog.text
    assert actor._thread.is_alive()
    actor.leave()
    assert not actor._thread.is_alive()


def test_settings_that_cannot_work_are_reported_at_once(programs: Programs, tmp_path: Path) -> None:
    with Client(workers=1) as client, pytest.raises(SpecError, match="give it listen="):
        RayWorkers(client, 1, root=tmp_path)
    with pytest.raises(SpecError, match="give a number of workers, and connect="):
        RayWorkers(None, 1, root=tmp_path)
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        with pytest.raises(SpecError, match="must be absolute, got 'videos'"):
            RayWorkers(client, 1, root="videos")
        flags = ("ray", "--connect", client.endpoints[0], "--root")
        relative = programs.videoload(*flags, "videos")
        assert relative.wait(60 * SECOND) == 1
        assert relative.err.endswith("it must be absolute, got 'videos'\n")
        nowhere = f"127.0.0.1:{free_ports(1)[0]}"
        absent = programs.videoload(*flags, str(tmp_path), "--cluster", nowhere)
        assert absent.wait(120 * SECOND) == 1
        said = f"videoload: there is no Ray cluster at {nowhere} (Connection refused)\n"
        assert absent.err == said

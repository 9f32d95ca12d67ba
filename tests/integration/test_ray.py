"""Decoders on a real Ray cluster of several nodes, of which one is lost."""

import shutil
import signal
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.digests import digest
from tests.support.programs import Program, Programs
from tests.support.ray_cluster import CPUS
from tests.support.videos import make_avi
from tests.support.waiting import SECOND, wait_until
from videoload import Catalog, Client, ClipSpec, decode_serially
from videoload.wire.keys import make_keys

pytestmark = [
    pytest.mark.timeout(500 * SECOND),
    pytest.mark.skipif(find_spec("ray") is None, reason="no Ray here"),
    pytest.mark.slow,
    pytest.mark.nightly,  # a cluster of Ray takes as much of a machine as a tenth of all tests
]

SPEC = ClipSpec(frames=4, stride=2, resize=32, size=(32, 32), sampling="random")
BATCH, EPOCHS = 4, 12
DECODERS = CPUS + 1  # more than have room on one node


@pytest.fixture
def cluster(programs: Programs) -> Iterator[tuple[Program, dict[str, str]]]:
    """A cluster, and what names it to a program."""
    folder = tempfile.mkdtemp(prefix="vl-ray-")  # sockets have short names
    program = programs.python("-m", "tests.support.ray_cluster", folder)
    try:
        program.wait_for("the cluster is at ", 180 * SECOND)
        yield program, {"RAY_ADDRESS": program.out.split()[-1], "RAY_TMPDIR": folder}
        program.signal(signal.SIGTERM)
        program.wait(60 * SECOND)
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # a process of a failed cluster may still write


def test_losing_a_node_in_mid_epoch_changes_nothing(
    programs: Programs, cluster: tuple[Program, dict[str, str]], tmp_path: Path
) -> None:
    host, named = cluster
    for number in range(10):
        make_avi(tmp_path / f"videos/a/{number}.avi", frames=24, size=(48, 64), seed=number)
    catalog = Catalog.from_folder(tmp_path / "videos")
    trainer, worker = make_keys(tmp_path / "keys")

    def decoders(client: Client, number: int, root: Path) -> Program:
        words = ("--connect", client.endpoints[0], "--root", str(root), "--keys", str(worker))
        return programs.python("services/ray/decoders.py", str(number), *words, env=named)

    with Client(workers=0, listen="tcp://127.0.0.1:*", keys=trainer) as client:
        first = decoders(client, DECODERS, tmp_path / "videos")
        client.wait_for_workers(DECODERS, 120 * SECOND)
        names = {each.name for each in client.workers}

        def batches() -> Iterator[object]:
            stream = client.stream(catalog, SPEC, BATCH, shuffle=True, seed=3)
            for step, batch in enumerate(stream.batches(epochs=EPOCHS)):
                if step == 10:
                    host.signal(signal.SIGUSR1)
                    host.wait_for("cut off", 60 * SECOND)
                yield batch

        right = decode_serially(catalog, SPEC, BATCH, epochs=EPOCHS, shuffle=True, seed=3)
        assert digest(batches()) == digest(right)
        wait_until(lambda: {each.name for each in client.workers} - names != set(), 120 * SECOND)
        client.wait_for_workers(DECODERS, 120 * SECOND)
        first.signal(signal.SIGTERM)
        assert first.wait(60 * SECOND) == 0, first.err
        wait_until(lambda: not client.workers, 60 * SECOND)

        killed = decoders(client, 1, tmp_path / "videos")
        client.wait_for_workers(1, 60 * SECOND)
        killed.signal(signal.SIGKILL)
        wait_until(lambda: not client.workers, 60 * SECOND)

        nowhere = decoders(client, 1, tmp_path / "none")
        assert nowhere.wait(120 * SECOND) == 1, nowhere.out
        assert "exit status 1" in nowhere.out

"""A trainer and its workers in network namespaces of their own. Cables are pulled, which sends no
RST, and the kernel's TCP is in between, as between hosts."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.faults.readings import Reading
from tests.support.namespaces import Namespace
from tests.support.programs import Program, Programs
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until
from videoload import Client, ClipSpec

pytestmark = pytest.mark.timeout(120 * SECOND)

CLIP = ClipSpec(frames=4, stride=2, resize=36, size=(32, 32), sampling="random", clips_per_video=40)
BATCH, SLOTS = 4, 4

# It is forked by a process that lives in this namespace.
WORKER = """
    import sys

    from tests.support.namespaces import enter
    from tests.support.lone_worker import main

    path, endpoint, root = sys.argv[1:]
    enter(path)
    flags = ["--connect", endpoint, "--root", root, "--insecure"]
    sys.argv = ["videoload", "worker", *flags]
    main()
"""


@pytest.fixture
def namespaces() -> Iterator[list[Namespace]]:
    """The trainer's and two workers'."""
    if shutil.which("ip") is None:
        pytest.skip("this machine has no ip")
    made: list[Namespace] = []
    try:
        made += [Namespace() for _ in range(3)]
    except PermissionError:
        pytest.skip("needs root")
    else:
        yield made
    finally:
        for namespace in made:
            os.close(namespace.fd)


def cable(trainer: Namespace, worker: Namespace, number: int) -> str:
    """Joins the two; yields the trainer's address."""
    ours, theirs = f"trainer{number}", f"worker{number}"
    try:
        trainer.ip("link", "add", ours, "type", "veth", "peer", "name", theirs)
    except subprocess.CalledProcessError:
        pytest.skip("this kernel has no veth")
    trainer.ip("link", "set", theirs, "netns", worker.path)
    for namespace, device, host in ((trainer, ours, 1), (worker, theirs, 2)):
        namespace.ip("address", "add", f"10.77.{number}.{host}/30", "dev", device)
        namespace.ip("link", "set", device, "up")
    return f"10.77.{number}.1"


@contextmanager
def client_in(namespace: Namespace) -> Iterator[Client]:
    """A client there that listens on all of its addresses; its user stays here."""
    with ExitStack() as stack:
        with namespace:
            client = Client(workers=0, listen="tcp://0.0.0.0:*", insecure=True)
        stack.enter_context(client)
        yield client


def worker_in(
    namespace: Namespace, host: str, client: Client, videos: Videos, programs: Programs
) -> Program:
    port = client.endpoints[0].rpartition(":")[2]
    return programs.script(WORKER, namespace.path, f"tcp://{host}:{port}", str(videos.root))


def clips_of(client: Client, worker: Program) -> int:
    return sum(stats.clips for stats in client.workers if stats.pid == worker.pid)


def is_silent(client: Client, worker: Program) -> bool:
    return "silent" in {stats.state for stats in client.workers if stats.pid == worker.pid}


@pytest.mark.slow
def test_a_worker_whose_cable_is_pulled_loses_its_leases_and_continues_when_it_is_back(
    namespaces: list[Namespace], videos: Videos, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("videoload.engine.engine._SILENCE_S", 1.0)
    # Within this test, a worker does not dial again: it does after forty heartbeats. Ticks are as
    # far apart. With half of the silence between them, each would look as if this process had been
    # stopped.
    monkeypatch.setattr("videoload.engine.engine._BEAT_S", 0.4)
    trainer, *places = namespaces
    hosts = [cable(trainer, place, number) for number, place in enumerate(places)]
    with client_in(trainer) as client:
        cut_off, _ = (
            worker_in(place, host, client, videos, programs)
            for place, host in zip(places, hosts, strict=True)
        )
        client.wait_for_workers(2, timeout_s=30 * SECOND)
        reading = Reading(client, videos, CLIP, BATCH, slots=SLOTS, epochs=1)
        while not clips_of(client, cut_off):
            reading.read(1)
        trainer.ip("link", "set", "trainer0", "down")
        wait_until(lambda: is_silent(client, cut_off), 30 * SECOND)
        before = clips_of(client, cut_off)
        reading.read(3 * SLOTS)  # its leases are among them
        assert clips_of(client, cut_off) == before
        trainer.ip("link", "set", "trainer0", "up")
        wait_until(lambda: not is_silent(client, cut_off), 60 * SECOND, "it is heard again")
        # More than it was given before: it gets work as ever.
        while clips_of(client, cut_off) < before + 4 * BATCH:
            reading.read(1)
        assert cut_off.err.count("serving trainer") == 1, "it is the same connection"

"""A trainer and its workers in network namespaces of their own: cables that are pulled, and lines
that lose, delay, double and reorder packets. The kernel's TCP is in between, as between hosts.

    trainer's namespace          worker's namespace
    10.77.0.1 ═══════ veth ═══════ 10.77.0.2          a cable: `ip link set down` sends no RST
    10.77.0.1 ── tun ── Line ── tun ── 10.77.0.2      a bad line, packet by packet, from a seed
"""

from __future__ import annotations

import os
import random
import select
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import pytest

from tests.support.digests import digests
from tests.support.namespaces import Namespace
from tests.support.programs import Program, Programs
from tests.support.thorough import rest_nightly
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until
from videoload import Client, ClipSpec, decode_serially

pytestmark = pytest.mark.timeout(120 * SECOND)

CLIP = ClipSpec(frames=4, stride=2, resize=36, size=(32, 32), sampling="random", clips_per_video=40)
BATCH, SLOTS = 4, 4
EPOCHS = 1000  # of 80 batches; nobody reads further

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

ENOUGH = 10  # faults of each kind
_PACKET_BYTES = 2048  # more than the 1500 that a device sends


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


class Reading:
    """Reads one epoch after the other, as far as it is asked to, beside the serial one."""

    def __init__(self, client: Client, videos: Videos) -> None:
        catalog = videos.catalog
        how: Any = {"shuffle": True, "epochs": EPOCHS, "info": True}
        self._expected = decode_serially(catalog, CLIP, BATCH, **how)
        stream = client.stream(catalog, CLIP, BATCH, shuffle=True, slots=SLOTS)
        self._batches = stream.batches(epochs=EPOCHS, info=True)

    def read(self, count: int) -> None:
        """Read this many more batches, and check them."""
        for _ in range(count):
            assert digests([next(self._batches)]) == digests([next(self._expected)])


# Cables


@pytest.mark.slow
def test_a_worker_whose_cable_is_pulled_loses_its_leases_and_continues_when_it_is_back(
    namespaces: list[Namespace],
    videos: Videos,
    programs: Programs,
    monkeypatch: pytest.MonkeyPatch,
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
        reading = Reading(client, videos)
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


@pytest.mark.slow
def test_the_only_worker_dials_again_after_a_long_cut(
    namespaces: list[Namespace],
    videos: Videos,
    programs: Programs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Forty heartbeats of silence: two seconds here. Its old connection stays, half open.
    monkeypatch.setattr("videoload.engine.engine._BEAT_S", 0.05)
    trainer, place, _ = namespaces
    host = cable(trainer, place, 0)
    with client_in(trainer) as client:
        worker = worker_in(place, host, client, videos, programs)
        client.wait_for_workers(1, timeout_s=30 * SECOND)
        reading = Reading(client, videos)
        reading.read(10)
        place.ip("link", "set", "worker0", "down")
        worker.wait_for("has fallen silent; dialling again", 30 * SECOND)
        place.ip("link", "set", "worker0", "up")
        reading.read(10 * SLOTS)
        assert worker.err.count("serving trainer") >= 2
        assert len(client.workers) == 1


# Bad lines


class Line:
    """Carries packets between two devices. Of a hundred packets, 3 are lost, 3 come twice, and 5
    come late, after the next ones. All take 2 to 4 ms."""

    def __init__(self, ends: tuple[int, int], seed: int) -> None:
        self.done: Counter[str] = Counter()
        self._ends = ends
        self._draw = random.Random(seed)
        self._late: list[tuple[float, int, int, bytes]] = []  # heap: when, a number, where, what
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._carry)

    def __enter__(self) -> Line:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
        for end in self._ends:
            os.close(end)

    def _carry(self) -> None:
        one, other = self._ends
        while not self._over.is_set():
            ready, _, _ = select.select(self._ends, [], [], 0.001)
            now = time.monotonic()
            for end in ready:
                self._take(os.read(end, _PACKET_BYTES), other if end == one else one, now)
            while self._late and self._late[0][0] <= now:
                _, _, end, packet = heappop(self._late)
                os.write(end, packet)

    def _take(self, packet: bytes, end: int, now: float) -> None:
        self.done["sent"] += 1
        chance = self._draw.random()
        if chance < 0.03:
            self.done["lost"] += 1
            return
        delay_s = self._draw.uniform(0.002, 0.004)
        if chance < 0.06:
            self.done["twice"] += 1
            heappush(self._late, (now + delay_s, 2 * self.done["sent"], end, packet))
        elif chance < 0.11:
            self.done["late"] += 1
            delay_s += 0.02
        heappush(self._late, (now + delay_s, 2 * self.done["sent"] + 1, end, packet))


@contextmanager
def relayed(trainer: Namespace, worker: Namespace) -> Iterator[tuple[str, Callable[[], int]]]:
    """A bad line in user space. Yields the trainer's address, and how often each fault has happened
    at least."""
    if not Path("/dev/net/tun").exists():
        pytest.skip("this kernel has no tun")
    with Line((trainer.tun("10.77.0.1"), worker.tun("10.77.0.2")), seed=1) as line:
        yield "10.77.0.1", lambda: min(line.done[what] for what in ("lost", "twice", "late"))


@contextmanager
def netem(trainer: Namespace, worker: Namespace) -> Iterator[tuple[str, Callable[[], int]]]:
    """A bad line in the kernel."""
    tool = shutil.which("tc", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if tool is None:
        pytest.skip("this machine has no tc")
    host = cable(trainer, worker, 0)
    faults = ["delay", "3ms", "1ms", "loss", "3%", "duplicate", "3%", "reorder", "5%", "25%"]
    for namespace, device in ((trainer, "trainer0"), (worker, "worker0")):
        with namespace:
            added = subprocess.run(
                [tool, "qdisc", "add", "dev", device, "root", "netem", *faults],
                check=False, capture_output=True, timeout=10,
            )  # fmt: skip
        if added.returncode:
            pytest.skip("this kernel has no netem")
    yield host, lambda: ENOUGH


@pytest.mark.slow
@pytest.mark.parametrize("line", rest_nightly([relayed, netem]))
def test_a_line_that_loses_doubles_and_reorders_packets_changes_nothing(
    line: Callable[[Namespace, Namespace], Iterator[tuple[str, Callable[[], int]]]],
    namespaces: list[Namespace],
    videos: Videos,
    programs: Programs,
) -> None:
    trainer, place, _ = namespaces
    with (
        line(trainer, place) as (host, faults),  # type: ignore[attr-defined]
        client_in(trainer) as client,
    ):
        for _ in range(2):
            worker_in(place, host, client, videos, programs)
        client.wait_for_workers(2, timeout_s=30 * SECOND)
        reading = Reading(client, videos)
        reading.read(5 * SLOTS)
        while faults() < ENOUGH:
            reading.read(1)

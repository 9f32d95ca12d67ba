"""Many faults at once, of every kind, in one stream: what each does alone is tested elsewhere.

Two local workers and two that dial in, one of them through a proxy that breaks messages, read
videos of which some are bad. The seed of a test decides which fault happens, to whom, and after
which batch; each kind comes once before any comes again.
"""

import os
import random
import shutil
import signal
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.faults.liars import lie
from tests.faults.proxy import Fault, Kind, Proxy, Way
from tests.support.digests import digests
from tests.support.programs import Program, Programs
from tests.support.thorough import either
from tests.support.videos import Videos, make_avi
from tests.support.waiting import SECOND, in_background, wait_until
from videoload import Catalog, Client, ClipSpec, decode_serially
from videoload.wire.keys import make_keys

pytestmark = pytest.mark.slow

CLIP = ClipSpec(
    frames=4,
    stride=2,
    resize=36,
    size=(32, 32),
    crop="random",
    flip=True,
    sampling="random",
    clips_per_video=40,
)
BATCH, LOCAL_WORKERS, EPOCHS = 4, 2, 3
BAD = {"run/header.avi", "walk/text.avi"}
SIGNALS = (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGSTOP)
PATIENCE_S = 60 * SECOND
# What a message to be broken contains; b"" is in each.
CONTENTS = {Way.UP: [b"", b"\xa6result", b"\xa9heartbeat"], Way.DOWN: [b"", b"\xa5lease"]}

Event = Callable[[], None]


@dataclass
class Site:
    """The workers of a client, and what can happen to them. An event may leave something to mend,
    some batches later.

    Attributes:
        dial: Starts a worker that connects to an endpoint, with the stream's files or those of
            another folder.
        folders: Folders with other files.
        sealed: Messages are encrypted, and only the site's own workers have keys.
        remote: The worker that dialled each of two endpoints: the client's, and the proxy's.
        mends: What is to be mended, by the batch after which it is.
    """

    client: Client
    dial: Callable[..., Program]
    folders: dict[str, Path]
    sealed: bool
    random: random.Random
    proxy: Proxy
    stack: ExitStack
    remote: dict[str, Program] = field(default_factory=dict)
    mends: list[tuple[int, Event]] = field(default_factory=list)
    batch: int = 0

    def __post_init__(self) -> None:
        for endpoint in (self.client.endpoints[0], self.proxy.endpoint):
            self.remote[endpoint] = self.dial(endpoint)

    # What can happen

    def events(self) -> list[Event]:
        """All that can happen."""
        return [
            *(partial(self.break_a_message, kind) for kind in Kind),
            *(partial(self.send_a_worker, number) for number in SIGNALS),
            *(partial(self.let_a_stranger_join, folder) for folder in self.folders.values()),
            self.kill_all_workers,
            self.proxy.cut_all,
            self.let_a_liar_join,
        ]

    def break_a_message(self, kind: Kind) -> None:
        way = self.random.choice([*Way])
        holding = b"" if self.sealed else self.random.choice(CONTENTS[way])
        self.proxy.arm(Fault(kind, way, holding, self.random.uniform(0.1, 0.6)))
        if kind is Kind.HOLD:
            self.mend_later(self.proxy.release)

    def send_a_worker(self, number: signal.Signals) -> None:
        """A worker dies, leaves, or is stopped for longer than the deadline."""
        if pids := self.pids_here():
            pid = self.random.choice(pids)
            send(pid, number)
            self.mend_later(lambda: send(pid, signal.SIGCONT))
            self.mend_later(self.start_ended_workers)

    def kill_all_workers(self) -> None:
        for pid in self.pids_here():
            send(pid, signal.SIGKILL)
        self.mend_later(self.start_ended_workers)

    def let_a_stranger_join(self, folder: Path) -> None:
        """A worker with other files."""
        guest = self.dial(self.client.endpoints[0], folder)

        def leave() -> None:
            for number in (signal.SIGTERM, signal.SIGCONT):  # it may have been stopped
                guest.signal(number)
            guest.wait(PATIENCE_S)

        self.mend_later(leave)

    def let_a_liar_join(self) -> None:
        """A worker that lies about all that it is asked for."""
        if self.sealed:  # it has no keys
            return
        stay = self.stack.enter_context(ExitStack())
        seed, answered = self.random.getrandbits(32), Counter[str]()
        lying = partial(lie, self.client.endpoints[0], seed, answered)
        stay.enter_context(in_background(lying))
        self.mend_later(stay.close)

    def pids_here(self) -> list[int]:
        """The workers that are processes of this host: a liar may name any."""
        host = socket.gethostname()
        return [worker.pid for worker in self.client.workers if worker.host == host]

    # What is mended

    def mend_later(self, mend: Event) -> None:
        self.mends.append((self.batch + self.random.randrange(8, 30), mend))

    def mend_until(self, batch: int) -> None:
        """Mend what is due after this batch."""
        self.batch = batch
        due = [mend for at, mend in self.mends if at <= batch]
        self.mends = [(at, mend) for at, mend in self.mends if at > batch]
        for mend in due:
            mend()

    def start_ended_workers(self) -> None:
        for endpoint, worker in self.remote.items():
            if worker.process.poll() is not None:
                self.remote[endpoint] = self.dial(endpoint)

    def wait_until_complete(self) -> None:
        """Wait until exactly the workers are there that should be. One that was struck last may
        still be about to end."""

        def is_complete() -> bool:
            self.start_ended_workers()
            pids = {worker.pid for worker in self.client.workers}
            return len(self.client.workers) == LOCAL_WORKERS + len(self.remote) and all(
                worker.pid in pids for worker in self.remote.values()
            )

        wait_until(is_complete, PATIENCE_S, "all workers are there")


def send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def events_in_turn(site: Site) -> Iterator[Event]:
    """Events without end. Each of them comes once, in any order, before one comes again."""
    while True:
        events = site.events()
        site.random.shuffle(events)
        yield from events


@contextmanager
def chaos(site: Site) -> Iterator[Callable[[], None]]:
    """Yields what to call after each batch: something may happen then. At the end all is mended."""
    events, happened, due = events_in_turn(site), 0, 5

    def after_a_batch() -> None:
        nonlocal happened, due
        site.mend_until(site.batch + 1)
        while site.batch >= due:
            next(events)()
            happened += 1
            due += site.random.choice([0, 1, 6, 8, 10, 12])

    yield after_a_batch
    assert happened > len(site.events()), "everything happened"
    site.mend_until(10**9)
    site.proxy.disarm()
    site.proxy.release()
    site.wait_until_complete()


@pytest.fixture(scope="module")
def folders(videos: Videos, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The stream's own folder, in which some videos are bad; and folders that have other pictures
    under their names, none, or a half."""
    home = tmp_path_factory.mktemp("folders")
    own, other, empty, half = (home / name for name in ("own", "other", "empty", "half"))
    shutil.copytree(videos.root, own)
    (own / "run/header.avi").write_bytes((own / "run/wide.avi").read_bytes()[:700])
    (own / "walk/text.avi").write_text("not a video\n" * 100)
    empty.mkdir()
    shutil.copytree(own, half)
    for number, path in enumerate(sorted(own.rglob("*.avi"))):
        name = path.relative_to(own)
        make_avi(other / name, frames=60, size=(40, 48), seed=1000 + number)
        if number % 3 == 0:
            (half / name).unlink()
        elif number % 3 == 1:
            (half / name).write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return {"own": own, "other": other, "empty": empty, "half": half}


@pytest.mark.parametrize("seed", range(either(2, 20)))
def test_no_faults_together_change_a_byte_or_blame_a_good_file(
    seed: int,
    folders: dict[str, Path],
    programs: Programs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Most of the time goes into deadlines, so they are shorter than usual.
    monkeypatch.setattr("videoload.engine.engine.SILENCE_S", 0.8 * SECOND)
    sealed, store, own = seed % 2 == 1, tmp_path / "store", folders["own"]
    keys = make_keys(tmp_path / "keys") if sealed else None
    words = ["--frame-store", str(store), "--frame-store-gb", "0.01"]
    words += ["--keys", str(keys[1])] if keys else []

    def dial(endpoint: str, folder: Path = own) -> Program:
        return programs.worker(endpoint, folder, *words)

    catalog = Catalog.from_folder(own)
    options: dict[str, Any] = {"shuffle": True, "seed": seed}
    expected = digests(decode_serially(catalog, CLIP, BATCH, epochs=EPOCHS, info=True, **options))
    got: list[str] = []
    with (
        Client(
            workers=LOCAL_WORKERS,
            listen="tcp://127.0.0.1:*",
            keys=keys and keys[0],
            stall_s=1.5 * SECOND,
            frame_store=store,
            frame_store_gb=0.01,
        ) as client,
        ExitStack() as stack,
    ):
        proxy = stack.enter_context(Proxy(client.endpoints[0], seed))
        others = {name: folder for name, folder in folders.items() if folder != own}
        site = Site(client, dial, others, sealed, random.Random(seed), proxy, stack)
        site.wait_until_complete()
        stream = client.stream(catalog, CLIP, BATCH, **options)
        with chaos(site) as after_a_batch:
            for batch in stream.batches(epochs=EPOCHS, info=True):
                got += digests([batch])
                del batch
                assert got[-1] == expected[len(got) - 1]
                after_a_batch()
        assert {bad.path for bad in stream.quarantine} <= BAD
    assert got == expected
    assert any(store.glob("*/*/[0-9a-f]*"))

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
from collections.abc import Callable
from contextlib import ExitStack, suppress
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

CLIP = ClipSpec(frames=4, stride=2, resize=36, size=(32, 32), crop="random", flip=True,
                sampling="random", clips_per_video=40)  # fmt: skip
BATCH, LOCALS = 4, 2
BAD = {"run/header.avi", "walk/text.avi"}
STRIKES = (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGSTOP)
PATIENCE_S = 40 * SECOND
WORDS = {Way.UP: [b"", b"\xa6result", b"\xa9heartbeat"], Way.DOWN: [b"", b"\xa5lease"]}


class Chaos:
    """What happens to the workers of a client, and what is undone some batches later."""

    def __init__(
        self, seed: int, client: Client, dial: Callable[..., Program], roots: dict[str, Path],
        stack: ExitStack, sealed: bool,
    ) -> None:  # fmt: skip
        self._r, self._client, self._dial, self._roots = random.Random(seed), client, dial, roots
        self._stack, self._sealed = stack, sealed
        self._proxy = stack.enter_context(Proxy(client.endpoints[0], seed))
        self._undo: list[tuple[int, Callable[[], object]]] = []
        self._deck: list[Callable[[], None]] = []
        self._at, self._next, self._decks = 0, 5, 0
        self._remote = {at: dial(at) for at in (client.endpoints[0], self._proxy.endpoint)}

    def complete(self) -> bool:
        """Whether exactly the workers are there that should be."""
        there = [worker.pid for worker in self._client.workers]
        return len(there) == LOCALS + len(self._remote) and all(
            worker.pid in there for worker in self._remote.values()
        )

    def after_a_batch(self) -> None:
        """What is due is undone, and what comes next happens."""
        self._at += 1
        self._undo_until(self._at)
        while self._at >= self._next:
            if not self._deck:
                self._deck = [partial(self.break_wire, kind) for kind in Kind]
                self._deck += [partial(self.strike, number) for number in STRIKES]
                self._deck += [partial(self.join, root) for root in self._roots]
                self._deck += [self.kill_all, self._proxy.cut_all, self.lie]
                self._r.shuffle(self._deck)
                self._decks += 1
            self._deck.pop()()
            self._next += self._r.choice([0, 1, 6, 8, 10, 12])

    def end(self) -> None:
        """Mend everything, and wait until all are back."""
        assert self._decks > 1, "everything happened"
        self._undo_until(10**9)
        self._proxy.disarm()
        self._proxy.release()
        wait_until(self.restarted, PATIENCE_S, "all workers are there again")

    def restarted(self) -> bool:
        """As `complete`. A worker that was struck last may still be about to end."""
        self._start_ended()
        return self.complete()

    def _undo_until(self, batch: int) -> None:
        due = [undo for at, undo in self._undo if at <= batch]
        self._undo = [(at, undo) for at, undo in self._undo if at > batch]
        for undo in due:
            undo()

    def _later(self, undo: Callable[[], object]) -> None:
        self._undo.append((self._at + self._r.randrange(8, 30), undo))

    def _start_ended(self) -> None:
        for endpoint, worker in self._remote.items():
            if worker.process.poll() is not None:
                self._remote[endpoint] = self._dial(endpoint)

    def break_wire(self, kind: Kind) -> None:
        """Something happens to a message, or to all that follow."""
        way = self._r.choice([*Way])
        word = b"" if self._sealed else self._r.choice(WORDS[way])
        self._proxy.arm(Fault(kind, way, word, self._r.uniform(0.1, 0.6)))
        if kind is Kind.HOLD:
            self._later(self._proxy.release)

    def strike(self, number: signal.Signals) -> None:
        """A worker dies, leaves, or is stopped for longer than the deadline."""
        if there := self._pids():
            pid = self._r.choice(there)
            send(pid, number)
            self._later(lambda: send(pid, signal.SIGCONT))
            self._later(self._start_ended)

    def kill_all(self) -> None:
        """All workers die at once."""
        for pid in self._pids():
            send(pid, signal.SIGKILL)
        self._later(self._start_ended)

    def _pids(self) -> list[int]:
        """The workers that are processes of this host: a liar may name any."""
        host = socket.gethostname()
        return [worker.pid for worker in self._client.workers if worker.host == host]

    def join(self, root: str) -> None:
        """A worker with other files comes, and leaves."""
        guest = self._dial(self._client.endpoints[0], self._roots[root])

        def leave() -> None:
            for number in (signal.SIGTERM, signal.SIGCONT):  # it may have been stopped
                guest.signal(number)
            guest.wait(PATIENCE_S)

        self._later(leave)

    def lie(self) -> None:
        """A worker comes that lies about all that it is asked for, and leaves."""
        if self._sealed:  # the proxy's worker has the only keys
            return
        stack = self._stack.enter_context(ExitStack())
        seed, told = self._r.getrandbits(32), Counter[str]()
        stack.enter_context(in_background(partial(lie, self._client.endpoints[0], seed, told)))
        self._later(stack.close)


def send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


@pytest.fixture(scope="module")
def roots(videos: Videos, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Some videos are bad. Other folders have other pictures under their names, none, or a half."""
    folder = tmp_path_factory.mktemp("roots")
    root, made = folder / "own", {name: folder / name for name in ("other", "empty", "half")}
    shutil.copytree(videos.root, root)
    (root / "run/header.avi").write_bytes((root / "run/wide.avi").read_bytes()[:700])
    (root / "walk/text.avi").write_text("not a video\n" * 100)
    made["empty"].mkdir()
    shutil.copytree(root, made["half"])
    for number, path in enumerate(sorted(root.rglob("*.avi"))):
        name = path.relative_to(root)
        make_avi(made["other"] / name, frames=60, size=(40, 48), seed=1000 + number)
        if number % 3 == 0:
            (made["half"] / name).unlink()
        elif number % 3 == 1:
            (made["half"] / name).write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return {"own": root, **made}


@pytest.mark.parametrize("seed", range(either(2, 20)))
def test_no_faults_together_change_a_byte_or_blame_a_good_file(
    seed: int, roots: dict[str, Path], programs: Programs, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    # Most of the time goes into deadlines, so they are shorter than usual.
    monkeypatch.setattr("videoload.engine.engine.SILENCE_S", 0.8 * SECOND)
    sealed, store = seed % 2 == 1, tmp_path / "kept"
    root, others = roots["own"], {name: at for name, at in roots.items() if name != "own"}
    keys = make_keys(tmp_path / "keys") if sealed else None
    words = ["--frame-store", str(store), "--frame-store-gb", "0.01"]
    words += ["--keys", str(keys[1])] if keys else []

    def dial(endpoint: str, at: Path = root) -> Program:
        return programs.worker(endpoint, at, *words)

    catalog = Catalog.from_folder(root)
    options: dict[str, Any] = {"shuffle": True, "seed": seed}
    expected = digests(decode_serially(catalog, CLIP, BATCH, epochs=3, info=True, **options))
    got: list[str] = []
    with (
        Client(
            workers=LOCALS, listen="tcp://127.0.0.1:*", keys=keys and keys[0],
            stall_s=1.5 * SECOND, frame_store=store, frame_store_gb=0.01,
        ) as client,
        ExitStack() as stack,
    ):  # fmt: skip
        chaos = Chaos(seed, client, dial, others, stack, sealed)
        wait_until(chaos.complete, PATIENCE_S, "all workers are there")
        stream = client.stream(catalog, CLIP, BATCH, **options)
        for batch in stream.batches(epochs=3, info=True):
            got += digests([batch])
            del batch
            assert got[-1] == expected[len(got) - 1]
            chaos.after_a_batch()
        chaos.end()
        assert {bad.path for bad in stream.quarantine} <= BAD
    assert got == expected
    assert any(store.glob("*/*/[0-9a-f]*"))

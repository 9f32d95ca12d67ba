"""The parts of a sample stay together while the workers that decode them are killed."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.support.digests import digests
from tests.support.programs import Program, Programs
from tests.support.recordings import WAYS, catalog_of, check, make_recordings, specs
from tests.support.thorough import either
from tests.support.waiting import SECOND, wait_until
from videoload import Catalog, Client, decode_serially

pytestmark = pytest.mark.timeout(either(180, 1500) * SECOND)

SAMPLES, BATCH = either(12, 200), either(3, 4)
LOCALS, REMOTES = 1, 2
KILLS = either(4, 100)
KILLED_IN = ["regions", "views"] if KILLS == 4 else [*WAYS]
EVERY = 3  # batches: with two slots, all clips of a victim are there before the next one is killed


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return catalog_of(make_recordings(tmp_path_factory.mktemp("ntu"), SAMPLES))


@pytest.mark.slow
def test_kills_of_local_and_remote_workers_bring_no_part_out_of_step(
    catalog: Catalog, programs: Programs, tell: Callable[[str], None]
) -> None:
    draw, killed, samples = random.Random(47), [0, 0], 0
    with Client(workers=LOCALS, listen="tcp://127.0.0.1:*") as client:

        def dial_in() -> Program:
            root = str(catalog.root)
            return programs.worker(client.endpoints[0], root)

        remote = [dial_in() for _ in range(REMOTES)]
        client.wait_for_workers(LOCALS + REMOTES, timeout_s=60 * SECOND)

        def kill_one() -> None:
            """Whoever is there; the others go on meanwhile."""
            wait_until(lambda: client.workers, 60 * SECOND, "a worker is there")
            ours = {program.pid: program for program in remote}
            pid = draw.choice(sorted(worker.pid for worker in client.workers))
            killed[pid in ours] += 1
            if pid in ours:
                ours[pid].signal(signal.SIGKILL)
                remote[remote.index(ours[pid])] = dial_in()
            else:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

        for number, way in enumerate(KILLED_IN):
            spec, wanted = specs(**WAYS[way]), KILLS * (number + 1) // len(KILLED_IN)
            how: dict[str, Any] = {"batch_size": BATCH, "shuffle": True, "seed": number}
            expected = digests(decode_serially(catalog, spec, **how, epochs=2, info=True))
            stream, got = client.stream(catalog, spec, **how, slots=2), list[str]()
            for batch in stream.batches(epochs=2, info=True):
                samples += check(batch)
                got += digests([batch])
                if len(got) % EVERY == 1 and sum(killed) < wanted:
                    kill_one()
                del batch  # it is in one of the two slots
            assert got == expected, way
            assert not stream.quarantine
    assert sum(killed) == KILLS
    tell(f"{samples} samples, {killed[0]} local and {killed[1]} remote workers killed")

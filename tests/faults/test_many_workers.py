"""As many workers as the usual limit of open files has descriptors: at a trainer that may raise the
limit, and at one that may not."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.processes import children_of
from tests.support.programs import Program, Programs
from tests.support.thorough import either, rest_nightly
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until

pytestmark = [pytest.mark.timeout(600 * SECOND), pytest.mark.slow]

# The usual limit is 1024; below a fourth of that the test is the same with a fourth of the work.
LIMIT = either(256, 1024)
EACH = 128
PROCESSES = LIMIT // EACH  # of workers: as many as the limit
FILES = LIMIT // 8  # files that the trainer opens at once, like a checkpoint or an import

TRAINER = """
    import errno
    import os
    import resource
    import sys
    import time
    from contextlib import ExitStack
    from pathlib import Path

    from tests.support.digests import digests
    from videoload import Catalog, Client, ClipSpec, decode_serially

    def io_thread_s():
        for task in soon(lambda: os.listdir("/proc/self/task")):
            folder = Path("/proc/self/task", task)
            if soon((folder / "comm").read_text).startswith("ZMQbg/IO"):
                ticks = soon((folder / "stat").read_text).rpartition(")")[2].split()[11:13]
                return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    def idle_share():
        began, before = time.monotonic(), io_thread_s()
        time.sleep(2)  # what is measured: two seconds of nothing
        return (io_thread_s() - before) / (time.monotonic() - began)

    seen = []

    def soon(open_something):
        until = time.monotonic() + 60
        while True:
            try:
                return open_something()
            except OSError as error:
                # ZeroMQ accepts first and is asked then: of a crowd that dials again and again, for
                # a moment more than there is room for.
                if error.errno != errno.EMFILE or soft != hard or time.monotonic() > until:
                    raise
                time.sleep(0.01)

    def opening(batches):
        for batch in batches:
            seen.append(len(soon(lambda: os.listdir("/proc/self/fd"))))
            with ExitStack() as opened:
                for _ in range(int(files)):
                    opened.enter_context(soon(lambda: open(__file__)))
            yield batch

    root, soft, hard, files, measured = sys.argv[1:]
    clip = ClipSpec(frames=4, resize=36, size=(32, 32), sampling="random", clips_per_video=25)
    catalog = Catalog.from_folder(root)
    expected = digests(decode_serially(catalog, clip, 4, shuffle=True, info=True))
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(soft), int(hard)))
    with Client(workers=1, listen="tcp://127.0.0.1:*") as client:
        client.wait_for_workers(1, 60)
        # Before the crowd comes: memory and modules that are loaded late need descriptors too.
        stream = client.stream(catalog, clip, 4, shuffle=True)
        assert digests(opening(stream.batches(epochs=1, info=True))) == expected
        print("listens at", client.endpoints[0], "end", flush=True)
        while not os.path.exists(root + "/all"):
            print("workers", len(client.workers), "end", flush=True)
            time.sleep(0.1)
        print("idle", idle_share() if int(measured) else 0.0, "end", flush=True)
        epochs = 0
        while not os.path.exists(root + "/over"):
            assert digests(opening(stream.batches(epochs=1, info=True))) == expected
            epochs += 1
            served = sum(worker.clips > 0 for worker in client.workers)
            print("epoch", epochs, "served", served, "workers", len(client.workers), flush=True)
            print("most", max(seen), "end", flush=True)
"""


def last(program: Program, word: str) -> float:
    """The last number that it printed after this word."""
    words = program.out.rpartition("end\n")[0].split()
    return float([number for before, number in pairwise(words) if before == word][-1])


@pytest.mark.parametrize("hard", rest_nightly([LIMIT, 8192]), ids=["for good", "may be raised"])
def test_as_many_workers_serve_as_there_are_descriptors_and_files_can_still_be_opened(
    hard: int, programs: Programs, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    root = Videos.make(tmp_path / "own").root
    trainer = programs.script(
        TRAINER, str(root), str(LIMIT), str(hard), str(FILES), str(either(0, 1))
    )
    trainer.wait_for("end", 150 * SECOND)
    endpoint = trainer.out.split()[2]
    crowds = [
        programs.python("-m", "tests.faults.light_workers", endpoint, str(root), str(EACH))
        for _ in range(PROCESSES)
    ]
    workers = 1 + PROCESSES * EACH

    def all_there() -> bool:
        assert all(crowd.process.poll() is None for crowd in crowds), crowds[0].err
        here = last(trainer, "workers")
        if hard > LIMIT:
            return here == workers
        return "that is the most" in trainer.err and here > 0.4 * LIMIT

    wait_until(all_there, 150 * SECOND, "they come")
    (root / "all").touch()
    trainer.wait_for("epoch 1 ", 150 * SECOND)
    (victim,) = children_of(trainer.pid)
    os.kill(victim, signal.SIGKILL)  # its successor needs descriptors
    wait_until(lambda: children_of(trainer.pid) not in ([], [victim]), 150 * SECOND)
    done = int(last(trainer, "epoch"))
    trainer.wait_for(f"epoch {done + 1} ", 150 * SECOND)
    wait_until(lambda: last(trainer, "served") > 0.4 * LIMIT, 150 * SECOND, "all get work")
    (root / "over").touch()
    assert trainer.wait(150 * SECOND) == 0, trainer.err
    here, served = last(trainer, "workers"), last(trainer, "served")
    tell(
        f"{here:.0f} workers at a limit of {hard}, {served:.0f} of them gave clips; idle, ZeroMQ's "
        f"thread takes {100 * last(trainer, 'idle'):.0f} % of a core; {last(trainer, 'most'):.0f} "
        "files were open at most"
    )
    assert last(trainer, "idle") < 0.7, "it does not spin"
    assert "broke" not in trainer.err
    if hard > LIMIT:
        assert here == workers
        assert "hung up" not in trainer.err
        assert "the most" not in trainer.err
    else:
        assert "have dialled in, and that is the most that this trainer takes" in trainer.err
        assert len(trainer.err.splitlines()) < 200, "it is logged at a limited rate"

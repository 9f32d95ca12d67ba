"""Threads that do jobs in the background, and delay no exit."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, wait
from functools import partial
from typing import Any

import pytest

from tests.support.processes import ends_well
from tests.support.waiting import SECOND, wait_until
from videoload.errors import StorageError
from videoload.storage.daemon_pool import DaemonPool

TIMEOUT_S = 30 * SECOND


@pytest.fixture
def pool() -> Iterator[DaemonPool]:
    made = DaemonPool("pool", 3)
    yield made
    made.stop()


def running() -> int:
    return sum(thread.name == "pool" for thread in threading.enumerate())


def test_a_future_has_the_result_or_the_error_of_its_job(pool: DaemonPool) -> None:
    assert pool.start(lambda: 7).result(TIMEOUT_S) == 7
    with pytest.raises(ZeroDivisionError):
        pool.start(lambda: 1 // 0).result(TIMEOUT_S)
    assert pool.start(lambda: 8).result(TIMEOUT_S) == 8


def test_where_no_thread_can_be_started_the_storage_is_to_blame_and_no_video(
    pool: DaemonPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(StorageError, match="ulimit"):
            pool.start(lambda: 7)
        assert pool.jobs == 0
    assert pool.start(lambda: 7).result(TIMEOUT_S) == 7
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        asked = [pool.start(lambda: 8) for _ in range(3)]
        assert [each.result(TIMEOUT_S) for each in asked] == [8, 8, 8], "one thread does them all"


def test_no_more_threads_are_started_than_are_needed_or_allowed(pool: DaemonPool) -> None:
    for _ in range(5):
        pool.start(lambda: None).result(TIMEOUT_S)
        wait_until(lambda: pool.jobs == 0, TIMEOUT_S)
    assert running() == 1
    gate = threading.Event()
    began: list[int] = []

    def work(number: int) -> None:
        began.append(number)
        gate.wait(TIMEOUT_S)

    asked = [pool.start(lambda number=number: work(number)) for number in range(9)]  # type: ignore[misc]
    wait_until(lambda: len(began) == 3, TIMEOUT_S)
    assert running() == 3
    gate.set()
    wait(asked, TIMEOUT_S)
    assert sorted(began[:3]) == [0, 1, 2]
    assert sorted(began) == list(range(9))
    assert running() == 3


def test_a_job_that_is_waited_for_is_done_next() -> None:
    pool = DaemonPool("pool", 1)
    gate = threading.Event()
    done: list[int] = []
    asked: list[Future[Any]] = [pool.start(partial(gate.wait, TIMEOUT_S))]
    asked += [pool.start(partial(done.append, number)) for number in range(4)]
    for future in (asked[3], asked[0], Future()):  # nothing is changed by the last two
        pool.hurry(future)
    gate.set()
    wait(asked, TIMEOUT_S)
    pool.stop()
    assert done == [2, 0, 1, 3]


def test_after_stop_no_job_begins_and_all_threads_end(pool: DaemonPool) -> None:
    gate = threading.Event()
    going = [pool.start(lambda: gate.wait(TIMEOUT_S)) for _ in range(3)]
    waiting: Future[int] = pool.start(lambda: 1)
    wait_until(lambda: all(future.running() for future in going), TIMEOUT_S)
    pool.stop()
    assert all(future.running() for future in going), "it waits for none of them"
    assert waiting.cancelled()
    assert pool.start(lambda: 1).cancelled(), "nobody would do it, and whoever waits has no limit"
    gate.set()
    wait_until(lambda: running() == 0, TIMEOUT_S)


def test_python_can_end_while_a_thread_waits() -> None:
    text = (
        "import threading\n"
        "from videoload.storage.daemon_pool import DaemonPool\n"
        "DaemonPool('pool', 1).start(threading.Event().wait)\n"
    )
    subprocess.run([sys.executable, "-c", text], check=True, timeout=TIMEOUT_S)


def test_threads_that_do_not_stay_end_with_the_last_job_and_are_started_again() -> None:
    pool = DaemonPool("brief", 4, stay=False)
    for _ in range(3):
        done = [pool.start(lambda number=number: number) for number in range(20)]  # type: ignore[misc]
        assert [future.result(30 * SECOND) for future in done] == list(range(20))
        wait_until(lambda: not any(t.name == "brief" for t in threading.enumerate()), 30 * SECOND)
    pool.stop()


def test_in_a_forked_process_jobs_are_done_and_the_end_waits_for_no_lock(pool: DaemonPool) -> None:
    pool.start(lambda: None).result(TIMEOUT_S)

    def works() -> bool:
        return pool.start(lambda: 7).result(TIMEOUT_S) == 7

    with pool._changed:  # as another thread may have it
        assert ends_well(pool.stop)
        assert ends_well(works)

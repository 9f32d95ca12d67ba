"""A read that never returns, of one file or of several."""

import os
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import SECOND, wait_until
from videoload import activity
from videoload.activity import Activity, reads
from videoload.worker import read_watch
from videoload.worker.counters import Counters


def test_a_worker_is_stuck_at_its_file_if_any_of_a_few_others_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "good.avi").write_bytes(bytes(9000))
    end, writer = os.pipe()  # whoever reads from it waits
    monkeypatch.setattr(read_watch, "LOOK_S", 0.01)
    monkeypatch.setattr(reads, "file", str(tmp_path / "hung.avi"))
    monkeypatch.setattr(reads, "opened", deque([f"/proc/self/fd/{end}"]))
    activity.begins(Activity.READING)
    read_watch.start(counters := Counters())
    wait_until(lambda: activity.now[0] == Activity.STUCK, 30 * SECOND)
    assert counters.looks > 1, "its supervisor sees that it is not stopped"
    reads.done += 1
    activity.begins(Activity.IDLE)
    os.close(writer)
    os.close(end)


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, float]]]:
    """What the thread that watches was called with, in the turn of this one, which waits for a
    file that no other file tells of."""
    called: list[tuple[str, float]] = []
    is_over = threading.Event()

    def waits(path: str, seconds: float) -> None:
        called.append((path, seconds))
        if not is_over.is_set():  # the thread outlives this test
            raise RuntimeError("this does not end the watch")

    monkeypatch.setattr(read_watch, "LOOK_S", 0.01)
    monkeypatch.setattr(reads, "opened", deque())
    with activity.reading("/nowhere/hung.avi"):
        read_watch.start(Counters(), waits)
        yield called
    is_over.set()


def test_while_a_worker_waits_for_a_read_its_turn_is_taken(
    turns: list[tuple[str, float]],
) -> None:
    wait_until(lambda: len(turns) > 8, 30 * SECOND)
    assert {path for path, _ in turns} == {"/nowhere/hung.avi"}
    seconds = [each for _, each in turns]
    assert seconds == sorted(seconds)


def test_a_turn_is_taken_during_one_read_and_the_read_ends_after_it() -> None:
    activity.begins(Activity.IDLE)  # threads that read at once may have left another one
    with activity.reading("a.avi"):
        done = reads.done
    with reads.meanwhile(done) as is_waiting:
        assert not is_waiting, "it has ended"
    order: list[str] = []

    def read() -> None:
        with activity.reading("a.avi"):
            order.append("reads")
            wait_until(lambda: "turn" in order, 30 * SECOND)
        order.append("goes on")

    reader = threading.Thread(target=read)
    done = reads.done
    reader.start()
    wait_until(lambda: order, 30 * SECOND)
    with reads.meanwhile(done) as is_waiting:
        assert is_waiting
        order.append("turn")
        wait_until(lambda: activity.now[0] != Activity.READING, 30 * SECOND)
        reader.join(0.1)
        order.append("turn ends")
    reader.join()
    assert order == ["reads", "turn", "turn ends", "goes on"]


def test_a_folder_that_cannot_be_listed_does_not_hold_up_the_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()

    def scandir(path: Path) -> Any:
        answers.wait()
        raise OSError

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(read_watch, "LOOK_S", 0.01)
    monkeypatch.setattr(reads, "file", str(tmp_path / "hung.avi"))
    monkeypatch.setattr(reads, "opened", deque())
    activity.begins(Activity.READING)
    try:
        read_watch.start(counters := Counters())
        wait_until(lambda: counters.looks > 8, 30 * SECOND)
        assert activity.now[0] == Activity.READING, "nothing else can be read"
    finally:
        reads.done += 1
        activity.begins(Activity.IDLE)
        answers.set()

"""A read that never returns, of one file or of several."""

import os
import threading
from collections import deque
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

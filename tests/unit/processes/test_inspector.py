"""What an inspector's child answers. Real files and crashes: faults/test_native_size.py and
integration/test_scan.py."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from benchmarks.object_server import ObjectServer
from tests.support.videos import make_avi
from tests.support.waiting import SECOND
from videoload import WorkerError
from videoload.processes.inspector import WAIT_S, Inspector, serve
from videoload.processes.still_time import StillTime


@contextmanager
def serving(root: str, *, complete: bool) -> Iterator[Connection]:
    ours, theirs = Pipe()
    child = threading.Thread(target=serve, args=(theirs,))
    child.start()
    try:
        ours.send_bytes(json.dumps([root, None, complete]).encode())
        yield ours
    finally:
        ours.close()
        child.join()
        theirs.close()


def ask(pipe: Connection, path: str) -> Any:
    pipe.send_bytes(json.dumps(path).encode())
    while True:
        assert pipe.poll(30 * SECOND)
        if (answer := json.loads(pipe.recv_bytes())) is not None:
            return answer


def test_a_storage_that_does_not_answer_is_not_damage_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("obstore", reason="needs videoload[remote]")
    monkeypatch.setattr("videoload.storage.stores.GIVE_UP_S", 0.2)
    with ObjectServer(tmp_path) as server, serving(server.url, complete=True) as pipe:
        server.fault = 403
        assert "for 0.2 s: 403" in ask(pipe, "run/none.avi")["storage"]


def test_it_tells_the_size_or_all_facts_or_why_there_are_none(tmp_path: Path) -> None:
    make_avi(tmp_path / "a.avi", frames=5, size=(70, 90))
    with serving(str(tmp_path), complete=False) as pipe:
        assert "damage" in ask(pipe, "none.avi")
        size = ask(pipe, "a.avi")
    assert size == {"width": 90, "height": 70, "turns": 0}
    with serving(str(tmp_path), complete=True) as pipe:
        facts = ask(pipe, "a.avi")
    assert (facts["frames"], facts["container"], facts["damage"]) == (5, "avi", "")


def test_a_child_that_gives_up_is_an_error_and_not_the_files_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    inspector = Inspector(str(tmp_path), None, is_complete=False, silence_s=30 * SECOND)
    inspector.ask("a.avi")
    with pytest.raises(WorkerError, match="exit status 1"):
        inspector.answer(30 * SECOND)
    inspector.close()


def test_a_child_without_progress_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("videoload.processes.inspector._START_S", 0.0)
    inspector = Inspector(str(tmp_path), None, is_complete=False, silence_s=0.0)
    inspector.ask("a.avi")
    assert "hangs" in (inspector.answer() or {})["damage"]
    assert inspector.hangs
    assert not inspector.is_alive
    inspector.close()


def test_a_child_does_not_hang_because_its_observer_was_stopped(tmp_path: Path) -> None:
    inspector = Inspector(str(tmp_path), None, is_complete=False, silence_s=30.0)
    now = 100.0
    inspector._still = StillTime(WAIT_S, lambda: now)
    inspector.ask("a.avi")
    now += 3600.0  # a job that was suspended
    answers = [inspector.answer()]
    while answers[-1] is None:
        answers.append(inspector.answer(WAIT_S))
    assert not inspector.hangs
    assert answers[-1]["damage"]
    inspector.close()

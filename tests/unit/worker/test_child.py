"""A child process: what it inherits, how it ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from typing import IO

import pytest

from tests.support.waiting import SECOND
from videoload import WorkerError, native
from videoload.worker.child import ChildProcess, end_all


class Started:
    """A child that runs, and this process's end of its channel."""

    def __init__(self, *descriptors: int, **env: str) -> None:
        self.channel, theirs = socket.socketpair()
        self.process = ChildProcess("tests.support.child_program", theirs, *descriptors, env=env)
        assert theirs.fileno() == -1, "the child alone holds it now"
        self.lines: IO[str] = self.channel.makefile()
        self.told = json.loads(self.lines.readline())

    def close(self) -> None:
        self.lines.close()
        self.channel.close()
        assert end_all([self.process]) == []


@pytest.fixture
def child() -> Iterator[Started]:
    made = Started()
    yield made
    made.close()


def test_it_inherits_descriptors_and_no_signals_meant_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    reads, writes = os.pipe()
    os.write(writes, b"by a pipe")
    made = Started(reads, **native.hidden_gpus())
    os.close(reads)
    os.close(writes)
    assert made.told == {
        "arguments": [], "given": ["by a pipe"], "gpus": "",
        "ignored": ["SIGINT", "SIGUSR1", "SIGUSR2"],
        "switched_off": [], "threads": "1",
    }  # fmt: skip
    made.close()


def test_it_gets_settings_and_its_descriptors_though_this_process_has_no_stdin() -> None:
    script = """
        import os
        from videoload import native
        os.close(0)
        native.switch_off("gathers", "malloc")
        from tests.unit.worker.test_child import Started
        reads, writes = os.pipe()
        assert reads == 0
        os.write(writes, b"by a pipe")
        made = Started(reads)
        assert made.told["given"] == ["by a pipe"]
        assert made.told["switched_off"] == ["gathers", "malloc"]
        made.close()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True, text=True, check=False, timeout=60 * SECOND,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_it_is_alive_until_it_is_reaped_and_tells_how_it_ended(child: Started) -> None:
    os.kill(child.process.pid, signal.SIGINT)
    assert child.process.wait(0.05) is None
    child.channel.sendall(b"3")
    assert child.process.wait(30 * SECOND) == 3
    assert (child.process.status, child.process.exit_reason) == (3, "exit status 3")


def test_a_crash_is_told_by_its_signal(child: Started) -> None:
    child.channel.sendall(b"crash")
    assert child.process.wait(30 * SECOND) == -signal.SIGSEGV
    assert child.process.exit_reason == "SIGSEGV"


def test_children_that_do_not_end_when_they_are_asked_are_killed() -> None:
    three = [Started() for _ in range(3)]
    for made in three[1:]:
        made.channel.sendall(b"stay")
        assert made.lines.readline() == "I stay\n"
    began = time.monotonic()
    assert end_all((made.process for made in three), ask_s=1.0 * SECOND) == []
    assert time.monotonic() - began < 30 * SECOND, "they are asked together"
    assert [made.process.exit_reason for made in three] == ["SIGTERM", "SIGKILL", "SIGKILL"]
    for made in three:
        made.close()


def test_a_python_that_cannot_be_started_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    mine, theirs = socket.socketpair()
    with mine, pytest.raises(WorkerError, match="/nowhere/python"):
        ChildProcess("tests.support.child_program", theirs)
    assert theirs.fileno() == -1

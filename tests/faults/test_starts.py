"""Workers that end before they can work are started again with pauses, and not for ever."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from tests.support.digests import digests
from tests.support.processes import children_of
from tests.support.programs import Programs
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until
from videoload import Client, ClipSpec, decode_serially
from videoload.processes.child import ChildProcess, end_all

pytestmark = pytest.mark.timeout(180 * SECOND)


def test_ctrl_c_in_a_terminal_does_not_end_a_worker_that_is_about_to_start() -> None:
    ours, theirs = socket.socketpair()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    child = ChildProcess("videoload.worker", theirs)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == mask, "here it is heard as before"
    with ours:
        os.kill(child.pid, signal.SIGINT)
        ours.close()  # its trainer has gone: it ends by itself
        assert child.wait(60 * SECOND) == 0
    assert end_all([child]) == []


TRAINER = """
    import sys
    from unittest import mock

    from videoload import Catalog, Client, ClipSpec, WorkerError

    mock.patch("videoload.processes.restarts._PAUSE_S", 0.02).start()
    sys.executable = sys.argv[2]  # a Python that cannot run
    with Client(workers=2) as client:
        stream = client.stream(Catalog.from_folder(sys.argv[1]), ClipSpec(2, size=(8, 8)), 2)
        for what in (
            lambda: list(stream), lambda: list(stream), lambda: client.wait_for_workers(1),
            lambda: client.stream(stream.catalog, stream.clip, 2),
        ):
            try:
                what()
            except WorkerError as error:
                print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("python", "how"), [("exit 1", "exit status 1"), ("kill -KILL $$", "SIGKILL")]
)
def test_workers_that_cannot_start_are_an_error_and_not_a_hang(
    python: str, how: str, videos: Videos, programs: Programs, tmp_path: Path
) -> None:
    (tmp_path / "python").write_text(f"#!/bin/sh\n{python}\n")
    (tmp_path / "python").chmod(0o755)
    trainer = programs.script(TRAINER, str(videos.root), str(tmp_path / "python"))
    assert trainer.wait(60 * SECOND) == 0, trainer.err
    assert len(set(trainer.out.splitlines())) == 1
    assert trainer.out.count(how) == 4
    assert ("memory" in trainer.out) == (how == "SIGKILL")
    assert trainer.err.count(f"ended ({how})") <= 12


@pytest.mark.slow
def test_a_worker_that_cannot_be_replaced_does_not_end_the_others(
    videos: Videos, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clip = ClipSpec(frames=4, resize=36, size=(32, 32), sampling="random", clips_per_video=4)
    expected = digests(decode_serially(videos.catalog, clip, 4, info=True))

    def failed() -> int:
        return sum("ended (exit status 1)" in line for line in caplog.messages)

    with Client(workers=2) as client:
        client.wait_for_workers(2, timeout_s=60 * SECOND)
        with monkeypatch.context() as patch:
            patch.setattr("videoload.processes.restarts._PAUSE_S", 0.02)
            patch.setattr(sys, "executable", "/bin/false")
            os.kill(children_of(os.getpid())[0], signal.SIGKILL)
            wait_until(lambda: failed() > 3, 60 * SECOND, "it is tried again and again")
            assert digests(client.stream(videos.catalog, clip, 4).batches(info=True)) == expected
        client.wait_for_workers(2, timeout_s=60 * SECOND)

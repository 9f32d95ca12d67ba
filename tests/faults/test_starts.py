"""Workers that cannot start, that cannot be killed, and that are a fork of their trainer."""

import ctypes
import os
import platform
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.support.digests import digests
from tests.support.processes import children_of, ends_well
from tests.support.programs import Programs
from tests.support.thorough import either
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until
from videoload import Client, ClipSpec, ClosedError, decode_serially
from videoload.worker.child import ChildProcess, end_all


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

    mock.patch("videoload.worker.supervisor.PAUSE_S", 0.02).start()
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
            patch.setattr("videoload.worker.supervisor.PAUSE_S", 0.02)
            patch.setattr(sys, "executable", "/bin/false")
            os.kill(children_of(os.getpid())[0], signal.SIGKILL)
            wait_until(lambda: failed() > 3, 60 * SECOND, "it is tried again and again")
            assert digests(client.stream(videos.catalog, clip, 4).batches(info=True)) == expected
        client.wait_for_workers(2, timeout_s=60 * SECOND)


_SEIZE = 0x4206  # sys/ptrace.h
_ALSO_TRACED = 0x40000000  # __WALL

CLOSING = """
    import os
    import sys
    import time

    from videoload import Client

    client = Client(workers=2)
    client.wait_for_workers(2, 60)
    print("ready", flush=True)
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.02)
    began = time.monotonic()
    client.close()
    print(f"closed after {time.monotonic() - began:.2f} s", flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="ptrace is Linux's"
)
def test_close_does_not_wait_for_a_worker_that_cannot_be_killed(
    programs: Programs, tmp_path: Path
) -> None:
    trainer = programs.script(CLOSING, str(tmp_path / "go"))
    trainer.wait_for("ready", 60 * SECOND)
    held, _ = children_of(trainer.pid)
    if ctypes.CDLL(None, use_errno=True).ptrace(_SEIZE, held, 0, 0):
        pytest.skip(f"ptrace: {os.strerror(ctypes.get_errno())}")
    try:
        (tmp_path / "go").touch()
        trainer.wait_for("closed after", 40 * SECOND)
        assert float(trainer.out.rpartition("after ")[2].split()[0]) < either(30, 4) * SECOND
        assert trainer.wait(30 * SECOND) == 0
        assert str(held) in trainer.err
    finally:
        with suppress(ProcessLookupError):
            os.kill(held, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(held, _ALSO_TRACED)


def test_a_forked_process_gets_nothing_of_a_reading_that_has_begun_and_the_parent_continues(
    videos: Videos,
) -> None:
    """The slots are memory of both, and the parent has them filled again."""
    spec = ClipSpec(frames=2, resize=32, size=(32, 32))
    with Client(workers=1) as client:
        stream = client.stream(videos.catalog, spec, 2)
        whole = [batch[0].copy() for batch in decode_serially(videos.catalog, spec, 2)]
        readings = [iter(stream), stream.batches(0), stream.batches(0, info=True)]
        for batches in readings:
            next(batches)
        clips = len(readings) * len(videos.catalog)
        wait_until(lambda: sum(each.clips for each in client.workers) >= clips, 60 * SECOND)

        def is_refused(step: Callable[[], object]) -> bool:
            try:
                step()
            except ClosedError:
                return True
            return False

        for batches in readings:
            assert ends_well(partial(is_refused, partial(next, batches)))
        assert ends_well(lambda: is_refused(lambda: next(iter(stream))))
        assert ends_well(client.close)
        for batches in readings:
            np.testing.assert_array_equal([batch[0] for batch in batches], whole[1:])

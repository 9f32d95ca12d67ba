"""A worker that does not end when it is killed, like one that waits for a disk that does not
answer: `close` does not wait longer for it, and says so. The test uses a worker that is being
traced by a debugger: its parent cannot reap it before the debugger has."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.processes import children_of
from tests.support.programs import Programs
from tests.support.thorough import either
from tests.support.waiting import SECOND

pytestmark = pytest.mark.timeout(180 * SECOND)

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
        assert float(trainer.out.rpartition("after ")[2].split()[0]) < either(10, 4) * SECOND
        assert trainer.wait(30 * SECOND) == 0
        assert str(held) in trainer.err
    finally:
        with suppress(ProcessLookupError):
            os.kill(held, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(held, _ALSO_TRACED)

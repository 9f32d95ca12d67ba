"""One child process: how it is started, watched and ended.

Workers and the processes that look at files are all started here.

A child is ``python -m MODULE DESCRIPTORS SWITCHED_OFF``. It inherits one end of a socket pair, and
further descriptors; secrets and paths travel over the socket pair, not over the command line. It
ignores Ctrl-C, because the process that started it ends it, and SIGUSR1 and SIGUSR2, with which
Slurm warns all processes of a job. Linux kills a child when the thread
that started it ends (`inherited`).
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from fcntl import F_DUPFD_CLOEXEC, fcntl
from pathlib import Path
from types import MappingProxyType

from videoload import native
from videoload.errors import WorkerError
from videoload.host import runs

# A child has one core. With one thread for each core in each of them, 64 workers on 64 cores would
# start 4 000 threads of OpenBLAS and as many of obstore: more than many containers may have.
_THREADS = {"OMP_NUM_THREADS": "1", "TOKIO_WORKER_THREADS": "2"}
_WARNINGS = (signal.SIGUSR1, signal.SIGUSR2)
# A killed process ends within milliseconds, or takes longer to get a core on a busy host. One in
# uninterruptible sleep ends when its storage answers; do not wait for that.
_KILL_S, _BUSY_S, _LOOK_S = 0.5, 20.0, 0.02


class ChildProcess:
    """A running child. It is ended by `end_all`, in whichever state it is."""

    def __init__(
        self,
        module: str,
        theirs: socket.socket,
        *descriptors: int,
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Start ``module``. ``env`` changes its environment.

        ``theirs`` is the child's end of a socket pair. It is closed here. The child also inherits
        ``descriptors``, which stay open here. Raises WorkerError.
        """
        if why := _no_python():
            theirs.close()
            raise WorkerError(why)
        raised: list[int] = []
        paths = os.pathsep.join(_search_path())
        # Ctrl-C in a terminal reaches children as well. A child starts with the signal mask of this
        # thread, so these are blocked until the child ignores them.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, *_WARNINGS))
        try:
            # Where stdin is closed, one of them may be 0, and the child's is another.
            for_child = (theirs.fileno(), *descriptors)
            raised.extend(fcntl(each, F_DUPFD_CLOEXEC, 3) for each in for_child)
            self._process = subprocess.Popen(
                # -P: do not search the current folder for modules.
                [sys.executable, "-P", "-m", module, ",".join(map(str, raised)),
                 ",".join(native.switched_off())],
                pass_fds=raised,
                stdin=subprocess.DEVNULL,
                env={**_THREADS, **os.environ, "PYTHONPATH": paths, **env},
            )  # fmt: skip
        except OSError as error:
            raise WorkerError(f"cannot start {sys.executable}: {error.strerror}") from None
        finally:
            for descriptor in raised:
                os.close(descriptor)
            theirs.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self.pid = self._process.pid
        self.began = time.monotonic()

    @property
    def status(self) -> int | None:
        """The exit status, negative for a signal; None while the child is alive."""
        return self._process.poll()

    @property
    def exit_reason(self) -> str:
        """Return how the child ended: "exit status 1", or the name of a signal."""
        status = self._process.returncode
        if status >= 0:
            return f"exit status {status}"
        try:
            return signal.Signals(-status).name
        except ValueError:
            return f"signal {-status}"

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        """End the child, whatever it is doing. `status` shows when it has ended."""
        self._process.kill()

    def wait(self, timeout_s: float) -> int | None:
        """Wait until the child has ended; returns its `status`."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, timeout_s))
        return self._process.returncode


def _no_python() -> str:
    """Return why `sys.executable` cannot start a child; "" if it can."""
    if getattr(sys, "frozen", False):  # PyInstaller and others: it would start the program again
        return (
            f"{sys.executable} is a frozen application, not Python, so it cannot start workers: "
            "give workers=0 and listen= here, and start 'videoload worker' with a Python beside it"
        )
    if not sys.executable:
        return (
            "this program does not know its Python (sys.executable is empty), so it cannot "
            "start workers: set sys.executable, or give workers=0 and listen= here"
        )
    return ""


def _search_path() -> list[str]:
    """`sys.path` with absolute paths. A relative one means nothing if the working directory was
    deleted."""
    found = []
    for path in sys.path:
        with suppress(FileNotFoundError):
            found.append(str(Path(path).absolute()))
    return found


def ignore_warnings() -> None:
    """Ignore SIGUSR1 and SIGUSR2, which would end this process."""
    for number in _WARNINGS:
        signal.signal(number, signal.SIG_IGN)


def end_all(children: Iterable[ChildProcess], *, ask_s: float = 0.0) -> list[ChildProcess]:
    """End them: SIGTERM, wait up to ``ask_s``, kill and reap. With ``ask_s`` 0 they are killed at
    once.

    Returns the children that are killed but do not end now. Takes ``ask_s`` and half a second at
    most, unless a child that is killed waits for a core.
    """
    left = list(children)
    steps = [(ChildProcess.kill, _KILL_S)]
    if ask_s:
        steps.insert(0, (ChildProcess.terminate, ask_s))
    for signal_to, timeout_s in steps:
        for child in left:
            signal_to(child)
        deadline = time.monotonic() + timeout_s
        left = [child for child in left if child.wait(deadline - time.monotonic()) is None]
    deadline += _BUSY_S
    while any(runs(child.pid) for child in left) and time.monotonic() < deadline:
        left = [child for child in left if child.wait(_LOOK_S) is None]
    return [child for child in left if child.status is None]


def inherited() -> list[int]:
    """To be called first in a child: returns the descriptors that it inherits. Afterwards the child
    ignores Ctrl-C and SIGUSR1 and 2, ends with the thread that started it, and `sys.argv` holds
    nothing of ours, as a module of the user's may read it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ignore_warnings()
    descriptors, switched_off = sys.argv[1:]
    del sys.argv[1:]
    native.switch_off(*filter(None, switched_off.split(",")))
    native.die_with_parent()
    return [int(number) for number in descriptors.split(",")]

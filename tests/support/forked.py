"""Runs programs that need slow modules without importing them each time. TensorFlow takes four
seconds of a core, and some forty processes of these tests need it. (PyTorch: two seconds; the
modules of a command: half a second, and there are some two hundred commands.)

A process, ``python -m tests.support.forked``, imports it once and forks for each program. It has
one thread (OpenBLAS, and pyarrow, which pandas imports, are told to need no more), checks this
before each fork, and has used nothing that it imported. So there is no lock, thread or connection
that a fork would break. The program has the arguments, environment, folder, descriptors and
``__main__`` that it would have by itself. It is found by its environment like any other
(`tests.support.leaks`), and ends with its test.

Do not use it for a test of how a process starts.
"""

import gc
import importlib
import importlib.util
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import types
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from tests.support import leaks
from tests.support.waiting import SECOND

_ORDER_BYTES, _NUMBER_BYTES = 128 * 1024, 16
_IMPORT_S = 180 * SECOND
_ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false",
}  # fmt: skip


class Forked:
    """A forked program, with what the tests use of `subprocess.Popen`."""

    def __init__(self, told: int) -> None:
        self._told = told
        self.pid = self._read(_IMPORT_S)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit status, or None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status. Raises subprocess.TimeoutExpired if it does not end in time."""
        if self.returncode is None:
            self.returncode = self._read(timeout)
            os.close(self._told)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to it, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _read(self, timeout_s: float | None) -> int:
        if not select.select([self._told], [], [], timeout_s)[0]:
            raise subprocess.TimeoutExpired("a forked program", timeout_s or 0)
        if not (number := os.read(self._told, _NUMBER_BYTES)):
            raise RuntimeError("the process that forks is gone: can what it imports be imported?")
        return int(number)


class Forking:
    """A process for each module that programs want imported, started when the first one does."""

    def __init__(self) -> None:
        self._running: dict[str, socket.socket] = {}

    def start(
        self,
        imported: str,
        arguments: list[str],
        out: IO[bytes],
        err: IO[bytes],
        *,
        env: dict[str, str],
        cwd: Path | None = None,
        start_new_session: bool = False,
    ) -> Forked:
        """``python arguments``, a script or ``-m module``; options as those of Popen."""
        if imported not in self._running:
            self._running[imported] = self._start(imported, env)
        order = {
            "arguments": arguments, "environment": env, "folder": str(cwd or Path.cwd()),
            "session": start_new_session,
        }  # fmt: skip
        told, tells = os.pipe()
        handles = [out.fileno(), err.fileno(), tells]
        socket.send_fds(self._running[imported], [json.dumps(order).encode()], handles)
        os.close(tells)
        return Forked(told)

    def end(self) -> None:
        """End the processes once nobody can ask them any more."""
        for asking in self._running.values():
            asking.close()

    @staticmethod
    def _start(imported: str, env: dict[str, str]) -> socket.socket:
        asking, asked = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with asked:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.forked", imported, str(asked.fileno())],
                pass_fds=[asked.fileno()], stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env={**env, **_ONE_THREAD, "TF_CPP_MIN_LOG_LEVEL": "2"},
            )  # fmt: skip
        process.wait(60 * SECOND)  # its child serves; the tests do not count it as their own
        leaks.spare(int(asking.recv(_NUMBER_BYTES)), asking.fileno())
        return asking


def _serve(asked: socket.socket) -> dict[str, Any] | None:
    """Fork for each order, and report how the programs end. Returns the order in a program, and
    None in this process once nobody can ask any more."""
    with selectors.DefaultSelector() as events:
        events.register(asked, selectors.EVENT_READ)
        while True:
            for key, _ in events.select():
                if key.data:
                    pid, tells = key.data
                    _tell(tells, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                    events.unregister(key.fd)
                    os.close(key.fd)
                    os.close(tells)
                    continue
                order, handles, _, _ = socket.recv_fds(asked, _ORDER_BYTES, 3)
                if not order:
                    return None
                out, err, tells = handles
                if len(os.listdir("/proc/self/task")) > 1:
                    raise RuntimeError("an import started a thread: forking is not sound")
                pid = os.fork()
                if not pid:
                    os.dup2(out, 1)
                    os.dup2(err, 2)
                    return dict(json.loads(order))
                os.close(out)
                os.close(err)
                _tell(tells, pid)
                events.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, tells))


def _tell(tells: int, number: int) -> None:
    with suppress(BrokenPipeError):  # nobody waits any more
        os.write(tells, str(number).encode().ljust(_NUMBER_BYTES))


def _run(arguments: list[str], environment: dict[str, str], folder: str, session: bool) -> None:
    """Become ``python arguments``."""
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    if session:
        os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # the module `random` seeds itself
    tempfile.tempdir = None  # it reads the environment only once
    spec = None
    if arguments[0] == "-m":
        sys.path[0] = folder
        spec = importlib.util.find_spec(arguments[1])
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{arguments[1]}.__main__")
        assert spec is not None
        assert spec.origin is not None
        arguments = [spec.origin, *arguments[2:]]
    else:
        sys.path[0] = str(Path(arguments[0]).parent)
    sys.argv = arguments
    main = types.ModuleType("__main__")
    main.__file__, main.__spec__ = arguments[0], spec
    sys.modules["__main__"] = main
    exec(compile(Path(arguments[0]).read_bytes(), arguments[0], "exec"), vars(main))


def main() -> None:
    """Import, serve; in each program, run."""
    if os.fork():
        os._exit(0)
    with socket.socket(fileno=int(sys.argv[2])) as asked:
        asked.send(str(os.getpid()).encode())
        importlib.import_module(sys.argv[1])
        gc.collect()
        gc.freeze()  # pages that nobody writes to stay shared
        order = _serve(asked)
    if order is not None:
        _run(**order)


if __name__ == "__main__":
    main()

"""Processes that a test starts, with their output; they end with the test."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

import pytest

from tests.support.forked import Forked, Forking
from tests.support.waiting import wait_until

COMMANDS = "tests.support.command_modules"


class Program:
    """A process that a test started, with its output."""

    def __init__(
        self,
        start: Callable[..., subprocess.Popen[bytes] | Forked],
        arguments: list[str],
        folder: Path,
        **options: Any,
    ) -> None:
        self._out, self._err = folder / "out", folder / "err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = start(arguments, out, err, **options)
        self.pid = self.process.pid

    @property
    def out(self) -> str:
        """What it has printed so far."""
        return self._out.read_text()

    @property
    def err(self) -> str:
        """What it has printed to stderr so far."""
        return self._err.read_text()

    def wait(self, timeout_s: float) -> int:
        """Its exit status; fails if it does not end in time."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            pytest.fail(f"still runs after {timeout_s:g} s\n{self.out}\n{self.err}")

    def wait_for(self, text: str, timeout_s: float) -> None:
        """Wait until it has printed a line with ``text`` (to stdout or stderr), the whole line: a
        process that does not buffer writes each argument of a `print` by itself."""

        def printed() -> bool:
            ended = self.process.poll() is not None
            if any(text in _lines(told) for told in (self.out, self.err)):
                return True
            if ended:
                pytest.fail(f"ended without printing {text!r}:\n{self.out}\n{self.err}")
            return False

        try:
            wait_until(printed, timeout_s)
        except TimeoutError:
            pytest.fail(f"no {text!r} within {timeout_s:g} s:\n{self.out}\n{self.err}")

    def signal(self, number: int) -> None:
        """Send a signal to this process alone."""
        self.process.send_signal(number)

    def end(self) -> None:
        """Kill and reap it, whatever its state."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def _lines(told: str) -> str:
    """The lines that have ended."""
    return told[: told.rfind("\n") + 1]


def _popen(
    arguments: list[str], out: IO[bytes], err: IO[bytes], **options: Any
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=err, **options
    )


class Programs:
    """Starts processes, and ends the remaining ones when the test is over."""

    def __init__(self, folder: Path, project: Path, forking: Forking) -> None:
        self._folder = folder
        self._forking = forking
        self._paths = {"PYTHONPATH": str(project), "PYTHONUNBUFFERED": "1"}
        self._all: list[Program] = []

    def python(self, *arguments: str, imported: str = "", **options: Any) -> Program:
        """Runs ``python arguments`` with the module ``imported`` already loaded (see
        `tests.support.forked`)."""
        folder = self._folder / f"program{len(self._all)}"
        folder.mkdir()
        environment = {**os.environ, **self._paths, **options.pop("env", {})}
        start = partial(self._forking.start, imported) if imported else _popen
        program = Program(start, list(arguments), folder, env=environment, **options)
        self._all.append(program)
        return program

    def videoload(self, *arguments: str, **options: Any) -> Program:
        """Runs ``videoload arguments``, forked with most modules imported, unless ``imported`` is
        empty."""
        return self.python("-m", "videoload", *arguments, **{"imported": COMMANDS, **options})

    def worker(self, endpoint: str, root: Path | str, *arguments: str, **options: Any) -> Program:
        """Runs ``videoload worker``, dialling ``endpoint``: in one process, and without its
        supervisor (see `tests.support.lone_worker`), unless ``arguments`` say how many processes or
        where metrics are."""
        flags = ("--connect", endpoint, "--root", str(root), "--processes", "1", *arguments)
        if {"--workers", "--metrics-port"} & {*arguments}:
            return self.videoload("worker", *flags, **options)
        words = ("-m", "tests.support.lone_worker", "worker", *flags)
        return self.python(*words, **{"imported": COMMANDS, **options})

    def impatient_worker(self, endpoint: str, root: Path | str, *arguments: str) -> Program:
        """See `tests.support.impatient_worker`."""
        words = ("-m", "tests.support.impatient_worker", endpoint, str(root), *arguments)
        return self.python(*words, imported=COMMANDS)

    def script(self, source: str, *arguments: str, **options: Any) -> Program:
        """Runs a Python script, forked like a command, or with another module ``imported``."""
        path = self._folder / f"script{len(self._all)}.py"
        path.write_text(textwrap.dedent(source))
        return self.python(str(path), *arguments, **{"imported": COMMANDS, **options})

    def end(self) -> None:
        """Kill and reap the remaining processes."""
        for program in self._all:
            with suppress(ProcessLookupError):
                program.signal(signal.SIGCONT)
            program.end()

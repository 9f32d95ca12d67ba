"""What integration and fault tests share: time, videos, processes, digests, and the leak check.

A test that starts processes must leave nothing behind: no process (children, and theirs), no
thread, no descriptor, no shared memory, no socket. `_nothing_left_behind` looks after each test of
integration/ and faults/. Descendants are found by an environment variable that they inherit, so
that those whose parent died are found as well.
"""

from __future__ import annotations

import gc
import hashlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.videos import Videos

# All waiting in these tests is in this unit; a slow machine scales it (2 is twice as patient).
SECOND = float(os.environ.get("VIDEOLOAD_TEST_SECOND", "1"))

_MARK = "VIDEOLOAD_TEST_RUN"
_REAL = "VIDEOLOAD_AVI"
_LOOK_S = 0.01
_CHECKED = ("integration", "faults")

# What a test wants a person to see at the end of the run, whatever is captured.
TABLES = pytest.StashKey[list[str]]()
_reports = pytest.StashKey[dict[str, bool]]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes more than five seconds")
    os.environ[_MARK] = f"{os.getpid()}-{time.time_ns()}"
    os.environ["VIDEOLOAD_CACHE"] = ""  # a test that wants indexes kept says where


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for table in config.stash.get(TABLES, []):
        terminalreporter.write_line("\n" + table)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash.setdefault(_reports, {})[report.when] = report.passed
    return report


# Waiting


def wait_until(condition: Callable[[], object], timeout_s: float, what: str = "") -> None:
    """Look again and again until ``condition()`` is true; fails after ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {timeout_s:g} s: {what or condition}")
        time.sleep(_LOOK_S)


# What a stream gave


def digests(batches: Iterable[Any]) -> list[str]:
    """One SHA-256 a batch, over all that it says: shapes, types, pixels, labels, and with ``info``
    the step, the videos and the frames."""
    found = []
    for batch in batches:
        sha = hashlib.sha256()
        arrays = [*batch[:2], *(np.asarray(part) for part in (batch[2] if len(batch) > 2 else ()))]
        for array in arrays:
            sha.update(f"{array.dtype}{array.shape}".encode())
            sha.update(np.ascontiguousarray(array).data)
        found.append(sha.hexdigest())
    return found


def digest(batches: Iterable[Any]) -> str:
    """One SHA-256 over all batches, in their order."""
    return hashlib.sha256("".join(digests(batches)).encode()).hexdigest()


# Processes


def children_of(pid: int) -> list[int]:
    """The live child processes of ``pid``."""
    return sorted(child for child, parent in _processes() if parent == pid)


def is_alive(pid: int) -> bool:
    """Whether ``pid`` runs (a zombie does not)."""
    return any(pid == other for other, _ in _processes())


def maps_of(pid: int | str = "self") -> list[str]:
    """The memory mappings of a process, one line each."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
    return []


def arena_maps(pid: int | str = "self") -> list[str]:
    """The arenas that a process has mapped."""
    return [line for line in maps_of(pid) if "memfd:videoload" in line]


def _processes() -> Iterator[tuple[int, int]]:
    """(pid, parent) of all processes that are not zombies."""
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError):
                text = Path("/proc", name, "stat").read_text()
                state, parent = text[text.rindex(")") + 2 :].split()[:2]
                if state not in "ZX":
                    yield int(name), int(parent)


class Program:
    """A process that a test started, with what it prints."""

    def __init__(self, arguments: list[str], folder: Path, **options: Any) -> None:
        self._out, self._err = folder / "out", folder / "err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=out, stderr=err, **options
            )
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
        """Wait until it has printed ``text`` (to stdout or stderr)."""

        def printed() -> bool:
            ended = self.process.poll() is not None
            if text in self.out or text in self.err:
                return True
            if ended:
                pytest.fail(f"ended without printing {text!r}:\n{self.out}\n{self.err}")
            return False

        try:
            wait_until(printed, timeout_s)
        except pytest.fail.Exception:
            pytest.fail(f"no {text!r} within {timeout_s:g} s:\n{self.out}\n{self.err}")

    def signal(self, number: int) -> None:
        """Send a signal to it alone."""
        self.process.send_signal(number)

    def end(self) -> None:
        """Kill and reap it, whatever state it is in."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Programs:
    """Starts processes; ends those that are left when the test is over."""

    def __init__(self, folder: Path, project: Path) -> None:
        self._folder = folder
        self._paths = {"PYTHONPATH": str(project), "PYTHONUNBUFFERED": "1"}
        self._all: list[Program] = []

    def python(self, *arguments: str, **options: Any) -> Program:
        """``python arguments``."""
        folder = self._folder / f"program{len(self._all)}"
        folder.mkdir()
        environment = {**os.environ, **self._paths, **options.pop("env", {})}
        program = Program([sys.executable, *arguments], folder, env=environment, **options)
        self._all.append(program)
        return program

    def videoload(self, *arguments: str, **options: Any) -> Program:
        """``videoload arguments``."""
        return self.python("-m", "videoload", *arguments, **options)

    def worker(self, endpoint: str, root: Path, *arguments: str, **options: Any) -> Program:
        """``videoload worker``, dialling ``endpoint``."""
        return self.videoload(
            "worker", "--connect", endpoint, "--root", str(root), *arguments, **options
        )

    def script(self, source: str, *arguments: str, **options: Any) -> Program:
        """A Python script of its own."""
        path = self._folder / f"script{len(self._all)}.py"
        path.write_text(textwrap.dedent(source))
        return self.python(str(path), *arguments, **options)

    def end(self) -> None:
        """Kill and reap all that is left."""
        for program in self._all:
            with suppress(ProcessLookupError):
                program.signal(signal.SIGCONT)
            program.end()


# Fixtures


@pytest.fixture(scope="session")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Videos:
    """Good videos in three classes; nothing is to be added to this folder."""
    return Videos.make(tmp_path_factory.mktemp("videos"))


@pytest.fixture(scope="session")
def real_videos() -> Path:
    """The folder of real AVI files with facts.json beside them."""
    folder = os.environ.get(_REAL)
    if not folder:
        pytest.skip(f"{_REAL} names no folder of real AVI files")
    return Path(folder)


@pytest.fixture
def programs(tmp_path: Path, pytestconfig: pytest.Config) -> Iterator[Programs]:
    """Starts processes that end with the test."""
    started = Programs(tmp_path, pytestconfig.rootpath)
    yield started
    started.end()


# The leak check


@pytest.fixture(autouse=True)
def _nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.path.parent.name not in _CHECKED:
        yield
        return
    _collect()
    before = _Left()
    yield
    failed = not all(request.node.stash.get(_reports, {}).values())
    if failed:  # its traceback holds on to whatever it had; it has its own story to tell
        _kill_marked()
        return
    deadline = time.monotonic() + 2 * SECOND
    while True:
        _collect()
        left = _Left().beyond(before)
        if not left:
            return
        if time.monotonic() > deadline:
            break
        time.sleep(_LOOK_S)
    _kill_marked()
    pytest.fail("left behind: " + "; ".join(left))


def _collect() -> None:
    if "tensorflow" in sys.modules:  # it queues the release of arrays (see trainer/tfdata.py)
        sys.modules["tensorflow"].constant(0)
    gc.collect()


class _Left:
    """What there is of all that a test must not leave behind, each thing by a name of its own."""

    def __init__(self) -> None:
        self.descriptors: dict[str, str] = {}
        for number in os.listdir("/proc/self/fd"):
            with suppress(OSError):
                self.descriptors[number] = str(Path("/proc/self/fd", number).readlink())
        self.things = {f"process {pid}: {_command(pid)}" for pid in _marked()}
        self.things |= {f"mapping {line}" for line in arena_maps()}
        self.things |= {
            f"thread {thread.name}"
            for thread in threading.enumerate()
            if thread.name.startswith("videoload")
        }
        for task in os.listdir("/proc/self/task"):
            with suppress(OSError):
                if Path("/proc/self/task", task, "comm").read_text().startswith("ZMQ"):
                    self.things.add(f"thread {task} of ZeroMQ")
        for line in Path("/proc/net/unix").read_text().splitlines():
            fields = line.split()
            if "@videoload" in line and f"socket:[{fields[6]}]" in self.descriptors.values():
                self.things.add(f"Unix socket {fields[-1]}")

    def beyond(self, before: _Left) -> list[str]:
        """What is here and was not there before."""
        left = self.things - before.things
        if len(self.descriptors) > len(before.descriptors):
            new = self.descriptors.items() - before.descriptors.items()
            left |= {f"descriptor {number}: {target}" for number, target in new}
        return sorted(left)


def _marked() -> list[int]:
    """The processes that come from this test run, this one apart; zombies of its own as well."""
    found = []
    mark = f"{_MARK}={os.environ[_MARK]}".encode()
    me = os.getpid()
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) == me:
            continue
        with suppress(OSError):
            text = Path("/proc", name, "stat").read_text()
            parent = int(text[text.rindex(")") + 2 :].split()[1])
            if parent == me or mark in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                found.append(int(name))
    return found


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    return "gone"


def _kill_marked() -> None:
    for pid in _marked():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)

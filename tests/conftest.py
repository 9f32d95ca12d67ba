"""Fixtures and hooks: the videos, the processes, the check that nothing is left behind, and the
order in which tests run.

A test that starts processes must leave nothing behind. `_nothing_left_behind` checks this after
each test of integration/ and faults/; `tests.support.leaks` says what it looks for.

Several processes run the tests (``-n auto``, pytest-xdist), each taking the next test when it is
done. There is one more than there are cores, since many tests wait, and at most four; a single
named test runs in this process. Tests that need TensorFlow in their own process are one
``xdist_group``, so that it is imported once, and go first. The other slow tests follow. Tests that
measure time are a group too, and go last, when most of the machine is free. A file whose tests
share a client is a group of its own, so that it is made once.

A process that dies fails the run with the name of its test, and the run ends
(``--max-worker-restart=0``): pytest-xdist 3.8 would give the test to the next process, and wait for
ever once all of them have died over it.

Tests marked ``nightly`` run at night, and if one is named (`tests.support.thorough`).
"""

import faulthandler
import gc
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.support.forked import Forking
from tests.support.leaks import Held, collect_garbage, kill_descendants, mark_descendants
from tests.support.programs import Programs
from tests.support.thorough import THOROUGH, either
from tests.support.videos import Videos
from tests.support.waiting import SECOND
from videoload import Client
from videoload.frameworks.interrupts import INTERRUPTS
from videoload.host import cores
from videoload.native import die_with_parent

_REAL = "VIDEOLOAD_AVI"
_LOOK_S = 0.01
_SMALL_DISK = 4 << 30
_CHECKED = ("integration", "faults")
_UNIT = Path(__file__).parent / "unit"

_reports = pytest.StashKey[dict[str, bool]]()

# The machine may be busy: pytest-timeout limits the time.
hypothesis.settings.register_profile("videoload", deadline=None, max_examples=either(50, 100))
hypothesis.settings.load_profile("videoload")


def _roomy(statvfs: Callable[[Any], os.statvfs_result]) -> Callable[[Any], os.statvfs_result]:
    """A store without a limit keeps nothing where less than a fifth of the disk is free. Half of
    each disk is, however full the one of the tests may be; a small one is a test's own."""

    def roomy(path: Any) -> os.statvfs_result:
        found = statvfs(path)
        if found.f_blocks * found.f_frsize < _SMALL_DISK:
            return found
        free = max(found.f_bavail, found.f_blocks // 2)
        return os.statvfs_result((*found[:3], free, free, *found[5:]))

    return roomy


def pytest_configure(config: pytest.Config) -> None:
    mark_descendants()
    _end_in_time(config)
    # Of the random streams of test_matrix.py; all processes of a run have the same.
    os.environ.setdefault("VIDEOLOAD_TEST_SEED", str(random.randrange(10**6)))
    os.environ["VIDEOLOAD_CACHE"] = ""  # a test that wants indexes kept says where
    vars(os)["statvfs"] = _roomy(os.statvfs)  # of this process: in others, a test gives a limit
    # TensorFlow leaves it off on processors without AVX-512, where 3D convolutions then take ten
    # times as long.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    # OpenBLAS makes a thread for each core when NumPy is imported, and lets it spin. That takes a
    # quarter of a process's start, and nothing here multiplies matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Hundreds of processes are started. Without this each would compile all modules, a third of its
    # start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # Shells start background jobs with Ctrl-C ignored, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Nothing waits for ever

_RUN_S = either(3600, 6 * 3600) * SECOND  # all tests take minutes
_MORE_S = 20.0

_stderr = pytest.StashKey[int]()


def _end_in_time(config: pytest.Config) -> None:
    """pytest-xdist waits until nobody holds the pipes of a process that died. So a child that a
    test forked ends with it. If a run still takes too long, it ends."""
    config.stash[_stderr] = os.dup(2)  # later, pytest has it
    faulthandler.dump_traceback_later(_RUN_S, exit=True, file=config.stash[_stderr])
    os.register_at_fork(after_in_child=die_with_parent)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """pytest-timeout ends a process from another thread. A test that hangs in C keeps that thread
    from running."""
    _watch(item)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """For the sake of debuggers, pytest and pytest-timeout watch no test further that has failed.
    What it left open may hang its fixtures."""
    if isinstance(node, pytest.Item) and not node.config.getoption("usepdb"):
        _watch(node)


def _watch(item: pytest.Item) -> None:
    limit_s, *_ = (mark.args[0] for mark in item.iter_markers("timeout"))
    faulthandler.dump_traceback_later(limit_s + _MORE_S, exit=True, file=item.config.stash[_stderr])


# Where and when they run

_MAX_PROCESSES = 4  # many tests start processes of their own
_GROUPS = {"tensorflow": 0, "timing": 3}


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    return 0 if _names_a_test(config) else min(cores() + 1, _MAX_PROCESSES)


def _names_a_test(config: pytest.Config) -> bool:
    return any("::" in argument for argument in config.args)


def _deselect_nightly(config: pytest.Config, items: list[pytest.Item]) -> None:
    nightly = [item for item in items if item.get_closest_marker("nightly")]
    if nightly:
        config.hook.pytest_deselected(items=nightly)
        items[:] = [item for item in items if not item.get_closest_marker("nightly")]


@pytest.hookimpl(tryfirst=True)  # before the slow ones are deselected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    limit = pytest.mark.timeout(float(config.getini("timeout")) * SECOND)
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(limit)
        if "tf" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.xdist_group("tensorflow"))
        unit = _UNIT in item.path.parents
        if config.pluginmanager.hasplugin("_cov") and (not unit or item.get_closest_marker("slow")):
            item.add_marker(pytest.mark.no_cover)  # the floor is that of the quick unit tests
    if not (THOROUGH or _names_a_test(config) or "nightly" in config.option.markexpr):
        _deselect_nightly(config, items)
    if hasattr(config, "workerinput"):  # in one of several processes
        items.sort(key=_turn)
        _name_groups(items)


def _name_groups(items: list[pytest.Item]) -> None:
    """pytest-xdist 3.8 appends a group to the name of a test where pytest 9.2 does not look for it,
    and then each process would import TensorFlow, and tests that measure time run side by side."""
    for item in items:
        group = item.get_closest_marker("xdist_group")
        known: Any = getattr(item, "_id", None)
        if group is not None and known is not None:
            item._id = type(known).parse(f"{item.nodeid}@{group.args[0]}")


def _turn(item: pytest.Item) -> int:
    group = item.get_closest_marker("xdist_group")
    if group is not None and group.args[0] in _GROUPS:
        return _GROUPS[group.args[0]]
    return 2 if item.get_closest_marker("slow") is None else 1


def pytest_collection_finish() -> None:
    if "tensorflow" in sys.modules:
        raise pytest.UsageError(
            "a file of tests imports TensorFlow when it is read, so that each process has it"
        )
    spare_garbage_collector()
    # As under nohup: this process still lives on without its terminal. What it starts ends then.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda number, frame: None)


def spare_garbage_collector() -> None:
    """Freeze what is here now, so that it is not examined after each test: all tests are a hundred
    thousand objects, TensorFlow is two hundred thousand."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash.setdefault(_reports, {})[report.when] = report.passed
    return report


# Videos and processes


@pytest.fixture(scope="session")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Videos:
    """Good videos in three classes. Do not add anything to this folder."""
    return Videos.make(tmp_path_factory.mktemp("videos"))


@pytest.fixture(scope="session")
def real_videos() -> Path:
    """The folder of real AVI files, with facts.json beside them."""
    folder = os.environ.get(_REAL)
    if not folder:
        pytest.skip(f"{_REAL} names no folder of real AVI files")
    return Path(folder)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """A client with two local workers, for the streams of all tests of a module that ask for it."""
    with Client(workers=2) as made:
        made.wait_for_workers(2, timeout_s=30 * SECOND)  # the test does not leak what they hold
        yield made


@pytest.fixture(scope="session")
def forking() -> Iterator[Forking]:
    """Forks programs from processes that have imported the slow modules."""
    made = Forking()
    yield made
    made.end()


@pytest.fixture
def programs(tmp_path: Path, pytestconfig: pytest.Config, forking: Forking) -> Iterator[Programs]:
    """Starts processes that end with the test."""
    started = Programs(tmp_path, pytestconfig.rootpath, forking)
    yield started
    started.end()


@pytest.fixture(scope="session")
def tf() -> Any:
    """TensorFlow in this process, with the descriptors that it keeps open. A test that asks for it
    is slow."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    tensorflow = pytest.importorskip("tensorflow")
    numbers = tensorflow.data.Dataset.from_generator(
        lambda: iter(range(3)), output_signature=tensorflow.TensorSpec((), tensorflow.int64)
    )
    assert [int(number) for number in numbers.prefetch(1)] == [0, 1, 2]
    INTERRUPTS.listen()  # its two descriptors stay open as long as the process lives
    spare_garbage_collector()
    return tensorflow


@pytest.fixture(autouse=True)
def _scheduled_as_before() -> Iterator[None]:
    """An encoder that leaves this thread a real-time one lets whatever is started later starve."""
    before = os.sched_getscheduler(0)
    yield
    assert os.sched_getscheduler(0) == before, "encode within same_scheduling()"


@pytest.fixture(autouse=True)
def _nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.path.parent.name not in _CHECKED:
        yield
        return
    collect_garbage()
    before = Held()
    yield
    failed = not all(request.node.stash.get(_reports, {}).values())
    # its traceback holds on to everything that the test had; there is another error to report
    if failed:
        kill_descendants()
        return
    deadline = time.monotonic() + 30 * SECOND  # a busy machine reaps slowly
    while True:
        collect_garbage()
        left = Held().beyond(before)
        if not left:
            return
        if time.monotonic() > deadline:
            break
        time.sleep(_LOOK_S)
    kill_descendants()
    pytest.fail("left behind: " + "; ".join(left))

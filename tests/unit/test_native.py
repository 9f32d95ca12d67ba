"""How many cores there are to use, by every kind of limit; and each reach below Python is made, or
left out where it is switched off."""

from __future__ import annotations

import json
import os
import platform
import resource
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from videoload import native

PROJECT = Path(native.__file__).parents[1]


# Cores


@pytest.fixture(autouse=True)
def _eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))


class Cgroups:
    """A made tree of cgroups, and where in it this process is said to be."""

    def __init__(self, folder: Path) -> None:
        self._top, self._own = folder / "cgroup", folder / "own"
        self._top.mkdir()

    def file(self, path: str, content: str) -> None:
        """One of the tree's files."""
        (self._top / path).parent.mkdir(parents=True, exist_ok=True)
        (self._top / path).write_text(content)

    def cores(self, *lines: str) -> int:
        """What is found by a process with these lines in its /proc/self/cgroup."""
        self._own.write_text("".join(f"{line}\n" for line in lines))
        return native.cores(self._top, self._own)

    def memory_left(self, *lines: str, available_kb: int | None = None) -> int | None:
        """The same of memory; ``available_kb`` is what the host says of itself."""
        self._own.write_text("".join(f"{line}\n" for line in lines))
        host = self._own.with_name("meminfo")
        if available_kb is not None:
            host.write_text(f"MemTotal: 9 kB\nMemAvailable: {available_kb} kB\nBuffers: 3 kB\n")
        return native.memory_left(self._top, self._own, host)

    def memory(self, folder: str, limit: object, used: int, cached: int = 0) -> None:
        """A cgroup's memory, version 2."""
        self.file(f"{folder}memory.max", f"{limit}\n")
        self.file(f"{folder}memory.current", f"{used}\n")
        stat = f"anon 1\nshmem 7\nactive_file {cached}\ninactive_file {cached}\n"
        self.file(f"{folder}memory.stat", stat)


@pytest.fixture
def cgroups(tmp_path: Path) -> Cgroups:
    return Cgroups(tmp_path)


QUOTAS = [("100000", 1), ("10000", 1), ("0", 1), ("250000", 3), ("300000", 3), ("1600000", 8)]


@pytest.mark.parametrize(("quota", "cores"), [*QUOTAS, ("max", 8)])
def test_a_quota_of_version_2_is_rounded_up_to_whole_cores(
    quota: str, cores: int, cgroups: Cgroups
) -> None:
    cgroups.file("job/cpu.max", f"{quota} 100000\n")
    assert cgroups.cores("0::/job") == cores


@pytest.mark.parametrize(("quota", "cores"), [*QUOTAS, ("-1", 8)])
def test_a_quota_of_version_1_is_rounded_up_to_whole_cores(
    quota: str, cores: int, cgroups: Cgroups
) -> None:
    cgroups.file("cpu/job/cpu.cfs_quota_us", f"{quota}\n")
    cgroups.file("cpu/job/cpu.cfs_period_us", "100000\n")
    assert cgroups.cores("5:memory:/other", "4:cpu,cpuacct:/job", "1:name=systemd:/") == cores


@pytest.mark.parametrize("tightest", ["", "pod/", "pod/container/"])
def test_the_quotas_of_all_cgroups_above_apply_as_well(tightest: str, cgroups: Cgroups) -> None:
    for folder in ("", "pod/", "pod/container/"):
        quota = "200000" if folder == tightest else "400000"
        cgroups.file(f"{folder}cpu.max", f"{quota} 100000\n")
    cgroups.file("pod/beside/cpu.max", "100000 100000\n")
    assert cgroups.cores("0::/pod/container") == 2


def test_above_a_quota_of_version_1_there_may_be_a_tighter_one(cgroups: Cgroups) -> None:
    for folder, quota in (("", -1), ("pod/", 300000), ("pod/container/", -1)):
        cgroups.file(f"cpu/{folder}cpu.cfs_quota_us", f"{quota}\n")
        cgroups.file(f"cpu/{folder}cpu.cfs_period_us", "100000\n")
    assert cgroups.cores("4:cpu,cpuacct:/pod/container") == 3


def test_a_container_that_sees_its_own_cgroup_as_the_top_has_that_ones_quota(
    cgroups: Cgroups,
) -> None:
    cgroups.file("cpu.max", "200000 100000\n")
    assert cgroups.cores("0::/kubepods/pod7/of-the-host") == 2


def test_a_process_under_both_versions_has_the_tighter_quota(cgroups: Cgroups) -> None:
    cgroups.file("job/cpu.max", "500000 100000\n")
    cgroups.file("cpu/job/cpu.cfs_quota_us", "300000\n")
    cgroups.file("cpu/job/cpu.cfs_period_us", "100000\n")
    assert cgroups.cores("4:cpu:/job", "0::/job") == 3


@pytest.mark.parametrize("content", ["", "100000\n", "100000 0\n", "many few\n", "1 2 3\n"])
def test_a_quota_that_cannot_be_read_is_none(content: str, cgroups: Cgroups) -> None:
    cgroups.file("job/cpu.max", content)
    assert cgroups.cores("0::/job") == 8


@pytest.mark.parametrize("line", ["", "no colons", "0::", "0::/../../..", "cpuset:/job"])
def test_an_unknown_place_is_no_limit(line: str, cgroups: Cgroups) -> None:
    assert cgroups.cores(line) == 8


def test_without_cgroups_the_affinity_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert native.cores(tmp_path / "none", tmp_path / "neither") == 8
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5})
    assert native.cores(tmp_path / "none", tmp_path / "neither") == 2


def test_a_tighter_affinity_beats_a_quota(
    cgroups: Cgroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgroups.file("job/cpu.max", "300000 100000\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert cgroups.cores("0::/job") == 1


# Memory


def test_what_is_left_of_a_limit_counts_cached_files_as_room(cgroups: Cgroups) -> None:
    cgroups.memory("job/", 1000, used=900, cached=150)
    assert cgroups.memory_left("0::/job") == 1000 - 900 + 2 * 150


def test_a_limit_of_version_1_is_the_same(cgroups: Cgroups) -> None:
    cgroups.file("memory/job/memory.limit_in_bytes", "1000\n")
    cgroups.file("memory/job/memory.usage_in_bytes", "900\n")
    stat = "active_file 1\ntotal_active_file 20\ntotal_inactive_file 30\n"
    cgroups.file("memory/job/memory.stat", stat)
    assert cgroups.memory_left("5:cpu:/job", "4:memory:/job", "0::/elsewhere") == 150


@pytest.mark.parametrize("tightest", ["", "pod/", "pod/container/"])
def test_the_limits_of_all_cgroups_above_apply_as_well(tightest: str, cgroups: Cgroups) -> None:
    for folder in ("", "pod/", "pod/container/"):
        cgroups.memory(folder, 1000 if folder == tightest else "max", used=400)
    cgroups.memory("pod/beside/", 10, used=5)
    assert cgroups.memory_left("0::/pod/container", available_kb=90) == 600


def test_the_host_may_have_less_than_the_limit(cgroups: Cgroups) -> None:
    cgroups.memory("job/", 1_000_000, used=0)
    assert cgroups.memory_left("0::/job", available_kb=9) == 9 * 1024


def test_more_in_use_than_the_limit_leaves_nothing(cgroups: Cgroups) -> None:
    cgroups.memory("job/", 100, used=130)
    assert cgroups.memory_left("0::/job") == 0


@pytest.mark.parametrize("limit", ["", "many", "max"])
def test_where_nothing_tells_there_is_no_limit(limit: str, cgroups: Cgroups) -> None:
    cgroups.memory("job/", limit, used=1)
    assert cgroups.memory_left("0::/job") is None
    assert cgroups.memory_left("no colons") is None


# Switches


def test_an_unknown_reach_is_refused_and_nothing_is_switched_off() -> None:
    with pytest.raises(ValueError, match="'mallok' is not one of malloc, gathers, memory-limit"):
        native.switch_off("malloc", "mallok")
    assert native.switched_off() == []


# All that shows in a process of its own: for some of it there is no way back.
REACHING = """
    import ctypes
    import json
    import os
    import resource
    import sys
    from threading import Thread

    import av
    from videoload import native

    asked, tried = [], []
    load = ctypes.CDLL

    class Library:
        def __init__(self, name):
            self.library = load(name)

        def __getattr__(self, name):
            return self.mallopt if name == "mallopt" else getattr(self.library, name)

        def mallopt(self, *arguments):
            asked.append(arguments)
            assert self.library.mallopt(*arguments) == 1, "malloc takes it"

    native.ctypes.CDLL = Library
    av.logging.set_level(av.logging.ERROR)
    native.switch_off(*sys.argv[1:])
    native.keep_pages()
    native.avoid_slow_gathers(str(av._core.__file__), lambda: tried.append(1) or 0.0)
    native.limit_memory()
    native.die_with_parent()
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 300))
    native.allow_descriptors()
    native.silence_ffmpeg()

    policies = []

    def note():
        policies.append(os.sched_getscheduler(0))

    def step_back():
        native.stay_in_background()
        note()
        started = Thread(target=note)
        started.start()
        started.join()

    fetching = Thread(target=step_back)
    fetching.start()
    fetching.join()
    note()

    dies_of = ctypes.c_int(0)
    load(None).prctl(2, ctypes.byref(dies_of))  # PR_GET_PDEATHSIG
    print(json.dumps({
        "malloc": len(asked),
        "gathers": len(tried),
        "memory-limit": resource.getrlimit(resource.RLIMIT_DATA)[0],
        "parent-death": dies_of.value,
        "ffmpeg-log": "off" if av.logging.get_level() is None else "as it was",
        "descriptors": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "background": policies,
        "switched off": native.switched_off(),
    }))
"""


def found_after(*without: str) -> dict[str, Any]:
    """What a process finds that has made all reaches but those that are named."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(REACHING), *without],
        cwd=PROJECT, capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


UNTOUCHED = {
    "malloc": 0, "gathers": 0, "parent-death": 0, "ffmpeg-log": "as it was", "descriptors": 100,
    "background": [os.SCHED_OTHER] * 3,  # a thread that fetches, one that it starts, the main one
    "memory-limit": resource.getrlimit(resource.RLIMIT_DATA)[0],
}  # fmt: skip
MADE = {
    "malloc": 3, "gathers": 2 if platform.machine() in ("x86_64", "AMD64") else 0,
    "parent-death": signal.SIGKILL, "ffmpeg-log": "off", "memory-limit": 4 << 30,
    "descriptors": 300, "background": [os.SCHED_BATCH, os.SCHED_BATCH, os.SCHED_OTHER],
}  # fmt: skip


@pytest.mark.parametrize("without", [(), *((name,) for name in native.REACHES), native.REACHES])
def test_each_reach_is_made_and_left_out_where_it_is_switched_off(without: tuple[str, ...]) -> None:
    expected = {name: (UNTOUCHED if name in without else MADE)[name] for name in native.REACHES}
    assert found_after(*without) == {**expected, "switched off": sorted(without)}


def test_the_kernel_tells_the_cpu_time_and_the_state_of_a_process() -> None:
    before = native.cpu_time(os.getpid())
    spent = time.process_time() + 0.05
    while time.process_time() < spent:
        pass
    after = native.cpu_time(os.getpid())
    assert before is not None
    assert after is not None
    assert after[0] > before[0]
    assert after[1] == "R"
    assert native.cpu_time(1 << 30) is None


def test_the_kernel_tells_what_cache_a_core_has_for_itself(tmp_path: Path) -> None:
    assert native.own_cache_bytes(tmp_path) == 0
    for index, (level, size) in enumerate([("1", "48K"), ("1", "64K"), ("2", "2048K"), ("3", "?")]):
        cache = tmp_path / f"index{index}"
        cache.mkdir()
        (cache / "level").write_text(level + "\n")
        (cache / "size").write_text(size + "\n")
    assert native.own_cache_bytes(tmp_path) == 2 << 20
    (tmp_path / "index2" / "size").write_text("much\n")
    assert native.own_cache_bytes(tmp_path) == 0


def test_the_kernel_tells_what_this_process_was_on_a_core() -> None:
    clock = native.CoreClock()
    before, now = clock.read(), time.process_time()
    while time.process_time() < now + 0.05:
        pass
    after = clock.read()
    assert after[0] - before[0] > 0.03
    assert after[1] >= before[1]
    clock.close()
    assert clock.read() == (0.0, 0.0)

"""How many cores and how much memory there are, by every kind of limit."""

import os
import time
from pathlib import Path

import pytest

from videoload import host

# Cores


@pytest.fixture(autouse=True)
def _eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))


class Cgroups:
    """A tree of cgroups, and the place of this process in it."""

    def __init__(self, folder: Path) -> None:
        self._top, self._own = folder / "cgroup", folder / "own"
        self._top.mkdir()

    def file(self, path: str, content: str) -> None:
        """Write a file of the tree."""
        (self._top / path).parent.mkdir(parents=True, exist_ok=True)
        (self._top / path).write_text(content)

    def cores(self, *lines: str) -> int:
        """The cores of a process with these lines in its /proc/self/cgroup."""
        self._own.write_text("".join(f"{line}\n" for line in lines))
        return host.cores(self._top, self._own)

    def memory_left(self, *lines: str, available_kb: int | None = None) -> int | None:
        """The same for memory; ``available_kb`` is the host's available memory."""
        self._own.write_text("".join(f"{line}\n" for line in lines))
        meminfo = self._own.with_name("meminfo")
        if available_kb is not None:
            meminfo.write_text(f"MemTotal: 9 kB\nMemAvailable: {available_kb} kB\nBuffers: 3 kB\n")
        return host.memory_left(self._top, self._own, meminfo)

    def memory(self, folder: str, limit: object, used: int, cached: int = 0) -> None:
        """A cgroup's memory, version 2."""
        self.file(f"{folder}memory.max", f"{limit}\n")
        self.file(f"{folder}memory.current", f"{used}\n")
        stat = f"anon 1\nshmem 7\nactive_file {cached}\ninactive_file {cached}\n"
        self.file(f"{folder}memory.stat", stat)


@pytest.fixture
def cgroups(tmp_path: Path) -> Cgroups:
    return Cgroups(tmp_path)


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("100000", 1), ("10000", 1), ("0", 1), ("250000", 3), ("300000", 3), ("1600000", 8)],
)
def test_a_quota_of_either_version_is_rounded_up_to_whole_cores(
    quota: str, cores: int, cgroups: Cgroups
) -> None:
    cgroups.file("job/cpu.max", f"{quota} 100000\n")
    cgroups.file("cpu/job/cpu.cfs_quota_us", f"{quota}\n")
    cgroups.file("cpu/job/cpu.cfs_period_us", "100000\n")
    assert cgroups.cores("0::/job") == cores
    assert cgroups.cores("5:memory:/other", "4:cpu,cpuacct:/job", "1:name=systemd:/") == cores


def test_a_quota_may_say_that_there_is_none(cgroups: Cgroups) -> None:
    cgroups.file("job/cpu.max", "max 100000\n")
    cgroups.file("cpu/job/cpu.cfs_quota_us", "-1\n")
    cgroups.file("cpu/job/cpu.cfs_period_us", "100000\n")
    assert cgroups.cores("0::/job") == cgroups.cores("4:cpu,cpuacct:/job") == 8


@pytest.mark.parametrize("tightest", ["", "pod/", "pod/container/"])
def test_the_quotas_of_all_cgroups_above_apply_as_well(tightest: str, cgroups: Cgroups) -> None:
    for folder in ("", "pod/", "pod/container/"):
        quota = "200000" if folder == tightest else "400000"
        cgroups.file(f"{folder}cpu.max", f"{quota} 100000\n")
    cgroups.file("pod/beside/cpu.max", "100000 100000\n")
    assert cgroups.cores("0::/pod/container") == 2


def test_a_container_that_sees_its_cgroup_as_the_top_has_its_quota(
    cgroups: Cgroups,
) -> None:
    cgroups.file("cpu.max", "200000 100000\n")
    assert cgroups.cores("0::/kubepods/pod7/of-the-host") == 2


@pytest.mark.parametrize("content", ["", "100000\n", "100000 0\n", "many few\n", "1 2 3\n"])
@pytest.mark.parametrize("line", ["0::/job", "", "no colons", "0::", "0::/../../..", "cpuset:/job"])
def test_what_cannot_be_read_is_no_limit(line: str, content: str, cgroups: Cgroups) -> None:
    cgroups.file("job/cpu.max", content)
    assert cgroups.cores(line) == 8


def test_a_tighter_affinity_beats_a_quota_and_counts_without_one(
    cgroups: Cgroups, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgroups.file("job/cpu.max", "300000 100000\n")
    assert host.cores(tmp_path / "none", tmp_path / "neither") == 8
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5})
    assert cgroups.cores("0::/job") == host.cores(tmp_path / "none", tmp_path / "neither") == 2


# Memory


def test_cached_files_count_as_memory_left(cgroups: Cgroups) -> None:
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


@pytest.mark.parametrize("limit", ["", "many", "max"])
def test_without_a_known_limit_there_is_none(limit: str, cgroups: Cgroups) -> None:
    cgroups.memory("job/", limit, used=1)
    assert cgroups.memory_left("0::/job") is None
    assert cgroups.memory_left("no colons") is None


# The kernel's files


def test_the_core_clock_counts_the_time_on_a_core() -> None:
    clock = host.CoreClock()
    before, now = clock.read(), time.process_time()
    while time.process_time() < now + 0.05:
        pass
    after = clock.read()
    assert after[0] - before[0] > 0.03
    assert after[1] >= before[1]
    clock.close()
    assert clock.read() == (0.0, 0.0)

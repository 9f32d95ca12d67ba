"""Settings of the process below Python: malloc, CPU flags, limits. Each has a reason and a switch.

    name            what is set                                  where
    "malloc"        pages of large buffers are kept              workers; a trainer that listens
    "gathers"       swscale without AVX2's gather instructions   every process that scales
    "memory-limit"  a file cannot make a decoder take over 4 GB  workers
    "parent-death"  a worker ends with the process that          workers that a trainer started
                    started it
    "ffmpeg-log"    FFmpeg logs nothing by itself                every process that decodes
    "descriptors"   as many files open at once as are allowed    a trainer that listens
    "background"    threads that fetch do not interrupt others   every process that fetches

`switch_off` leaves settings out, in this process and in the workers that it starts from then on;
``videoload worker --without NAME`` does the same for workers that dial in.
"""

from __future__ import annotations

import ctypes
import math
import os
import platform
import resource
import signal
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

REACHES = (
    "malloc",
    "gathers",
    "memory-limit",
    "parent-death",
    "ffmpeg-log",
    "descriptors",
    "background",
)

SLOW_GATHER = 0x2000000  # AV_CPU_FLAG_SLOW_GATHER
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3  # malloc.h
_PR_SET_PDEATHSIG = 1  # sys/prctl.h
_MEMORY_BYTES = 4 << 30  # what a file can make a decoder allocate; shared slots do not count
_MAX_DESCRIPTORS = 1 << 16  # 4096 workers and much else; some libraries go through all of them
_CGROUP = Path("/sys/fs/cgroup")
_OWN_CGROUP = Path("/proc/self/cgroup")  # where this process is in there
_MEMINFO = Path("/proc/meminfo")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_SCHEDSTAT_BYTES = 64  # three numbers of 64 bits

_off: set[str] = set()

is_worker = False  # whether this process serves trainers: then it makes no client of its own


def switch_off(*names: str) -> None:
    """Leave settings of the process out, here and in the workers that it starts from now on.

    Call it before a `Client` is made. What is set already stays set.

    Args:
        names: Any of ``"malloc"``, ``"gathers"``, ``"memory-limit"``, ``"parent-death"``,
            ``"ffmpeg-log"``, ``"descriptors"`` and ``"background"``: see `videoload.native`.

    Raises:
        ValueError: There is no setting of that name.
    """
    if unknown := set(names).difference(REACHES):
        raise ValueError(f"{sorted(unknown)[0]!r} is not one of {', '.join(REACHES)}")
    _off.update(names)


def switched_off() -> list[str]:
    """The settings that are left out, by name."""
    return sorted(_off)


def keep_pages() -> None:
    """Have malloc keep the pages of large buffers that come and go, as messages full of pixels do.

    libzmq allocates each message anew, and by default malloc gives such pages back to the kernel:
    the page faults cost a third of a millisecond per clip. No more is kept than was in use at once.
    It holds for the whole process. glibc only. TensorFlow's import sets malloc as well, so this has
    to come after it.
    """
    if "malloc" in _off:
        return
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, 32 << 20)  # the most that it takes
        mallopt(_M_TRIM_THRESHOLD, 256 << 20)
        mallopt(_M_TOP_PAD, 64 << 20)  # the size of a heap of a thread's: none is unmapped


def avoid_slow_gathers(ffmpeg: str, trial_s: Callable[[], float]) -> None:
    """Have swscale shrink without AVX2's gather instructions where it is quicker so.

    They are slow on AMD's processors (a frame of 1280x720 takes half as long again on Zen 5), and
    on Intel's since their firmware closes a leak (Downfall). FFmpeg knows a few such processors; a
    trial of a millisecond, once per process, finds them all. The pixels are the same. Nothing is
    done where this FFmpeg has no such flag.

    Args:
        ffmpeg: A file that is linked with FFmpeg's libraries.
        trial_s: Shrinks a frame, and tells how many seconds that took.
    """
    if "gathers" in _off or platform.machine() not in ("x86_64", "AMD64"):
        return
    with suppress(AttributeError, OSError):
        library = ctypes.CDLL(ffmpeg)
        known = library.av_get_cpu_flags()
        spent = {}
        for flags in (known, known | SLOW_GATHER):
            library.av_force_cpu_flags(flags)
            spent[flags] = trial_s()
        library.av_force_cpu_flags(min(spent, key=spent.__getitem__))


def limit_memory() -> None:
    """Let a file that takes more than 4 GB of memory fail, instead of ending its worker."""
    if "memory-limit" in _off:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = _MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(_MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def allow_descriptors() -> int:
    """Raise how many files this process may have open, as far as it is allowed to: each worker that
    dials in takes one, and the usual 1024 are for programs that use select(2). Returns how many it
    may have open now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_MAX_DESCRIPTORS, hard)
    if soft == resource.RLIM_INFINITY:
        return _MAX_DESCRIPTORS
    if "descriptors" in _off or soft >= wanted:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def die_with_parent() -> None:
    """Have Linux kill this process when the thread that started it ends, even in a hung decoder."""
    if "parent-death" not in _off and sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def stay_in_background() -> None:
    """Have this thread, and those that it starts, let the turn of another one end before they go on
    with what has come for them.

    A request wakes its threads up to ten times, and each time a decoder was interrupted, which then
    found less of its own in its core's caches. As shares of a core, nothing changes.
    """
    if "background" not in _off and sys.platform == "linux":
        with suppress(OSError):  # not in every sandbox
            if os.sched_getscheduler(0) == os.SCHED_OTHER:
                os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


@cache
def silence_ffmpeg() -> None:
    """Stop FFmpeg's own log lines: they can deadlock with the GIL (PyAV #751), and name no file."""
    if "ffmpeg-log" not in _off:
        import av

        av.logging.set_level(None)


def cpu_time(pid: int) -> tuple[float, str] | None:
    """CPU seconds that a process took so far, and its state: R runs, S sleeps, D waits for a disk,
    T is stopped (proc_pid_stat(5)). None where the kernel does not tell, or it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *rest = text[text.rindex(")") + 2 :].split()
    ticks = int(rest[10]) + int(rest[11])  # in user mode, in the kernel
    return ticks / os.sysconf("SC_CLK_TCK"), state


class CoreClock:
    """What this process's first thread was on a core, and waited for one while others had them all
    (proc_schedstat). The file stays open: to open it takes ten times as long as to read it."""

    def __init__(self) -> None:
        try:
            self._file: int | None = os.open("/proc/self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = None

    def read(self) -> tuple[float, float]:
        """Seconds of both so far. (0, 0) where the kernel does not tell."""
        try:
            told = b"" if self._file is None else os.pread(self._file, _SCHEDSTAT_BYTES, 0)
            on_core, waited, _ = told.split()
        except (OSError, ValueError):
            return 0.0, 0.0
        return int(on_core) / 1e9, int(waited) / 1e9

    def close(self) -> None:
        """Give the descriptor back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def cores(cgroup: Path = _CGROUP, own: Path = _OWN_CGROUP) -> int:
    """Cores that this process may keep busy, by its affinity and its cgroup's CPU quota.

    So many workers are worth starting. A container with two CPUs of a 64-core host has two.
    """
    allowed = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, min([allowed, *map(math.ceil, _quotas(cgroup, own))]))


def own_cache_bytes(caches: Path = _CACHES) -> int:
    """Of the largest cache that a core has for itself (L2); 0 where the kernel does not tell."""
    for one in caches.glob("index*"):
        with suppress(OSError, ValueError):
            if (one / "level").read_text().strip() == "2":
                return int((one / "size").read_text().strip().removesuffix("K")) << 10
    return 0


def _quotas(cgroup: Path, own: Path) -> Iterable[float]:
    """The CPU quotas that apply to this process, in cores: of its cgroup and of those above."""
    for version, folder in _cgroups(cgroup, own, "cpu"):
        if version == 2:
            yield from _quota(folder, "cpu.max")
        else:
            yield from _quota(folder, "cpu.cfs_quota_us", "cpu.cfs_period_us")


def memory_left(
    cgroup: Path = _CGROUP, own: Path = _OWN_CGROUP, host: Path = _MEMINFO
) -> int | None:
    """Bytes of memory that this process can still take, by its host and by its cgroup's limit.

    Beyond that the kernel kills it, or another process of the same container, without a word. None
    where nothing tells.
    """
    return min([*_available(host), *_limits(cgroup, own)], default=None)


def _limits(cgroup: Path, own: Path) -> Iterable[int]:
    """What is left below the limits that apply to this process: its cgroup's and those above."""
    for version, folder in _cgroups(cgroup, own, "memory"):
        if version == 2:
            yield from _below(folder, "memory.max", "memory.current", "")
        else:
            yield from _below(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_")


def _below(folder: Path, limit: str, used: str, prefix: str) -> Iterable[int]:
    with suppress(OSError, ValueError):
        most = (folder / limit).read_text().strip()
        if most == "max":
            return
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        # Cached files make room where it is needed; shared memory is not among them.
        cached = sum(int(stat.get(f"{prefix}{name}_file", 0)) for name in ("active", "inactive"))
        yield max(0, int(most) - int((folder / used).read_text()) + cached)


def _available(host: Path) -> Iterable[int]:
    with suppress(OSError, ValueError):
        for line in host.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                yield 1024 * int(line.split()[1])


def _cgroups(cgroup: Path, own: Path, controller: str) -> Iterable[tuple[int, Path]]:
    """The cgroups of this process, and those above: (version, folder)."""
    with suppress(OSError, ValueError):
        for line in own.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                yield from ((2, folder) for folder in _upwards(cgroup, path))
            elif controller in controllers.split(","):
                yield from ((1, folder) for folder in _upwards(cgroup / controller, path))


def _upwards(top: Path, path: str) -> Iterable[Path]:
    # In a container the path may be that of the host, which is not to be seen: then its top counts.
    folder = top / path.lstrip("/")
    return (found for found in (folder, *folder.parents) if found.is_relative_to(top))


def _quota(folder: Path, *files: str) -> Iterable[float]:
    with suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = " ".join((folder / file).read_text() for file in files).split()
        if quota not in ("max", "-1"):
            yield int(quota) / int(period)

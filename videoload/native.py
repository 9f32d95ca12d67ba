"""Settings of the process below Python: malloc, CPU flags, limits. Each has a reason and a switch.

    name            what is set                                    where
    "malloc"        malloc retains the pages of large buffers      workers; a trainer that listens
    "gathers"       swscale avoids AVX2's gather instructions      every process that scales
    "memory-limit"  a file cannot make a decoder take over 4 GB    workers
    "parent-death"  a worker ends with the process that started it workers that a trainer started
    "ffmpeg-log"    FFmpeg logs nothing by itself                  every process that decodes
    "descriptors"   as many open files as the hard limit allows    every trainer and worker
    "hidden-gpus"   a function of yours finds no GPU there         workers that a trainer started

`switch_off` leaves settings out, in this process and in the workers that it starts later.
``videoload worker --without NAME`` does the same for remote workers.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from videoload.logs import Log

REACHES = (
    "malloc",
    "gathers",
    "memory-limit",
    "parent-death",
    "ffmpeg-log",
    "descriptors",
    "hidden-gpus",
)

SLOW_GATHER = 0x2000000  # AV_CPU_FLAG_SLOW_GATHER
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3  # malloc.h
_PR_SET_PDEATHSIG = 1  # sys/prctl.h
_OPENAT2, _RESOLVE_BENEATH = 437, 8  # linux/openat2.h; since Linux 5.6
_MEMORY_BYTES = 4 << 30  # that a file can make a decoder allocate; shared slots do not count
_MAX_DESCRIPTORS = 1 << 16  # enough for 4096 workers; some libraries loop over all of them

_USUAL_DESCRIPTORS = 1024

_C = ctypes.CDLL(None, use_errno=True)
_log = Log(__name__)
_off: set[str] = set()

is_worker = False  # this process serves trainers, so it may make no client of its own


def switch_off(*names: str) -> None:
    """Disable settings of the process, here and in the workers that it starts later.

    Call it before you make a `Client`: settings that were already applied stay.

    Args:
        names: Any of ``"malloc"``, ``"gathers"``, ``"memory-limit"``, ``"parent-death"``,
            ``"ffmpeg-log"``, ``"descriptors"`` and ``"hidden-gpus"``: see `videoload.native`.

    Raises:
        ValueError: There is no setting of that name.
    """
    if unknown := set(names).difference(REACHES):
        raise ValueError(f"{sorted(unknown)[0]!r} is not one of {', '.join(REACHES)}")
    _off.update(names)


def switched_off() -> list[str]:
    """Return the names of the settings that are left out."""
    return sorted(_off)


def keep_pages() -> None:
    """Make malloc retain the pages of large buffers, such as messages full of pixels.

    libzmq allocates memory for each message, and by default malloc returns the pages to the kernel.
    The page faults cost a third of a millisecond per clip. malloc retains no more than was in use
    at once. This holds for the whole process, with glibc only. TensorFlow's import sets malloc too,
    so call this after it.
    """
    if "malloc" in _off:
        return
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, 32 << 20)  # the largest value that it takes
        mallopt(_M_TRIM_THRESHOLD, 256 << 20)
        mallopt(_M_TOP_PAD, 64 << 20)  # a thread's heap has this size, so none is unmapped


def avoid_slow_gathers(ffmpeg: str, trial_s: Callable[[], float]) -> None:
    """Make swscale shrink without AVX2's gather instructions if that is faster here.

    The instructions are slow on AMD (a frame of 1280x720 takes 50 % longer on Zen 5), and on Intel
    with the firmware against Downfall. FFmpeg knows only a few of these processors. A trial of a
    millisecond, once per process, finds them all. The pixels are the same. It does nothing if this
    FFmpeg has no such flag.

    Args:
        ffmpeg: A file that is linked with FFmpeg's libraries.
        trial_s: Shrinks a frame and returns the seconds that it took.
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
    """Make a file that takes more than 4 GB of memory fail, instead of killing its worker."""
    if "memory-limit" in _off:
        return
    try:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = _MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(_MEMORY_BYTES, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    except OSError as error:  # a sandbox forbids it
        _log.warning("a file may take all memory, because its limit cannot be set: prlimit: %s; "
                     "'memory-limit' switches this off", error.strerror)  # fmt: skip


def allow_descriptors() -> int:
    """Raise the limit of open files as far as the system allows, and return it. Each remote worker
    takes one, and the usual limit of 1024 exists for programs that use select(2)."""
    try:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    except OSError:  # a sandbox forbids prlimit
        return _USUAL_DESCRIPTORS
    wanted = _MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_MAX_DESCRIPTORS, hard)
    if soft == resource.RLIM_INFINITY:
        return _MAX_DESCRIPTORS
    if "descriptors" in _off or soft >= wanted:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except OSError:
        return soft
    return wanted


class _How(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("flags", "mode", "resolve"))


def open_beneath(folder: int, path: str, flags: int) -> int:
    """Return a descriptor of a file below an open folder. If the path leads out of it by now,
    because another process has just put a link there, the kernel reports it: OSError (EXDEV).
    Before Linux 5.6, and where a sandbox forbids openat2, it is opened as it is. Raises OSError."""
    call = _C.syscall
    how, place = _How(flags, 0, _RESOLVE_BENEATH), os.fsencode(path)
    raw: int = call(_OPENAT2, folder, place, ctypes.byref(how), ctypes.sizeof(how))
    if raw >= 0:
        return raw
    if (number := ctypes.get_errno()) in (errno.ENOSYS, errno.EPERM):
        return os.open(path, flags, dir_fd=folder)
    raise OSError(number, os.strerror(number))


def die_with_parent() -> None:
    """Make Linux kill this process, even in a hung decoder, when the thread that started it
    ends."""
    if "parent-death" not in _off:
        _C.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def hidden_gpus() -> dict[str, str]:
    """Return the environment of workers that a trainer starts. A transform that imports PyTorch or
    TensorFlow would take memory of the GPU in each of them, and the model needs it."""
    return {} if "hidden-gpus" in _off else {"CUDA_VISIBLE_DEVICES": ""}


@cache
def silence_ffmpeg() -> None:
    """Stop FFmpeg's own log lines: they can deadlock with the GIL (PyAV #751) and name no file."""
    if "ffmpeg-log" not in _off:
        import av

        av.logging.set_level(None)

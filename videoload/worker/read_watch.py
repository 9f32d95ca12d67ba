"""Distinguishes a file whose read never returns from a storage that does not respond.

A worker's one thread waits in the kernel then. So another one reads a block of a file that was
opened before, or that lies beside it. If it succeeds, the storage responds, and the worker is STUCK
at its own file; its supervisor then treats it as hung. If it does not return either, the next one
is tried meanwhile. If none of a few returns, nothing is known. The looks are counted: a process
that was stopped while it reads takes none, so its supervisor does not wait for its storage.

As long as nothing is known, the thread that looks serves the trainers in the turn of the one that
waits: see `activity.Reads`. It calls no file system itself: what it starts for that may wait.
"""

from __future__ import annotations

import io
import mmap
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from videoload import activity
from videoload.activity import Activity, reads
from videoload.logs import Log
from videoload.worker.counters import Counters

_log = Log(__name__)

LOOK_S, _MOST = 0.5, 4  # so often, so many files are tried
Waits = Callable[[str, float], None]


def start(counters: Counters, waits: Waits = lambda path, seconds: None) -> None:
    """Watch the reads of this process from now on, and count the looks. ``waits`` is called while
    one is waited for, with its path and for how long, in the turn of the thread that waits."""
    _begin(_watch, counters, waits)


def _begin(work: Callable[..., None], *arguments: object) -> None:
    with suppress(RuntimeError):  # no thread can be started: nothing is known then
        threading.Thread(target=work, args=arguments, name="read watch", daemon=True).start()


def _watch(counters: Counters, waits: Waits) -> None:
    before, looks = -1, 0
    while True:
        counters.looks += 1
        time.sleep(LOOK_S)
        done = reads.done
        looks = looks + 1 if activity.now[0] == Activity.READING and done == before else 0
        before = done
        if 0 < looks <= _MOST:
            _begin(_try_another, reads.file, looks - 1, done)
        if looks:
            with reads.meanwhile(done) as is_waiting:
                if is_waiting:
                    _call(waits, reads.file, looks * LOOK_S)


def _call(waits: Waits, path: str, seconds: float) -> None:
    try:
        waits(path, seconds)
    except Exception:  # without its looks, this process would be killed
        _log.exception("waiting for %s", path)


def _others(path: str) -> Iterator[str]:
    """Yield the files that were opened before this one, then those of the same folder."""
    yield from (each for each in reversed([*reads.opened]) if each != path)
    with suppress(OSError), os.scandir(Path(path).parent) as found:
        yield from (each.path for each in found if each.path != path and each.is_file())


def _try_another(path: str, at: int, done: int) -> None:
    """Try the file number ``at`` of those that are not this one. To list its folder may wait as
    long as to read it."""
    for other in islice(_others(path), at, at + 1):
        _try(other, done)


def _try(path: str, done: int) -> None:
    """Read a block of a file, past the page cache where the file system allows it. Waits as long as
    the storage does."""
    for direct in (os.O_DIRECT, 0):
        with suppress(OSError), mmap.mmap(-1, mmap.PAGESIZE) as block:
            with io.FileIO(os.open(path, os.O_RDONLY | os.O_CLOEXEC | direct)) as file:
                file.readinto(block)
            if reads.done == done:
                activity.now[0] = Activity.STUCK
            return

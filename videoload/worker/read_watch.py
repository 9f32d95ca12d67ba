"""Tells a file whose read never returns from storage that answers nobody.

A worker's one thread waits in the kernel then. So another one reads a block of a file that was
opened before, or that lies beside it. If that comes, the storage answers, and the worker is STUCK
at its own file alone; its supervisor then takes it for hung. Otherwise this thread waits like the
first one, and nothing is known.
"""

from __future__ import annotations

import io
import mmap
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from videoload import activity
from videoload.activity import Activity, reads

_LOOK_S = 1.0


def start() -> None:
    """Watch the reads of this process from now on."""
    with suppress(RuntimeError):  # no thread can be started: nothing is known then
        threading.Thread(target=_watch, name="read watch", daemon=True).start()


def _watch() -> None:
    before = -1
    while True:
        time.sleep(_LOOK_S)
        done = reads.done
        is_still_reading = activity.now[0] == Activity.READING and done == before
        before = done
        if is_still_reading and any(map(_answers, _others(reads.file))) and reads.done == done:
            activity.now[0] = Activity.STUCK


def _others(path: str) -> Iterator[str]:
    """The file that was opened before this one; if there is none, one of the same folder."""
    if opened := [each for each in [*reads.opened] if each != path]:
        yield opened[-1]
        return
    with suppress(OSError), os.scandir(Path(path).parent) as found:
        yield from islice((each.path for each in found if each.path != path and each.is_file()), 1)


def _answers(path: str) -> bool:
    """Whether a block of a file can be read, past the page cache where the file system allows it.
    Waits as long as the storage does."""
    for direct in (os.O_DIRECT, 0):
        with suppress(OSError), mmap.mmap(-1, mmap.PAGESIZE) as block:
            with io.FileIO(os.open(path, os.O_RDONLY | os.O_CLOEXEC | direct)) as file:
                file.readinto(block)
            return True
    return False

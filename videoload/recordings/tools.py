"""What the recordings of one thread share: what is known of files, and the filters in use."""

from __future__ import annotations

import os
import threading

from cachetools import LRUCache

from videoload.index.indexes import Indexes
from videoload.pixels.chains import Chains
from videoload.stopwatch import Stopwatch

_ROOTS = 16


class _Tools(threading.local):
    def __init__(self) -> None:
        self.chains = Chains()
        self.indexes: LRUCache[tuple[int, str | None, str], Indexes] = LRUCache(_ROOTS)


_tools = _Tools()


def chains() -> Chains:
    """This thread's chains of filters. A chain may be used by one thread at a time."""
    return _tools.chains


def indexes(folder: str | None, root: str) -> Indexes:
    """This thread's indexes of the files below ``root``. ``folder``: of the cache on disk."""
    key = os.getpid(), folder, root  # an SQLite connection must not be used in a forked process
    if key not in _tools.indexes:
        _tools.indexes[key] = Indexes(folder, root, Stopwatch())
    return _tools.indexes[key]


def forget() -> None:
    """Forget what this thread knows of files."""
    _tools.indexes.clear()

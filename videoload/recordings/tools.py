"""What the recordings of one thread share: what is known of files, and the filters in use."""

from __future__ import annotations

import os
import threading

from cachetools import LRUCache

from videoload.index.indexes import Indexes
from videoload.pixels.chains import Chains
from videoload.stopwatch import Stopwatch

_ROOTS = 16


class Tools(threading.local):
    """Each thread has its own.

    Attributes:
        chains: The filters. A chain may be used by one thread at a time.
        known: The indexes of files, by process, cache and root.
    """

    def __init__(self) -> None:
        self.chains = Chains()
        self.known: LRUCache[tuple[int, str | None, str], Indexes] = LRUCache(_ROOTS)

    def indexes(self, folder: str | None, root: str) -> Indexes:
        """The indexes of the files below ``root``. ``folder``: of the cache on disk."""
        key = os.getpid(), folder, root  # a forked process must not use an SQLite connection
        if key not in self.known:
            self.known[key] = Indexes(folder, root, Stopwatch())
        return self.known[key]


tools = Tools()

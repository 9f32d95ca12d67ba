"""What the recordings of one thread share: what is known of files, and the filters in use."""

from __future__ import annotations

import os
import threading

from cachetools import LRUCache

from videoload.decoding.filter_graphs import FilterGraphs
from videoload.reading.indexes import Indexes
from videoload.stopwatch import Stopwatch
from videoload.storage.cache_directories import CacheDirectories
from videoload.storage.files import Storage

_ROOTS = 16


class Tools(threading.local):
    """Each thread has its own.

    Attributes:
        chains: The filters. A graph may be used by one thread at a time.
        known: The indexes of files, by process, folders and root.
    """

    def __init__(self) -> None:
        self.graphs = FilterGraphs()
        self.known: LRUCache[tuple[int, CacheDirectories, str], Indexes] = LRUCache(_ROOTS)

    def indexes(self, folders: CacheDirectories, storage: Storage) -> Indexes:
        """Return the indexes of the files of ``storage``."""
        # A forked process must not use an SQLite connection.
        key = os.getpid(), folders, storage.root
        if key not in self.known:
            self.known[key] = Indexes(folders, storage, Stopwatch())
        self.known[key].serve(storage)
        return self.known[key]


tools = Tools()

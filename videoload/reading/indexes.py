"""How the index of a file is found: once for a set, or once on a host, unless the file changes."""

from __future__ import annotations

import logging
import time

from videoload.errors import VideoError
from videoload.logs import Log
from videoload.reading.complete_decode import Report, decode_index
from videoload.reading.containers import BrokenFileError
from videoload.reading.index import KnownHeaders, VideoIndex, find_index
from videoload.reading.index_cache import IndexCache
from videoload.reading.video import VideoReader
from videoload.stopwatch import Stopwatch
from videoload.storage.cache_directories import CacheDirectories
from videoload.storage.dataset_index import DatasetIndex
from videoload.storage.files import Storage, Tick
from videoload.storage.kept_rows import KeptRows
from videoload.storage.video_file import VideoFile
from videoload.versions import index_software

_log = Log(__name__)

_LONG_S = 1.0  # a complete decode that takes longer is worth a warning


class Indexes:
    """The indexes of the videos below one root. An index is read from the cache, or proven from
    headers, or created by a complete decode."""

    def __init__(self, folders: CacheDirectories, storage: Storage, watch: Stopwatch) -> None:
        """``folders``: the cache on disk, and the index of the set."""
        software = index_software()
        of_set = DatasetIndex(folders.index, storage, folders.cache, software)
        self._rows = KeptRows(folders.cache, storage.root, software, of_set)
        self._cache = IndexCache(self._rows)
        self._watch = watch
        self.begin = of_set.begin
        self._of_set = of_set
        self._headers = KnownHeaders()
        self.serve(storage)
        self.known = self._cache.get
        self.forget = self._cache.forget

    def serve(self, storage: Storage) -> None:
        """Learn the files from this, and report to it which versions are known."""
        self._of_set.serve(storage)
        storage.keep(self._rows)

    def find(self, path: str, file: VideoFile, tick: Tick) -> tuple[VideoIndex, VideoReader | None]:
        """Return the index of a file, and the file if it is open now. Raises VideoError."""
        index = self._cache.get(path, file)
        if index is not None:
            return index, None
        with self._watch.phase("index"):
            try:
                return self._find(path, file, tick)
            except (BrokenFileError, OSError) as error:
                raise VideoError(path, str(error)) from None

    def _find(
        self, path: str, file: VideoFile, tick: Tick
    ) -> tuple[VideoIndex, VideoReader | None]:
        index, opened = find_index(file, tick, self._watch, self._headers)
        if index is None:
            began = time.perf_counter()
            index, report = decode_index(file, tick)
            seconds = time.perf_counter() - began
            _log.log(
                logging.WARNING if seconds > _LONG_S else logging.INFO,
                "%s (%s) does not prove how many frames it has: all %d were decoded in %.1f s",
                path, report.codec, report.frames, seconds,
            )  # fmt: skip
        file.check()
        self._cache.put(path, file, index)
        return index, opened

    def report(self, path: str, file: VideoFile, tick: Tick) -> tuple[VideoIndex, Report]:
        """Return the index of a file, and what a complete decode found. Raises VideoError."""
        try:
            index, opened = find_index(file, tick)
            if opened is not None:
                opened.close()
            decoded, report = decode_index(file, tick)
        except (BrokenFileError, OSError) as error:
            raise VideoError(path, str(error)) from None
        file.check()
        index = index or decoded
        self._cache.put(path, file, index)
        return index, report

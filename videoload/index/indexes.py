"""How the index of a file is found: once on a host, unless the file changes."""

from __future__ import annotations

import logging
import time

from videoload.errors import VideoError
from videoload.index.complete_decode import Report, decode_index
from videoload.index.index import VideoIndex, find_index
from videoload.index.index_cache import IndexCache
from videoload.reading.containers import UnreadableError
from videoload.reading.video import Video
from videoload.stopwatch import Stopwatch
from videoload.storage.files import Tick, VideoFile
from videoload.versions import ffmpeg_versions

_log = logging.getLogger(__name__)

_LONG_S = 1.0  # a complete decode that takes longer is worth a warning


class Indexes:
    """The indexes of the videos below one root. An index is taken from the cache, or else proven,
    or else made by a complete decode."""

    def __init__(self, folder: str | None, root: str, watch: Stopwatch) -> None:
        """``folder``: of the cache on disk."""
        self._cache = IndexCache(folder, root, ffmpeg_versions())
        self._watch = watch
        self.known = self._cache.get
        self.forget = self._cache.forget

    def find(self, path: str, file: VideoFile, tick: Tick) -> tuple[VideoIndex, Video | None]:
        """The index of a file, and the file if it is open now. Raises VideoError."""
        index = self._cache.get(path, file)
        if index is not None:
            return index, None
        with self._watch.phase("index"):
            try:
                return self._find(path, file, tick)
            except (UnreadableError, OSError) as error:
                raise VideoError(path, str(error)) from None

    def _find(self, path: str, file: VideoFile, tick: Tick) -> tuple[VideoIndex, Video | None]:
        index, opened = find_index(file, tick, self._watch)
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
        """The index of a file, and what a complete decode tells of it. Raises VideoError."""
        try:
            index, opened = find_index(file, tick)
            if opened is not None:
                opened.close()
            decoded, report = decode_index(file, tick)
        except (UnreadableError, OSError) as error:
            raise VideoError(path, str(error)) from None
        file.check()
        index = index or decoded
        self._cache.put(path, file, index)
        return index, report

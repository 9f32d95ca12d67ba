"""Indexes of videos that were found out before: the last ones in memory, all of them as rows (see
`storage.kept_rows`)."""

from __future__ import annotations

from typing import NamedTuple

from cachetools import LRUCache

from videoload.errors import printable
from videoload.logs import Log
from videoload.reading.index import VideoIndex
from videoload.storage.kept_rows import KeptRows
from videoload.storage.video_file import VideoFile

_log = Log(__name__)

_MEMORY_BYTES = 16 << 20  # some 5 000 videos like UCF-101's; each is read from the disk in 50 us


class _Known(NamedTuple):
    identity: bytes
    found: VideoIndex
    recalled: bool  # from the disk


class IndexCache:
    """Indexes of the videos under one root, by path."""

    def __init__(self, rows: KeptRows) -> None:
        self._rows = rows
        self._known: LRUCache[str, _Known] = LRUCache(
            _MEMORY_BYTES, lambda known: known.found.memory_bytes
        )

    def get(self, path: str, file: VideoFile, *, wait: bool = True) -> VideoIndex | None:
        """Return the index of a file, if it is known and the file has not changed. ``wait``: for
        the index of the set, if it is on its way."""
        known = self._known.get(path)
        if known is not None and known.identity == file.identity:
            return known.found
        if known is not None:
            _log.warning("%s has changed; it is read again", printable(path))
            del self._known[path]
        index = self._rows.find(
            path, file, VideoIndex.from_bytes, lambda found: found.check(file.size), wait=wait
        )
        if index is not None:
            self._keep(path, _Known(file.identity, index, recalled=True))
        return index

    def put(self, path: str, file: VideoFile, index: VideoIndex) -> None:
        """Store an index."""
        self._keep(path, _Known(file.identity, index, recalled=False))
        self._rows.put(path, file, index.to_bytes())

    def _keep(self, path: str, known: _Known) -> None:
        if known.found.memory_bytes <= _MEMORY_BYTES:
            self._known[path] = known

    def forget(self, path: str, wrong: VideoIndex) -> bool:
        """Forget an index that has turned out wrong. Returns whether another try may be right: the
        index is from an earlier process, or has been replaced since."""
        known = self._known.get(path)
        if known is not None and known.found is not wrong:
            return True
        self._known.pop(path, None)
        self._rows.forget(path)
        return known is None or known.recalled

"""Files that stay open from one visit to the next."""

from __future__ import annotations

from collections.abc import Hashable

from cachetools import LRUCache

from videoload.reading.frame_decoder import FrameDecoder
from videoload.reading.index import VideoIndex, open_video
from videoload.reading.placed_video import PlacedVideo
from videoload.reading.video import VideoReader
from videoload.stopwatch import Stopwatch
from videoload.storage.video_file import VideoFile

_OPEN_BYTES = 64 << 20  # all open files may take so much, by a guess at what their decoders hold
_MAX_OPEN = 64
_WORTH_KEEPING = 0.3  # share of the last visits that went to a file that could have been open
_VISITS = 16
_SPARE = 4  # decoders: the few encoders write the files of a dataset


class OpenFiles:
    """A cache of open files. The next visit to one of them saves what opening costs: as much as
    decoding two or three frames, and more if the file is long.

    Files stay open only while files recur. In a large dataset they do not; then each is closed
    before the next one is opened, whose decoder so gets memory that is still in the CPU cache.
    Leaving files open there costs 2 %. If the next file has the same `decoder_key`, it gets the
    decoder, flushed as for another place in one file: a new one costs 5 % of a UCF-101 clip.
    """

    def __init__(self) -> None:
        self._files = _ClosingCache(_OPEN_BYTES, _bytes)
        # The files that would be open if none were closed, and how often one of them was visited.
        self._last: LRUCache[str, int] = LRUCache(_OPEN_BYTES, lambda memory_bytes: memory_bytes)
        self._again = 0.0
        self._spare: LRUCache[Hashable, FrameDecoder] = LRUCache(_SPARE)

    def open(self, file: VideoFile, index: VideoIndex, watch: Stopwatch) -> VideoReader:
        """Return the file, if it is here and has not changed; else open it. Raises
        BrokenFileError."""
        if (opened := self.take(file)) is not None:
            return opened
        key = None if index.placed is None else index.placed.decoder_key
        return open_video(file, index, watch=watch, decoder=self._spare.pop(key, None))

    def take(self, file: VideoFile) -> VideoReader | None:
        """Return the file, if it is here and has not changed."""
        path = file.path
        self._again += ((path in self._last) - self._again) / _VISITS
        opened = self._files.pop(path, None)
        if opened is not None and opened.file.identity != file.identity:
            opened.close()
            return None
        return opened

    def put(self, opened: VideoReader) -> None:
        """Leave the file open until others need its place, if that may be worth it. It has been
        read without a complaint."""
        memory_bytes = _bytes(opened)
        if memory_bytes > _OPEN_BYTES:
            opened.close()
            return
        path = opened.file.path
        self._last[path] = memory_bytes
        if self._again >= _WORTH_KEEPING:
            self._files[path] = opened
            return
        if isinstance(opened, PlacedVideo) and (key := opened.placed.decoder_key) is not None:
            self._spare[key] = opened.decoder
        opened.close()

    def close(self) -> None:
        """Close all files."""
        self._spare.clear()
        while self._files:
            self._files.popitem()

    def __del__(self) -> None:
        self.close()


def _bytes(opened: VideoReader) -> int:
    return max(opened.decoder.memory_bytes, _OPEN_BYTES // _MAX_OPEN)


class _ClosingCache(LRUCache[str, VideoReader]):
    def popitem(self) -> tuple[str, VideoReader]:
        path, opened = super().popitem()
        opened.close()
        return path, opened

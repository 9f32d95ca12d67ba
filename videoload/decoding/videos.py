"""The videos below a root, and their metadata: a video is a file, or a recording in pieces.

The pieces of a recording are files one after the other. Each has its own index, is opened by
itself, and has its own frames in the frame store, also as a part of several recordings. A piece
that fails makes the recording bad, and the error names it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import NamedTuple

from cachetools import LRUCache

from videoload.activity import reading
from videoload.clips.pieces import Pieces
from videoload.clips.video_info import VideoInfo
from videoload.decoding.audio_track import Track
from videoload.errors import StorageError, VideoError, errors_in, errors_of
from videoload.reading.complete_decode import Report
from videoload.reading.containers import BrokenFileError
from videoload.reading.index import VideoIndex
from videoload.reading.indexes import Indexes
from videoload.storage.files import (
    Storage,
    Tick,
    identity_of,
    retry_if_replaced,
    version_by,
    version_of,
)
from videoload.storage.paths import fingerprint_of, parts_of, pieces_of
from videoload.storage.video_file import VideoFile

_MAX_KNOWN = 20_000  # pieces of the recordings that were met last, 1 kB each


class KnownRecording(NamedTuple):
    """A recording in pieces: the identity of each of its files, what is known of them, and its
    fingerprints by their salt."""

    files: dict[str, bytes]
    pieces: Pieces
    prints: dict[int, int]


class Videos:
    """What is known of the videos below a root.

    A clip of a recording needs a few of the pieces. That the others are still what they were takes
    one look at each; to resolve 60 pieces would take as long as to decode a clip.
    """

    def __init__(self, storage: Storage, indexes: Indexes) -> None:
        self.storage, self.indexes = storage, indexes
        self._known: LRUCache[str, KnownRecording] = LRUCache(
            _MAX_KNOWN, lambda known: len(known.files)
        )

    # What a clip is drawn for. These raise FileReplacedError: only the whole task is tried again.

    def find_file(self, path: str, tick: Tick) -> tuple[VideoFile, VideoIndex]:
        """Return a file, and what is known of it. Raises VideoError, StorageError."""
        with errors_of(path), self.storage.reading(path, tick):
            file = self.storage.resolve(path)
            index, opened = self.indexes.find(path, file, tick)
            if opened is not None:
                opened.close()
            if file.fetches:
                file.check()
            return file, index

    def find_recording(self, path: str, tick: Tick) -> KnownRecording:
        """Return the pieces of a recording. Raises StorageError; and VideoError if one is missing,
        or its frames are not like those of the others."""
        if (known := self._unchanged(path)) is not None:
            return known
        infos, files = [], {}
        for file in pieces_of(path):
            with suppress(VideoError, StorageError):  # it is raised below
                self.storage.prefetch_header(file)
        for file in pieces_of(path):
            tick()
            with in_piece(path, file):
                found, index = self.find_file(file, tick)
            infos.append(index.info)
            files[file] = found.identity
        known = KnownRecording(files, Pieces(infos), {})
        if (misfit := known.pieces.misfit()) is not None:
            raise VideoError(path, f"piece {pieces_of(path)[misfit[0]]}: {misfit[1]}")
        if len(files) <= _MAX_KNOWN and not self.storage.fetches:
            self._known[path] = known
        return known

    def _unchanged(self, path: str) -> KnownRecording | None:
        """Return a recording that is known, if all its pieces are what they were."""
        known, root = self._known.get(path), self.storage.root
        try:
            with reading(path):
                if known is not None and all(
                    identity_of(os.stat(f"{root}/{file}")) == identity
                    for file, identity in known.files.items()
                ):
                    return known
        except OSError:
            pass
        return None

    # Questions about a path. All raise VideoError, StorageError.

    def info(self, path: str, tick: Tick = lambda: None) -> VideoInfo:
        """Return what a clip of a video depends on."""
        if len(pieces_of(path)) == 1:
            return self.index(path, tick).info
        return retry_if_replaced(path, lambda: self.find_recording(path, tick)).pieces.info

    def index(self, path: str, tick: Tick = lambda: None) -> VideoIndex:
        """Return the index of a file."""
        return retry_if_replaced(path, lambda: self.find_file(path, tick))[1]

    def report(self, path: str, tick: Tick) -> tuple[VideoIndex, Report]:
        """Return the index of a file, and what a complete decode found."""

        def read() -> tuple[VideoIndex, Report]:
            with self.storage.reading(path, tick):
                return self.indexes.report(path, self.storage.resolve(path), tick)

        with errors_of(path):
            return retry_if_replaced(path, read)

    def audio_codec(self, path: str, tick: Tick = lambda: None) -> str:
        """Return the codec of the audio that clips of a file have; "" if it has none, "unknown" if
        it cannot be read."""

        def read() -> str:
            with self.storage.reading(path, tick):
                file = self.storage.resolve(path)
                try:
                    with closing(Track(file, tick)) as track:
                        return track.codec
                except BrokenFileError:
                    return "unknown"
                finally:
                    file.check()

        with errors_of(path):
            return retry_if_replaced(path, read)

    def fingerprint(self, path: str, salt: int = 0) -> int:
        """Return 63 bits that two copies of a file, or of a sample's files, have in common."""
        known = self._unchanged(path) if len(pieces_of(path)) > 1 else None
        prints = {} if known is None else known.prints
        if salt not in prints:
            prints[salt] = fingerprint_of(path, lambda file: self.storage.fingerprint(file, salt))
        return prints[salt]

    def version(self, path: str) -> int:
        """Return 63 bits that differ if a file here was changed or replaced; 0: unknown."""
        parts = (part for part in parts_of(path) if len(pieces_of(part)) > 1)
        recordings = filter(None, map(self._unchanged, parts))
        known = {file: b for each in recordings for file, b in each.files.items()}

        def one(path: str) -> int:
            if (identity := known.get(path)) is None:
                return version_of(self.storage.resolve(path))
            return version_by(identity)

        return fingerprint_of(path, one)


@contextmanager
def in_piece(path: str, file: str) -> Iterator[None]:
    """Errors of a piece are the recording's, with the piece named."""
    with errors_in(path, f"piece {file}"), errors_of(file):
        yield

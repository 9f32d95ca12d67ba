"""A recording in pieces: each piece is decoded as a file of its own, into its frames of the clips.

So a piece has its own index, stays open by itself, and is kept in the frame store by itself,
whatever recordings it is a part of. What clips show is decided before, from what is known of all
pieces. A piece that fails makes the recording bad, and is named.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import numpy as np
from cachetools import LRUCache

from videoload.clips.clip_params import ClipParams
from videoload.clips.edges import pictures
from videoload.clips.pieces import Pieces
from videoload.decoding.prepared import Made, Make, renewing
from videoload.decoding.video_clips import DecodingTools, VideoClips, WantedClips
from videoload.errors import StorageError, VideoError, errors_in, errors_of
from videoload.index.index import VideoIndex
from videoload.index.indexes import Indexes
from videoload.pixels.planes import Buffer
from videoload.sound.reader import Wanted
from videoload.sound.resampling import Samples
from videoload.storage.files import Storage, Tick, VideoFile, identity_of
from videoload.storage.paths import pieces_of

_MAX_KNOWN = 20_000  # pieces of the recordings that were met last, 1 kB each


def find_file(
    storage: Storage, indexes: Indexes, path: str, tick: Tick
) -> tuple[VideoFile, VideoIndex]:
    """A file by its path, and what is known of it. Raises VideoError, StorageError."""

    def find() -> tuple[VideoFile, VideoIndex]:
        file = storage.resolve(path)
        return file, indexes.find(path, file, tick)[0]

    with errors_of(path):
        return storage.run(path, find, tick)


class KnownRecording(NamedTuple):
    """A recording that was found: its pieces, with their identities and what is known of them, and
    its fingerprints by their salt."""

    files: dict[str, bytes]
    pieces: Pieces
    prints: dict[int, int]


class Recordings:
    """What is known of the recordings in pieces below a root.

    A clip needs a few of the pieces. That the others are still what they were takes one look at
    each; to resolve 60 pieces would take as long as to decode a clip.
    """

    def __init__(self, storage: Storage, indexes: Indexes) -> None:
        self._storage, self._indexes = storage, indexes
        self._known: LRUCache[str, KnownRecording] = LRUCache(
            _MAX_KNOWN, lambda known: len(known.files)
        )

    def find(self, path: str, tick: Tick) -> Pieces:
        """The pieces of a recording. Raises StorageError; and VideoError if one is missing, or its
        frames are not like those of the others."""
        if (known := self.known(path)) is not None:
            return known.pieces
        infos, files = [], {}
        for file in pieces_of(path):
            with suppress(VideoError, StorageError):  # it is raised below
                self._storage.expect(file)
        for file in pieces_of(path):
            tick()
            with errors_in(path, f"piece {file}"):
                found, index = find_file(self._storage, self._indexes, file, tick)
            infos.append(index.info)
            files[file] = found.identity
        pieces = Pieces(infos)
        if (misfit := pieces.misfit()) is not None:
            raise VideoError(path, f"piece {pieces_of(path)[misfit[0]]}: {misfit[1]}")
        if len(files) <= _MAX_KNOWN and not self._storage.fetches:
            self._known[path] = KnownRecording(files, pieces, {})
        return pieces

    def fingerprint(self, path: str, salt: int, find: Callable[[str], int]) -> int:
        """The fingerprint of a recording, which ``find`` finds."""
        if (known := self.known(path)) is None:
            return find(path)
        if salt not in known.prints:
            known.prints[salt] = find(path)
        return known.prints[salt]

    def known(self, path: str) -> KnownRecording | None:
        """A recording that is known, if all its pieces are what they were."""
        known, root = self._known.get(path), self._storage.root
        try:
            if known is not None and all(
                identity_of(os.stat(f"{root}/{file}")) == identity
                for file, identity in known.files.items()
            ):
                return known
        except OSError:
            pass
        return None


class RecordingClips:
    """Some clips of a recording in pieces."""

    def __init__(self, tools: DecodingTools, recordings: Recordings, wanted: WantedClips) -> None:
        self._tools, self._recordings, self._wanted = tools, recordings, wanted
        self._path, self._files = wanted.path, pieces_of(wanted.path)

    def prepare(self, tick: Tick, clips: Sequence[Buffer]) -> Make:
        """As `VideoClips.prepare`."""
        prepare = partial(self._prepare, tick, clips)
        if self._wanted.given is None:
            return renewing(self._path, prepare, self._make)
        prepare()  # What is shown was drawn for several recordings together.
        return self._make

    def _prepare(self, tick: Tick, clips: Sequence[Buffer]) -> None:
        pieces = self._pieces = self._recordings.find(self._path, tick)
        wanted = self._wanted
        self._params = wanted.drawn_for(pieces.info)
        drawn: dict[int, tuple[list[ClipParams], list[Buffer]]] = {}
        for params, clip in zip(self._params, clips, strict=True):
            for run in pieces.runs(pictures(params.frames)):
                own, places = drawn.setdefault(run.piece, ([], []))
                own.append(params._replace(frames=run.frames))
                places.append(clip[run.place])
        self._parts: list[tuple[str, Make]] = []
        for number, (own, places) in sorted(drawn.items()):
            file, of = self._files[number], pieces.infos[number]
            piece = WantedClips(file, wanted.spec, (), own, of, wanted.identities)
            with errors_in(self._path, f"piece {file}"):
                self._parts.append((file, VideoClips(self._tools, piece).prepare(tick, places)))

    def _make(self, tick: Tick) -> Made:
        made = []
        for file, make in self._parts:
            with errors_in(self._path, f"piece {file}"):
                made.append(make(tick))
        shown = np.array([drawn.frames for drawn in self._params])
        return Made(
            shown.reshape(len(self._wanted.requests), -1), self._pieces.info, self._params,
            are_kept=all(each.are_kept for each in made),
            lacks_room=any(each.lacks_room for each in made),
        )  # fmt: skip

    def hear(
        self,
        hear: Callable[[str, Tick, Fraction, Wanted], Samples | None],
        tick: Tick,
        begin: Fraction,
        wanted: Wanted,
    ) -> Samples | None:
        """The sound from ``begin`` on, in seconds from the first frame, as `Sounds.hear` tells it
        of a file. Each piece gives the sound of its own time; one that has none is silent."""
        stretches, heard = self._pieces.stretches(begin, wanted.samples, wanted.rate), []
        for number, at, samples in stretches:
            file, since = self._files[number], self._pieces.infos[number].begins or Fraction()
            with errors_in(self._path, f"piece {file}"):
                heard.append(hear(file, tick, since + at, wanted._replace(samples=samples)))
        if all(sound is None for sound in heard):
            return None
        silent = (np.zeros((wanted.channels, each.samples), np.float32) for each in stretches)
        return np.concatenate(
            [one if sound is None else sound for sound, one in zip(heard, silent, strict=True)],
            axis=1,
        )

"""Clips that are needed soon, of files on another host: what they need is asked for ahead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from videoload.clips.choices import UnfitError
from videoload.clips.clip_params import ClipParams
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.edges import pictures
from videoload.clips.pieces import Pieces
from videoload.clips.rows import Clip
from videoload.clips.sample_spec import SampleSpec
from videoload.decoding.prepared import draw
from videoload.decoding.samples import of_recording, paths_of, shown_of
from videoload.errors import StorageError, VideoError
from videoload.index.index import VideoIndex
from videoload.index.indexes import Indexes
from videoload.storage.files import Storage, VideoFile
from videoload.storage.paths import files_of, pieces_of


class Expected:
    """Asks ahead for clips of one root."""

    def __init__(self, storage: Storage, indexes: Indexes) -> None:
        self._storage = storage
        self._indexes = indexes

    def expect(self, path: str, spec: SampleSpec, requests: Sequence[Clip]) -> None:
        """Fetch what the pictures of these clips need, as far as that is known. Nobody waits."""
        with suppress(VideoError, StorageError, UnfitError):
            if spec.asks != "clips":
                for name in files_of(path):
                    if (known := self._known(name)) is not None:
                        known[0].want(())  # whether it is still what is known of it
                return
            if "" not in spec.clips:
                self._expect_samples(path, spec, requests)
            elif len(files := pieces_of(path)) > 1:
                self._expect_pieces(files, spec.leader, requests)
            elif (known := self._known(path)) is not None:
                file, index = known
                _want(file, index, draw(spec.leader, index.info, requests))

    def _expect_samples(self, path: str, spec: SampleSpec, requests: Sequence[Clip]) -> None:
        """All parts at once: one after the other, each would be waited for."""
        paths, spec = paths_of(path, spec), of_recording(path, spec)
        found = {name: self._known(paths[name]) for name in spec.clips}
        known = {name: both for name, both in found.items() if both is not None}
        if len(known) < len(found):
            return
        videos = {name: index.info for name, (_, index) in known.items()}
        shown = shown_of(spec, videos, requests)
        for name, (file, index) in known.items():
            _want(file, index, [params for each in shown for params in each.clips[name]])

    def _expect_pieces(
        self, files: Sequence[str], spec: ClipSpec, requests: Sequence[Clip]
    ) -> None:
        found = [self._known(file) for file in files]
        known = [both for both in found if both is not None]
        if len(known) < len(found):
            return
        pieces = Pieces([index.info for _, index in known])
        for drawn in draw(spec, pieces.info, requests):
            for run in pieces.runs(pictures(drawn.frames)):
                _want(*known[run.piece], [drawn._replace(frames=run.frames)])

    def _known(self, path: str) -> tuple[VideoFile, VideoIndex] | None:
        """A file and its index, if they are known; else the beginning of it is asked for. Of a
        recording in pieces, the beginnings of all."""
        if len(pieces := pieces_of(path)) > 1:
            for piece in pieces:
                self._storage.expect(piece)
            return None
        file = self._storage.expect(path)
        index = None if file is None else self._indexes.known(path, file, wait=False)
        return None if file is None or index is None else (file, index)


def _want(file: VideoFile, index: VideoIndex, clips: Iterable[ClipParams]) -> None:
    frames = {ordinal for params in clips for ordinal in pictures(params.frames).tolist()}
    index.want(file, frames)

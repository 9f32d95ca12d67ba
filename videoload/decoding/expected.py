"""Clips that are needed soon, of files on another host: what they need is asked for ahead.

What is drawn for a clip then is kept until the clip is prepared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from videoload.clips.choices import UnfitError
from videoload.clips.clip_params import ClipParams
from videoload.clips.clip_spec import ClipSpec, silent
from videoload.clips.edges import pictures
from videoload.clips.pieces import Pieces
from videoload.clips.sample_spec import SampleSpec, Spec
from videoload.decoding.prepared import Request, draw
from videoload.decoding.samples import of_recording, paths_of, shown_of
from videoload.errors import StorageError, VideoError
from videoload.index.index import VideoIndex
from videoload.index.indexes import Indexes
from videoload.storage.files import Storage, VideoFile
from videoload.storage.paths import pieces_of

_MAX_EXPECTED = 1000  # clips; all leases of a worker have fewer


class _Drawn(NamedTuple):
    """What was drawn for clips of a video, ``by`` this spec, ``of`` this index."""

    by: ClipSpec
    of: VideoIndex
    params: list[ClipParams]


class Expected:
    """The clips of one root that were asked for ahead."""

    def __init__(self, storage: Storage, indexes: Indexes) -> None:
        self._storage = storage
        self._indexes = indexes
        self._drawn: dict[tuple[str | Request, ...], _Drawn] = {}

    def expect(self, path: str, spec: Spec, requests: Sequence[Request]) -> None:
        """Fetch what the pictures of these clips need, as far as that is known."""
        with suppress(VideoError, StorageError, UnfitError):
            if isinstance(spec, SampleSpec):
                self._expect_samples(path, spec, requests)
            elif isinstance(spec, ClipSpec) and len(files := pieces_of(path)) > 1:
                self._expect_pieces(files, spec, requests)
            elif isinstance(spec, ClipSpec) and (known := self._known(path)) is not None:
                file, index = known
                params = draw(spec, index.info, requests)
                if len(self._drawn) >= _MAX_EXPECTED:  # of leases that were handed back
                    self._drawn.clear()
                self._drawn[path, *requests] = _Drawn(silent(spec), index, params)
                _want(file, index, params)

    def drawn(
        self, path: str, spec: ClipSpec, index: VideoIndex, requests: Sequence[Request]
    ) -> list[ClipParams]:
        """The parameters of each view of each clip, as `expect` has drawn them, or drawn now."""
        found = self._drawn.pop((path, *requests), None)
        if found is not None and found.by == spec and found.of is index:
            return found.params
        return draw(spec, index.info, requests)

    def _expect_samples(self, path: str, spec: SampleSpec, requests: Sequence[Request]) -> None:
        """All parts at once: one after the other, each would be waited for."""
        paths, spec = paths_of(path, spec), of_recording(path, spec)
        found = {name: self._known(paths[name]) for name in spec.clips}
        known = {name: both for name, both in found.items() if both is not None}
        if len(known) < len(found):
            return
        videos = {name: index.info.rated(spec.clips[name]) for name, (_, index) in known.items()}
        shown = shown_of(spec, videos, requests)
        for name, (file, index) in known.items():
            _want(file, index, [params for each in shown for params in each.clips[name]])

    def _expect_pieces(
        self, files: Sequence[str], spec: ClipSpec, requests: Sequence[Request]
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
        index = None if file is None else self._indexes.known(path, file)
        return None if file is None or index is None else (file, index)


def _want(file: VideoFile, index: VideoIndex, clips: Iterable[ClipParams]) -> None:
    frames = {ordinal for params in clips for ordinal in pictures(params.frames).tolist()}
    index.want(file, frames)

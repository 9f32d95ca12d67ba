"""Prefetch the bytes of the next clips from files on another host, while others are decoded."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from videoload.clips.choices import UnfitError
from videoload.clips.edges import pictures
from videoload.clips.pieces import Pieces, Run
from videoload.clips.rows import Clip
from videoload.clips.sample_spec import SampleSpec
from videoload.clips.tasks import Task
from videoload.decoding.drawn import draw, parts_in
from videoload.errors import StorageError, VideoError
from videoload.reading.index import VideoIndex
from videoload.reading.indexes import Indexes
from videoload.storage.files import Storage
from videoload.storage.paths import files_of, pieces_of
from videoload.storage.video_file import VideoFile


class Prefetcher:
    """Prefetches for clips of one root."""

    def __init__(self, storage: Storage, indexes: Indexes) -> None:
        self._storage = storage
        self._indexes = indexes

    def prefetch(self, path: str, task: Task, clips: Sequence[Clip]) -> None:
        """Prefetch the bytes of these clips, as far as they are known, and the beginning of other
        files. This does not block: all files are requested at once."""
        self._storage.expect(path, clips[0].row.places)
        with suppress(VideoError, StorageError, UnfitError):
            if not isinstance(task, SampleSpec):
                for file, index in filter(None, map(self._known, files_of(path))):
                    index.prefetch(file, ())  # whether it is still what is known of it
                return
            paths, spec = parts_in(path, task)
            found = {
                name: [self._known(file) for file in pieces_of(part)]
                for name, part in paths.items()
            }
            known = {
                name: [both for both in files if both is not None] for name, files in found.items()
            }
            if any(len(known[name]) < len(files) for name, files in found.items()):
                return
            pieces = {
                name: Pieces([index.info for _, index in files])
                for name, files in known.items()
                if len(files) > 1
            }
            infos = {
                name: pieces[name].info if name in pieces else files[0][1].info
                for name, files in known.items()
            }
            for name, params in draw(spec, infos, clips).params.items():
                wanted: dict[int, set[int]] = {}
                for shown in (pictures(each.frame_indices) for each in params):
                    whole = [Run(0, slice(0, len(shown)), shown)]
                    for run in pieces[name].runs(shown) if name in pieces else whole:
                        wanted.setdefault(run.piece, set()).update(run.frames.tolist())
                for piece, frames in wanted.items():
                    file, index = known[name][piece]
                    index.prefetch(file, frames)

    def _known(self, path: str) -> tuple[VideoFile, VideoIndex] | None:
        """Return a file and its index, if they are known; otherwise request its beginning."""
        file = self._storage.prefetch_header(path)
        index = None if file is None else self._indexes.known(path, file, wait=False)
        return None if file is None or index is None else (file, index)

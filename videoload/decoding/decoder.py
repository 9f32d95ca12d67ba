"""Frames of a video, as pixels in the caller's buffer.

Which frames is `spec.clips`' to say, how they are got out of the file is `frames`'s, and how they
become pixels `scaling`'s. Here it comes together, for one video at a time.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache

from videoload import native
from videoload.decoding.frames import Frame, StaleIndexError, read_frames
from videoload.decoding.index import Report, Tick, VideoIndex, read_index
from videoload.decoding.index_cache import IndexCache
from videoload.decoding.open_files import SOFTWARE, OpenFiles, UnreadableError
from videoload.decoding.scaling import Buffer, Chains, Scaler
from videoload.decoding.storage import Storage, VideoFile
from videoload.errors import SpecError, TransformError, VideoError
from videoload.spec.catalog import Catalog
from videoload.spec.clips import ClipParams, ClipSpec, UnfitError, clip_params

_INDEX_BYTES_KEPT = 64 << 20  # some 90 000 videos like UCF-101's
_TRIED_FOR_SIZE = 20  # videos looked at to find the native size


class Request(NamedTuple):
    """Clip number ``clip`` of the segment [start, end) of a video, chosen by ``key``."""

    key: int
    clip: int = 0
    start: int = 0
    end: int | None = None


class PreparedClips(NamedTuple):
    """What is to be done at one video: the arguments of `Decoder.decode`, and what follows."""

    path: str
    spec: ClipSpec
    requests: Sequence[Request]
    out: Buffer
    transform: Callable[..., object] | None
    file: VideoFile
    known: VideoIndex
    params: list[ClipParams]
    # For each ordinal, where it goes: by which scaler, and to which frame of a clip.
    places: dict[int, list[tuple[Scaler, Buffer]]]


class Decoder:
    """Decodes clips of the videos under ``root``; one per process, one thread.

    It keeps the indexes of the videos that it has visited, and the last files open until `rest`.
    ``on_index`` is told of each one that nobody gave it, packed, for others to `learn`.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        on_index: Callable[[str, bytes], None] = lambda path, packed: None,
        *,
        transforms: Collection[str] | None = None,
        cache: str | None = None,
    ) -> None:
        """``transforms``: the modules whose functions a spec may name; None: any. ``cache``: the
        folder of an `IndexCache`."""
        native.silence_ffmpeg()
        self._storage = Storage(root)
        self._kept = None if cache is None else IndexCache(cache, self._storage.root, SOFTWARE)
        self._recalled: set[str] = set()  # whose index was kept by an earlier process
        self._on_index = on_index
        self._allowed = transforms
        self._indexes: LRUCache[str, VideoIndex] = LRUCache(
            _INDEX_BYTES_KEPT, lambda index: index.memory_bytes
        )
        self._files = OpenFiles()
        self._chains = Chains()

    def decode(
        self,
        path: str,
        spec: ClipSpec,
        requests: Sequence[Request],
        out: Buffer,
        tick: Tick = lambda: None,
    ) -> npt.NDArray[np.int64]:
        """Write clips of ``path`` (relative to the root) into ``out``, uint8 [n, *spec.shape], in
        one pass over the file; returns the ordinals of their frames, int64 [n, T].

        ``tick`` is called after each packet. Raises VideoError where one of them cannot be decoded,
        ShortVideoError where the spec wants such a video passed over in silence, TransformError.
        """
        return self.decode_prepared(self.prepare(path, spec, requests, out, tick), tick)

    def prepare(
        self,
        path: str,
        spec: ClipSpec,
        requests: Sequence[Request],
        out: Buffer,
        tick: Tick = lambda: None,
    ) -> PreparedClips:
        """What `decode` does before it reads a frame. Done for several videos in a row, it takes a
        fifth of what it takes between two of them, when a decoder has filled the caches.

        Raises what `decode` raises.
        """
        transform = None if spec.transform is None else self._function(spec.transform)
        file = self._storage.resolve(path)
        index = self._index(path, file, tick)
        try:
            params = [clip_params(spec, index.info, *request) for request in requests]
        except UnfitError as error:
            raise (ShortVideoError if error.dropped else VideoError)(path, str(error)) from None
        places: dict[int, list[tuple[Scaler, Buffer]]] = {}
        for drawn, clip in zip(params, out, strict=True):
            scaler = Scaler(spec, index.info, drawn, self._chains)
            for ordinal, place in zip(drawn.frames.tolist(), clip, strict=True):
                places.setdefault(ordinal, []).append((scaler, place))
        return PreparedClips(path, spec, requests, out, transform, file, index, params, places)

    def decode_prepared(
        self, prepared: PreparedClips, tick: Tick = lambda: None
    ) -> npt.NDArray[np.int64]:
        """Do what was prepared; returns and raises what `decode` does."""
        path, spec, places = prepared.path, prepared.spec, prepared.places

        def write(ordinal: int, frame: Frame) -> None:
            for scaler, place in places[ordinal]:
                scaler.write(frame, place)

        try:
            read_frames(prepared.file, prepared.known, sorted(places), write, tick, self._files)
        except UnreadableError as error:
            raise VideoError(path, str(error)) from None
        except StaleIndexError:
            if self._disown(path, prepared.known):
                return self.decode(path, spec, prepared.requests, prepared.out, tick)
            raise VideoError(path, "gives other frames each time it is read") from None
        if prepared.transform is not None:
            for params, clip in zip(prepared.params, prepared.out, strict=True):
                _apply(prepared.transform, spec, path, clip, params.seed)
        return np.array([params.frames for params in prepared.params])

    @property
    def root(self) -> str:
        """The folder that paths are relative to, resolved."""
        return self._storage.root

    def index(self, path: str, tick: Tick = lambda: None) -> VideoIndex:
        """The index of ``path`` (relative to the root). Raises VideoError."""
        return self._index(path, self._storage.resolve(path), tick)

    def report(self, path: str, tick: Tick = lambda: None) -> tuple[VideoIndex, Report]:
        """What a complete decode of ``path`` tells. Raises VideoError."""
        return self._find_out(path, self._storage.resolve(path), tick)

    def rest(self) -> None:
        """Nothing more is to be done for now: keep no file open."""
        self._files.close()

    def learn(self, path: str, packed: bytes) -> None:
        """Take an index that another decoder made. One that is none, or does not fit the file, does
        no harm: that is found out before a frame of it is handed out."""
        if path not in self._indexes:
            self._recalled.discard(path)
            with suppress(ValueError):
                self._indexes[path] = VideoIndex.from_bytes(packed)

    def _disown(self, path: str, index: VideoIndex) -> bool:
        """Forget an index that turned out wrong. Whether another may be right: where this one was
        not made here, or has been replaced since."""
        if self._indexes.get(path) is not index:
            return True
        del self._indexes[path]
        if self._kept is None or path not in self._recalled:
            return False
        self._recalled.remove(path)
        self._kept.forget(path)
        return True

    def _function(self, name: str) -> Callable[..., object]:
        module, _, function = name.partition(":")
        if self._allowed is not None and module not in self._allowed:
            raise TransformError(
                f"transform {name}: this worker's owner does not allow it; start the worker with "
                f"--allow {module}"
            )
        try:
            found = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError) as error:
            raise TransformError(f"transform {name} cannot be imported: {error}") from None
        if not callable(found):
            raise TransformError(f"transform {name} is not a function")
        return cast(Callable[..., object], found)

    def _index(self, path: str, file: VideoFile, tick: Tick) -> VideoIndex:
        index = self._indexes.get(path) or self._recall(path, file.status)
        if index is None or index.file_bytes != file.status.st_size:
            index, _ = self._find_out(path, file, tick)
            self._indexes[path] = index
            self._recalled.discard(path)
        return index

    def _find_out(self, path: str, file: VideoFile, tick: Tick) -> tuple[VideoIndex, Report]:
        """Decode the whole video; what that told is told on and kept."""
        try:
            index, report = read_index(file, tick)
        except (UnreadableError, OSError) as error:
            raise VideoError(path, str(error)) from None
        packed = index.to_bytes()
        self._on_index(path, packed)
        if self._kept is not None:
            self._kept.add(path, file.status, packed)
        return index, report

    def _recall(self, path: str, status: os.stat_result) -> VideoIndex | None:
        """What an earlier process kept. It is told on, so that other hosts compare their copy."""
        packed = None if self._kept is None else self._kept.get(path, status)
        if packed is None:
            return None
        self.learn(path, packed)
        self._recalled.add(path)
        self._on_index(path, packed)
        return self._indexes.get(path)


def native_size(catalog: Catalog, spec: ClipSpec) -> ClipSpec:
    """The spec with the size that the catalog's first good video gives it, if it has none.

    Raises SpecError where the videos are not on this host, VideoError if none can be decoded.
    """
    if spec.size is not None:
        return spec
    if catalog.root is None:
        raise SpecError("size=None needs the videos on this host (root=); give size=")
    decoder = Decoder(catalog.root)
    failed = None
    for video in islice(catalog, _TRIED_FOR_SIZE):
        try:
            info = decoder.index(video.path).info
        except VideoError as error:
            failed = error
            continue
        return spec.at_native_size(info.width, info.height)
    assert failed is not None
    raise failed


def _apply(
    transform: Callable[..., object], spec: ClipSpec, path: str, clip: Buffer, key: int
) -> None:
    """Replace a clip by what the user's function makes of it."""
    try:
        made = transform(clip.copy(), np.random.Generator(np.random.PCG64(key)))
    except Exception as error:
        raise TransformError(
            f"transform {spec.transform} failed on a clip of {path}: {error!r}"
        ) from error
    if not isinstance(made, np.ndarray) or made.shape != clip.shape or made.dtype != np.uint8:
        what = f"{made.dtype}{list(made.shape)}" if isinstance(made, np.ndarray) else repr(made)
        raise TransformError(
            f"transform {spec.transform} returned {what[:80]}, not uint8{list(clip.shape)}"
        )
    np.copyto(clip, made)


class ShortVideoError(VideoError):
    """The video is shorter than a clip, and the spec says ``short="drop"``."""

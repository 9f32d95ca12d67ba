"""Clips of a video, or items that a user's function makes, as arrays in the caller's buffer.

`clips.clip_params` decides which frames a clip shows, `frames` reads them from the file, and
`scaling` makes pixels of them. This module joins them, for one video at a time.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial

import numpy as np
import numpy.typing as npt
from av.video.frame import VideoFrame

from videoload import native
from videoload.clips.choices import UnfitError
from videoload.clips.clip_params import ClipParams
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.followers import SampleParams
from videoload.clips.item_spec import ItemSpec
from videoload.clips.layouts import array_bytes, as_arrays
from videoload.clips.sample_spec import SampleSpec, Spec, WindowCounts, functions_of
from videoload.clips.video_info import VideoInfo
from videoload.decoding.expected import Expected
from videoload.decoding.frames import StaleIndexError, read_frames
from videoload.decoding.indexes import Indexes
from videoload.decoding.open_files import OpenFiles
from videoload.decoding.prepared import (
    CountedItems,
    KeptClips,
    Places,
    PreparedClips,
    Request,
    ShortVideoError,
    draw,
)
from videoload.decoding.samples import (
    PreparedSamples,
    count_items,
    decode_samples,
    of_recording,
    prepare_samples,
)
from videoload.decoding.sounds import (
    PreparedWithSound,
    Sounds,
    decode_with_sound,
    prepare_with_sound,
)  # fmt: skip
from videoload.errors import OneClipError, TransformError, VideoError, errors_of
from videoload.frame_store.clip_frames import ClipStore, FormatChangedError
from videoload.index.complete_decode import Report
from videoload.index.index import Tick, VideoIndex, open_video
from videoload.pixels.chains import Chains
from videoload.pixels.clip_pixels import ClipPixels, SourceFrame
from videoload.pixels.planes import Buffer
from videoload.reading.containers import UnreadableError, Video
from videoload.stopwatch import Stopwatch
from videoload.storage.content import fingerprint_of
from videoload.storage.keep import NO_FOLDERS, Folders
from videoload.storage.opening import open_storage
from videoload.user_code.functions import Functions, apply
from videoload.user_code.items import PreparedItems, load_items, prepare_items

Clips = PreparedClips | KeptClips | PreparedWithSound
Prepared = Clips | PreparedItems | PreparedSamples | CountedItems
_SMALL = ClipSpec(frames=1, resize=32, size=(32, 32))  # shows whether frames can be scaled


class Decoder:
    """Decodes clips of the videos under ``root``, in one thread. A process has one.

    It keeps the last files open until `rest`.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        transforms: Collection[str] | None = None,
        folders: Folders = NO_FOLDERS,
        on_call: Tick = lambda: None,
    ) -> None:
        """``transforms``: the modules whose functions a spec may name; None: any. ``folders``:
        where to keep what can be used again. ``on_call``: called before a function that may take
        long."""
        native.silence_ffmpeg()
        self._storage = open_storage(root, folders.keep)
        self._functions = Functions(transforms, on_call)
        self._files = OpenFiles[Video](lambda opened: opened.decoder.memory_bytes)
        self._chains = Chains()
        self._sounds = Sounds(self._storage)
        self._keeper = None
        if folders.frame_store is not None:
            self._keeper = ClipStore(folders.frame_store, self._storage.root, self._chains)
        self.watch = Stopwatch()  # where the time goes, since it was started
        self._indexes = Indexes(folders.cache, self._storage.root, self.watch)
        self._expected = Expected(self._storage, self._indexes)

    def decode(
        self,
        path: str,
        spec: Spec,
        requests: Sequence[Request],
        out: Buffer,
        tick: Tick = lambda: None,
    ) -> npt.NDArray[np.int64]:
        """Write clips of ``path`` (relative to the root), or items, into ``out``, uint8 [n,
        spec.clip_bytes] (for clips also [n, *spec.shape]), in one pass over the file. Returns the
        ordinals of their frames, int64 [n, T] (with k views [n, k * T]).

        ``tick`` is called after each packet. Raises VideoError if a clip cannot be decoded,
        ShortVideoError if the spec silently skips videos of this length, and TransformError.
        """
        return self.decode_prepared(self.prepare(path, spec, requests, out, tick), tick)

    def prepare(
        self,
        path: str,
        spec: Spec,
        requests: Sequence[Request],
        out: Buffer,
        tick: Tick = lambda: None,
    ) -> Prepared:
        """Do what `decode` does before it reads a frame. For several videos in a row, this takes a
        fifth of the time that it takes between two videos, when a decoder has filled the caches.

        Raises what `decode` raises.
        """
        with errors_of(path):
            return self._prepare_any(path, spec, requests, out, tick)

    def _prepare_any(
        self, path: str, spec: Spec, requests: Sequence[Request], out: Buffer, tick: Tick
    ) -> Prepared:
        if isinstance(spec, ItemSpec):
            seeds = [each.seed for each in requests]
            return prepare_items(path, spec, seeds, out, self._functions, self._storage)
        try:
            if isinstance(spec, SampleSpec):
                return self._prepare_samples(path, spec, requests, out, tick)
            if isinstance(spec, WindowCounts):
                return count_items(path, spec, requests, out, partial(self._info, tick))
            return self._prepare_clips(path, spec, requests, out, tick)
        except UnfitError as error:
            raise (ShortVideoError if error.dropped else VideoError)(path, str(error)) from None

    def _prepare_samples(
        self, path: str, spec: SampleSpec, requests: Sequence[Request], out: Buffer, tick: Tick
    ) -> PreparedSamples:
        spec = of_recording(path, spec)

        def prepare(
            name: str, path: str, params: list[ClipParams], shown: list[SampleParams], out: Buffer
        ) -> Clips | PreparedItems:
            own = spec.spec_of(name)
            if isinstance(own, ClipSpec):
                return self._prepare_clips(path, own, requests, out, tick, params)
            seeds = [each.seed for each in requests]
            items = prepare_items(path, own, seeds, out, self._functions, self._storage)
            return items._replace(shown=shown, offset_s=spec.offset_s(name))

        return prepare_samples(path, spec, requests, out, partial(self._info, tick), prepare)

    def _info(self, tick: Tick, path: str) -> VideoInfo:
        return self.index(path, tick).info

    def _prepare_clips(
        self, path: str, spec: ClipSpec, requests: Sequence[Request], out: Buffer, tick: Tick,
        given: list[ClipParams] | None = None,
    ) -> Clips:  # fmt: skip
        def prepare(spec: ClipSpec, out: Buffer) -> PreparedClips | KeptClips:
            work = partial(self._prepare, path, spec, requests, out, tick, given)
            return self._storage.run(path, work, tick)

        return prepare_with_sound(path, spec, out, prepare) if spec.sound else prepare(spec, out)

    def _prepare(
        self,
        path: str,
        spec: ClipSpec,
        requests: Sequence[Request],
        out: Buffer,
        tick: Tick,
        given: list[ClipParams] | None = None,
    ) -> PreparedClips | KeptClips:
        name, keeper, keeping, kept = spec.transform, self._keeper, None, None
        transform = None if name is None else self._functions.find("transform", name)
        with self.watch.phase("open"):
            file = self._storage.resolve(path)
        rows = out.reshape(len(requests) * spec.views, -1)
        if spec.output is not None:
            rows = np.empty((len(rows), array_bytes(spec.decoded_shape, spec.decoded_dtype)), "u1")
        clips = as_arrays(rows, spec.decoded_shape, spec.decoded_dtype)
        if keeper is not None and (kept := keeper.find(path, file, spec, tick)) is not None:
            params = given or draw(spec, kept.info, requests)
            keeping = keeper.frames_of(path, file, spec, kept.info, params, kept)
            if keeping is not None and not keeping.missing:
                return KeptClips(
                    path, spec, requests, out, transform, keeping, kept.info, clips, params
                )
        index, opened = self._indexes.find(path, file, tick)
        params = given or self._expected.drawn(path, spec, index, requests)
        if keeper is not None and (kept is None or kept.info != index.info):
            keeping = keeper.frames_of(path, file, spec, index.info, params, None)
        decoded = [] if keeping else zip(params, clips, strict=True)
        places, made = self._places(spec, index, decoded)
        wanted = [*keeping.missing, *keeping.also(index)] if keeping else places
        file.want_frames(partial(index.byte_ranges, wanted), opening=index.avi is None)
        return PreparedClips(
            path, spec, requests, out, transform, file, opened, index, clips, params, places,
            made, keeping, given,
        )  # fmt: skip

    def _places(
        self, spec: ClipSpec, index: VideoIndex, clips: Iterable[tuple[ClipParams, Buffer]]
    ) -> tuple[Places, list[ClipPixels]]:
        """Where each frame goes, and the clips to finish then."""
        places: Places = {}
        made: list[ClipPixels] = []
        for drawn, clip in clips:
            made.append(ClipPixels(spec, index.info, drawn, self._chains, clip))
            for at, ordinal in enumerate(drawn.frames.tolist()):
                if ordinal >= 0:
                    places.setdefault(ordinal, []).append(partial(made[-1].take, at=at))
        return places, made

    def decode_prepared(
        self, prepared: Prepared, tick: Tick = lambda: None
    ) -> npt.NDArray[np.int64]:
        """Do what was prepared. Returns and raises what `decode` does."""
        with errors_of(prepared.path):
            return self._decode_any(prepared, tick)

    def _decode_any(self, prepared: Prepared, tick: Tick) -> npt.NDArray[np.int64]:
        if isinstance(prepared, PreparedSamples):
            return decode_samples(prepared, partial(self.decode_prepared, tick=tick))
        if isinstance(prepared, PreparedWithSound):
            hear = partial(self._sounds.hear, prepared.path, tick)
            return decode_with_sound(prepared, partial(self.decode_prepared, tick=tick), hear)
        if isinstance(prepared, CountedItems):
            return np.empty((len(prepared.out), 0), np.int64)
        if isinstance(prepared, PreparedItems):
            with self.watch.phase("transform"):
                return load_items(prepared, tick)
        if isinstance(prepared, KeptClips):
            with self.watch.phase("scale"):
                try:
                    prepared.keeping.show(prepared.clips)
                except UnreadableError as error:
                    raise OneClipError(prepared.path, str(error)) from None
            return self._finish(prepared, tick)
        path, file = prepared.path, prepared.file
        decode = partial(self._decode, prepared, tick)
        anew = partial(self._anew, prepared, tick)
        return self._storage.run(path, decode, tick, file, anew)

    def lacks_room(self, prepared: Prepared) -> tuple[int, int] | None:
        """If the frame store has no room for the video of clips that were decoded: the bytes that a
        video takes, and the limit of the store."""
        if self._keeper is None or not isinstance(prepared, PreparedClips):
            return None
        return self._keeper.lacks_room(prepared.spec, prepared.keeping)

    def _decode(self, prepared: PreparedClips, tick: Tick) -> npt.NDArray[np.int64]:
        path, spec, places = prepared.path, prepared.spec, prepared.places
        clock, scaling_s, keeping = self.watch.clock, 0.0, prepared.keeping

        def write(ordinal: int, frame: VideoFrame) -> None:
            nonlocal scaling_s
            began = clock()
            if keeping is not None:
                keeping.take(ordinal, frame)
            else:
                source = SourceFrame(frame)
                for write_part in places[ordinal]:
                    write_part(source)
            scaling_s += clock() - began

        try:
            opened = prepared.opened or self._files.take(prepared.file)
            if opened is None:
                with self.watch.phase("open"):
                    opened = open_video(prepared.file, prepared.known, watch=self.watch)
            wanted, also = sorted(places), []
            if keeping is not None:
                wanted, also = keeping.missing, keeping.also(prepared.known)
            if read_frames(opened, prepared.known, wanted, write, tick, also):
                self._files.put(opened)
                if keeping is not None:
                    keeping.commit()
            began = clock()
            if keeping is not None:
                keeping.show(prepared.clips)
            for clip in prepared.made:
                clip.finish()
            scaling_s += clock() - began
        except FormatChangedError:
            clips = zip(prepared.params, prepared.clips, strict=True)
            places, made = self._places(spec, prepared.known, clips)
            plain = prepared._replace(keeping=None, opened=None, places=places, made=made)
            return self._decode(plain, tick)
        except UnreadableError as error:
            raise OneClipError(path, str(error)) from None
        except StaleIndexError:
            if self._indexes.forget(path, prepared.known):
                return self._anew(prepared, tick)
            raise VideoError(path, "gives other frames each time it is read") from None
        finally:
            self.watch.move(scaling_s, "scale")
        return self._finish(prepared, tick)

    def _anew(self, prepared: PreparedClips, tick: Tick) -> npt.NDArray[np.int64]:
        """Do all of it again: the file is not the one that the index was made from."""
        path, spec, requests, out = prepared[:4]
        if prepared.given is None:
            return self.decode(path, spec, requests, out, tick)
        work = partial(self._prepare, path, spec, requests, out, tick, prepared.given)
        return self.decode_prepared(self._storage.run(path, work, tick), tick)

    def _finish(self, prepared: PreparedClips | KeptClips, tick: Tick) -> npt.NDArray[np.int64]:
        """Transform the clips; returns the ordinals of their frames."""
        path, spec = prepared.path, prepared.spec
        if prepared.transform is not None:
            rows = prepared.out.reshape(len(prepared.requests), -1)
            made = spec.arrays(rows).reshape(len(prepared.params), *spec.clip_shape)
            with self.watch.phase("transform"):
                for drawn, clip, place in zip(prepared.params, prepared.clips, made, strict=True):
                    tick()
                    apply(prepared.transform, spec, path, clip, place, drawn.seed)
        frames = np.array([drawn.frames for drawn in prepared.params])
        return frames.reshape(len(prepared.requests), -1)

    @property
    def root(self) -> str:
        """The folder that paths are relative to, resolved; or the URL."""
        return self._storage.root

    @property
    def fetches(self) -> bool:
        """Whether files come from another host, so that it helps to `expect` them."""
        return self._storage.fetches

    def expect(self, path: str, spec: Spec, requests: Sequence[Request]) -> None:
        """These clips are needed soon: fetch what they need of files on another host, as far as
        that is known. `prepare` raises what is wrong."""
        self._expected.expect(path, spec, requests)

    def has_imported(self, spec: Spec) -> bool:
        """Whether all modules for clips of ``spec`` are imported. Importing one may take long."""
        return all(name in self._functions for _, name in functions_of(spec))

    def check_code(self, code: Mapping[str, str]) -> None:
        """Compare digests of modules with those that this process has imported. Raises
        TransformError."""
        self._functions.check(code)

    def import_function(self, spec: Spec) -> None:
        """Import them now. The first clip raises what goes wrong."""
        for named in functions_of(spec):
            with suppress(TransformError):
                self._functions.find(*named)

    def index(self, path: str, tick: Tick = lambda: None) -> VideoIndex:
        """The index of ``path`` (relative to the root). Raises VideoError, StorageError."""

        def find() -> VideoIndex:
            return self._indexes.find(path, self._storage.resolve(path), tick)[0]

        with errors_of(path):
            return self._storage.run(path, find, tick)

    def report(self, path: str, tick: Tick = lambda: None) -> tuple[VideoIndex, Report]:
        """The index of ``path``, and what a complete decode tells of it. Raises StorageError, and
        VideoError also if there is a kind of frames that cannot be scaled."""

        def look() -> tuple[VideoIndex, Report]:
            return self._indexes.report(path, self._storage.resolve(path), tick)

        with errors_of(path):
            index, report = self._storage.run(path, look, tick)
        out = np.empty((1, *_SMALL.shape), np.uint8)
        for ordinal in report.kinds:
            start = min(ordinal, index.info.frames - 1)
            self.decode(path, _SMALL, [Request(0, start=start, end=start + 1)], out, tick)
        return index, report

    def fingerprint(self, path: str) -> int:
        """64 bits that two copies of a file, or of a sample's files, have in common. Raises
        VideoError."""
        return fingerprint_of(path, self._storage.fingerprint)

    def begin(self) -> None:
        """A training begins. It may find other files behind a URL than the one before."""
        self._storage.begin()

    def rest(self) -> None:
        """Keep no file open: there is nothing to do for now."""
        self._files.close()
        self._sounds.rest()

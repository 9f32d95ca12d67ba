"""`Recording`: one video file, or several that are its pieces, as an array of its frames.

Frame i is the same frame, with the same pixels, as in a clip. So a recording is another way to ask
for what `reading.frames` and `pixels.clip_pixels` make. It keeps the file that was read last open,
and reading goes on where the last call ended, so frames that are asked for in order are each
decoded once.
"""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn, Self, SupportsIndex, TypeVar

import numpy as np
import numpy.typing as npt

from videoload import native
from videoload.clips.choices import Pixels
from videoload.clips.clip_params import clip_params
from videoload.clips.clip_spec import ClipSpec, at_native_size, decoded_shape, height_and_width
from videoload.clips.moments import shown_at
from videoload.clips.pieces import Pieces
from videoload.clips.video_info import VideoInfo
from videoload.errors import (
    ClosedError,
    SpecError,
    StorageError,
    VideoError,
    errors_in,
    errors_of,
    named,
)
from videoload.index.index import VideoIndex, open_video
from videoload.pixels.clip_pixels import ClipPixels, SourceFrame
from videoload.reading.containers import UnreadableError
from videoload.reading.frames import StaleIndexError, Standing, read_frames
from videoload.reading.video import Video
from videoload.recordings.tools import tools
from videoload.storage.files import Storage, VideoFile
from videoload.storage.keep import cache_folder
from videoload.storage.paths import joined, pieces_of
from videoload.storage.roots import is_url, normal_url, open_storage

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

T = TypeVar("T")
OnePath = str | os.PathLike[str]
Where = OnePath | Sequence[OnePath]
Frames = npt.NDArray[np.uint8]

_AHEAD_FRAMES, _AHEAD_BYTES = 16, 4 << 20  # that a loop decodes in one go, at most


def open(  # noqa: A001 - it is called as `vl.open`
    path: Where,
    *,
    resize: int | None = None,
    pixels: Pixels = "rgb24",
    cache: str | os.PathLike[str] | Literal[False] | None = None,
) -> Recording:
    """Open a video file, to read any of its frames.

        with vl.open("a.avi") as video:
            first, last, some = video[0], video[-1], video.frames([5, 0, 5])

    Frame i is the i-th frame that a complete decode gives, exactly, with the same pixels as in a
    clip. The container's index and the headers of the packets usually prove the number of frames,
    and nothing is decoded. A file that proves nothing is decoded once.

    Args:
        path: The file; or the URL of a file in a bucket or on a web server, with the extra
            ``[remote]``. A list of them, or the path of a row with ``//`` in it: the pieces of one
            recording, in this order. A piece begins when the one before it ends.
        resize: Even length in pixels to which the short side of a frame is scaled. Default None:
            not scaled.
        pixels: Format of a frame. ``"rgb24"``, the default: [H, W, 3]. ``"gray"``: [H, W, 1],
            and ``"gray16"`` the same of uint16. ``"yuv420p"``: [H * 3 // 2, W], the planes Y, U and
            V one after the other.
        cache: Folder that keeps what is found out of files, as in `Client`. Default None.

    Returns:
        The file, open.

    Raises:
        VideoError: It is not there, is no video, or holds no frame that can be decoded; or a piece
            has frames of another size than the first one.
        StorageError: The host of a URL does not answer.
        SpecError: ``resize`` or ``pixels`` is not possible.
    """
    return Recording(path, resize=resize, pixels=pixels, cache=cache)


class Recording:
    """A video file as a sequence of frames, uint8 [H, W, 3]. Made by `open`.

    ``len(video)`` is the number of frames, ``video[i]`` one of them (-1: the last one),
    ``video[a:b:c]`` an array [n, H, W, 3], and a loop gives all in order, as quickly as they are
    decoded.

    It can be pickled and copied; a copy opens the file again. Threads may share a recording, and
    take turns then; to decode at the same time, each thread needs its own.

    Attributes:
        path: The file, as it was given to `open`; of several, as a row of a catalog has them: str.
        size: (height, width) of the frames that it gives, in pixels: tuple of two int.
        fps: Frames per second, on average; 0 if the file does not tell: float.
        is_proven: Whether the number of frames was proven without decoding: bool.
    """

    def __init__(
        self,
        path: Where,
        *,
        resize: int | None = None,
        pixels: Pixels = "rgb24",
        cache: str | os.PathLike[str] | Literal[False] | None = None,
    ) -> None:
        """Recordings are made by `open`.

        Args:
            path: As in `open`, like all that follow.
            resize: Default None.
            pixels: Default ``"rgb24"``.
            cache: Default None.
        """
        native.silence_ffmpeg()
        spec = ClipSpec(frames=1, resize=resize, pixels=pixels)
        if isinstance(path, str | os.PathLike):
            paths = [*pieces_of(os.fsdecode(path))]
        else:
            paths = list(map(os.fsdecode, path))
        if not paths:
            raise SpecError("open takes a file, or the files of one recording: there is none")
        self.path = joined(paths)
        self._open_again = partial(Recording, resize=resize, pixels=pixels, cache=cache)
        self._is_closed = False
        self._set_up()
        storages: dict[str, Storage] = {}
        self._files = [_File(each, cache_folder(cache), storages) for each in paths]
        self._pieces = Pieces([self._of(file, file.find) for file in self._files])
        self._keep_open(self._files[0])
        if (misfit := self._pieces.misfit()) is not None:
            raise VideoError(self.path, f"piece {paths[misfit[0]]}: {misfit[1]}")
        info = self._info = self._pieces.info
        self._spec = at_native_size(spec, *info.shown_size(spec))
        self._params = clip_params(self._spec, info, 0)
        self._shape = decoded_shape(self._spec)[1:]
        self._times: npt.NDArray[np.float64] | None = None
        self.size = height_and_width(self._spec)
        self.fps = float(info.fps)
        self.is_proven = all(file.index.order.is_proven for file in self._files)

    def _set_up(self) -> None:
        self._process = os.getpid()
        self._lock = threading.RLock()

    # What is in it

    def __len__(self) -> int:
        """The number of frames."""
        return self._info.frames

    @property
    def times(self) -> npt.NDArray[np.float64]:
        """When a player shows each frame, in seconds from the first one: float64 [n], read-only.
        NaN if the file does not tell."""
        if self._times is None:
            self._times = self._info.times_of(np.arange(len(self)))
            self._times.flags.writeable = False
        return self._times

    @property
    def codec(self) -> str:
        """FFmpeg's name of the codec: ``"mpeg4"``, ``"h264"``.

        Raises:
            VideoError: The file is not there any more.
        """
        with self._turn():
            return self._of(self._files[0], lambda: self._files[0].codec)

    def __repr__(self) -> str:
        height, width = self.size
        proven = "proven" if self.is_proven else "counted by decoding"
        return (
            f"Recording({named(self.path)!r}, {len(self)} frames ({proven}) of {width}x{height} "
            f"pixels, {self.fps:.5g} fps)"
        )

    # Its frames

    def __getitem__(self, which: SupportsIndex | slice) -> Frames:
        """A frame, [H, W, 3]; or the frames of a slice, [n, H, W, 3].

        Raises:
            IndexError: There is no such frame.
            VideoError: As in `frames`.
        """
        if isinstance(which, slice):
            return self.frames(range(*which.indices(len(self))))
        frame: Frames = self.frames([which])[0]
        return frame

    def frames(self, ordinals: Iterable[SupportsIndex]) -> Frames:
        """Frames by their numbers, in one pass over the file.

        Args:
            ordinals: Numbers of frames from 0 on, in any order; some may repeat. Negative ones
                count from the end.

        Returns:
            uint8 [n, H, W, 3], with ``pixels="gray"`` [n, H, W, 1], with ``"yuv420p"``
            [n, H * 3 // 2, W]: the frames in the order of ``ordinals``.

        Raises:
            IndexError: There is no such frame.
            VideoError: It cannot be decoded, or the file has changed since it was opened.
            StorageError: The host of a URL does not answer.
            ClosedError: The recording is closed.
        """
        wanted = [self._checked(ordinal) for ordinal in ordinals]
        out = np.empty((len(wanted), *self._shape), self._spec.dtype)
        self._read(wanted, out)
        return out

    def at(self, seconds: float) -> Frames:
        """The frame that a player shows at a time, counted from the first frame.

        Args:
            seconds: From 0 on. The last frame is shown from its own time on.

        Returns:
            uint8 [H, W, 3], like ``video[i]``.

        Raises:
            IndexError: The time lies before the first frame.
            VideoError: As in `frames`; or the file tells no times.
        """
        times = self.times
        if not times[-1] >= 0:
            raise VideoError(self.path, "does not tell when its frames are shown")
        if not seconds >= 0:
            raise IndexError(f"{self.path} begins at 0 s, there is no frame at {seconds} s")
        return self[int(shown_at(times, seconds))]

    def __iter__(self) -> Iterator[Frames]:
        """All frames in order, [H, W, 3] each.

        Raises:
            VideoError: As in `frames`.
        """
        frame_bytes = int(np.prod(self._shape))
        ahead = max(1, min(_AHEAD_FRAMES, _AHEAD_BYTES // frame_bytes))
        for first in range(0, len(self), ahead):
            ordinals = range(first, min(first + ahead, len(self)))
            rows = [
                np.empty(self._shape, self._spec.dtype) for _ in ordinals
            ]  # each lives by itself
            self._read(ordinals, rows)
            yield from rows

    # How they are read

    def _checked(self, ordinal: SupportsIndex) -> int:
        number, count = operator.index(ordinal), len(self)
        if not -count <= number < count:
            raise IndexError(f"{self.path} has {count} frames, there is no frame {number}")
        return number % count

    def _read(self, ordinals: Sequence[int], rows: Sequence[Frames] | Frames) -> None:
        """Write each frame into its row."""
        places: dict[int, list[Frames]] = {}
        for ordinal, row in zip(ordinals, rows, strict=True):
            places.setdefault(ordinal, []).append(row)
        if not places:
            return
        pieces = self._pieces
        with self._turn():
            for piece, own in groupby(sorted(places), pieces.piece_of):
                first, file = pieces.firsts[piece], self._files[piece]
                made = ClipPixels(
                    self._spec, pieces.infos[piece], self._params, tools.chains, rows[0][None]
                )
                write = partial(_write, made, places, first)
                self._keep_open(file)
                self._of(file, partial(file.decode, [at - first for at in own], write))

    def _keep_open(self, file: _File) -> None:
        for other in self._files:
            if other is not file:
                other.close()

    def _of(self, file: _File, work: Callable[[], T]) -> T:
        """Do ``work`` with a file. Errors name the path as the caller knows it."""
        if len(self._files) < 2:
            return file.run(work)
        with errors_in(self.path, f"piece {file.path}"):
            return file.run(work)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if self._process != os.getpid():  # a forked process shares the file's position
            self._set_up()
            storages: dict[str, Storage] = {}
            for file in self._files:
                file.set_up(storages)
        with self._lock:
            if self._is_closed:
                raise ClosedError(f"{self.path} is closed: open it again")
            yield

    # Its end, and its copies

    def close(self) -> None:
        """Close the file. Its frames cannot be read any more."""
        with self._lock:
            self._is_closed = True
            for file in self._files:
                file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., Recording], tuple[str | list[str]]]:
        whole = [file.whole_path for file in self._files]
        return self._open_again, (whole if len(whole) > 1 else whole[0],)


def _write(
    made: ClipPixels, places: Mapping[int, list[Frames]], first: int, at: int, frame: VideoFrame
) -> None:
    """Write frame ``at`` of a piece, whose ``first`` frame has that number, to its places."""
    place, *others = places[first + at]
    made.out = place[None]
    made.take(SourceFrame(frame), 0)
    made.finish()
    for other in others:
        np.copyto(other, place)


class _File:
    """One file of a recording.

    Attributes:
        path: As the caller knows it.
        index: What is known of it, once `find` was called.
    """

    index: VideoIndex

    def __init__(self, path: str, cache: str | None, storages: dict[str, Storage]) -> None:
        self.path = path
        self._root, self._name = _place(path)
        self._indexes = tools.indexes(cache, self._root)
        self._opened: Video | None = None
        self._file: VideoFile | None = None
        self.set_up(storages)

    def set_up(self, storages: dict[str, Storage]) -> None:
        """Begin, also in a process that was forked: it shares the file's position, and has none of
        the threads that fetch. ``storages``: of the other files, by their roots."""
        if self._root not in storages:
            storages[self._root] = open_storage(self._root)
        self._storage = storages[self._root]
        self._opened, self._standing = None, Standing()
        if self._file is None:
            with suppress(VideoError, StorageError):  # `find` raises it
                self._storage.expect(self._name)
        elif self._storage.fetches:
            self._file = self.run(lambda: self._storage.resolve(self._name))

    def find(self) -> VideoInfo:
        """Find out what is in it. Raises UnreadableError, VideoError."""
        file = self._file = self._storage.resolve(self._name)
        self.index, self._opened = self._indexes.find(self._name, file, _no_tick)
        return self.index.info

    @property
    def codec(self) -> str:
        """FFmpeg's name of the codec."""
        if self.index.avi is not None:
            return self.index.avi.codec
        return str(self._open().decoder.context.codec.name)

    @property
    def whole_path(self) -> str:
        """The path from any working directory."""
        return self.path if is_url(self.path) else f"/{self._name}"

    def decode(self, wanted: list[int], write: Callable[[int, VideoFrame], None]) -> None:
        """Call ``write`` with each of these frames, which rise."""
        index = self.index
        index.want(self._known, wanted)
        opened, standing = self._open(), self._standing
        self._opened, self._standing = None, Standing()  # unless all goes well
        try:
            if read_frames(opened, index.order, wanted, write, _no_tick, standing=standing):
                self._opened, self._standing = opened, standing
        except StaleIndexError:
            self._indexes.forget(self._name, index)
            self._changed()

    def run(self, work: Callable[[], T]) -> T:
        """Do ``work`` with the file. Raises VideoError, StorageError."""
        with errors_of(self.path):
            try:
                anew = None if self._file is None else self._changed
                return self._storage.run(self._name, work, _no_tick, self._file, anew)
            except UnreadableError as error:
                raise VideoError(self.path, str(error)) from None
            except VideoError as error:
                raise VideoError(self.path, error.reason) from None

    def close(self) -> None:
        """Close the file."""
        if self._opened is not None:
            self._opened.close()
        self._opened, self._standing = None, Standing()

    @property
    def _known(self) -> VideoFile:
        assert self._file is not None
        return self._file

    def _open(self) -> Video:
        if self._opened is None:
            self._opened = open_video(self._known, self.index)
        return self._opened

    def _changed(self) -> NoReturn:
        raise VideoError(self.path, "has changed since it was opened")


def _place(path: str) -> tuple[str, str]:
    """The root of a file, and its path there. The root of a local file is that of all files."""
    if not is_url(path):
        return "/", str(Path.cwd() / path)[1:]
    root, _, name = path.rpartition("/")
    try:
        return normal_url(root), name
    except ValueError as error:
        raise SpecError(str(error)) from None


def _no_tick() -> None:
    pass

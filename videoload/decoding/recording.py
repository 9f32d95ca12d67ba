"""`Recording`: one video file, or several that are its pieces, as an array of its frames.

Frames are decoded as for a clip: so they have the same pixels. The last file stays open, and
reading resumes where the last call ended, so frames that are read in order are each decoded once.
"""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal, Self, SupportsIndex

import numpy as np
import numpy.typing as npt

from videoload import native
from videoload.arguments import suggests
from videoload.clips.choices import Pixels
from videoload.clips.clip_params import clip_params
from videoload.clips.clip_spec import ClipSpec, at_native_size, decoded_shape, height_and_width
from videoload.clips.moments import shown_at
from videoload.clips.rows import Clip
from videoload.decoding.audio_reader import AudioReader
from videoload.decoding.recording_tools import tools
from videoload.decoding.source import DecodingTools, Source
from videoload.decoding.videos import Videos
from videoload.errors import ClosedError, SpecError, VideoError, errors_of, named
from videoload.reading.frames import ReadPosition
from videoload.reading.index import VideoIndex, open_video
from videoload.reading.video import VideoReader
from videoload.stopwatch import Stopwatch
from videoload.storage.cache_directories import CacheDirectories, cache_folder
from videoload.storage.dataset_index import NAME
from videoload.storage.files import retry_if_replaced
from videoload.storage.paths import ARCHIVES, joined, pieces_of
from videoload.storage.roots import index_of, is_url, open_storage, pinned_url
from videoload.storage.video_file import VideoFile

OnePath = str | os.PathLike[str]
Where = OnePath | Sequence[OnePath]
Frames = npt.NDArray[np.uint8]

_AHEAD_FRAMES, _AHEAD_BYTES = 16, 4 << 20  # that a loop decodes in one go, at most


@suggests
def open(  # noqa: A001 - it is called as `vl.open`
    path: Where,
    *,
    resize: int | None = None,
    pixels: Pixels = "rgb24",
    cache: str | os.PathLike[str] | Literal[False] | None = None,
    index: str | os.PathLike[str] | Literal[False] | None = None,
) -> Recording:
    """Open a video file, and return a reader of any of its frames.

    Examples:
        >>> with vl.open("ntu/S001.avi") as video:
        ...     first, last, some = video[0], video[-1], video.frames([5, 0, 5])
        >>> some.shape
        (3, 60, 80, 3)

    Frame i is the i-th frame that a complete decode gives, exactly, with the same pixels as in a
    clip. The container's index and the headers of the packets usually prove the number of frames,
    and nothing is decoded. A file that proves nothing is decoded once.

    Args:
        path: The file; or the URL of a file in a bucket or on a web server, with the extra
            ``[remote]``. A list of them, or the path of a row with ``//`` in it: the pieces of one
            recording, in this order. A piece begins when the one before it ends.
        resize: Even length in pixels to which the short side of a frame is scaled. Default None:
            not scaled.
        pixels: Format of a frame, as a clip has it (`ClipSpec`): ``"rgb24"``, the default, is
            [H, W, 3].
        cache: Folder for the indexes of files, as in `Client`. Default None.
        index: The index of the set that the file belongs to, as in `Client`. None, the default: the
            one in the nearest folder above a file of this host, or in the folder of a URL.

    Returns:
        The file, open.

    Raises:
        VideoError: It is not there, is no video, or holds no frame that can be decoded; or a piece
            has frames of another size than the first one.
        StorageError: The host of a URL does not respond.
        SpecError: ``resize`` or ``pixels`` is not possible, or there is no such ``index``.
    """
    return Recording(path, resize=resize, pixels=pixels, cache=cache, index=index)


class Recording:
    """A video file as a sequence of frames, uint8 [H, W, 3]. Created by `open`.

    ``len(video)`` is the number of frames, ``video[i]`` one of them (-1: the last one),
    ``video[a:b:c]`` an array [n, H, W, 3], and a loop gives all in order, as quickly as they are
    decoded.

    It can be pickled and copied; a copy opens the file again. Threads may share a recording: each
    opens the file for itself.

    Attributes:
        path: The file, as it was given to `open`; of several, as a row of a catalog has them: str.
        size: (height, width) of the frames that it gives, in pixels: tuple of two int.
        fps: Frames per second, on average; 0 if unknown: float.
        is_proven: Whether the number of frames was proven without decoding: bool.
    """

    def __init__(
        self,
        path: Where,
        *,
        resize: int | None = None,
        pixels: Pixels = "rgb24",
        cache: str | os.PathLike[str] | Literal[False] | None = None,
        index: str | os.PathLike[str] | Literal[False] | None = None,
    ) -> None:
        """Use `open` to create recordings.

        Args:
            path: As in `open`, like all that follow.
            resize: Default None.
            pixels: Default ``"rgb24"``.
            cache: Default None.
            index: Default None.
        """
        native.silence_ffmpeg()
        spec = ClipSpec(frames=1, resize=resize, pixels=pixels)
        if isinstance(path, str | os.PathLike):
            paths = [*pieces_of(os.fsdecode(path))]
        else:
            paths = list(map(os.fsdecode, path))
        if not paths:
            raise SpecError("vl.open needs a file, or the files of one recording")
        if archive := next((each for each in paths if each.lower().endswith(ARCHIVES)), None):
            raise VideoError(archive, f"it is an archive: open a member, like {archive}/a.mp4")
        self.path = joined(paths)
        self._open_again = partial(
            Recording, resize=resize, pixels=pixels, cache=cache, index=index
        )
        self._is_closed = False
        self._root, names = _places(paths)
        self._name = joined(names)
        set_index = index_of(index)
        if set_index is None and not is_url(self._root):
            above = (folder / NAME for folder in Path(self._root, names[0]).parents)
            set_index = next((str(file) for file in above if file.is_file()), None)
        self._reader = _Reader(self._root, CacheDirectories(cache_folder(cache), index=set_index))
        with self._reading() as reader:
            whole = reader.tools.videos.info(self._name, _no_tick) if len(names) > 1 else None
            found = {name: reader.find(name) for name in names}
            info = self._info = whole or found[self._name][1].info
        self._identities = {name: file.identity for name, (file, _) in found.items()}
        self._spec = at_native_size(spec, *info.shown_size(spec))
        self._params = clip_params(self._spec, info, Clip(0))
        self._shape = decoded_shape(self._spec)[1:]
        self._times: npt.NDArray[np.float64] | None = None
        self.size = height_and_width(self._spec)
        self.fps = float(info.fps)
        self.is_proven = all(index.order.is_proven for _, index in found.values())

    # What is in it

    def __len__(self) -> int:
        """Return the number of frames."""
        return self._info.num_frames

    @property
    def times(self) -> npt.NDArray[np.float64]:
        """When a player shows each frame, in seconds from the first one: float64 [n], read-only.
        NaN if unknown."""
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
        with self._reading() as reader:
            return reader.codec(pieces_of(self._name)[0])

    def __repr__(self) -> str:
        height, width = self.size
        proven = "proven" if self.is_proven else "counted by decoding"
        return (
            f"Recording({named(self.path)!r}, {len(self)} frames ({proven}) of {width}x{height} "
            f"pixels, {self.fps:.5g} fps)"
        )

    # Its frames

    def __getitem__(self, which: SupportsIndex | slice) -> Frames:
        """Return a frame, [H, W, 3]; or the frames of a slice, [n, H, W, 3].

        Raises:
            IndexError: There is no such frame.
            VideoError: As in `frames`.
        """
        if isinstance(which, slice):
            return self.frames(range(*which.indices(len(self))))
        frame: Frames = self.frames([which])[0]
        return frame

    def frames(self, ordinals: Iterable[SupportsIndex]) -> Frames:
        """Return frames by their numbers, in one pass over the file.

        Args:
            ordinals: Numbers of frames from 0 on, in any order; some may repeat. Negative ones
                count from the end.

        Returns:
            uint8 [n, H, W, 3], or as ``pixels`` says: the frames in the order of ``ordinals``.

        Raises:
            IndexError: There is no such frame.
            VideoError: It cannot be decoded, or the file has changed since it was opened.
            StorageError: The host of a URL does not respond.
            ClosedError: The recording is closed.
        """
        wanted = [self._checked(ordinal) for ordinal in ordinals]
        out = np.empty((len(wanted), *self._shape), self._spec.dtype)
        self._read(wanted, out)
        return out

    def at(self, seconds: float) -> Frames:
        """Return the frame that a player shows at a time, counted from the first frame.

        Args:
            seconds: From 0 on. The last frame is shown from its own time on.

        Returns:
            uint8 [H, W, 3], like ``video[i]``.

        Raises:
            IndexError: The time lies before the first frame.
            VideoError: As in `frames`; or the file has no timestamps.
        """
        times = self.times
        if not times[-1] >= 0:
            raise VideoError(self.path, "has no display times")
        if not seconds >= 0:
            raise IndexError(f"{self.path} begins at 0 s, there is no frame at {seconds} s")
        return self[int(shown_at(times, seconds))]

    def __iter__(self) -> Iterator[Frames]:
        """Yield all frames in order, [H, W, 3] each.

        Raises:
            VideoError: As in `frames`.
        """
        ahead = max(1, min(_AHEAD_FRAMES, _AHEAD_BYTES // int(np.prod(self._shape))))
        block = np.empty((ahead, *self._shape), self._spec.dtype)
        for first in range(0, len(self), ahead):
            some = block[: len(self) - first]
            self._read(range(first, first + len(some)), some)
            yield from map(np.copy, some)  # each lives by itself

    # How they are read

    def _checked(self, ordinal: SupportsIndex) -> int:
        number, count = operator.index(ordinal), len(self)
        if not -count <= number < count:
            raise IndexError(f"{self.path} has {count} frames, there is no frame {number}")
        return number % count

    def _read(self, ordinals: Sequence[int], out: Frames) -> None:
        """Write the frames of these numbers into ``out``."""
        if not ordinals:
            return
        shown = [self._params._replace(frame_indices=np.array(ordinals))]
        with self._reading() as reader:

            def read() -> None:
                source = Source(reader.tools, self._name, self._spec, _no_tick, self._identities)
                if source.info != self._info:
                    raise VideoError(self.path, "has changed since it was opened")
                source.prefetch(shown, [out], _no_tick)
                source.read(_no_tick)

            retry_if_replaced(self._name, read)

    @contextmanager
    def _reading(self) -> Iterator[_Reader]:
        """Yield the tools of this thread. Errors contain the path as passed by the caller."""
        if self._is_closed:
            raise ClosedError(f"{self.path} is closed: open it again")
        try:
            with errors_of(self.path):
                yield self._reader.here()
        except VideoError as error:
            reason = error.reason
            if self._root == "/" and reason.startswith("piece "):
                reason = reason.replace("piece ", "piece /", 1)
            raise VideoError(self.path, reason) from None

    # Its end, and its copies

    def close(self) -> None:
        """Close the file. Its frames cannot be read any more. What other threads have opened of it
        is closed when the recording is gone."""
        self._is_closed = True
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., Recording], tuple[str | list[str]]]:
        whole = [f"{self._root.rstrip('/')}/{name}" for name in pieces_of(self._name)]
        return self._open_again, (whole if len(whole) > 1 else whole[0],)


class _Reader(threading.local):
    """What reads a recording: each thread has its own, and a forked process begins again."""

    def __init__(self, root: str, folders: CacheDirectories) -> None:
        self._of, self._process = (root, folders), 0

    def here(self) -> Self:
        """Return the reader of this process, which shares the position of no file with another
        one."""
        if self._process != os.getpid():
            (root, folders), self._process = self._of, os.getpid()
            storage = open_storage(root)
            indexes = tools.indexes(folders, storage)
            self._opened: VideoReader | None = None
            self.tools = DecodingTools(
                Videos(storage, indexes), self, tools.graphs, None, Stopwatch(), AudioReader(),
                ReadPosition(),
            )  # fmt: skip
        return self

    def find(self, name: str) -> tuple[VideoFile, VideoIndex]:
        """Return a file, and what is known of it. Raises VideoError, StorageError."""
        find = self.tools.videos.find_file
        return retry_if_replaced(name, lambda: find(name, _no_tick))

    def codec(self, name: str) -> str:
        """FFmpeg's name of a file's codec. Raises VideoError, StorageError, UnreadableError."""
        file, index = self.find(name)
        if index.placed is not None:
            return index.placed.codec
        opened = self.open(file, index)
        self.put(opened)
        return str(opened.decoder.context.codec.name)

    # The file that was read last

    def open(
        self, file: VideoFile, index: VideoIndex, watch: Stopwatch | None = None
    ) -> VideoReader:
        """As `OpenVideos.open`."""
        opened, self._opened = self._opened, None
        if opened is not None:
            if (opened.file.path, opened.file.identity) == (file.path, file.identity):
                return opened
            opened.close()
        return open_video(file, index, watch=watch)

    def put(self, opened: VideoReader) -> None:
        """Return an open file, as `OpenVideos.put`."""
        self._opened = opened

    def close(self) -> None:
        """Close the file."""
        if self._process == os.getpid() and self._opened is not None:
            self._opened.close()
            self._process = 0


def _places(paths: Sequence[str]) -> tuple[str, list[str]]:
    """Return the root of files, and their paths there. The root of local files is that of all
    files. Raises SpecError."""
    if not any(map(is_url, paths)):
        return "/", [str(Path.cwd() / path)[1:] for path in paths]
    root = paths[0].rpartition("/")[0]
    while root and not all(path.startswith(f"{root}/") for path in paths):
        root = root.rpartition("/")[0]
    try:
        return pinned_url(root), [path[len(root) + 1 :] for path in paths]
    except ValueError as error:
        raise SpecError(str(error)) from None


def _no_tick() -> None:
    pass

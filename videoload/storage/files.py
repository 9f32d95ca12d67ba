"""Files by their paths, inside one root and nowhere else: the interface, and a folder of this host.

A root is a folder or a URL. Whoever reads videos asks a `Storage` for a `VideoFile`, and need not
know which of the two it is: what only a URL needs does nothing for a folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from contextlib import closing
from hashlib import blake2b
from typing import Protocol, TypeVar

from cachetools import LRUCache

from videoload.errors import VideoError
from videoload.storage.images import ImageFolder, find_images, folder_and_pattern
from videoload.storage.spans import Range

T = TypeVar("T")
Tick = Callable[[], None]
Work = Callable[[], T]
RangesOf = Callable[[int], Iterable[Range]]  # of a file of this size

SMALL_BYTES = 4 << 20  # a file up to this size is read in one go when its index is made
NO_FOLDER = os.devnull  # the root of a training without files: nothing lies in it
BLOCK_BYTES = 32 << 10  # the least that is read at once
_SAMPLES, _SAMPLE_BYTES = 5, 2048  # of a file, to tell one copy from another
_FINGERPRINTS_KEPT = 4096
_IMAGES_KEPT = 200_000  # whose names and sizes are known, 100 bytes each


class OpenFile(Protocol):
    """A file that is open for reading at any position. Each method may raise OSError."""

    def pread(self, length: int, at: int) -> bytes | memoryview:
        """``length`` bytes from ``at`` on; fewer at the end of the file."""

    def read_block(self, at: int, least: int) -> bytes | memoryview:
        """At least ``least`` bytes from ``at`` on, and more if they cost nothing; fewer at the end
        of the file."""

    def close(self) -> None:
        """Close the file."""


class VideoFile(Protocol):
    """One version of a file."""

    path: str  # FFmpeg guesses the format from how it ends
    identity: tuple[int, ...]  # differs if the file was changed or replaced
    fetches: bool  # whether reading may need a request to another host

    @property
    def size(self) -> int:
        """Bytes."""

    @property
    def mtime_ns(self) -> int:
        """When it was changed. Of a file below a URL: a number that stands for its version."""

    def open(self) -> OpenFile:
        """Open it for reading. Raises OSError."""

    def ffmpeg_source(self) -> object:
        """What FFmpeg opens: a path, or an object to read from."""

    def was_opened(self) -> None:
        """FFmpeg has opened it: what it has read so far is what opening takes."""

    def want(self, ranges: Iterable[Range]) -> None:
        """These bytes are needed soon."""

    def want_frames(self, ranges: RangesOf, *, opening: bool) -> None:
        """The frames in these bytes are needed soon. ``opening``: FFmpeg has to open the file for
        them."""

    def check(self) -> None:
        """Raise the error that a reader met, if it could not raise it itself."""


class Storage(Protocol):
    """The files below a root."""

    root: str
    fetches: bool  # whether files come from another host, so that it helps to `expect` them

    def resolve(self, path: str) -> VideoFile:
        """The file that ``path`` leads to, inside the root. Raises VideoError, StorageError."""

    def fingerprint(self, path: str) -> int:
        """63 bits that two copies of a file have in common, of its size, its beginning, its end and
        samples in between; never 0. Raises VideoError, StorageError."""

    def expect(self, path: str) -> VideoFile | None:
        """Ask for the beginning of a file that is needed soon. Returns the file if it is known
        already and more of it may be asked for. Raises what `resolve` raises."""

    def begin(self) -> None:
        """A training begins. It may find other files than the one before."""

    def run(
        self, path: str, work: Work[T], tick: Tick, file: VideoFile | None = None,
        anew: Work[T] | None = None,
    ) -> T:  # fmt: skip
        """Returns what ``work`` makes of the file at ``path``. ``tick`` is called while bytes are
        waited for. If bytes did not come, the reason is raised in the place of whatever that led
        to. If the file has changed, or a kept copy of it is of no use, ``anew`` (``work`` if None)
        is done with the file as it is now. ``file``: the version that ``work`` reads."""


class LocalFile:
    """A `VideoFile` of this host."""

    fetches = False

    def __init__(self, path: str, status: os.stat_result) -> None:
        self.path = path
        self.size, self.mtime_ns = status.st_size, status.st_mtime_ns
        self.identity: tuple[int, ...] = status.st_dev, status.st_ino, self.size, self.mtime_ns

    def open(self) -> OpenFile:
        return _OpenLocalFile(self.path)

    def ffmpeg_source(self) -> str:
        return self.path

    def was_opened(self) -> None: ...

    def want(self, ranges: Iterable[Range]) -> None: ...

    def want_frames(self, ranges: RangesOf, *, opening: bool) -> None: ...

    def check(self) -> None: ...


class _OpenLocalFile:
    def __init__(self, path: str) -> None:
        self._raw = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def pread(self, length: int, at: int) -> bytes:
        return os.pread(self._raw, length, at)

    def read_block(self, at: int, least: int) -> bytes:
        return os.pread(self._raw, max(least, BLOCK_BYTES), at)

    def close(self) -> None:
        os.close(self._raw)


class Folder:
    """A `Storage` of the files in a folder of this host."""

    fetches = False

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = os.path.realpath(root)
        self._fingerprints: LRUCache[str, tuple[tuple[int, ...], int]] = LRUCache(
            _FINGERPRINTS_KEPT
        )
        self._folders: LRUCache[str, ImageFolder] = LRUCache(
            _IMAGES_KEPT, lambda known: len(known.names)
        )

    def resolve(self, path: str) -> VideoFile:
        place, pattern = folder_and_pattern(path)
        try:
            full, status = self._plain(place) or self._linked(place)
            if stat.S_ISDIR(status.st_mode):
                return self._images(path, full, status, pattern)
        except ValueError as error:  # a zero byte, half a surrogate pair
            raise VideoError(path, f"cannot be a file name ({error})") from None
        except OSError as error:
            raise VideoError(path, f"cannot be opened: {error.strerror}") from None
        # Opening a pipe would wait for a writer, for ever.
        if pattern is not None or not stat.S_ISREG(status.st_mode):
            raise VideoError(path, "is not a file")
        return LocalFile(full, status)

    def fingerprint(self, path: str) -> int:
        file = self.resolve(path)
        identity, known = self._fingerprints.get(path, ((), 0))
        if identity != file.identity:
            known = sample(path, file)
            self._fingerprints[path] = file.identity, known
        return known

    def _images(
        self, path: str, full: str, status: os.stat_result, pattern: str | None
    ) -> ImageFolder:
        """The images in a folder. They are looked at again if one came, went or was replaced, and
        when a training begins. Raises VideoError, OSError."""
        version = status.st_dev, status.st_ino, status.st_mtime_ns
        known = self._folders.get(path)
        if known is not None and known.identity == version:
            return known
        try:
            names = find_images(full, pattern, self._is_inside)
        except ValueError as error:
            raise VideoError(path, str(error)) from None
        where = full if pattern is None else f"{full}/{pattern}"
        found = ImageFolder(where, full, names, version)
        if len(names) <= _IMAGES_KEPT:
            self._folders[path] = found
        return found

    def _is_inside(self, link: str) -> bool:
        return os.path.commonpath((os.path.realpath(link), self.root)) == self.root

    def expect(self, path: str) -> None: ...

    def begin(self) -> None:
        self._folders.clear()

    def run(
        self, path: str, work: Work[T], tick: Tick, file: VideoFile | None = None,
        anew: Work[T] | None = None,
    ) -> T:  # fmt: skip
        return work()

    def _plain(self, path: str) -> tuple[str, os.stat_result] | None:
        """The file, if the path has no ``..`` and no link in it. The root is resolved already, so
        this takes half the time of resolving all of it again."""
        at = self.root
        for part in path.split("/"):
            if part in ("", ".", ".."):
                return None
            at = f"{at}/{part}"
            status = os.lstat(at)
            if stat.S_ISLNK(status.st_mode):
                return None
        return at, status

    def _linked(self, path: str) -> tuple[str, os.stat_result]:
        full = os.path.realpath(os.path.join(self.root, path))
        if os.path.commonpath((full, self.root)) != self.root:
            raise VideoError(path, f"lies outside of the root {self.root}")
        return full, os.stat(full)


def sample(path: str, file: VideoFile) -> int:
    """The fingerprint of a file that ``path`` leads to. Raises VideoError."""
    size = file.size
    places = [max(0, (size - _SAMPLE_BYTES) * i // (_SAMPLES - 1)) for i in range(_SAMPLES)]
    file.want(Range(at, at + _SAMPLE_BYTES) for at in places)
    digest = blake2b(size.to_bytes(8, "little"), digest_size=8)
    try:
        with closing(file.open()) as opened:
            for at in places:
                digest.update(opened.pread(_SAMPLE_BYTES, at))
    except OSError as error:
        raise VideoError(path, f"cannot be read: {error.strerror}") from None
    return int.from_bytes(digest.digest(), "little") >> 1 or 1

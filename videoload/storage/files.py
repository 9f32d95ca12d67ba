"""Files by their paths, inside one root and nowhere else: the interface, and a folder of this host.

A root is a folder or a URL. Whoever reads videos asks a `Storage` for a `VideoFile`, and needs not
know which of the two it is: what only a URL needs does nothing for a folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from contextlib import closing
from hashlib import blake2b
from typing import NamedTuple, Protocol, TypeVar, cast

from cachetools import LRUCache

from videoload.errors import VideoError
from videoload.storage.spans import Range

T = TypeVar("T")

SMALL_BYTES = 4 << 20  # a file up to this size is read in one go when its index is made
NO_FOLDER = os.devnull  # the root of a training without files: nothing lies in it
_BLOCK_BYTES = 32 << 10  # the least that is read at once
_SAMPLES, _SAMPLE_BYTES = 5, 2048  # of a file, to tell one copy from another
_FINGERPRINTS_KEPT = 4096

# Reading into memory that is in the CPU's caches takes two thirds of the time.
_spare: list[bytearray] = []


class Status(Protocol):
    """The part of `os.stat_result` that is needed here."""

    @property
    def st_mode(self) -> int: ...
    @property
    def st_dev(self) -> int: ...
    @property
    def st_ino(self) -> int: ...
    @property
    def st_size(self) -> int: ...
    @property
    def st_mtime_ns(self) -> int: ...


class OpenFile(Protocol):
    """A file that is open for reading at any position. Each method may raise OSError."""

    def pread(self, length: int, at: int) -> bytes | memoryview:
        """``length`` bytes from ``at`` on; fewer at the end of the file."""

    def read_block(self, at: int, least: int) -> bytes | memoryview:
        """At least ``least`` bytes from ``at`` on, and more if they cost nothing; fewer at the end
        of the file."""

    def read_all(self, size: int) -> memoryview:
        """The first ``size`` bytes. They are valid until `close`."""

    def close(self) -> None:
        """Close the file."""


class VideoFile(Protocol):
    """One version of a file."""

    @property
    def path(self) -> str:
        """Where it is. FFmpeg guesses its format from how the path ends."""

    @property
    def status(self) -> Status:
        """What the file system says of this version."""

    @property
    def identity(self) -> tuple[int, ...]:
        """Differs if the file was changed or replaced."""

    @property
    def fetches(self) -> bool:
        """Whether reading may need a request to another host."""

    def open(self) -> OpenFile:
        """Open it for reading. Raises OSError."""

    def ffmpeg_source(self) -> object:
        """What FFmpeg opens: a path, or something to read from."""

    def was_opened(self) -> None:
        """FFmpeg has opened it: what it has read so far is what opening takes."""

    def want(self, ranges: Iterable[Range]) -> None:
        """These bytes are needed soon."""

    def want_frames(self, ranges: Callable[[int], Iterable[Range]], *, opening: bool) -> None:
        """The frames in these bytes are needed soon. ``ranges`` takes the size of the file.
        ``opening``: FFmpeg has to open the file for them."""

    def check(self) -> None:
        """Raise the error that a reader met, if it could not raise it itself."""


class Storage(Protocol):
    """The files below a root."""

    root: str

    @property
    def fetches(self) -> bool:
        """Whether files come from another host, so that it helps to `expect` them."""

    def resolve(self, path: str) -> VideoFile:
        """The file that ``path`` leads to, inside the root. Raises VideoError, StorageError."""

    def fingerprint(self, path: str) -> int:
        """63 bits that two copies of a file have in common, of its size, its beginning, its end and
        samples in between; never 0. Raises VideoError, StorageError."""

    def expect(self, path: str) -> VideoFile | None:
        """Ask for the beginning of a file that is needed soon. Returns the file if it is known
        already and the parts that are needed may be asked for. Raises what `resolve` raises."""

    def begin(self) -> None:
        """A training begins. It may find other files than the one before."""

    def run(
        self,
        path: str,
        work: Callable[[], T],
        tick: Callable[[], None],
        file: VideoFile | None = None,
        anew: Callable[[], T] | None = None,
    ) -> T:
        """Returns what ``work`` makes of the file at ``path``. ``tick`` is called while bytes are
        waited for. If bytes did not come, the reason is raised in the place of whatever that led
        to. If the file has changed, or a kept copy of it is of no use, ``anew`` (``work`` if None)
        is done with the file as it is now. ``file``: the version that ``work`` reads."""


def sample_file(path: str, file: VideoFile) -> int:
    """The fingerprint of a file that ``path`` leads to. Raises VideoError."""
    size = file.status.st_size
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


class LocalFile(NamedTuple):
    """A file of this host."""

    path: str
    status: Status

    @property
    def identity(self) -> tuple[int, ...]:
        """As `VideoFile.identity`."""
        status = self.status
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

    @property
    def fetches(self) -> bool:
        """As `VideoFile.fetches`."""
        return False

    def open(self) -> OpenFile:
        """As `VideoFile.open`."""
        return _OpenLocalFile(self.path)

    def ffmpeg_source(self) -> str:
        """As `VideoFile.ffmpeg_source`."""
        return self.path

    def was_opened(self) -> None:
        """Nothing has to be remembered."""

    def want(self, ranges: Iterable[Range]) -> None:
        """Nothing has to be fetched."""

    def want_frames(self, ranges: Callable[[int], Iterable[Range]], *, opening: bool) -> None:
        """Nothing has to be fetched."""

    def check(self) -> None:
        """Each error is raised where it occurs."""


class _OpenLocalFile:
    def __init__(self, path: str) -> None:
        self._raw = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._all: memoryview | None = None

    def pread(self, length: int, at: int) -> bytes:
        return os.pread(self._raw, length, at)

    def read_block(self, at: int, least: int) -> bytes:
        return os.pread(self._raw, max(least, _BLOCK_BYTES), at)

    def read_all(self, size: int) -> memoryview:
        buffer = _spare.pop() if _spare else bytearray(SMALL_BYTES)
        self._all = memoryview(buffer)
        return self._all[: os.preadv(self._raw, [self._all[:size]], 0)]

    def close(self) -> None:
        os.close(self._raw)
        if self._all is not None:
            _spare.append(cast(bytearray, self._all.obj))


class Folder:
    """A `Storage` of the files in a folder of this host."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = os.path.realpath(root)
        self._fingerprints: LRUCache[str, tuple[tuple[int, ...], int]] = LRUCache(
            _FINGERPRINTS_KEPT
        )

    @property
    def fetches(self) -> bool:
        """As `Storage.fetches`."""
        return False

    def resolve(self, path: str) -> LocalFile:
        """As `Storage.resolve`."""
        try:
            file = self._plain(path) or self._linked(path)
        except ValueError as error:  # a zero byte, half a surrogate pair
            raise VideoError(path, f"cannot be a file name ({error})") from None
        except OSError as error:
            raise VideoError(path, f"cannot be opened: {error.strerror}") from None
        # Opening a pipe would wait for a writer, for ever.
        if not stat.S_ISREG(file.status.st_mode):
            raise VideoError(path, "is not a file")
        return file

    def fingerprint(self, path: str) -> int:
        """As `Storage.fingerprint`."""
        file = self.resolve(path)
        identity, known = self._fingerprints.get(path, ((), 0))
        if identity != file.identity:
            known = sample_file(path, file)
            self._fingerprints[path] = file.identity, known
        return known

    def expect(self, path: str) -> None:
        """Nothing has to be fetched."""

    def begin(self) -> None:
        """Each file is looked at whenever it is used."""

    def run(
        self,
        path: str,
        work: Callable[[], T],
        tick: Callable[[], None],
        file: VideoFile | None = None,
        anew: Callable[[], T] | None = None,
    ) -> T:
        """As `Storage.run`."""
        return work()

    def _plain(self, path: str) -> LocalFile | None:
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
        return LocalFile(at, status)

    def _linked(self, path: str) -> LocalFile:
        full = os.path.realpath(os.path.join(self.root, path))
        if os.path.commonpath((full, self.root)) != self.root:
            raise VideoError(path, f"lies outside of the root {self.root}")
        return LocalFile(full, os.stat(full))

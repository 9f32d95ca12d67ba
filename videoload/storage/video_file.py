"""A file as it is read: one version of it, at any position."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol


class OpenFile(Protocol):
    """A file that is open for reading at any position. Each method may raise OSError."""

    def pread(self, length: int, at: int) -> bytes | memoryview:
        """Return ``length`` bytes from ``at`` on; fewer at the end of the file."""

    def close(self) -> None:
        """Close the file."""


class VideoFile(Protocol):
    """One version of a file.

    Attributes:
        path: FFmpeg guesses the format from how it ends.
        fetches: Whether reading may need a request to another host.
        has_version: Whether a changed file would be seen to be another one. If not, no finding may
            be cached for other processes.
        version: What every host that sees this file sees of it, and of no other one: the size and
            the times of change of a file in a folder, the size and the tag of one below a URL.
        key: The same, with all that only this host knows.
        opening: The bytes [begin, end) that opening it read, if it is on another host.
    """

    path: str
    fetches: bool
    has_version: bool
    version: bytes
    key: bytes
    opening: Sequence[tuple[int, int]]

    @property
    def identity(self) -> bytes:
        """`IDENTITY_BYTES` that differ if the file was changed or replaced: of a file of this host,
        its size, times of change and inode; of one below a URL, what its server sends."""

    @property
    def size(self) -> int:
        """Bytes."""

    def open(self) -> OpenFile:
        """Open it for reading. Raises OSError, FileReplacedError."""

    def ffmpeg_source(self) -> object:
        """Return the source that FFmpeg opens: a path, or an object to read from."""

    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        """The bytes [begin, end) are needed soon."""

    def check(self) -> None:
        """Call this after FFmpeg has opened the file, and after each pass over it: what it reads
        before the first call is what `opening` takes. Raises FileReplacedError, and the error that
        a reader met but could not raise itself."""

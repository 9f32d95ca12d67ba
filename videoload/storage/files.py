"""Files by their paths, inside one root and nowhere else.

A root is a folder of this host, or a URL: `open_storage` tells which. Of a local file FFmpeg and
the index read by its path; of one below a URL, through its ``content``, which fetches what they
ask for.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, Protocol, Union

from cachetools import LRUCache

from videoload.errors import VideoError
from videoload.storage.keep import Keep
from videoload.storage.roots import is_url

if TYPE_CHECKING:
    from videoload.storage.remote import RemoteFile, RemoteStorage

SMALL_BYTES = 4 << 20  # a file up to this size is read in one go, when its index is made
_SAMPLES, _SAMPLE_BYTES = 5, 2048  # of a file, to tell one copy from another
_FINGERPRINTS_KEPT = 4096
NO_FOLDER = os.devnull  # the root of what has no files: nothing lies in it


class Status(Protocol):
    """What the file system says of a file, as far as it is asked."""

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


class VideoFile(NamedTuple):
    """A file, and what the file system just said of it; ``content`` of one below a URL."""

    path: str
    status: Status
    content: RemoteFile | None = None

    @property
    def identity(self) -> tuple[int, ...]:
        """Differs where it has become another file, or has changed."""
        status = self.status
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def open_storage(root: str | os.PathLike[str], keep: Keep | None = None) -> AnyStorage:
    """The files under a folder, or below a URL; nothing is asked of its host yet. ``keep``: where
    those of a URL are kept."""
    if is_url(root):
        from videoload.storage.remote import RemoteStorage  # few processes need it

        return RemoteStorage(str(root), keep)
    return Storage(root)


def sample(size: int, pread: Callable[[int, int], bytes]) -> int:
    """63 bits of a file that is read by ``pread``, (length, position) -> bytes; never 0."""
    digest = blake2b(size.to_bytes(8, "little"), digest_size=8)
    for i in range(_SAMPLES):
        at = (size - _SAMPLE_BYTES) * i // (_SAMPLES - 1)
        digest.update(pread(_SAMPLE_BYTES, max(0, at)))
    return int.from_bytes(digest.digest(), "little") >> 1 or 1


def sample_file(path: str, file: VideoFile) -> int:
    """`sample` of a file of this host, which ``path`` leads to. Raises VideoError."""
    try:
        raw = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return sample(file.status.st_size, partial(os.pread, raw))
        finally:
            os.close(raw)
    except OSError as error:
        raise VideoError(path, f"cannot be read: {error.strerror}") from None


class Storage:
    """The files under ``root``, a folder."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = os.path.realpath(root)
        self._fingerprints: LRUCache[str, tuple[tuple[int, ...], int]] = LRUCache(
            _FINGERPRINTS_KEPT
        )

    def resolve(self, path: str) -> VideoFile:
        """The file that ``path`` leads to, inside the root. Raises VideoError."""
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
        """63 bits that two copies of a file have in common, of its size, its beginning, its end and
        samples in between; never 0. Raises VideoError."""
        file = self.resolve(path)
        identity, known = self._fingerprints.get(path, ((), 0))
        if identity != file.identity:
            known = sample_file(path, file)
            self._fingerprints[path] = file.identity, known
        return known

    def _plain(self, path: str) -> VideoFile | None:
        """The path as it stands, if there is no way up and no link in it. The root is resolved
        already, so this is half the work of resolving it all again."""
        at = self.root
        for part in path.split("/"):
            if part in ("", ".", ".."):
                return None
            at = f"{at}/{part}"
            status = os.lstat(at)
            if stat.S_ISLNK(status.st_mode):
                return None
        return VideoFile(at, status)

    def _linked(self, path: str) -> VideoFile:
        full = os.path.realpath(os.path.join(self.root, path))
        if os.path.commonpath((full, self.root)) != self.root:
            raise VideoError(path, f"lies outside of the root {self.root}")
        return VideoFile(full, os.stat(full))


AnyStorage = Union[Storage, "RemoteStorage"]

"""Files by their paths, inside one root and nowhere else."""

from __future__ import annotations

import os
import stat
from hashlib import blake2b
from typing import NamedTuple

from cachetools import LRUCache

from videoload.errors import VideoError

_SAMPLES, _SAMPLE_BYTES = 5, 2048  # of a file, to tell one copy from another
_FINGERPRINTS_KEPT = 4096
NO_FOLDER = os.devnull  # the root of what has no files: nothing lies in it


class VideoFile(NamedTuple):
    """A file, and what the file system just said of it."""

    path: str
    status: os.stat_result

    @property
    def identity(self) -> tuple[int, ...]:
        """Differs where it has become another file, or has changed."""
        status = self.status
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


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
            known = self._sample(path, file)
            self._fingerprints[path] = file.identity, known
        return known

    def _sample(self, path: str, file: VideoFile) -> int:
        size = file.status.st_size
        digest = blake2b(size.to_bytes(8, "little"), digest_size=8)
        try:
            raw = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                for i in range(_SAMPLES):
                    at = (size - _SAMPLE_BYTES) * i // (_SAMPLES - 1)
                    digest.update(os.pread(raw, _SAMPLE_BYTES, max(0, at)))
            finally:
                os.close(raw)
        except OSError as error:
            raise VideoError(path, f"cannot be read: {error.strerror}") from None
        return int.from_bytes(digest.digest(), "little") >> 1 or 1

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

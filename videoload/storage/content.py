"""The bytes of a file, as its index is made from them and its packets are read."""

from __future__ import annotations

import os
from typing import cast

import numpy as np

from videoload.bitstreams.pictures import Bytes, Ints
from videoload.storage.files import SMALL_BYTES, VideoFile
from videoload.storage.spans import Range

_BLOCK_BYTES = 32 << 10  # that are read at once
_MAX_CHECKED = 4096  # chunks of a large file, and gaps between them, evenly spread, that are read
_MAX_CHECKED_REMOTE = 64  # ... where each of them is a request

# To read into memory that is in the caches takes two thirds of the time.
_spare: list[bytearray] = []


class Content:
    """The bytes of a file, a small one's in memory; of one on another host, those that are wanted
    next are fetched side by side."""

    def __init__(self, file: VideoFile, *, at_once: bool = True) -> None:
        """``at_once``: a small file is read in one go, when it is first looked at."""
        self.size = file.status.st_size
        self.is_small = self.size <= SMALL_BYTES
        self._file = file
        self._at_once = at_once and self.is_small
        self._all: memoryview | None = None
        self._raw = -1
        self._remote = None if file.content is None else file.content.open()

    def open(self) -> None:
        """Open a file of this host, if it is not open. Raises OSError."""
        if self._raw < 0 and self._remote is None:
            self._raw = os.open(self._file.path, os.O_RDONLY | os.O_CLOEXEC)

    @property
    def max_checked(self) -> int:
        """So many places of a large file are looked at, where all of them are to be alike."""
        return _MAX_CHECKED_REMOTE if self.is_remote else _MAX_CHECKED

    def close(self) -> None:
        """Read no more."""
        if self._raw >= 0:
            os.close(self._raw)
            self._raw = -1
        if self._all is not None and self._remote is None:
            _spare.append(cast(bytearray, self._all.obj))
        self._all = None

    def __del__(self) -> None:
        self.close()

    def read(self, at: int, length: int) -> bytes:
        """``length`` bytes from ``at`` on, fewer at the end of the file. Raises OSError."""
        if self._at_once:
            self._all = self._all or self._read_all()
            return bytes(self._all[at : at + length])
        return self._pread(length, at)

    def read_block(self, at: int, least: int) -> bytes | memoryview:
        """At least so many bytes from ``at`` on, fewer at the end of the file, and more if they are
        to be had at once. Raises OSError."""
        most = max(least, _BLOCK_BYTES)
        if self._remote is None:
            return self.read(at, most)
        self._remote.seek(at)
        block = self._remote.read_view(most)
        return block if len(block) >= least else self._remote.pread(least, at)

    def _read_all(self) -> memoryview:
        if self._remote is not None:
            found = self._remote.pread(self.size, 0)
        else:
            buffer = _spare.pop() if _spare else bytearray(SMALL_BYTES)
            found = memoryview(buffer)
            self.open()
            found = found[: os.preadv(self._raw, [found[: self.size]], 0)]
        self.size = len(found)
        return found

    def _pread(self, length: int, at: int) -> bytes:
        if self._remote is not None:
            return bytes(self._remote.pread(length, at))
        self.open()
        return os.pread(self._raw, length, at)

    @property
    def is_remote(self) -> bool:
        """Whether each read may be a request to another host."""
        return self._remote is not None

    def want(self, positions: Ints, lengths: Ints) -> None:
        """So many bytes will be read at each position."""
        if self._file.content is not None:
            ends = positions + lengths
            self._file.content.want(map(Range, positions.tolist(), ends.tolist()))

    def heads(self, positions: Ints, sizes: Ints, length: int, headed: int = 0) -> Bytes:
        """The first ``length`` bytes of what lies at each position, zeros behind its size, and
        ``headed`` bytes before it."""
        begins, length = positions - headed, length + headed
        found: Bytes
        if self._all is not None and begins.max(initial=0) + length <= self.size:
            # Whatever is `length` bytes long, wherever it begins.
            heads = np.ndarray((self.size - length + 1,), f"V{length}", self._all, 0, (1,))
            found = heads[begins].view(np.uint8).reshape(-1, length)
        else:
            rows = [self.read(at, length).ljust(length, b"\0") for at in begins.tolist()]
            found = np.frombuffer(b"".join(rows), np.uint8).reshape(-1, length).copy()
        if sizes.min(initial=length) < length - headed:
            found[np.arange(-headed, length - headed) >= sizes[:, None]] = 0
        return found

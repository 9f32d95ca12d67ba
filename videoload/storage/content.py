"""The bytes of a file, for its index and its packets."""

from __future__ import annotations

import io
import re
from itertools import pairwise

import numpy as np

from videoload.bitstreams.pictures import Bytes, Ints
from videoload.storage.files import SMALL_BYTES
from videoload.storage.video_file import OpenFile, VideoFile

_RUN_BYTES = 256 << 10  # what is looked at within so many bytes is read in one go
_AHEAD = 16  # ... and so many of these reads are requested before
_PRINT = "xxh3-"  # begins a fingerprint in a table


def fingerprint_text(fingerprint: int) -> str:
    """Return a fingerprint as a table has it: no spreadsheet takes it for a number."""
    return f"{_PRINT}{fingerprint:016x}"


def fingerprint_in(cell: object) -> int | None:
    """Reverse `fingerprint_text`; None for anything else."""
    found = re.fullmatch(f"{_PRINT}([0-9a-f]{{16}})", str(cell).strip())
    return int(found[1], 16) & (1 << 63) - 1 if found else None


def _rows(data: bytes | memoryview, begins: Ints, length: int) -> Bytes:
    """Return ``length`` bytes of ``data`` from each of these places on, with zeros behind its
    end."""
    if begins.max(initial=0) + length > len(data):
        data = bytes(data).ljust(begins.max() + length, b"\0")
    # Each row is `length` bytes long and may begin anywhere.
    rows = np.ndarray((max(0, len(data) - length + 1),), f"V{length}", data, 0, (1,))
    found: Bytes = rows[begins].view(np.uint8).reshape(-1, length)
    return found


class _InMemory(io.BytesIO):
    """A file that was read into memory, and that FFmpeg reads from there."""

    left = 1  # how much may be read without finding a packet: see `containers.packets`

    def __init__(self, data: bytes, name: str) -> None:
        super().__init__(data)
        self.name = name


class Content:
    """The bytes of a file. A small file is read into memory as a whole. If most of a longer one
    ``is_wanted``, reads are larger than requested."""

    def __init__(self, file: VideoFile) -> None:
        self.size = file.size
        self._file = file
        self._is_small = self.size <= SMALL_BYTES
        self._opened: OpenFile | None = None
        self._all: bytes | None = None
        self.is_wanted = False
        self._block, self._block_at = memoryview(b""), 0

    def open(self) -> OpenFile:
        """Open the file, if it is not open. Raises OSError."""
        if self._opened is None:
            self._opened = self._file.open()
        return self._opened

    def close(self) -> None:
        """Close the file."""
        self._all, self._block = None, memoryview(b"")
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def __del__(self) -> None:
        self.close()

    def read(self, at: int, length: int) -> bytes:
        """Return ``length`` bytes from ``at`` on; fewer at the end of the file. Raises OSError."""
        if not self._is_small:
            begin = at - self._block_at
            if not 0 <= begin <= begin + length <= len(self._block):
                most = max(length, _RUN_BYTES) if self.is_wanted else length
                self._block, self._block_at = memoryview(self.open().pread(most, at)), at
                begin = 0
            return bytes(self._block[begin : begin + length])
        if self._all is None:
            self._all = bytes(self.open().pread(self.size, 0))
            self.size = len(self._all)
        return self._all[at : at + length]

    def in_memory(self) -> bytes:
        """Return all of a small file of this host; nothing of others. Raises OSError."""
        return self.read(0, self.size) if self._is_small and not self._file.fetches else b""

    def ffmpeg_source(self) -> object:
        """Return the object that FFmpeg opens to probe the file. FFmpeg calls back for each 32 kB,
        so a small file of this host is read into memory first. Raises OSError."""
        data = self.in_memory()
        return _InMemory(data, self._file.path) if data else self._file.ffmpeg_source()

    def prefetch(self, positions: Ints, lengths: Ints) -> None:
        """Fetch so many bytes at each position side by side: they are read soon."""
        self._file.prefetch(zip(positions.tolist(), (positions + lengths).tolist(), strict=True))

    def heads(self, positions: Ints, sizes: Ints, length: int, headed: int = 0) -> Bytes:
        """Return the first ``length`` bytes of what lies at each position, with zeros behind its
        size, and ``headed`` bytes before it."""
        begins, length = positions - headed, length + headed
        found = np.empty((len(begins), length), np.uint8)
        if self._is_small:
            self.read(0, 0)
        if self._all is not None:
            found[:] = _rows(self._all, begins, length)
        else:  # those that are near each other are read together
            edges = np.flatnonzero(np.diff(begins // _RUN_BYTES, prepend=-1, append=-1))
            lows, lasts = begins[edges[:-1]], begins[edges[1:] - 1]
            for run, (first, last) in enumerate(pairwise(edges.tolist())):
                if run % _AHEAD == 0:
                    soon = slice(run, run + 2 * _AHEAD)
                    self.prefetch(lows[soon], np.abs(lasts[soon] - lows[soon]) + length)
                near = begins[first:last]
                low = near.min().item()
                data = self.read(low, near.max().item() - low + length)
                found[first:last] = _rows(data, near - low, length)
        if sizes.min(initial=length) < length - headed:
            found[np.arange(-headed, length - headed) >= sizes[:, None]] = 0
        return found

"""A file below a URL: the parts of it that are in memory, and the parts that are on their way.

FFmpeg asks for bytes from within C, where no error may pass. So a reader that gets none keeps the
reason as the file's ``failure``, and fails; `RemoteFile.check` then raises the reason.
"""

from __future__ import annotations

import io
import stat
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import NamedTuple

from videoload.storage.fetching import ChangedError, Fetcher, Part, UnavailableError
from videoload.storage.kept_files import KeptFiles
from videoload.storage.spans import Range, Spans, requests, without

FILE_BYTES = 32 << 20  # of one file that stay in memory
_BLOCK_BYTES = 32 << 10  # that are taken at once, if they are there
_AHEAD_BYTES, _MAX_AHEAD_BYTES = 64 << 10, 8 << 20  # behind what FFmpeg asks for
_MOST_NOTED = 1000  # readings of what it takes to open a file


class RemoteStatus(NamedTuple):
    """What `os.stat` tells of a local file, as far as it is needed."""

    st_size: int
    st_mtime_ns: int  # a number that stands for the version
    st_dev: int = 0
    st_ino: int = 0
    st_mode: int = stat.S_IFREG

    @classmethod
    def of(cls, size: int, version: str) -> RemoteStatus:
        """The status of a version."""
        digest = blake2b(version.encode(), digest_size=7).digest()
        return cls(size, int.from_bytes(digest, "little"))


@dataclass(slots=True)
class Known:
    """What is known of one version of a file. ``opening``: what FFmpeg reads to open it."""

    status: RemoteStatus
    version: str
    opening: list[Range] = field(default_factory=list)
    fingerprint: int = 0
    was_kept: bool = False  # somebody was told to read it on the disk

    @classmethod
    def of(cls, part: Part) -> Known:
        """What a part of the file tells."""
        return cls(RemoteStatus.of(part.size, part.version), part.version)


class RemoteFile:
    """A `VideoFile` below a URL. Once all of its bytes are in memory, ``disk`` keeps them."""

    fetches = True

    def __init__(
        self, root: str, name: str, known: Known, fetcher: Fetcher, disk: KeptFiles | None = None
    ) -> None:
        self.path = f"{root}/{name}"
        self.status = known.status
        self.known = known
        self.failure: BaseException | None = None
        self.size = known.status.st_size
        self._disk = disk
        self._name = name
        self._fetcher = fetcher
        self._lock = threading.Lock()  # several threads may decode a file
        self._spans = Spans(FILE_BYTES)
        self._coming: dict[Range, Future[None]] = {}
        self._touched: list[Range] = []

    @property
    def identity(self) -> tuple[int, ...]:
        """As `VideoFile.identity`."""
        return self.status

    @property
    def held(self) -> int:
        """How many bytes are in memory."""
        return self._spans.bytes

    def add(self, at: int, data: memoryview) -> None:
        """These bytes came."""
        with self._lock:
            self._spans.add(at, data)
            if self._disk is None or not 0 < self.size == self._spans.bytes:
                return
            disk, self._disk = self._disk, None
            whole = self._spans.join()
        disk.keep(self._name, self.known.status, whole)

    def drop(self) -> None:
        """Keep no bytes in memory."""
        with self._lock:
            self._spans.clear()

    def want(self, ranges: Iterable[Range]) -> None:
        """Ask for what is neither in memory nor on its way. Raises StorageError."""
        with self._lock:
            missing = [
                gap
                for begin, end in ranges
                for span in self._spans.missing(max(0, begin), min(end, self.size))
                for gap in without(span, self._coming)
            ]
            for part in requests(missing):
                self._coming[part] = self._fetcher.start(
                    partial(self._get, part), part.end - part.begin
                )

    def want_frames(self, ranges: Callable[[int], Iterable[Range]], *, opening: bool) -> None:
        """As `VideoFile.want_frames`. Raises StorageError."""
        if self.held < self.size:
            self.want([*(self.known.opening if opening else ()), *ranges(self.size)])

    def open(self) -> Reader:
        """As `VideoFile.open`."""
        return Reader(self, noted=False)

    def ffmpeg_source(self) -> Reader:
        """As `VideoFile.ffmpeg_source`."""
        return Reader(self, noted=True)

    def was_opened(self) -> None:
        """As `VideoFile.was_opened`."""
        if not self.known.opening:
            self.known.opening = requests(self._touched)
        self._touched = []

    def note(self, at: int, length: int) -> None:
        """FFmpeg read these bytes."""
        if not self.known.opening and len(self._touched) < _MOST_NOTED:
            self._touched.append(Range(at, at + length))

    def check(self) -> None:
        """As `VideoFile.check`."""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    def read_some(self, at: int, length: int, ahead: int) -> memoryview:
        """Some bytes from ``at`` on, at most ``length``; none at the end of the file. If none are
        here, at least ``ahead`` bytes are asked for. Raises StorageError."""
        while at < self.size:
            with self._lock:
                data = self._spans.read(at, length)
                asked = next(
                    (f for part, f in self._coming.items() if part.begin <= at < part.end), None
                )
            if data:
                return data
            if asked is None:
                self.want([Range(at, at + max(length, ahead))])
            else:
                self._fetcher.wait(asked)
        return memoryview(b"")

    def _get(self, part: Range) -> None:
        try:
            got = self._fetcher.get(self._name, *part, self.known.version)
            self.add(part.begin, got.data)
            if len(got.data) < part.end - part.begin:
                raise ChangedError
        except UnavailableError:
            raise ChangedError from None
        finally:
            with self._lock:
                self._coming.pop(part, None)


class Reader(io.RawIOBase):
    """Reads a remote file for FFmpeg and for the index. It has one position, and asks for more and
    more ahead of it while it goes on from there."""

    def __init__(self, file: RemoteFile, *, noted: bool) -> None:
        """``noted``: what is read is what it takes to open the file."""
        self.name = file._name
        self._file = file
        self._noted = noted
        self._at = self._began = self._ask_at = 0

    def read(self, length: int = -1) -> bytes:
        """Some bytes from here on; none at the end. Raises OSError if none come, but only once:
        FFmpeg asks again, and PyAV would print the second error."""
        return bytes(self._read_view(length))

    def _read_view(self, length: int) -> memoryview:
        if self._file.failure is not None:
            return memoryview(b"")
        ahead = min(max(_AHEAD_BYTES, self._at - self._began), _MAX_AHEAD_BYTES)
        try:
            if ahead > _AHEAD_BYTES and self._at >= self._ask_at:
                self._file.want([Range(self._at, self._at + 2 * ahead)])
                self._ask_at = self._at + ahead // 2
            data = self._file.read_some(self._at, length, ahead)
        except BaseException as error:  # FFmpeg lets none pass
            self._file.failure = error
            raise OSError(5, "it cannot be read") from None
        if self._noted:
            self._file.note(self._at, len(data))
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to another position."""
        here = self._at
        self._at = max(0, offset + (0, self._at, self._file.size)[whence])
        if not 0 <= self._at - here <= _AHEAD_BYTES:
            self._began = self._ask_at = self._at
        return self._at

    def pread(self, length: int, at: int) -> memoryview:
        """As `OpenFile.pread`; without a copy if the bytes are in memory in one piece."""
        self.seek(at)
        pieces: list[memoryview] = []
        while length > 0 and (piece := self._read_view(length)):
            pieces.append(piece)
            length -= len(piece)
        return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))

    def read_block(self, at: int, least: int) -> memoryview:
        """As `OpenFile.read_block`."""
        self.seek(at)
        block = self._read_view(max(least, _BLOCK_BYTES))
        return block if len(block) >= least else self.pread(least, at)

    def read_all(self, size: int) -> memoryview:
        """As `OpenFile.read_all`."""
        return self.pread(size, 0)

    def tell(self) -> int:
        """The position."""
        return self._at

    def seekable(self) -> bool:
        """It can go to another position."""
        return True

    def readable(self) -> bool:
        """It can be read."""
        return True

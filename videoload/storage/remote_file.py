"""A file below a URL: the parts of it that are in memory, and the parts that are on their way.

FFmpeg asks for bytes from within C, where no error may pass. So a reader that gets none keeps the
reason as the file's ``failure``, and fails; `RemoteFile.check` then raises the reason.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b

from videoload.storage.fetching import Fetcher, Part, UnavailableError, tells_versions
from videoload.storage.files import BLOCK_BYTES, IDENTITY_BYTES, ChangedError, RangesOf
from videoload.storage.kept_files import KeptFiles, Version
from videoload.storage.spans import Range, Spans, requests, without

FILE_BYTES = 32 << 20  # of one file that stay in memory
_AHEAD_BYTES, _MAX_AHEAD_BYTES = 64 << 10, 8 << 20  # behind what FFmpeg asks for
_MOST_NOTED = 1000  # readings of what it takes to open a file


@dataclass(slots=True)
class Known:
    """What is known of one version of a file. ``opening``: what FFmpeg reads to open it."""

    version: Version
    tag: str
    has_version: bool
    identity: bytes
    opening: list[Range] = field(default_factory=list)
    fingerprint: int = 0
    was_kept: bool = False  # somebody was told to read it on the disk

    @classmethod
    def of(cls, part: Part) -> Known:
        """What a part of the file tells."""
        # If the server tells no versions, a file that is asked for anew may be another one.
        has_version = tells_versions(part.tag)
        told = f"{part.size} {part.tag if has_version else secrets.token_hex()}"
        identity = blake2b(told.encode(), digest_size=IDENTITY_BYTES).digest()
        return cls(Version.of(part.size, part.tag), part.tag, has_version, identity)


class RemoteFile:
    """A `VideoFile` below a URL. Once all of its bytes are in memory, ``disk`` keeps them."""

    fetches = True

    def __init__(
        self, root: str, name: str, known: Known, fetcher: Fetcher, disk: KeptFiles | None = None
    ) -> None:
        self.path = f"{root}/{name}"
        self.size, self.mtime_ns = known.version
        self.identity, self.has_version = known.identity, known.has_version
        self.name = name
        self.known = known
        self.failure: BaseException | None = None
        self._disk = disk
        self._fetcher = fetcher
        self._lock = threading.Lock()  # several threads may decode a file
        self._spans = Spans(FILE_BYTES)
        self._coming: dict[Range, Future[None]] = {}
        self._noted: list[Range] = []

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
        disk.keep(self.name, self.known.version, whole)

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
                for part in self._spans.missing(Range(max(0, begin), min(end, self.size)))
                for gap in without(part, self._coming)
            ]
            for part in requests(missing):
                self._coming[part] = self._fetcher.start(partial(self._get, part))

    def want_frames(self, ranges: RangesOf, *, opening: bool) -> None:
        if self.held < self.size:
            self.want([*(self.known.opening if opening else ()), *ranges(self.size)])

    def open(self) -> Reader:
        return Reader(self)

    def ffmpeg_source(self) -> Reader:
        return Reader(self, note=self._note)

    def was_opened(self) -> None:
        if not self.known.opening:
            self.known.opening = requests(self._noted)
        self._noted.clear()

    def _note(self, read: Range) -> None:
        if not self.known.opening and len(self._noted) < _MOST_NOTED:
            self._noted.append(read)

    def check(self) -> None:
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
            got = self._fetcher.get(self.name, *part, self.known.tag)
            self.add(part.begin, got.data)
            if len(got.data) < part.end - part.begin:
                raise ChangedError
        except UnavailableError:
            raise ChangedError from None
        finally:
            with self._lock:
                self._coming.pop(part, None)


class Reader:
    """An `OpenFile`, and a file object for FFmpeg. It has one position, and asks for more and more
    bytes ahead of it while it goes on from there."""

    def __init__(self, file: RemoteFile, *, note: Callable[[Range], None] | None = None) -> None:
        """``note`` is called with what is read."""
        self.name = file.name
        self._file = file
        self._note = note
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
        if self._note is not None:
            self._note(Range(self._at, self._at + len(data)))
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to another position."""
        here = self._at
        self._at = max(0, offset + (0, self._at, self._file.size)[whence])
        if not 0 <= self._at - here <= _AHEAD_BYTES:
            self._began = self._ask_at = self._at
        return self._at

    def tell(self) -> int:
        """The position."""
        return self._at

    def pread(self, length: int, at: int) -> memoryview:
        """No copy is made if the bytes are in memory in one piece."""
        self.seek(at)
        pieces: list[memoryview] = []
        while length > 0 and (piece := self._read_view(length)):
            pieces.append(piece)
            length -= len(piece)
        return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))

    def read_block(self, at: int, least: int) -> memoryview:
        self.seek(at)
        block = self._read_view(max(least, BLOCK_BYTES))
        return block if len(block) >= least else self.pread(least, at)

    def close(self) -> None: ...

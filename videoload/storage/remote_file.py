"""A file below a URL: the blocks of it that are here, and those that are on their way.

FFmpeg asks for bytes from within C, where no error may pass. So a reader that gets none keeps the
reason as the file's ``failure``, and fails; `RemoteFile.check` then raises the reason.
"""

from __future__ import annotations

import os
import secrets
import threading
import weakref
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from tempfile import TemporaryFile

from videoload.errors import UnreadableError
from videoload.storage.blocks import BLOCK_BYTES, Blocks, numbers_of, requests
from videoload.storage.fetching import Fetcher, NoPartsError, Part, tells_versions, writing_whole
from videoload.storage.file_cache import FileCache
from videoload.storage.files import IDENTITY_BYTES, MOST_BETWEEN, ChangedError
from videoload.storage.stores import RefusedError, UnavailableError

FILE_BYTES = 32 << 20  # of one file that stay in memory
_MAX_WANTED = FILE_BYTES // 2 // BLOCK_BYTES  # blocks that are asked for at once
_AHEAD_BYTES, _MAX_AHEAD_BYTES = 64 << 10, 8 << 20  # behind what is read
_MOST_NOTED = 1000  # blocks that it takes to open a file


@dataclass(slots=True)
class Known:
    """What is known of one version of a file. ``opening``: the blocks that FFmpeg reads first."""

    size: int
    tag: str
    has_version: bool
    identity: bytes
    opening: frozenset[int] = frozenset()
    was_cached: bool = False  # somebody was told to read it there

    @classmethod
    def of(cls, part: Part) -> Known:
        """What a part of the file tells."""
        # If the server tells no versions, a file that is asked for anew may be another one.
        has_version = tells_versions(part.tag)
        told = f"{part.size} {part.tag if has_version else secrets.token_hex()}"
        identity = blake2b(told.encode(), digest_size=IDENTITY_BYTES).digest()
        return cls(part.size, part.tag, has_version, identity)


class RemoteFile:
    """A `VideoFile` below a URL. Once all of its bytes are in memory, the ``cache`` gets them."""

    fetches = True

    def __init__(
        self, root: str, name: str, known: Known, fetcher: Fetcher, cache: FileCache | None = None
    ) -> None:
        self.path = f"{root}/{name}"
        self.size = known.size
        self.identity, self.has_version = known.identity, known.has_version
        self.name = name
        self.known = known
        self.failure: BaseException | None = None
        self._cache = cache
        self._fetcher = fetcher
        self._lock = threading.Lock()  # several threads may decode a file
        self._blocks = Blocks(self.size, FILE_BYTES)
        self._coming: dict[int, Future[None]] = {}  # blocks
        self._noted: set[int] = set()  # blocks
        self._whole: int | None = None  # a file with all of it, if the server sends no parts of it
        self._whole_lock = threading.Lock()

    @property
    def held(self) -> int:
        """How many bytes are here."""
        return self.size if self._whole is not None else self._blocks.bytes

    def add(self, at: int, data: memoryview) -> None:
        """These bytes came."""
        with self._lock:
            self._blocks.add(at, data)
            if self._cache is None or not 0 < self.size == self._blocks.bytes:
                return
            cache, self._cache = self._cache, None
            whole = self._blocks.join()
        cache.add(self.name, self.identity, whole)

    def drop(self) -> None:
        """Keep no bytes."""
        with self._lock:
            self._blocks.clear()
            if self._whole is not None:
                self._whole = None
                self._close()

    def want(self, ranges: Iterable[tuple[int, int]], *, opening: bool = False) -> None:
        """Ask for what is neither here nor on its way. Raises StorageError."""
        numbers = numbers_of(ranges, self.size) | (self.known.opening if opening else frozenset())
        with self._lock:
            if self._whole is not None:
                return
            missing = [n for n in numbers if n not in self._blocks and n not in self._coming]
            if missing and not self._fetcher.sends_parts(self.name):
                asked = [range(-(-self.size // BLOCK_BYTES))]
            else:  # what does not find a place in memory is asked for later
                asked = requests(sorted(missing)[:_MAX_WANTED])
            for part in asked:
                future = self._fetcher.start(partial(self._get, part))
                self._coming.update(dict.fromkeys(part, future))

    def open(self) -> Reader:
        return Reader(self)

    def ffmpeg_source(self) -> Reader:
        return Reader(self, is_noted=True)

    def note(self, at: int) -> None:
        """FFmpeg reads here."""
        if not self.known.opening and len(self._noted) < _MOST_NOTED:
            self._noted.add(at // BLOCK_BYTES)

    def check(self) -> None:
        self.known.opening = self.known.opening or frozenset(self._noted)
        self._noted.clear()
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    def lacks(self, at: int) -> bool:
        """Whether a byte is neither here nor on its way."""
        number = at // BLOCK_BYTES
        is_known = number in self._blocks or number in self._coming or self._whole is not None
        return not is_known and at < self.size

    def read(self, at: int, length: int) -> memoryview:
        """Some bytes from ``at`` on, at most ``length``; none at the end of the file. Raises
        StorageError."""
        while at < self.size:
            with self._lock:
                if self._whole is not None:
                    return memoryview(os.pread(self._whole, length, at))
                data = self._blocks.read(at, length)
                asked = self._coming.get(at // BLOCK_BYTES)
            if data is not None:
                return data
            if asked is None:
                self.want([(at, at + length)])
            else:
                self._fetcher.wait(asked)
        return memoryview(b"")

    def _get(self, numbers: range) -> None:
        begin, end = numbers.start * BLOCK_BYTES, min(numbers.stop * BLOCK_BYTES, self.size)
        try:
            if self._fetcher.sends_parts(self.name):
                with suppress(NoPartsError):
                    got = self._fetcher.get(self.name, begin, end, self.known.tag)
                    self.add(begin, got.data)
                    if got.at < end:
                        raise ChangedError
                    return
            self._get_whole(numbers)
        except RefusedError as error:
            raise UnreadableError(self.name, f"cannot be read: {error}") from None
        except UnavailableError:
            raise ChangedError from None
        finally:
            with self._lock:
                for number in numbers:
                    self._coming.pop(number, None)

    def _get_whole(self, numbers: range) -> None:
        """Fetch all of the file, in its order, unless another thread just did."""
        with self._whole_lock:
            if self._whole is not None or all(number in self._blocks for number in numbers):
                return
            fits = self.size <= FILE_BYTES
            with nullcontext() if fits else TemporaryFile() as file:
                if file is not None:  # a server that lies about the size must not fill the disk
                    with writing_whole():
                        os.posix_fallocate(file.fileno(), 0, self.size)
                got = self._fetcher.get(self.name, 0, self.size, self.known.tag, file)
                if got.at < self.size:
                    raise ChangedError
                if file is None:
                    self.add(0, got.data)
                else:
                    file.flush()
                    self._whole = os.dup(file.fileno())
                    self._close = weakref.finalize(self, os.close, self._whole)


class Reader:
    """An `OpenFile`, and a file object for FFmpeg, which gets as much as is ``left``. It has one
    position. Where bytes were not asked
    for, it asks for more and more behind them while it goes on from there."""

    def __init__(self, file: RemoteFile, *, is_noted: bool = False) -> None:
        """``is_noted``: the file notes what is read."""
        self.name = file.name
        self._file = file
        self._is_noted = is_noted
        self._at = self._ahead = self._ask_at = 0
        self.left = MOST_BETWEEN

    def read(self, length: int = -1) -> bytes:
        """Some bytes from here on; none at the end. Raises OSError if none come, but only once:
        FFmpeg asks again, and PyAV would print the second error."""
        data = bytes(self._read_view(length)) if self.left > 0 else b""
        self.left -= len(data)
        return data

    def _read_view(self, length: int) -> memoryview:
        if self._file.failure is not None:
            return memoryview(b"")
        try:
            if self._file.lacks(self._at) or 0 < self._ask_at <= self._at:
                self._ahead = min(max(_AHEAD_BYTES, 2 * self._ahead), _MAX_AHEAD_BYTES)
                self._file.want([(self._at, self._at + max(length, self._ahead))])
                self._ask_at = self._at + self._ahead // 2
            data = self._file.read(self._at, length)
        except BaseException as error:  # FFmpeg lets none pass
            self._file.failure = error
            raise OSError(5, "it cannot be read") from None
        if self._is_noted:
            self._file.note(self._at)
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to another position."""
        here = self._at
        self._at = max(0, offset + (0, self._at, self._file.size)[whence])
        if not 0 <= self._at - here <= _AHEAD_BYTES:
            self._ahead = self._ask_at = 0
        return self._at

    def tell(self) -> int:
        """The position."""
        return self._at

    def pread(self, length: int, at: int) -> memoryview:
        """No copy is made if the bytes are in one block."""
        self.seek(at)
        pieces: list[memoryview] = []
        while length > 0 and (piece := self._read_view(length)):
            pieces.append(piece)
            length -= len(piece)
        return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))

    def close(self) -> None: ...

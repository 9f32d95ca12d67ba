"""Files below a URL. Only the parts that are needed are read.

If a file is unknown, the first request fetches its first megabyte, its size and its version: all of
a small file. If its index is known, so is its version, and the GOPs that the clip needs are
requested at once; also, if FFmpeg opens the file, the bytes that opening it read the last time.
Received bytes must be of that version, or the file is requested again. Other bytes are fetched when
they are read, with increasing read-ahead for sequential reads.

Everything is prefetched as early as it is known (`RemoteStorage.prefetch_header`), so that the
bytes of the next clips arrive while this one is decoded. All waiting is in `Fetcher.wait`, where
the worker's heartbeats continue.

Received bytes go into the file cache of this host, if there is one, and are not fetched again: one
byte shows whether the version is still current.
"""

from __future__ import annotations

import posixpath
import re
import secrets
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial

from cachetools import LRUCache

from videoload.errors import FileReplacedError, UnreadableError, VideoError
from videoload.storage.archives import Member, Read, member_at
from videoload.storage.blocks import BLOCK_BYTES, Blocks, numbers_of, requests, runs
from videoload.storage.cache_directories import CacheDirectory
from videoload.storage.file_cache import FileCache
from videoload.storage.files import (
    FIRST_BYTES,
    MOST_BETWEEN,
    LastVersion,
    Tick,
    fingerprints,
    identity_by,
    retry_if_replaced,
    unknown_version,
)
from videoload.storage.shards import Contents, Kept, Shards, reading, split_path
from videoload.storage.stores import (
    Fetcher,
    Part,
    RefusedError,
    UnavailableError,
    has_versions,
)
from videoload.storage.video_file import VideoFile

FILE_BYTES = 32 << 20  # of one file that stay in memory
_MAX_WANTED = FILE_BYTES // 2 // BLOCK_BYTES  # blocks that are requested at once
_AHEAD_BYTES, _MAX_AHEAD_BYTES = 64 << 10, 8 << 20  # behind what is read
_MOST_NOTED = 1000  # blocks that it takes to open a file
_HEADER_BYTES = 5 << 9  # before and behind the bytes of a member, to prove its place: as a rule
_ONE_BYTE = range(-1, 0)  # in the place of blocks
_MOST_BYTES = 1 << 50  # of a file
_OF_MEMBER = re.compile(rb"(.+)\n(\d{1,18}) (\d{1,18})")  # a version: the shard's, and the place
_AT_HAND_BYTES, _FEWEST_AT_HAND = 64 << 20, 32  # of all files in memory; but at least so many files
_MAX_ASKED = 64  # parts of up to 1 MB, before prefetching pauses
_MOST_COMING = 1024  # first parts that wait for their turn: more than all leases of a worker need
_KNOWN = 100_000  # files whose size and version are known


class KnownVersion:
    """Metadata of one version of a file, by its size and tag. ``is_seen``: its server has confirmed
    it."""

    def __init__(self, size: int, tag: str, *, is_seen: bool) -> None:
        self.size, self.tag, self.is_seen = size, tag, is_seen
        # If the server sends no versions, a file that is requested again may be another one.
        self.has_version = has_versions(tag)
        self.version = f"{size} {tag if self.has_version else secrets.token_hex()}".encode()
        self.identity = identity_by(self.version)

    @classmethod
    def by(cls, version: bytes | None) -> KnownVersion | None:
        """Return the file of a version that was seen before; None for other versions."""
        with suppress(ValueError):
            size, _, tag = (version or b"").decode().partition(" ")
            if tag and tag.isprintable() and has_versions(tag) and 0 < int(size) < _MOST_BYTES:
                return cls(int(size), tag, is_seen=False)
        return None


class RemoteFile:
    """A `VideoFile` below a URL. ``shard``: it is the bytes of a ``member`` of that archive.

    FFmpeg reads bytes from within C, where no error may pass. So a reader without bytes stores the
    reason as the file's ``failure``, and fails; `check` then raises the reason.
    """

    fetches = True

    def __init__(
        self, root: str, name: str, known: KnownVersion, fetcher: Fetcher, cache: FileCache | None,
        shard: str = "", member: Member | None = None,
    ) -> None:  # fmt: skip
        self.path = f"{root}/{name}"
        self.size, self._begin, self._object = known.size, 0, shard or name
        self.identity, self.has_version = known.identity, known.has_version
        self.version = known.version
        if member is not None:
            self.size, self._begin = member.size, member.begin
            self.version += f"\n{member.begin} {member.size}".encode()
            self.identity = identity_by(self.version)
        self.key = self.version
        self.opening: Sequence[tuple[int, int]] = ()
        self.name = name
        self.known = known
        self.failure: BaseException | None = None
        self._fetcher = fetcher
        self._cache = cache if known.has_version else None
        self._lock = threading.Lock()  # several threads may decode a file
        self._blocks = Blocks(self.size, FILE_BYTES)
        self._coming: dict[int, Future[None]] = {}  # blocks
        self._noted: set[int] = set()  # blocks

    @property
    def held(self) -> int:
        """The number of bytes in memory."""
        return self._blocks.bytes

    def add(self, first: int, data: memoryview) -> None:
        """Note the received bytes from this block on."""
        self.known.is_seen = True
        with self._lock:
            self._hold(first, data)
        if self._cache is not None:
            self._cache.add(self.name, self.version, self.size, first, data)

    def _hold(self, first: int, data: memoryview) -> None:
        self._fetcher.came += len(data)
        self._blocks.add(first * BLOCK_BYTES, data)

    def drop(self) -> None:
        """Drop all bytes."""
        with self._lock:
            self._blocks.clear()

    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Request blocks that are neither here nor in flight; for a file that is not seen yet, at
        least a byte. Raises StorageError."""
        numbers = numbers_of(ranges, self.size)
        with self._lock:
            missing = [n for n in numbers if n not in self._blocks and n not in self._coming]
            missing = self._not_cached(sorted(missing)[:_MAX_WANTED])
            requested = requests(missing)
            if not (requested or self._coming or self.known.is_seen):
                requested = [_ONE_BYTE]
            for part in requested:
                future = self._fetcher.start(partial(self._get, part))
                self._coming.update(dict.fromkeys(part, future))

    def _not_cached(self, numbers: list[int]) -> list[int]:
        """Return the blocks that are not in the file cache; load the others."""
        if self._cache is None:
            return numbers
        for part in requests(numbers):
            cached = self._cache.read(self.name, self.version, self.size, part)
            for number, data in cached.items():
                self._hold(number, data)
        return [number for number in numbers if number not in self._blocks]

    def open(self) -> Reader:
        return Reader(self)

    def ffmpeg_source(self) -> Reader:
        return Reader(self, is_noted=True)

    def note(self, at: int) -> None:
        """Note that FFmpeg reads here."""
        if not self.opening and len(self._noted) < _MOST_NOTED:
            self._noted.add(at // BLOCK_BYTES)

    def check(self) -> None:
        if not self.opening:
            noted = runs(sorted(self._noted))
            self.opening = [(run.start * BLOCK_BYTES, run.stop * BLOCK_BYTES) for run in noted]
        self.raise_failure()
        self.prefetch(())
        if (requested := self._coming.get(_ONE_BYTE[0])) is not None:
            self._fetcher.wait(requested)

    def raise_failure(self) -> None:
        """Raise the error that a reader met but could not raise itself."""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    def lacks(self, at: int) -> bool:
        """Return whether a byte is neither here nor in flight."""
        number = at // BLOCK_BYTES
        is_known = number in self._blocks or number in self._coming
        return not is_known and at < self.size

    def read(self, at: int, length: int) -> memoryview:
        """Return some bytes from ``at`` on, at most ``length``; none at the end of the file. Raises
        StorageError."""
        while at < self.size:
            with self._lock:
                data = self._blocks.read(at, length)
                requested = self._coming.get(at // BLOCK_BYTES)
            if data is not None:
                return data
            if requested is None:
                self.prefetch([(at, at + length)])
            else:
                self._fetcher.wait(requested)
        return memoryview(b"")

    def _get(self, numbers: range) -> None:
        begin = self._begin + max(0, numbers.start * BLOCK_BYTES)
        end = self._begin + min(max(1, numbers.stop * BLOCK_BYTES), self.size)
        try:
            got = self._fetcher.get(self._object, begin, end, self.known.tag)
            self.add(max(0, numbers.start), got.data)
            if got.at < end:
                raise FileReplacedError
        except RefusedError as error:
            raise UnreadableError(self.name, f"cannot be read: {error}") from None
        except UnavailableError:
            raise FileReplacedError from None
        finally:
            with self._lock:
                for number in numbers:
                    self._coming.pop(number, None)


class Reader:
    """An `OpenFile`, and a file object for FFmpeg, which gets as much as is ``left``. It has one
    position. If bytes were not requested, it reads more and more ahead during sequential reads."""

    def __init__(self, file: RemoteFile, *, is_noted: bool = False) -> None:
        """``is_noted``: the file notes what is read."""
        self.name = file.name
        self._file = file
        self._is_noted = is_noted
        self._at = self._ahead = self._ask_at = 0
        self.left = MOST_BETWEEN

    def read(self, length: int = -1) -> bytes:
        """Return some bytes from here on; none at the end. Raises OSError if there are none, but
        only once: FFmpeg tries again, and PyAV would print the second error."""
        data = bytes(self._read_view(length)) if self.left > 0 else b""
        self.left -= len(data)
        return data

    def _read_view(self, length: int) -> memoryview:
        if self._file.failure is not None:
            return memoryview(b"")
        try:
            if self._file.lacks(self._at) or 0 < self._ask_at <= self._at:
                self._ahead = min(max(_AHEAD_BYTES, 2 * self._ahead), _MAX_AHEAD_BYTES)
                self._file.prefetch([(self._at, self._at + max(length, self._ahead))])
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
        """Return the position."""
        return self._at

    def pread(self, length: int, at: int) -> memoryview:
        """Return bytes at an offset, without a copy if they are in one block."""
        self.seek(at)
        pieces: list[memoryview] = []
        while length > 0 and (piece := self._read_view(length)):
            pieces.append(piece)
            length -= len(piece)
        return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))

    def close(self) -> None: ...


class RemoteStorage:
    """A `Storage` of the files below ``root``, a URL."""

    fetches = True

    def __init__(self, root: str, file_cache: CacheDirectory | None = None) -> None:
        self.root = root
        self.last_version: LastVersion = unknown_version
        self.tick: Tick = lambda: None
        self._cache = None if file_cache is None else FileCache(file_cache, root)
        self.fetcher = Fetcher(root)
        self._finalizer = weakref.finalize(self, _stop, self.fetcher, self._cache)
        self._known: LRUCache[str, KnownVersion] = LRUCache(_KNOWN)
        self._sample = fingerprints()
        self._coming: dict[str, Future[Part]] = {}  # first parts
        self._stale: set[str] = set()  # files of which another version was reported than there is
        self._at_hand: OrderedDict[str, RemoteFile] = OrderedDict()  # by when it was resolved last
        self._shards = Shards()
        self._folders: set[str] = set()  # that are named like archives

    @property
    def failure_reason(self) -> str:
        return self.fetcher.store.failure_reason

    def look(self) -> str:
        return self.failure_reason

    def expect(self, path: str, places: bytes) -> None:
        if places:
            self._shards.expect(path, places)

    def held_in(self, path: str) -> tuple[str, VideoFile] | None:
        shard, inner = self._split(self._name(path))
        return (shard, self.resolve(shard)) if inner else None

    def keep(self, rows: Kept) -> None:
        self._shards.kept, self.last_version = rows, rows.version

    def contents(self, path: str, archive: VideoFile) -> Contents:
        return self._shards.contents(path, archive)

    def resolve(self, path: str) -> VideoFile:
        name = self._name(path)
        shard, inner = self._split(name)
        if not inner:
            return self._resolve(path, name)
        for may_guess in (True, False):
            try:
                return self._member(path, name, shard, inner, may_guess=may_guess)
            except FileReplacedError:
                self._forget(name)
            except UnreadableError:
                raise
            except VideoError:
                if shard in self._known:
                    raise
                self._folders.add(shard)
                return self._resolve(path, name)
        raise UnreadableError(path, "its archive changes while it is read")

    def _member(
        self, path: str, name: str, shard: str, inner: str, *, may_guess: bool
    ) -> RemoteFile:
        """Return a member of a shard. Its first part begins with the header that proves its place.
        ``may_guess``: request it before the version of the shard is known. Raises VideoError,
        StorageError, FileReplacedError."""
        if (member := self._recalled(name, shard, inner, wait=True)) is not None:
            return self._resolve(path, name, shard, member)
        parts: dict[tuple[int, int], Part] = {}
        if may_guess and self._version(shard) is None and (place := self._shards.expected(name)):
            parts[place] = self._first_of(path, name, shard, place)
        archive = self._resolve(path, shard)

        def prove(inner: str, at: int, size: int) -> Member | None:
            if at >= archive.size:
                return None
            if (part := parts.get((at, size))) is None:
                part = parts[at, size] = self._first_of(path, name, shard, (at, size))
            with reading(path, archive) as read:
                return member_at(partial(_read_in, part, read), archive.size, inner, at, size)

        member = self._shards.find(name, shard, inner, archive, prove)
        file = self._resolve(path, name, shard, member)
        if (part := parts.get((member.at, member.size))) is not None:
            file.add(0, part.data[member.begin - member.at :][: member.size])
        return file

    def _recalled(self, name: str, shard: str, inner: str, *, wait: bool) -> Member | None:
        """Return a member whose place this process has proven, or the process that indexed it: the
        version in the row of a member consists of the shard's version and the place."""
        known, kept = self._known.get(shard), self._shards.kept
        if known is not None and (member := self._shards.proven(name, known.identity)) is not None:
            return member
        if kept is None or (known is None and shard in self._stale):
            return None
        for version in kept.versions(name, wait):
            if (row := _OF_MEMBER.fullmatch(version)) is None:
                continue
            whole, begin, size = row[1], int(row[2]), int(row[3])
            if known is None and (known := KnownVersion.by(whole)) is not None:
                self._known[shard] = known
            if known is not None and known.version == whole and begin + size <= known.size:
                member = Member(inner, 0, begin, size)
                self._shards.recall(name, known.identity, member)
                return member
        return None

    def _first_of(self, path: str, name: str, shard: str, place: tuple[int, int]) -> Part:
        requested = self._coming.pop(name, None) or self._ask_member(name, shard, place)
        part = self._came(path, name, requested)
        if part.begin != place[0]:  # the hint was elsewhere
            part = self._came(path, name, self._ask_member(name, shard, place))
        known = self._known.setdefault(shard, KnownVersion(part.size, part.tag, is_seen=True))
        if (known.size, known.tag) != (part.size, part.tag):
            raise FileReplacedError
        known.is_seen = True
        return part

    def _ask_member(self, name: str, shard: str, place: tuple[int, int]) -> Future[Part]:
        """Request a member's header, and unless it is known, its first part."""
        is_known = self._cache is not None and self._cache.has_some(name)
        is_known = is_known or self.last_version(name, False) is not None
        at, size = place
        end = at + _HEADER_BYTES + (0 if is_known else min(size, FIRST_BYTES))
        tag = "" if (known := self._known.get(shard)) is None else known.tag
        return self.fetcher.start(partial(self.fetcher.get, shard, at, end, tag))

    def _resolve(
        self, path: str, name: str, shard: str = "", member: Member | None = None
    ) -> RemoteFile:
        """Return a file, or a member of a shard that is resolved. Raises VideoError,
        StorageError."""
        known, part = self._version(shard or name), None
        if known is None:
            known, part = self._first(path, shard or name)
        file = self._at_hand.get(name)
        if file is None or file.known is not known:
            file = RemoteFile(self.root, name, known, self.fetcher, self._cache, shard, member)
            self._at_hand[name] = file
        if part is not None and not shard:
            file.add(0, part.data)
        self._at_hand.move_to_end(name)
        self._make_room()
        return file

    def _split(self, name: str) -> tuple[str, str]:
        """Return the archive in a path, and the name of the member; "": it is a file."""
        shard, inner = split_path(name)
        return (name, "") if shard in self._folders else (shard, inner)

    def prefetch_header(self, path: str) -> VideoFile | None:
        shard, inner = self._split(name := self._name(path))
        is_recalled = bool(inner) and self._recalled(name, shard, inner, wait=False) is not None
        known = self._version(shard, wait=False)
        if is_recalled or (known is not None and not inner):
            file = self.resolve(path)
            return None if self.is_busy else file
        place = self._shards.expected(name) if inner else None
        if place is not None:
            self._ask_ahead(name, partial(self._ask_member, name, shard, place))
        elif known is None:
            self._ask_ahead(shard, partial(self._ask_first, shard))
        return None

    def _ask_ahead(self, name: str, ask: Callable[[], Future[Part]]) -> None:
        if name not in self._coming and not self.is_busy:
            self._coming[name] = ask()
            if len(self._coming) > _MOST_COMING:  # of leases that were handed back
                del self._coming[next(iter(self._coming))]

    def close(self) -> None:
        self._finalizer()

    def begin(self) -> None:
        for known in (self._known, self._coming, self._stale, self._folders):
            known.clear()  # files may have changed

    @property
    def is_busy(self) -> bool:
        """Return whether so much is in flight that prefetching should pause."""
        return self.fetcher.threads.jobs >= _MAX_ASKED

    @contextmanager
    def reading(self, path: str, tick: Tick, file: VideoFile | None = None) -> Iterator[None]:
        self.tick = self.fetcher.tick = tick
        name = self._name(path)
        try:
            try:
                yield
            except BaseException:  # missing bytes, or those of another version, may cause it
                for read in self._read_of(name, file):
                    read.check()
                raise
            for read in self._read_of(name, file):
                read.raise_failure()
        except FileReplacedError as error:
            error.what = error.what or path
            self._forget(name)
            raise

    def _read_of(self, name: str, file: VideoFile | None) -> list[RemoteFile]:
        found = (file, self._at_hand.get(name))
        return [each for each in found if isinstance(each, RemoteFile)]

    def fingerprint(self, path: str, salt: int = 0) -> int:
        def find() -> int:
            with self.reading(path, self.tick):
                return self._sample(path, self.resolve(path), salt)

        return retry_if_replaced(path, find)

    def _version(self, name: str, wait: bool = True) -> KnownVersion | None:
        """Return the version of a file, if one is known."""
        known = self._known.get(name)
        if known is not None or name in self._coming or name in self._stale:
            return known
        if (known := KnownVersion.by(self.last_version(name, wait))) is not None:
            self._known[name] = known
        return known

    def _forget(self, name: str) -> None:
        for each in {name, self._split(name)[0]}:
            self._stale.add(each)
            self._known.pop(each, None)
            self._at_hand.pop(each, None)

    def _name(self, path: str) -> str:
        """Return the path in its plainest form. Raises VideoError."""
        name = posixpath.normpath(path)
        if name.startswith(("/", "../")) or name in (".", "..") or "://" in path:
            raise VideoError(path, f"is outside of the root {self.root}")
        if not name.isprintable() or any("\ud800" <= letter <= "\udfff" for letter in name):
            raise VideoError(path, "cannot be a file name")
        return name

    def _ask_first(self, name: str) -> Future[Part]:
        """Request the first part; for a cached file, one byte with its version."""
        is_cached = self._cache is not None and self._cache.has_some(name)
        get = partial(self.fetcher.get, name, 0, 1 if is_cached else FIRST_BYTES)
        return self.fetcher.start(get)

    def _first(self, path: str, name: str) -> tuple[KnownVersion, Part]:
        requested = self._coming.pop(name, None) or self._ask_first(name)
        part = self._came(path, name, requested)
        known = self._known[name] = KnownVersion(part.size, part.tag, is_seen=True)
        return known, part

    def _came(self, path: str, name: str, requested: Future[Part]) -> Part:
        """Return the first part of a file, or of a member, by its ``name``."""
        try:
            return self.fetcher.wait(requested)
        except UnavailableError as error:
            kind = UnreadableError if isinstance(error, RefusedError) else VideoError
            raise kind(path, f"cannot be opened: {error}") from None
        except BaseException:
            if not requested.done():  # the wait was interrupted; the file may be requested again
                self._coming[name] = requested
            raise

    def _make_room(self) -> None:
        if self.fetcher.came < _AT_HAND_BYTES // 8:
            return  # little has changed since the last time
        self.fetcher.came = 0
        held = sum(file.held for file in self._at_hand.values())
        while held > _AT_HAND_BYTES and len(self._at_hand) > _FEWEST_AT_HAND:
            _, file = self._at_hand.popitem(last=False)
            held -= file.held
            file.drop()


def _read_in(part: Part, read: Read, at: int, length: int) -> bytes:
    """Return bytes of an archive, out of a part of it where it has them."""
    is_in = part.begin <= at and at + length <= part.begin + len(part.data)
    return bytes(part.data[at - part.begin :][:length]) if is_in else read(at, length)


def _stop(fetcher: Fetcher, cache: FileCache | None) -> None:
    fetcher.stop()
    if cache is not None:
        cache.stop()

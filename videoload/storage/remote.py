"""Files below a URL. Only the parts that are needed are read.

The first request for a file brings its first megabyte, its size and its version: all of a small
file. If its index is known, the groups of pictures that the clip needs are asked for and, if FFmpeg
opens the file, what opening it took the last time, side by side. What nobody foresaw is fetched
when it is read, with more and more ahead of it while the reading goes on.

Everything is asked for as early as it is known (`RemoteStorage.expect`), so that the bytes of the
next clips come while this one is decoded. Whoever waits does so in `Fetcher.wait`, where the
worker's heartbeats go on.

A file that was read as a whole goes into the file cache of this host, if there is one. From then on
it is read there, like any local file.
"""

from __future__ import annotations

import posixpath
import weakref
from collections import OrderedDict
from concurrent.futures import Future
from typing import TypeVar

from cachetools import LRUCache

from videoload.errors import UnreadableError, VideoError
from videoload.storage.daemon_pool import DaemonPool
from videoload.storage.fetching import Fetcher, Part
from videoload.storage.file_cache import FileCache
from videoload.storage.files import (
    SMALL_BYTES,
    ChangedError,
    LocalFile,
    Tick,
    VideoFile,
    Work,
    fingerprints,
)
from videoload.storage.keep import Keep
from videoload.storage.remote_file import FILE_BYTES, Known, RemoteFile
from videoload.storage.stores import RefusedError, UnavailableError

T = TypeVar("T")

_FIRST_BYTES = 1 << 20  # all of most short clips
_AT_HAND_BYTES, _FEWEST_AT_HAND = 64 << 20, 32  # of all files in memory; but at least so many files
_MAX_ASKED = 64  # parts of up to 1 MB, before no more is asked for ahead
_MOST_COMING = 1024  # first parts that wait for their turn: more than all leases of a worker need
_MOST_WHOLE = 1000  # files that wait to be fetched as a whole
_KNOWN = 100_000  # files whose size and version are known


class RemoteStorage:
    """A `Storage` of the files below ``root``, a URL."""

    fetches = True

    def __init__(self, root: str, keep: Keep | None = None) -> None:
        self.root = root
        self._cache = None if keep is None else FileCache(keep, root)
        self._fetcher = Fetcher(root)
        self._one_by_one = DaemonPool("videoload-whole", 1)
        self._finalizer = weakref.finalize(
            self, _stop, self._fetcher, self._one_by_one, self._cache
        )
        self._known: LRUCache[str, Known] = LRUCache(_KNOWN)
        self._sample = fingerprints()
        self._coming: dict[str, Future[Part]] = {}  # first parts
        self._whole: set[str] = set()  # files that are being fetched as a whole
        self._set_aside: set[str] = set()  # files that must not be read there for now
        self._at_hand: OrderedDict[str, RemoteFile] = OrderedDict()  # by when it was resolved last

    @property
    def says(self) -> str:
        return self._fetcher.store.says

    def resolve(self, path: str) -> VideoFile:
        name = self._name(path)
        known, part = self._known.get(name), None
        if known is None:
            known, part = self._first(path, name)
        cache = None if name in self._set_aside else self._cache
        cached = None if cache is None else cache.find(name, known.size, known.identity)
        if cached is not None:
            known.was_cached, cached.tick = True, self._fetcher.tick
            return cached
        if not known.has_version:
            cache = None
        file = self._at_hand.get(name)
        if file is None or file.known is not known:
            file = self._at_hand[name] = RemoteFile(self.root, name, known, self._fetcher, cache)
        if part is not None:
            file.add(0, part.data)
        if cache is not None and SMALL_BYTES < file.size <= FILE_BYTES:
            self._cache_whole(name, known, cache)
        self._at_hand.move_to_end(name)
        self._make_room()
        return file

    def expect(self, path: str) -> VideoFile | None:
        name = self._name(path)
        if name in self._known:
            file = self.resolve(path)
            return None if self.is_busy else file
        if name not in self._coming and not self.is_busy:
            self._coming[name] = self._ask_first(name)
            if len(self._coming) > _MOST_COMING:  # of leases that were handed back
                del self._coming[next(iter(self._coming))]
        return None

    def begin(self) -> None:
        if self._cache is not None:  # its files may have changed in the bucket
            self._known.clear()
            self._coming.clear()

    @property
    def is_busy(self) -> bool:
        """Whether so much is on its way that no more should be asked for ahead."""
        return self._fetcher.threads.jobs >= _MAX_ASKED

    def run(
        self, path: str, work: Work[T], tick: Tick, file: VideoFile | None = None,
        anew: Work[T] | None = None,
    ) -> T:  # fmt: skip
        self._fetcher.tick = tick
        name = self._name(path)
        try:
            return self._checked(name, work, file)
        except (ChangedError, VideoError) as error:
            known = self._known.get(name)
            was_cached = isinstance(file, LocalFile) or (known is not None and known.was_cached)
            if was_cached:
                self._set_aside.add(name)  # the bucket's own copy decides whether a video is bad
            elif isinstance(error, VideoError):
                raise
        self._forget(name)
        try:
            found = self._checked(name, anew or work)
        except ChangedError:
            raise UnreadableError(path, "changes while it is read") from None
        finally:
            self._set_aside.discard(name)
        if was_cached and self._cache is not None:  # its copy was deleted, or is damaged
            self._cache.remove(name)
            self._forget(name)
        return found

    def _checked(self, name: str, work: Work[T], file: VideoFile | None = None) -> T:
        try:
            return work()
        finally:
            for read in (file, self._at_hand.get(name)):
                if read is not None:
                    read.check()

    def fingerprint(self, path: str, salt: int = 0) -> int:
        def find() -> int:
            return self._sample(path, self.resolve(path), salt)

        return self.run(path, find, self._fetcher.tick)

    def _forget(self, name: str) -> None:
        self._known.pop(name, None)
        self._at_hand.pop(name, None)

    def _name(self, path: str) -> str:
        """The path in its plainest form. Raises VideoError."""
        name = posixpath.normpath(path)
        if name.startswith(("/", "../")) or name in (".", "..") or "://" in path:
            raise VideoError(path, f"lies outside of the root {self.root}")
        if not name.isprintable() or any("\ud800" <= letter <= "\udfff" for letter in name):
            raise VideoError(path, "cannot be a file name")
        return name

    def _cache_whole(self, name: str, known: Known, cache: FileCache) -> None:
        """Fetch all of a longer file for the cache: one file after the other, so that no more than
        one of them is in memory. Files that find no place here wait for the next epoch."""
        fetcher, whole = self._fetcher, self._whole
        if not cache.has_room or name in whole or cache.awaits(name) or len(whole) >= _MOST_WHOLE:
            return

        def fetch() -> None:
            try:
                if cache.has_room and cache.find(name, known.size, known.identity) is None:
                    data = fetcher.get(name, 0, known.size, known.tag).data
                    cache.add(name, known.identity, bytes(data))
            finally:
                whole.discard(name)

        whole.add(name)
        self._one_by_one.start(fetch)

    def _ask_first(self, name: str) -> Future[Part]:
        """Ask for the first part; of a cached file, for one byte, which tells its version."""
        cache, fetcher = self._cache, self._fetcher

        def get() -> Part:
            if cache is not None and cache.has_some(name):
                part = fetcher.get(name, 0, 1)
                known = Known.of(part)
                if known.has_version and cache.find(name, known.size, known.identity) is not None:
                    return part
            return fetcher.get(name, 0, _FIRST_BYTES)

        return fetcher.start(get)

    def _first(self, path: str, name: str) -> tuple[Known, Part]:
        asked = self._coming.pop(name, None) or self._ask_first(name)
        try:
            part = self._fetcher.wait(asked)
        except UnavailableError as error:
            kind = UnreadableError if isinstance(error, RefusedError) else VideoError
            raise kind(path, f"cannot be opened: {error}") from None
        except BaseException:
            if not asked.done():  # the wait was interrupted; the file may be asked for again
                self._coming[name] = asked
            raise
        known = self._known[name] = Known.of(part)
        return known, part

    def _make_room(self) -> None:
        if self._fetcher.came < _AT_HAND_BYTES // 8:
            return  # little has changed since the last time
        self._fetcher.came = 0
        held = sum(file.held for file in self._at_hand.values())
        while held > _AT_HAND_BYTES and len(self._at_hand) > _FEWEST_AT_HAND:
            _, file = self._at_hand.popitem(last=False)
            held -= file.held
            file.drop()


def _stop(fetcher: Fetcher, one_by_one: DaemonPool, cache: FileCache | None) -> None:
    fetcher.stop()
    one_by_one.stop()
    if cache is not None:
        cache.stop()

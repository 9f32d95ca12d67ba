"""Files below a URL, of which only those parts are read that are needed.

The first request for a file brings its first megabyte, its size and its version: all of a small
file. Where its index is known, what is asked for is the groups of pictures that the clip needs and,
if FFmpeg opens it, what that took the last time, side by side. What nobody foresaw is fetched when
it is asked for, with more and more behind it as it goes on.

Everything is asked for as early as it is known (`RemoteStorage.expect`), so that the next clips'
bytes come while this one is decoded. What waits, waits in `Fetcher.wait`, where the worker's
heartbeats go on.

A file that was read whole may be kept on a disk of this host (`kept_files`); from then on it is
read there, as any local file.

FFmpeg asks from within C, where no error may pass. So a reader that gets none keeps it as the
file's ``failure``, and fails: whatever that led to, `RemoteFile.check` then raises the reason.
"""

from __future__ import annotations

import io
import os
import posixpath
import stat
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from cachetools import LRUCache

from videoload.errors import VideoError
from videoload.storage.daemon_pool import DaemonPool
from videoload.storage.fetching import ChangedError, Fetcher, Part, tells_versions
from videoload.storage.files import SMALL_BYTES, VideoFile, sample, sample_file
from videoload.storage.keep import Keep
from videoload.storage.kept_files import KeptFiles
from videoload.storage.spans import Range, Spans, requests, without

if TYPE_CHECKING:
    from videoload.index.index import VideoIndex  # the trainer has a storage too, and no FFmpeg

T = TypeVar("T")

_FIRST_BYTES = 1 << 20  # all of most short clips
_AHEAD_BYTES, _MAX_AHEAD_BYTES = 64 << 10, 8 << 20  # behind what FFmpeg asks for
_SLACK_BYTES = 4096  # before and behind a group of pictures: headers, a few packets of sound
_FILE_BYTES = 32 << 20  # of one file that are kept
_AT_HAND_BYTES, _FEWEST_AT_HAND = 64 << 20, 32  # of all files, but so many files in any case
_COMING_BYTES = 64 << 20  # on their way, before no more is asked for ahead
_MOST_COMING = 1024  # first parts that wait for their turn: more than all leases of a worker need
_MOST_WHOLE = 1000  # files that are to be fetched as a whole, and wait for one another
_MOST_NOTED = 1000  # readings of what it takes to open a file
_NAMES = 1000  # a file's is asked for several times a clip
_KNOWN = 100_000  # files whose size and version are known


class RemoteStatus(NamedTuple):
    """What `os.stat` tells of a local file, as far as it is asked for."""

    st_size: int
    st_mtime_ns: int  # a number that stands for the version
    st_dev: int = 0
    st_ino: int = 0
    st_mode: int = stat.S_IFREG

    @classmethod
    def of(cls, size: int, version: str) -> RemoteStatus:
        """That of a version."""
        digest = blake2b(version.encode(), digest_size=7).digest()
        return cls(size, int.from_bytes(digest, "little"))

    @classmethod
    def like(cls, kept: os.stat_result) -> RemoteStatus:
        """That of the version of which there is a kept file."""
        return cls(kept.st_size, kept.st_mtime_ns)


@dataclass(slots=True)
class _Known:
    """What is known of a file: and ``opening``, what FFmpeg reads of it to open it."""

    status: RemoteStatus
    version: str
    opening: list[Range] = field(default_factory=list)
    fingerprint: int = 0
    was_kept: bool = False  # somebody was told to read it on the disk

    @classmethod
    def of(cls, part: Part) -> _Known:
        """What a part of it tells."""
        return cls(RemoteStatus.of(part.size, part.version), part.version)


class RemoteStorage:
    """The files below ``root``, a URL; in the place of a `Storage`."""

    def __init__(self, root: str, keep: Keep | None = None) -> None:
        self.root = root
        self._disk = None if keep is None else KeptFiles(keep, root)
        self._fetcher = Fetcher(root)
        self._one_by_one = DaemonPool("videoload-whole", 1)
        self._finalizer = weakref.finalize(self, _stop, self._fetcher, self._one_by_one, self._disk)
        self._known: LRUCache[str, _Known] = LRUCache(_KNOWN)
        self._coming: dict[str, Future[Part]] = {}  # first parts
        self._whole: set[str] = set()  # files that come as a whole
        self._set_aside: set[str] = set()  # files that are not to be read on the disk for now
        self._at_hand: OrderedDict[str, RemoteFile] = OrderedDict()
        self._alive: weakref.WeakValueDictionary[str, RemoteFile] = weakref.WeakValueDictionary()

    def resolve(self, path: str) -> VideoFile:
        """The file that ``path`` leads to, below the root. Raises VideoError, StorageError."""
        name = self._name(path)
        known, part = self._known.get(name), None
        if known is None:
            known, part = self._first(path, name)
        disk = None if name in self._set_aside else self._disk
        if disk is not None and disk.holds(name, known.status):
            known.was_kept = True
            return VideoFile(disk.path(name), known.status)
        if not tells_versions(known.version):
            disk = None
        content = self._alive.get(name)
        if content is None or content.known is not known:
            content = RemoteFile(name, known, self._fetcher, disk)
            self._alive[name] = content
        if part is not None:
            content.add(0, part.data)
        if disk is not None and SMALL_BYTES < content.size <= _FILE_BYTES:
            self._keep_whole(name, known, disk)
        self._at_hand[name] = content
        self._at_hand.move_to_end(name)
        self._make_room()
        return VideoFile(f"{self.root}/{name}", known.status, content)

    def expect(self, path: str) -> VideoFile | None:
        """Ask for the beginning of a file that is wanted soon; the file, if it is known already.
        Raises what `resolve` raises."""
        name = self._name(path)
        if name in self._known:
            return self.resolve(path)
        if name not in self._coming and not self.is_busy:
            self._coming[name] = self._ask_first(name)
            if len(self._coming) > _MOST_COMING:  # of leases that were handed back
                del self._coming[next(iter(self._coming))]
        return None

    def begin(self) -> None:
        """A training begins: whether kept files are still the same is to be asked for anew."""
        if self._disk is not None:
            self._known.clear()
            self._coming.clear()

    @property
    def is_busy(self) -> bool:
        """Whether so much is on its way that no more is to be asked for ahead."""
        return self._fetcher.coming > _COMING_BYTES

    def run(
        self,
        path: str,
        work: Callable[[], T],
        tick: Callable[[], None],
        file: VideoFile | None = None,
        anew: Callable[[], T] | None = None,
    ) -> T:
        """What ``work`` makes of a file. Where bytes did not come, the reason is raised in the
        place of whatever that led to; where the file has changed, or it was a kept one that is of
        no use, ``anew`` (if None, ``work``) is done upon it as it is now. ``tick`` is called while
        bytes are waited for."""
        self._fetcher.tick = tick
        try:
            return self._checked(path, work, file)
        except ChangedError:
            self._forget(path)
        except VideoError:
            known = self._known.get(self._name(path))
            if not (known and known.was_kept) and (file is None or file.content is not None):
                raise
            return self._without_disk(path, anew or work)
        try:
            return self._checked(path, anew or work)
        except ChangedError:
            raise VideoError(path, "changes while it is read") from None

    def _checked(self, path: str, work: Callable[[], T], file: VideoFile | None = None) -> T:
        try:
            return work()
        finally:
            for content in (file and file.content, self._alive.get(self._name(path))):
                if content is not None:
                    content.check()

    def _without_disk(self, path: str, work: Callable[[], T]) -> T:
        """What is wrong with a video, the bucket's own copy decides; where that is good, somebody
        has deleted the kept one, or something has damaged it."""
        name = self._name(path)
        self._forget(path)
        self._set_aside.add(name)
        try:
            found = self._checked(path, work)
        except ChangedError:
            raise VideoError(path, "changes while it is read") from None
        finally:
            self._set_aside.discard(name)
        if self._disk is not None:
            self._disk.remove(name)
        self._forget(path)
        return found

    def fingerprint(self, path: str) -> int:
        """As `Storage.fingerprint`: the same number for the same bytes. Raises StorageError too."""
        return self.run(path, partial(self._fingerprint, path), self._fetcher.tick)

    def _fingerprint(self, path: str) -> int:
        file = self.resolve(path)
        content, known = file.content, self._known[self._name(path)]
        if content is None:
            known.fingerprint = known.fingerprint or sample_file(path, file)
        elif not known.fingerprint:
            ranges: list[Range] = []

            def note(length: int, at: int) -> bytes:
                ranges.append(Range(at, at + length))
                return b""

            sample(content.size, note)
            content.want(ranges)
            known.fingerprint = sample(content.size, content.pread)
        return known.fingerprint

    def _forget(self, path: str) -> None:
        name = self._name(path)
        self._known.pop(name, None)
        self._at_hand.pop(name, None)
        self._alive.pop(name, None)

    def _name(self, path: str) -> str:
        """The path in its plainest form. Raises VideoError."""
        return _plain_name(path, self.root)

    def _keep_whole(self, name: str, known: _Known, disk: KeptFiles) -> None:
        """Have all of a longer file fetched, to be kept: one after the other, so that no more than
        one of them is in memory. For those that are too many, there are further epochs."""
        fetcher, whole = self._fetcher, self._whole
        if not disk.has_room or name in whole or disk.awaits(name) or len(whole) >= _MOST_WHOLE:
            return

        def keep() -> None:
            try:
                pieces = []
                for part in requests([Range(0, known.status.st_size)]):
                    if not disk.has_room or disk.holds(name, known.status):
                        return
                    pieces.append(fetcher.get(name, *part, known.version).data)
                disk.keep(name, known.status, b"".join(pieces))
            finally:
                whole.discard(name)

        whole.add(name)
        self._one_by_one.start(keep)

    def _ask_first(self, name: str) -> Future[Part]:
        """Ask for the first part; of a file that is kept, for no more than tells whether it is
        still so."""
        disk, fetcher = self._disk, self._fetcher

        def get() -> Part:
            if disk is not None and (found := disk.find(name)) is not None:
                part = fetcher.get(name, 0, 1)
                now = RemoteStatus.of(part.size, part.version)
                if tells_versions(part.version) and now == RemoteStatus.like(found):
                    return part
            return fetcher.get(name, 0, _FIRST_BYTES)

        return fetcher.start(get, _FIRST_BYTES)

    def _first(self, path: str, name: str) -> tuple[_Known, Part]:
        asked = self._coming.pop(name, None) or self._ask_first(name)
        try:
            part = self._fetcher.wait(asked)
        except FileNotFoundError:
            raise VideoError(path, "cannot be opened: No such file or directory") from None
        except BaseException:
            if not asked.done():  # who waits was called away, and may come back
                self._coming[name] = asked
            raise
        known = self._known[name] = _Known.of(part)
        return known, part

    def _make_room(self) -> None:
        if self._fetcher.came < _AT_HAND_BYTES // 8:
            return  # nothing to speak of since the last look
        self._fetcher.came = 0
        held = sum(content.held for content in self._at_hand.values())
        while held > _AT_HAND_BYTES and len(self._at_hand) > _FEWEST_AT_HAND:
            _, content = self._at_hand.popitem(last=False)
            held -= content.held
            content.drop()


@lru_cache(_NAMES)
def _plain_name(path: str, root: str) -> str:
    name = posixpath.normpath(path)
    if name.startswith(("/", "../")) or name in (".", "..") or "://" in path:
        raise VideoError(path, f"lies outside of the root {root}")
    if not name.isprintable() or any("\ud800" <= letter <= "\udfff" for letter in name):
        raise VideoError(path, "cannot be a file name")
    return name


def _stop(fetcher: Fetcher, one_by_one: DaemonPool, disk: KeptFiles | None) -> None:
    fetcher.stop()
    one_by_one.stop()
    if disk is not None:
        disk.stop()


class RemoteFile:
    """One version of a file: its bytes at hand, and those on their way. Where all of them come to
    be at hand, they are given to ``disk`` to keep."""

    def __init__(
        self, name: str, known: _Known, fetcher: Fetcher, disk: KeptFiles | None = None
    ) -> None:
        self.known = known
        self.failure: BaseException | None = None
        self.size = known.status.st_size
        self._disk = disk
        self._name = name
        self._fetcher = fetcher
        self._lock = threading.Lock()  # several threads may decode a file
        self._spans = Spans(_FILE_BYTES)
        self._coming: dict[Range, Future[None]] = {}
        self._touched: list[Range] = []
        self._wanted: frozenset[int] = frozenset()  # the frames that were asked for last

    @property
    def held(self) -> int:
        """Bytes at hand."""
        return self._spans.bytes

    def add(self, at: int, data: memoryview) -> None:
        """Bytes that came."""
        with self._lock:
            self._spans.add(at, data)
            if self._disk is None or not 0 < self.size == self._spans.bytes:
                return
            disk, self._disk = self._disk, None
            whole = self._spans.join()
        disk.keep(self._name, self.known.status, whole)

    def drop(self) -> None:
        """Keep no bytes."""
        with self._lock:
            self._spans.clear()
            self._wanted = frozenset()

    def want(self, ranges: Iterable[Range]) -> None:
        """Ask for what is neither at hand nor on its way. Raises StorageError."""
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

    def want_frames(self, index: VideoIndex, frames: Collection[int]) -> None:
        """Ask for what it takes to open the file and to decode these frames."""
        wanted = frozenset(frames)
        if self.held < self.size and self._wanted != wanted:
            self._wanted = wanted
            opening = self.known.opening if index.avi is None else []
            self.want([*opening, *ranges_of(index, frames, self.size)])

    def want_beginning(self) -> None:
        """Ask for all of a small file, and the first part of another."""
        self.want([Range(0, _FIRST_BYTES)])

    def pread(self, length: int, at: int) -> bytes:
        """``length`` bytes from ``at`` on, fewer at the end of the file. Raises StorageError."""
        end = min(at + length, self.size)
        pieces = []
        while at < end:
            pieces.append(self.read_some(at, end - at, end - at))
            at += len(pieces[-1])
        return b"".join(pieces)

    def open(self, *, noted: bool = False) -> Reader:
        """Something to read from; ``noted``: what is read is what it takes to open the file."""
        return Reader(self, noted=noted)

    def is_open(self) -> None:
        """What FFmpeg has read by now is what opening takes."""
        if not self.known.opening:
            self.known.opening = requests(self._touched)
        self._touched = []

    def note(self, at: int, length: int) -> None:
        """So much was read there."""
        if not self.known.opening and len(self._touched) < _MOST_NOTED:
            self._touched.append(Range(at, at + length))

    def check(self) -> None:
        """Raise what a reader was told in the place of bytes, if it was."""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    def read_some(self, at: int, length: int, ahead: int) -> memoryview:
        """As `pread`, but fewer bytes if only those are here; ``ahead`` are asked for if none."""
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
        except FileNotFoundError:
            raise ChangedError from None
        finally:
            with self._lock:
                self._coming.pop(part, None)


class Reader(io.RawIOBase):
    """A remote file as FFmpeg and the index read it: one position, and more asked for ahead where
    it goes on from there."""

    def __init__(self, file: RemoteFile, *, noted: bool) -> None:
        self.name = file._name
        self._file = file
        self._noted = noted
        self._at = self._began = self._ask_at = 0

    def read(self, length: int = -1) -> bytes:
        """Some bytes from here on; none at the end. Raises OSError where none come, but only once:
        FFmpeg asks again, and PyAV would print the second one."""
        return bytes(self.read_view(length))

    def read_view(self, length: int) -> memoryview:
        """As `read`, without a copy."""
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
        """Go elsewhere."""
        here = self._at
        self._at = max(0, offset + (0, self._at, self._file.size)[whence])
        if not 0 <= self._at - here <= _AHEAD_BYTES:
            self._began = self._ask_at = self._at
        return self._at

    def pread(self, length: int, at: int) -> memoryview:
        """``length`` bytes from ``at`` on, fewer at the end of the file; no copy where they are at
        hand in one piece."""
        self.seek(at)
        pieces: list[memoryview] = []
        while length > 0 and (piece := self.read_view(length)):
            pieces.append(piece)
            length -= len(piece)
        return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))

    def tell(self) -> int:
        """The position."""
        return self._at

    def seekable(self) -> bool:
        """It is."""
        return True

    def readable(self) -> bool:
        """It is."""
        return True


def ranges_of(index: VideoIndex, frames: Iterable[int], size: int) -> list[Range]:
    """Where the groups of pictures lie that hold these frames, as far as an index tells."""
    found = []
    groups = {index.group_of(ordinal) for ordinal in frames}
    for group in groups - {-1}:
        begin = index.keyframe(group).position
        is_last = group + 1 == len(index.keyframes)
        end = size if is_last else index.keyframe(group + 1).position
        if 0 <= begin < end:
            found.append(Range(max(0, begin - _SLACK_BYTES), min(size, end + _SLACK_BYTES)))
    return found

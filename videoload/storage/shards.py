"""The members of archives, by name: each archive is walked once, and again when the file changes.

A path continues through an archive: ``000000.tar/KEY.mp4``. A path can only name a member: its part
after the archive is looked up among the names of a walk, and the member's own header must confirm
its place (`archives.member_at`).

The place of a member is the first correct one of these: the hint from when the videos were listed
(`Shards.expect`), the cached members on this host or in the dataset index (`kept_rows`), and a
walk. Below a URL, the row of a video in an index has its place, which was confirmed when the row
was made, and counts for that version of the archive.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple, Protocol, TypeVar

import msgspec
from cachetools import LRUCache

from videoload.errors import RewrittenError, UnreadableError, VideoError
from videoload.storage.archives import ArchiveError, Member, Read, member_at, members
from videoload.storage.paths import ARCHIVES, files_of
from videoload.storage.video_file import VideoFile

T = TypeVar("T")
Prove = Callable[[str, int, int], Member | None]  # a member by its name, its place and its size

PLACE = Struct("<QQ")  # of a member: where its record begins, and its bytes
_NO_PLACE = 0, 0
_KNOWN_BYTES = 32 << 20  # of the names and places in the archives that were read last
_KNOWN_MEMBERS = 20_000  # whose places were proven, or are hints
_NEAR = 8 << 10  # is read in one go: headers of small members
_FAR = 256 << 10  # behind a header: what lies between is not read on the way to the next one
_RUN = 1 << 20  # bytes from another host, if the next header is nearer
_RANGE = Struct("<qq")
_FORM = b"1"  # of `Contents` as bytes


class Kept(Protocol):
    """What was found out of the files below a root before: see `kept_rows`."""

    def find(self, path: str, file: VideoFile, read: Callable[[bytes], T]) -> T | None: ...

    def put(self, path: str, file: VideoFile, content: bytes) -> None: ...

    def version(self, path: str, wait: bool) -> bytes | None: ...

    def versions(self, path: str, wait: bool) -> Iterable[bytes]: ...


class Contents(msgspec.Struct, frozen=True, array_like=True):
    """The members of an archive in its order, compact.

    Attributes:
        names: In their plainest form, a zero before and behind each.
        places: `PLACE` of each.
        flaws: Why members cannot be read in place, by their numbers.
        links: The names under which the bytes of hard links stand.
        flaw: Why the walk ended before the end of the archive; "".
        doubles: Duplicate names; the last one counts.
    """

    names: bytes
    places: bytes
    flaws: dict[int, str] = {}
    links: dict[int, str] = {}
    flaw: str = ""
    doubles: int = 0

    def __len__(self) -> int:
        return len(self.places) // PLACE.size

    def find(self, name: str) -> Member | None:
        """Return a member, without where its bytes begin."""
        found = self.names.find(b"\0%b\0" % _bytes(name)) if "\0" not in name else -1
        return None if found < 0 else self._member(self.names.count(b"\0", 0, found), name)

    def __iter__(self) -> Iterator[Member]:
        for n, name in enumerate(self.names.decode("utf-8", "surrogateescape").split("\0")[1:-1]):
            yield self._member(n, name)

    def _member(self, n: int, name: str) -> Member:
        at, size = PLACE.unpack_from(self.places, n * PLACE.size)
        return Member(name, at, 0, size, self.flaws.get(n, ""), self.links.get(n, ""))

    def to_bytes(self) -> bytes:
        """Return it as bytes."""
        return _FORM + msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Contents:
        """Reverse `to_bytes`. Raises ValueError for what it cannot have made."""
        if data[:1] != _FORM:
            raise ValueError("not the members of an archive")
        try:
            found = msgspec.msgpack.decode(memoryview(data)[1:], type=cls)
        except msgspec.MsgspecError as error:
            raise ValueError(f"not the members of an archive: {error}") from None
        if found.names.count(b"\0") != len(found) + 1 or len(found.places) % PLACE.size:
            raise ValueError("not the members of an archive: it has other places than names")
        return found


def contents(read: Read, size: int) -> Contents:
    """Walk an archive of ``size`` bytes. Names that lead out of it are none."""
    numbers, flaw, count = dict[str, int](), "", 0
    places, flaws, links = array("Q"), dict[int, str](), dict[int, str]()
    try:
        for name, at, _, length, bad, link in members(read, size):
            if name.startswith(("/", "../")) or name in ("", ".", "..") or "\0" in name:
                continue
            target = numbers.get(link, -1) if link else 0
            if target < 0:
                continue  # a link to what is not in this archive
            place = places[2 * target : 2 * target + 2] if link else (at, length)
            count += 1
            if (n := numbers.setdefault(name, len(numbers))) == len(places) // 2:
                places.extend(place)
            else:
                places[2 * n : 2 * n + 2] = array("Q", place)
                flaws.pop(n, None), links.pop(n, None)
            if link:
                links[n] = links.get(target, link)
            if flaw_ := flaws.get(target, "") if link else bad:
                flaws[n] = flaw_
    except ArchiveError as error:
        flaw = str(error)
    names = _bytes("\0".join(["", *numbers, ""])) if numbers else b"\0"
    return Contents(names, places.tobytes(), flaws, links, flaw, count - len(numbers))


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


@contextmanager
def reading(path: str, archive: VideoFile) -> Iterator[Read]:
    """Yield a reader of an archive. ``path``: for errors. Raises UnreadableError, StorageError,
    FileReplacedError."""
    near, near_at, latest, ahead = b"", 0, -1, 0

    def read(at: int, length: int) -> bytes:
        nonlocal near, near_at, latest, ahead
        if not near_at <= at <= at + length <= near_at + len(near):
            if not 0 <= at - latest <= _FAR:
                archive.prefetch([(at, at + length)])  # and nothing ahead of it
            elif at - latest > _NEAR and at + length > ahead:
                ahead = at + _RUN
                archive.prefetch([(at, ahead)])
            most = length if archive.fetches else max(length, _NEAR)
            near, near_at = bytes(opened.pread(most, at)), at
        latest = at
        return near[at - near_at : at - near_at + length]

    try:
        with closing(archive.open()) as opened:
            try:
                yield read
            except OSError:
                archive.check()  # raises what a reader could not
                raise
        archive.check()
    except OSError as error:
        raise UnreadableError(path, f"its archive cannot be read: {error.strerror}") from None


class Shards:
    """The archives that a process reads. It is thread-safe. ``kept``: cached findings about
    them."""

    def __init__(self) -> None:
        self.kept: Kept | None = None
        self._known: LRUCache[str, _Known] = LRUCache(
            _KNOWN_BYTES, lambda known: min(known.size, _KNOWN_BYTES)
        )
        self._before: dict[str, Contents] = {}  # what archives held before they were rewritten
        self._expected: LRUCache[str, tuple[int, int]] = LRUCache(_KNOWN_MEMBERS)  # by path
        self._proven: LRUCache[str, tuple[bytes, Member]] = LRUCache(_KNOWN_MEMBERS)
        self._lock = threading.Lock()

    def expect(self, path: str, places: bytes) -> None:
        """Note the places of a row's files when the videos were listed: `PLACE` of each."""
        files = files_of(path)
        whole = places.ljust(PLACE.size * len(files), b"\0")[: PLACE.size * len(files)]
        with self._lock:
            for file, place in zip(files, PLACE.iter_unpack(whole), strict=True):
                if place != _NO_PLACE:
                    self._expected[file] = place

    def expected(self, path: str) -> tuple[int, int] | None:
        """Return the hint for a member; None if there is none."""
        with self._lock:
            return self._expected.get(path)

    def proven(self, path: str, identity: bytes) -> Member | None:
        """Return a member whose place is known in the archive of this identity."""
        with self._lock:
            known_in, member = self._proven.get(path, (b"", None))
        return member if known_in == identity else None

    def find(self, path: str, archive: str, name: str, file: VideoFile, prove: Prove) -> Member:
        """Return the member ``name`` of an archive. Raises UnreadableError, StorageError; and
        VideoError; but RewrittenError if the member was there before: that is no flaw of a thousand
        videos."""
        if (known := self.proven(path, file.identity)) is not None:
            return known
        expected = self.expected(path)
        member = None if expected is None else prove(name, *expected)
        if member is None:
            member = self._look_up(path, archive, name, file, prove)
        self.recall(path, file.identity, member)
        return member

    def recall(self, path: str, identity: bytes, member: Member) -> None:
        """The place of a member is proven in the archive of this identity."""
        with self._lock:
            self._proven[path] = identity, member

    def _look_up(self, path: str, archive: str, name: str, file: VideoFile, prove: Prove) -> Member:
        for found in self._contents(path, archive, file):
            if (place := found.find(name)) is None:
                continue
            if place.flaw:
                raise VideoError(path, f"{place.flaw} ({name} in the archive {archive})")
            member = prove(place.link or name, place.at, place.size)
            if member is not None:
                return member
        where = f"the archive {archive}"
        if place is not None:
            raise VideoError(path, f"is not at its place in {where}, which is damaged")
        with self._lock:
            before = self._before.get(archive)
            was_there = path in self._expected or path in self._proven
        if was_there or (before is not None and before.find(name) is not None):
            raise RewrittenError(
                f"{archive} was rewritten since its videos were listed: "
                f"{f'it {found.flaw}' if found.flaw else f'it has no {name} any more'}. Put the "
                "old one back, or list its videos again"
            )
        raise VideoError(path, f"{where} {found.flaw}" if found.flaw else f"is not in {where}")

    def contents(self, archive: str, file: VideoFile) -> Contents:
        """Return the members of an archive. Raises UnreadableError, StorageError,
        FileReplacedError."""
        return next(self._contents(archive, archive, file))

    def _contents(self, path: str, archive: str, file: VideoFile) -> Iterator[Contents]:
        """Yield the members of an archive, as known without a walk; then as a walk finds them."""
        with self._lock:
            known = self._known.get(archive)
            if known is not None and known.identity != file.identity:
                self._before.setdefault(archive, known.contents)
                known = None
        if known is None and self.kept is not None:
            found = self.kept.find(archive, file, Contents.from_bytes)
            if found is not None:
                known = self._keep(archive, _Known(file.identity, found, is_walked=False))
        if known is not None:
            yield known.contents
            if known.is_walked:
                return
        with reading(path, file) as read:
            found = contents(read, file.size)
        self._keep(archive, _Known(file.identity, found, is_walked=True))
        if self.kept is not None:
            self.kept.put(archive, file, found.to_bytes())
        yield found

    def _keep(self, archive: str, known: _Known) -> _Known:
        with self._lock:
            self._known[archive] = known
        return known


class _Known(NamedTuple):
    identity: bytes
    contents: Contents
    is_walked: bool  # or cached, so that other names may exist

    @property
    def size(self) -> int:
        return 1000 + len(self.contents.names) + len(self.contents.places)


def prove(path: str, archive: VideoFile, name: str, at: int, size: int) -> Member | None:
    """Return the member ``name``, if its record is ``at``. Raises UnreadableError, StorageError."""
    with reading(path, archive) as read:
        return member_at(read, archive.size, name, at, size)


def split_path(path: str) -> tuple[str, str]:
    """Return the archive in a path, by its name, and the name of the member; "" if there is
    none."""
    steps = path.split("/")
    for at, step in enumerate(steps[:-1], 1):
        if step.lower().endswith(ARCHIVES):
            return "/".join(steps[:at]), "/".join(steps[at:])
    return path, ""


def part_of(identity: bytes, begin: int, size: int) -> bytes:
    """Return the identity of these bytes of a file, of the size of a file identity."""
    return blake2b(identity + _RANGE.pack(begin, size), digest_size=len(identity)).digest()

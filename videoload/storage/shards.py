"""What archives hold, by name: each is walked once, and known as long as it is the same file.

A path goes on through an archive: ``000000.tar/KEY.mp4``. It can name nothing but a member, since
what stands behind the archive is only looked up among the names that the walk found.
"""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple, Protocol

from cachetools import LRUCache

from videoload.errors import FileReplacedError, StorageError, UnreadableError, VideoError
from videoload.storage.archives import ArchiveError, Member, Read, members

SUFFIXES = (".tar", ".zip")  # by which listings, and URLs, know archives; a folder needs none
_KNOWN_MEMBERS = 200_000  # of the archives that were read last
_FAR = 256 << 10  # behind a header: what lies between is not read on the way to the next one
_RANGE = Struct("<qq")


class _OpenFile(Protocol):
    def pread(self, length: int, at: int) -> bytes | memoryview: ...

    def close(self) -> None: ...


class _File(Protocol):
    """What is needed of a `VideoFile`."""

    @property
    def size(self) -> int: ...

    def open(self) -> _OpenFile: ...

    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> None: ...

    def check(self) -> None: ...


class Contents(NamedTuple):
    """The members of an archive by their normal names, in its order. ``flaw``: why the walk ended
    before the end of the archive; ""."""

    members: Mapping[str, Member]
    flaw: str
    doubles: int  # names that came more than once; the last one counts


def contents(read: Read, size: int) -> Contents:
    """Walk an archive of ``size`` bytes. Names that lead out of it are none."""
    found, flaw, count = dict[str, Member](), "", 0
    try:
        for member in members(read, size):
            name = posixpath.normpath(member.name)
            if not name.startswith(("/", "../")) and name not in (".", ".."):
                found[name] = member
                count += 1
    except ArchiveError as error:
        flaw = str(error)
    return Contents(found, flaw, count - len(found))


def walk(path: str, archive: _File) -> Contents:
    """What is in an archive. ``path`` is of whoever asks. Raises UnreadableError, StorageError."""
    latest = 0

    def read(at: int, length: int) -> bytes:
        nonlocal latest
        if at - latest > _FAR:
            archive.prefetch([(at, at + length)])  # and nothing ahead of it
        latest = at
        return bytes(opened.pread(length, at))

    try:
        with closing(archive.open()) as opened:
            try:
                found = contents(read, archive.size)
            except OSError:
                archive.check()  # raises what a reader could not
                raise
        archive.check()
    except FileReplacedError:
        raise UnreadableError(path, "its archive changes while it is read") from None
    except OSError as error:
        raise UnreadableError(path, f"its archive cannot be read: {error.strerror}") from None
    return found


class Shards:
    """The archives that a process has read. Several threads may ask."""

    def __init__(self) -> None:
        self._known: LRUCache[str, tuple[bytes, Contents]] = LRUCache(
            _KNOWN_MEMBERS, lambda known: min(1 + len(known[1].members), _KNOWN_MEMBERS)
        )
        self._rewritten: dict[str, Contents] = {}  # what archives held before they were rewritten
        self._lock = threading.Lock()

    def knows(self, archive: str, identity: bytes) -> bool:
        """Whether an archive of this identity need not be walked."""
        with self._lock:
            return self._known.get(archive, (b"",))[0] == identity

    def member(
        self, path: str, archive: str, name: str, identity: bytes, walk: Callable[[], Contents]
    ) -> Member:
        """The member ``name`` of an archive. Raises VideoError; and StorageError if it was there
        before the archive was written anew: that is no flaw of a thousand videos."""
        found, before = self._look(archive, identity, walk)
        member = found.members.get(name)
        if member is None and before is not None and name in before.members:
            raise StorageError(
                f"{archive} was rewritten while it was read, and has no {name} any more: put "
                "the old one back, or list its videos again"
            )
        if member is None:
            where = f"the archive {archive}"
            raise VideoError(path, f"{where} {found.flaw}" if found.flaw else f"is not in {where}")
        if member.flaw:
            raise VideoError(path, f"{member.flaw} ({name} in the archive {archive})")
        return member

    def _look(
        self, archive: str, identity: bytes, walk: Callable[[], Contents]
    ) -> tuple[Contents, Contents | None]:
        """What is in an archive, and what was in it when it was another one."""
        with self._lock:
            known_as, known = self._known.get(archive, (b"", None))
            before = self._rewritten.get(archive)
        if known is not None and known_as == identity:
            return known, before
        found = walk()
        with self._lock:
            self._known[archive] = identity, found
            if known is not None and before is None:
                before = self._rewritten[archive] = known
        return found, before


def split_path(path: str) -> tuple[str, str]:
    """The archive in a path, by its name, and the name of the member; "" if there is none."""
    steps = path.split("/")
    for at, step in enumerate(steps[:-1], 1):
        if step.lower().endswith(SUFFIXES):
            return "/".join(steps[:at]), "/".join(steps[at:])
    return path, ""


def part_of(identity: bytes, begin: int, size: int) -> bytes:
    """Which bytes of which file they are, in as many bytes as the identity of the file."""
    return blake2b(identity + _RANGE.pack(begin, size), digest_size=len(identity)).digest()

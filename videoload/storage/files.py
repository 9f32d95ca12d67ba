"""Files by their paths, inside one root: the interface, and a folder of this host.

A root is a folder or a URL. A `Storage` returns a `VideoFile` for both: methods that only a URL
needs do nothing for a folder.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path, PurePath
from random import Random
from struct import Struct
from typing import Protocol, TypeVar

from cachetools import LRUCache, cached
from xxhash import xxh3_64, xxh3_64_intdigest

from videoload import activity
from videoload.activity import Activity, reading
from videoload.errors import FileReplacedError, StorageError, UnreadableError, VideoError
from videoload.native import open_beneath
from videoload.storage.archives import Member
from videoload.storage.paths import files_of
from videoload.storage.shards import Contents, Kept, Shards, part_of, prove
from videoload.storage.video_file import VideoFile

T = TypeVar("T")
Tick = Callable[[], None]
LastVersion = Callable[[str, bool], bytes | None]

FIRST_BYTES = 1 << 20  # of a file on another host that are fetched first: all of most short clips
SMALL_BYTES = 4 << 20  # a file up to this size is read in one call for its index
MOST_BETWEEN = 600 << 20  # bytes that FFmpeg reads for a packet: no picture has as many
# The bytes of a fingerprint: all of a small file; for a longer one its beginning, its end, and a
# place in each of so many equal parts.
_PLACES, _PLACE_BYTES = 32, 4096
_FINGERPRINTS_KEPT = 50_000
_MISSING = errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG
_DISKS = "ext2", "ext3", "ext4", "f2fs", "tmpfs", "xfs"
_IDENTITY = Struct("<QqqQ")  # size, times of change, inode
IDENTITY_BYTES, _CONTENT_BYTES = _IDENTITY.size, Struct("<Qq").size
_VERSION_BYTES = Struct("<Qqq").size  # an inode is another one where the folder is mounted


def identity_of(status: os.stat_result) -> bytes:
    """Return the identity of a file of this host. The inode alone is not enough: `cp -p` writes
    another content into the same one. `st_ctime_ns` then differs, which no program can set."""
    changed = status.st_mtime_ns, status.st_ctime_ns
    inode = status.st_ino if _has_stable_inodes(status.st_dev) else 0
    return _IDENTITY.pack(status.st_size, *changed, inode)


def identity_by(version: bytes) -> bytes:
    """Return the identity of a file on another host."""
    return blake2b(version, digest_size=IDENTITY_BYTES).digest()


@cache
def _has_stable_inodes(device: int) -> bool:
    """Return whether a file has the same inode at the next mount, as on a disk: FUSE invents
    others, and so may network and overlay file systems. (Of Btrfs the table of mounts names other
    devices: its inodes do not count.)"""
    with suppress(OSError, ValueError), Path("/proc/self/mountinfo").open() as mounts:
        for fields in map(str.split, mounts):
            if fields[2] == f"{os.major(device)}:{os.minor(device)}":
                return fields[fields.index("-") + 1] in _DISKS
    return False


def status_of(root: str | os.PathLike[str], path: str) -> tuple[int, int] | None:
    """Return the bytes of all files of a row, and the last change of any of them; None if one is
    not in this folder."""
    try:
        found = [_status_of(os.path.join(root, file)) for file in files_of(path)]
    except OSError:
        return None
    return sum(each.st_size for each in found), max(each.st_mtime_ns for each in found)


def _status_of(file: str) -> os.stat_result:
    """Return the status of a file; of a member, that of its archive."""
    while True:
        try:
            return os.stat(file)
        except NotADirectoryError:
            file = str(Path(file).parent)


class Storage(Protocol):
    """The files below a root."""

    root: str
    fetches: bool  # whether files are on another host, so that `prefetch_header` helps
    # The version that a file had when it was looked at last; whether to wait for that.
    last_version: LastVersion
    tick: Tick  # of the work that is run, or was run last

    @property
    def failure_reason(self) -> str:
        """Return the current reason why it delivers no bytes; "" if there is none."""

    def look(self) -> str:
        """Return why it would deliver nothing now; "" if no reason is found quickly."""

    def resolve(self, path: str) -> VideoFile:
        """Return the file that ``path`` leads to, inside the root. Raises VideoError,
        StorageError."""

    def fingerprint(self, path: str, salt: int = 0) -> int:
        """Return 63 bits that two copies of a file have in common; never 0. Of a file of more than
        `SMALL_BYTES`, ``salt`` decides which places are looked at. Raises VideoError,
        StorageError.
        """

    def prefetch_header(self, path: str) -> VideoFile | None:
        """Prefetch the beginning of a file that is needed soon. Return the file if it is known
        already and more of it may be prefetched. Raises the errors of `resolve`."""

    def expect(self, path: str, places: bytes) -> None:
        """Note the places of a row's files when the videos were listed: see `Video.places`. They
        are proven before use."""

    def held_in(self, path: str) -> tuple[str, VideoFile] | None:
        """Return the archive that holds a file, and its path; None if there is none. Raises
        VideoError, StorageError."""

    def keep(self, rows: Kept) -> None:
        """Set the rows in which to look up and to store findings about files."""

    def contents(self, path: str, archive: VideoFile) -> Contents:
        """Return the members of an archive. Raises VideoError, StorageError, FileReplacedError."""

    def begin(self) -> None:
        """Note that a training run begins. It may find other files than the one before."""

    def close(self) -> None:
        """Stop waiting for bytes: waiting readers get StorageError."""

    def reading(
        self, path: str, tick: Tick, file: VideoFile | None = None
    ) -> AbstractContextManager[None]:
        """Read the file at ``path`` inside the ``with``. ``tick`` is called while bytes are waited
        for, and after each read. If bytes are missing, raise the reason instead of the resulting
        error. After a FileReplacedError, `resolve` finds the file as it is now. ``file``: the
        version that is read, if it is resolved already."""


def retry_if_replaced(path: str, work: Callable[[], T]) -> T:
    """Return the result of ``work`` for the files of a row. If one of them is replaced meanwhile,
    repeat it once with the current file. Raises UnreadableError if a file is replaced again."""
    replaced = set[str]()
    while True:
        try:
            return work()
        except FileReplacedError as error:
            if error.what in replaced:
                raise UnreadableError(path, "changes while it is read") from None
            replaced.add(error.what)


class LocalFile:
    """A `VideoFile` of this host, at an absolute path without links. ``failures``: where it notes
    under ``name`` that it could not be read: FFmpeg takes that for its end. ``root``: it is opened
    inside of it, even if links appear meanwhile. ``tick``: called after each read. ``member``: it
    is these bytes of the archive at ``path``."""

    fetches = False
    has_version = True
    opening: Sequence[tuple[int, int]] = ()

    def __init__(
        self, path: str, status: os.stat_result, name: str = "",
        failures: dict[str, OSError] | None = None, root: str = "/", tick: Tick = lambda: None,
        member: Member | None = None,
    ) -> None:  # fmt: skip
        self.path, self.root, self.tick = path, root, tick
        self.on_disk, self.begin, self.size = path, 0, status.st_size
        self._identity_on_disk = self.identity = identity_of(status)
        self.version = self.identity[:_VERSION_BYTES]
        if member is not None:
            self.path, self.begin, self.size = f"{path}/{member.name}", member.begin, member.size
            self.identity = part_of(self.identity, self.begin, self.size)
            self.version = part_of(self.version, self.begin, self.size)
        self.key = self.identity
        self._name, self._failures = name, {} if failures is None else failures
        self._opened: Callable[[], _OpenLocalFile | None] = lambda: None

    def open(self) -> _OpenLocalFile:
        try:
            with reading(self.on_disk):
                opened = _OpenLocalFile(self)
                status = opened.status()
        except OSError as error:
            if error.errno == errno.EXDEV:  # a folder has become a link that leads out
                raise FileReplacedError from None
            self.note(error)
            raise
        if identity_of(status) != self._identity_on_disk:
            opened.close()
            raise FileReplacedError
        self._opened = weakref.ref(opened)
        activity.reads.opened.append(self.on_disk)
        return opened

    def ffmpeg_source(self) -> _OpenLocalFile:
        return self.open()

    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> None: ...

    def check(self) -> None:
        opened = self._opened()
        try:
            with reading(self.on_disk):
                status = os.stat(self.on_disk) if opened is None else opened.status()
        except OSError:
            raise FileReplacedError from None
        # Another file may have its name by now: that changes the second time of this one.
        known_bytes = IDENTITY_BYTES if status.st_nlink else _CONTENT_BYTES
        before = self._identity_on_disk[:known_bytes]
        if identity_of(status)[:known_bytes] != before or self.has_failed:
            raise FileReplacedError

    def note(self, failure: OSError) -> None:
        """Note that it cannot be read."""
        self._failures[self._name] = failure

    @property
    def has_failed(self) -> bool:
        """Return whether this was noted and not raised yet."""
        return self._name in self._failures


class _OpenLocalFile:
    """An `OpenFile`, and a file object for FFmpeg, which has one position. FFmpeg gets as much as
    is ``left``."""

    def __init__(self, file: LocalFile) -> None:
        self._file, self._at, self._raw, self.left = file, 0, -1, MOST_BETWEEN
        root = os.open(file.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        place, flags = file.on_disk[len(file.root) :].lstrip("/"), os.O_RDONLY | os.O_CLOEXEC
        try:  # do not wait for a pipe that has replaced it
            self._raw = open_beneath(root, place, flags | os.O_NONBLOCK)
        finally:
            os.close(root)
        self.name = file.path

    def status(self) -> os.stat_result:
        return os.fstat(self._raw) if self._raw >= 0 else os.stat(self._file.on_disk)

    def pread(self, length: int, at: int) -> bytes:
        data = self._pread(length, at)
        self._file.tick()
        return data

    def _pread(self, length: int, at: int) -> bytes:
        before, activity.now[0] = activity.now[0], Activity.READING
        activity.reads.file = self._file.on_disk
        length = max(0, min(length, self._file.size - at))  # behind a member is another one
        at += self._file.begin
        try:
            data = os.pread(self._raw, length, at)
            if len(data) < length:  # bytes before a failure
                data += os.pread(self._raw, length - len(data), at + len(data))
        except OSError as error:
            self._file.note(error)
            raise
        finally:
            activity.reads.end(before)
        return data

    def read(self, length: int) -> bytes:
        """Return some bytes from here on. A failure is raised once: FFmpeg tries again, and PyAV
        would print the second one. What a sign of life raises, as when the worker is to stop, it
        raises again behind the next packet; from here, PyAV would print it."""
        data = b"" if self._file.has_failed or self.left <= 0 else self._pread(length, self._at)
        with suppress(BaseException):
            self._file.tick()
        self._at += len(data)
        self.left -= len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = max(0, offset + (0, self._at, self._file.size)[whence])
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        if self._raw >= 0:
            os.close(self._raw)
            self._raw = -1

    def __del__(self) -> None:
        self.close()


def unknown_version(path: str, wait: bool) -> None:
    """Return the version of an unknown file."""


class Folder:
    """A `Storage` of the files in a folder of this host."""

    fetches = False
    failure_reason = ""  # a folder gives its files, or an error

    def __init__(self, root: str | os.PathLike[str], *, must_exist: bool = False) -> None:
        """``must_exist``: if the root is missing, it is not mounted, and its files are not
        missing. So it is anyway, if it is there now."""
        self.last_version: LastVersion = unknown_version
        with reading(os.fspath(root)):
            self.root = os.path.realpath(root)
            is_there = os.path.lexists(self.root)
            may_list = os.access(self.root, os.R_OK)
        # A folder that may not be listed is not empty: it is not an empty mount point.
        self._may_be_empty = may_list or not is_there
        self._must_exist = must_exist or is_there
        self._sample = fingerprints()
        self._failures: dict[str, OSError] = {}  # by path: why it could not be read
        self._shards = Shards()
        self.tick: Tick = lambda: None

    def expect(self, path: str, places: bytes) -> None:
        if places:
            self._shards.expect(path, places)

    def held_in(self, path: str) -> tuple[str, VideoFile] | None:
        file, shown, inner = self._located(path)
        return (shown, file()) if inner else None

    def keep(self, rows: Kept) -> None:
        self._shards.kept, self.last_version = rows, rows.version

    def contents(self, path: str, archive: VideoFile) -> Contents:
        return self._shards.contents(path, archive)

    def resolve(self, path: str) -> VideoFile:
        file, shown, inner = self._located(path)
        archive = file()
        if not inner:
            return archive
        look = partial(prove, path, archive)
        try:
            return file(member=self._shards.find(path, shown, inner, archive, look))
        except FileReplacedError:
            raise UnreadableError(path, "its archive changes while it is read") from None

    def _located(self, path: str) -> tuple[partial[LocalFile], str, str]:
        """Return the class of the file, its path, and in an archive the name of the member. Raises
        VideoError, StorageError."""
        try:
            with reading(f"{self.root}/{path}"):
                full, status, inner = self._find(path)
        except ValueError as error:  # a zero byte, half a surrogate pair
            raise VideoError(path, f"cannot be a file name ({error})") from None
        except OSError as error:
            hint = self._searched(path) if isinstance(error, FileNotFoundError) else ""
            kind = VideoError if error.errno in _MISSING else UnreadableError
            raise kind(path, f"cannot be opened: {error.strerror}{hint}") from None
        # Opening a pipe would wait for a writer, for ever.
        if not stat.S_ISREG(status.st_mode):
            raise VideoError(path, "is a folder, a pipe or a device, not a file")
        file = partial(
            LocalFile, full, status, name=path, failures=self._failures, root=self.root,
            tick=self._was_read,
        )  # fmt: skip
        return file, full[len(self.root) :].lstrip("/"), inner

    def _was_read(self) -> None:
        self.tick()

    def fingerprint(self, path: str, salt: int = 0) -> int:
        def find() -> int:
            with self.reading(path, self.tick):
                return self._sample(path, self.resolve(path), salt)

        return retry_if_replaced(path, find)

    def _searched(self, path: str) -> str:
        """Return where a file was searched, and a similar name there."""
        folder, name = os.path.split(os.path.join(self.root, path))
        other = ""
        with suppress(OSError), reading(folder):
            other = file_like(name, os.listdir(folder))
        return f" in {folder}" + f" ({other}?)" * bool(other)

    def _holds(self, full: str) -> bool:
        return os.path.commonpath((full, self.root)) == self.root

    def _empty_above(self, path: str) -> str:
        """Return the nearest existing folder of a path, if it is empty, like a mount point without
        its mount; the root, if it has gone; or ""."""
        if self._is_empty():
            return self.root if os.path.lexists(self.root) or self._must_exist else ""
        parents = map(str, Path(self.root, path).parents)
        nearest = next(filter(os.path.isdir, parents), self.root)
        return nearest if os.access(nearest, os.R_OK) and _is_empty(nearest) else ""

    def _is_empty(self) -> bool:
        return self._may_be_empty and _is_empty(self.root)

    def look(self) -> str:
        with reading(self.root):
            return _not_mounted(self.root) if self._is_empty() else ""

    def prefetch_header(self, path: str) -> None: ...

    def close(self) -> None: ...

    def begin(self) -> None: ...

    @contextmanager
    def reading(self, path: str, tick: Tick, file: VideoFile | None = None) -> Iterator[None]:
        self.tick = tick
        try:
            yield
        except FileReplacedError as error:
            error.what = error.what or path
            raise
        finally:
            if (failure := self._failures.pop(path, None)) is not None:
                raise UnreadableError(path, f"cannot be read: {failure.strerror}") from None

    def _find(self, path: str) -> tuple[str, os.stat_result, str]:
        try:
            return self._look(path)
        except OSError:
            # Without its mount, a folder is empty or missing: its files are not missing.
            empty = self._empty_above(path)
            if not empty:
                return self._look(path)  # it may have just been mounted again
            if empty == self.root:
                raise StorageError(_not_mounted(self.root)) from None
            raise UnreadableError(
                path, f"cannot be opened: {empty} is empty; was it unmounted?"
            ) from None

    def _look(self, path: str) -> tuple[str, os.stat_result, str]:
        """Return a file, its status, and in an archive the name of the member."""
        full, steps = self.root.rstrip("/"), path.split("/")
        for at, step in enumerate(steps, 1):  # mostly, neither the root nor what is in it has links
            full = f"{full}/{step}"
            if step in ("", ".", "..") or stat.S_ISLNK((status := os.lstat(full)).st_mode):
                break
            if stat.S_ISREG(status.st_mode):
                return full, status, "/".join(steps[at:]) if {*steps[at:]} - {"", "."} else ""
        else:
            return full, status, ""
        full, inner = os.path.realpath(os.path.join(self.root, path)), ""
        if not self._holds(full):
            hint = "if a symlink leads there, give a root that holds both"
            raise VideoError(path, f"is outside of the root {self.root}: {hint}")
        while True:
            try:
                return full, os.stat(full), inner
            except NotADirectoryError:
                full, name = os.path.split(full)
                inner = posixpath.join(name, inner) if inner else name


def _not_mounted(root: str) -> str:
    return f"{root} is empty or not mounted: mount it again"


def _is_empty(folder: str | Path) -> bool:
    """Return whether it is empty."""
    try:
        with os.scandir(folder) as found:
            return next(found, None) is None
    except OSError:
        return True


def file_like(name: str, names: Iterable[str]) -> str:
    """Return the file with a similar name: in another case, or with another suffix; or ""."""
    requested = {name.lower(), PurePath(name).stem.lower()}
    alike = (each for each in sorted(names) if PurePath(each).stem.lower() in requested)
    return next(alike, "")


def version_of(file: VideoFile) -> int:
    """Return 63 bits that differ if a file was changed or replaced; 0: unknown."""
    return version_by(file.identity if file.has_version else b"")


def version_by(identity: bytes) -> int:
    """Return the version of a file of this identity, as `version_of`; b"": unknown."""
    return xxh3_64_intdigest(identity) >> 1 if identity else 0


def fingerprints() -> Callable[[str, VideoFile, int], int]:
    """Return a function that computes the fingerprint of the file at a path, and caches it. Several
    threads of a trainer call it. It raises FileReplacedError, OSError."""
    known: LRUCache[tuple[str, bytes, int], int] = LRUCache(_FINGERPRINTS_KEPT)
    keep = cached(known, lambda path, file, salt: (path, file.identity, salt), threading.Lock())
    return keep(_sample)


def _sample(path: str, file: VideoFile, salt: int) -> int:
    """Return the fingerprint of a file that ``path`` leads to. Raises FileReplacedError,
    OSError."""
    size, places = file.size, [(0, file.size)]
    if size > SMALL_BYTES:
        drawn, part = Random(salt), size / _PLACES
        begins = [0, size - _PLACE_BYTES]
        begins += [int((n + drawn.random()) * part) for n in range(_PLACES)]
        places = [(at, min(at + _PLACE_BYTES, size)) for at in begins]
    file.prefetch(places)
    digest = xxh3_64(size.to_bytes(8, "little"))
    with closing(file.open()) as opened:
        for begin, end in places:
            while begin < end and (read := opened.pread(end - begin, begin)):
                digest.update(read)
                begin += len(read)  # noqa: PLW2901 - a bucket gives what it has of it
    file.check()
    return digest.intdigest() >> 1 or 1

"""Folders of this user with caches: indexes, fetched blocks and scaled frames.

Every user who may write there controls the training data. So a folder that another user owns, or
may write to, is not used, and neither is a file of another user or a link (`own_folder`,
`own_file`). And a folder may hold other things: what is ours lies in folders ``videoload-...`` in
it, or is a file of such a name. Nothing else is ever changed or deleted, whatever it is called.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Literal

from videoload.arguments import real
from videoload.errors import SpecError
from videoload.logs import Log
from videoload.storage.disk_quota import BYTES

_OURS = {"files": "videoload-files", "frames": "videoload-frames"}
_log = Log(__name__)
_SHARE = 10  # the limit, if none is given, is this part of what is free
_LITTLE = 100_000_000  # bytes: a limit that is likely a mistake


@dataclass(frozen=True)
class CacheDirectory:
    """A ``folder`` on a disk of the workers, for at most ``max_bytes``."""

    folder: str
    max_bytes: int

    def own(self, what: Literal["files", "frames"]) -> Path:
        """Return the folder in it that is ours."""
        return Path(self.folder, _OURS[what])

    @classmethod
    def of(
        cls,
        folder: str | os.PathLike[str] | None,
        max_gb: float | None,
        name: str = "file_cache",
    ) -> CacheDirectory | None:
        """Return the checked arguments of a caller, called ``name`` and ``name``_gb; None if
        nothing is cached. The folder is created. The default limit is a tenth of the free and
        already used space; the log names it. Raises SpecError."""
        if folder is None:
            if max_gb is not None:
                raise SpecError(f"{name}_gb limits the folder of {name}=, which is not given")
            return None
        max_bytes = 0 if max_gb is None else int(1e9 * real(f"{name}_gb", max_gb, 0.0))
        path = _checked(folder, name)
        try:
            real_path = Path(os.path.realpath(path))
            with own_folder(real_path):
                for own in filter(os.path.lexists, map(real_path.joinpath, _OURS.values())):
                    with own_folder(own):
                        pass
                disk = os.statvfs(path)
                is_read_only = disk.f_flag & os.ST_RDONLY  # it serves what it has
                if not os.access(path, (0 if is_read_only else os.W_OK) | os.X_OK):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise SpecError(
                f"{name}: nothing can be stored in {path}: {error.strerror}; give a folder of your "
                "own"
            ) from None
        found = cls(str(path.absolute()), max_bytes)
        if max_gb is None:
            kept = found.own("frames" if name == "frame_store" else "files") / BYTES
            with suppress(OSError, ValueError):
                max_bytes = int(kept.read_bytes())
            max_bytes = (max_bytes + disk.f_bavail * disk.f_frsize) // _SHARE
            _log.log(
                logging.INFO if max_bytes >= _LITTLE else logging.WARNING,
                "%s: %s takes at most %.3g GB, a tenth of the free space: %s_gb= (--%s-gb) sets "
                "another limit",
                name, path, max_bytes / 1e9, name, name.replace("_", "-"),
            )  # fmt: skip
            found = replace(found, max_bytes=max_bytes)
        return found


@dataclass(frozen=True)
class CacheDirectories:
    """The folders of a worker; None: nothing is cached.

    Attributes:
        cache: For what is found out of videos.
        file_cache: For files from below a URL.
        frame_store: For scaled frames.
        index: What was found out of them before, a file or a URL; None: what lies in the root;
            False: nothing.
    """

    cache: str | None = None
    file_cache: CacheDirectory | None = None
    frame_store: CacheDirectory | None = None
    index: str | bool | None = None

    @classmethod
    def of(
        cls,
        cache: str | None,
        file_cache: str | os.PathLike[str] | None,
        file_cache_gb: float | None,
        frame_store: str | os.PathLike[str] | None,
        frame_store_gb: float | None,
        index: str | bool | None = None,
    ) -> CacheDirectories:
        """Return the checked arguments of a caller, as `CacheDirectory.of` takes them."""
        return cls(
            cache,
            CacheDirectory.of(file_cache, file_cache_gb),
            CacheDirectory.of(frame_store, frame_store_gb, "frame_store"),
            index,
        )

    def beside(self, root: object) -> CacheDirectories:
        """Return these folders. Raises SpecError if the frame store is among the videos below
        ``root``, a Path or a URL: its folder would become a class, and shift the labels of
        others."""
        if self.frame_store is None or not isinstance(root, Path):
            return self
        videos, frames = root.resolve(), Path(self.frame_store.folder).resolve()
        if not frames.is_relative_to(videos) or videos == Path("/"):  # below that is everything
            return self
        if any(part.startswith(".") for part in frames.relative_to(videos).parts):
            return self
        with suppress(OSError):
            frames.rmdir()  # if it is empty, it was created for this
        raise SpecError(
            f"frame_store={str(frames)!r} is in the folder of videos {videos}, where it would be "
            "taken for a class: give a folder outside"
        )


NO_DIRECTORIES = CacheDirectories()


def _checked(folder: object, name: str) -> Path:
    try:
        path = os.fspath(folder)  # type: ignore[call-overload]
        if isinstance(path, str) and path and "\0" not in path and path.encode():
            return Path(path)
    except (TypeError, UnicodeEncodeError):
        pass
    raise SpecError(f"{name} must be a folder, got {folder!r}")


@contextmanager
def own_folder(folder: Path) -> Iterator[int]:
    """Open a folder of this user, which is not a link, and return its descriptor. If it is missing,
    create it for this user only: the bucket may be private. Raises OSError, also if another user
    owns it or may write to it, and so could replace its files."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(folder, flags)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "it belongs to another user")
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(errno.EPERM, "other users may write to it (chmod go-w)")
        yield descriptor
    finally:
        os.close(descriptor)


def own_file(path: str | Path, folder: int | None = None) -> os.stat_result | None:
    """Return the status of a file, if it is one and this user's own, and no link."""
    try:
        found = os.stat(path, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return found if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() else None


def left_behind(files: Iterable[Path], unused_s: float) -> list[Path]:
    """Return the files of this user that were not changed for so long, the oldest first."""
    changed = {file: found.st_mtime for file in files if (found := own_file(file)) is not None}
    until = time.time() - unused_s
    return sorted((file for file, at in changed.items() if at < until), key=changed.__getitem__)


def cache_folder(requested: str | os.PathLike[str] | Literal[False] | None) -> str | None:
    """Return the folder of indexes for a caller's argument; None: nothing is cached. The log names
    a folder that cannot be used, once.

    Args:
        requested: A folder; None: ``$VIDEOLOAD_CACHE`` (empty: none), else ``videoload`` in
            ``$XDG_CACHE_HOME`` or ``~/.cache``; False: none.
    """
    folder = None if requested is False else _named(requested)
    return folder if folder is not None and _can_keep(folder) else None


def _named(requested: str | os.PathLike[str] | None) -> str | None:
    if requested is not None:
        return str(Path(requested).absolute())
    named = os.environ.get("VIDEOLOAD_CACHE")
    if named is not None:
        return str(Path(named).absolute()) if named else None
    home = os.environ.get("XDG_CACHE_HOME")
    with suppress(RuntimeError):  # no home
        return str((Path(home) if home else Path.home() / ".cache") / "videoload")
    return None


@cache
def _can_keep(folder: str) -> bool:
    """Return whether a folder can be written, and supports locks: some network file systems do
    not."""
    try:
        with own_folder(Path(os.path.realpath(folder))), TemporaryFile(dir=folder) as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        _log.warning(
            "cannot write the index cache: %s: %s; let cache= (--cache, "
            "VIDEOLOAD_CACHE) be a folder of your own on a disk of this host",
            folder, error.strerror,
        )  # fmt: skip
        return False
    return True

"""Where workers keep what serves them again: folders on their host."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import EACCES, EPERM
from pathlib import Path

from videoload.arguments import real
from videoload.errors import SpecError


@dataclass(frozen=True)
class Keep:
    """A ``folder`` on a disk of the workers, for at most ``max_bytes``; None: until only a fifth of
    the disk is free."""

    folder: str
    max_bytes: int | None

    @classmethod
    def of(
        cls,
        folder: str | os.PathLike[str] | None,
        max_gb: float | None,
        name: str = "keep",
    ) -> Keep | None:
        """The checked arguments of a caller, called ``name`` and ``name``_gb; None if nothing is
        kept. The folder is made. Raises SpecError."""
        if folder is None:
            if max_gb is not None:
                raise SpecError(f"{name}_gb limits the folder of {name}=, which is not given")
            return None
        max_bytes = None if max_gb is None else int(1e9 * real(f"{name}_gb", max_gb, 0.0))
        path = _checked(folder, name)
        try:
            with own_folder(path):
                is_read_only = os.statvfs(path).f_flag & os.ST_RDONLY  # it serves what it has
                if not os.access(path, (0 if is_read_only else os.W_OK) | os.X_OK):
                    raise PermissionError(EACCES, os.strerror(EACCES))
        except OSError as error:
            raise SpecError(
                f"{name}: nothing can be kept in {path}: {error.strerror}; give a folder of your "
                "own"
            ) from None
        return cls(str(path.absolute()), max_bytes)


@dataclass(frozen=True)
class Folders:
    """The folders of a worker; None: nothing is kept.

    Attributes:
        cache: For the indexes of videos that had to be decoded completely.
        keep: For files from below a URL.
        frame_store: For scaled frames.
    """

    cache: str | None = None
    keep: Keep | None = None
    frame_store: Keep | None = None

    @classmethod
    def of(
        cls,
        cache: str | None,
        keep: str | os.PathLike[str] | None,
        keep_gb: float | None,
        frame_store: str | os.PathLike[str] | None,
        frame_store_gb: float | None,
    ) -> Folders:
        """The checked arguments of a caller, as `Keep.of` takes them."""
        return cls(
            cache,
            Keep.of(keep, keep_gb),
            Keep.of(frame_store, frame_store_gb, "frame_store"),
        )

    def beside(self, root: object) -> Folders:
        """The same. Raises SpecError if frames would lie among the videos below ``root``, a Path or
        a URL: their folder would be a class of its own, and shift the labels of others."""
        if self.frame_store is None or not isinstance(root, Path):
            return self
        videos, frames = root.resolve(), Path(self.frame_store.folder).resolve()
        if not frames.is_relative_to(videos):
            return self
        if any(part.startswith(".") for part in frames.relative_to(videos).parts):
            return self
        with suppress(OSError):
            frames.rmdir()  # if it is empty, it was made for this
        raise SpecError(
            f"frame_store={str(frames)!r} lies among the videos of {videos}, where it would be "
            "taken for a class: give a folder outside"
        )


NO_FOLDERS = Folders()


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
    """A descriptor of a folder of this user. If it is missing, it is made for this user alone: the
    bucket may be private. Raises OSError, also if another user owns it, who could replace its
    files."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(EPERM, "it belongs to another user")
        yield descriptor
    finally:
        os.close(descriptor)

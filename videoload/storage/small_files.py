"""Small files that are read whole: their size is bounded before memory is taken for them."""

from __future__ import annotations

import os
import posixpath
import stat
from pathlib import Path

from videoload.errors import FileReplacedError, StorageError
from videoload.storage.stores import Fetcher, UnavailableError

_FIRST_BYTES = 1 << 20
_TRIES = 3  # of an object that changes while it is read


def read_small(root: Path | str, name: str, most: int) -> bytes:
    """Read a file below a folder or a URL whole; requests are repeated as for videos.

    Args:
        root: The folder, or the URL.
        name: Its path from there.
        most: How many bytes it may have.

    Raises:
        StorageError: There is no such file, it is no regular file, has more bytes, or lies outside.
    """
    where = f"{root}/{name}"
    if name.startswith("/") or ".." in name.split("/") or posixpath.normpath(name) == ".":
        raise StorageError(f"{name!r:.200} leads out of {root}")
    found = _of_folder(root, name, most) if isinstance(root, Path) else _of_url(root, name, most)
    if found is None:
        raise StorageError(f"{where} has more than {most} bytes, which is the limit")
    return found


def _of_folder(root: Path, name: str, most: int) -> bytes | None:
    """Return the bytes, None for too many. Opening a pipe does not wait for a writer."""
    try:
        handle = os.open(root / name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise StorageError(f"{root / name} is a folder, a pipe or a device, not a file")
            if status.st_size > most:
                return None
            found = file.read(status.st_size + 1)
    except ValueError as error:  # a zero byte
        raise StorageError(f"{name!r:.200} cannot be a file name ({error})") from None
    except OSError as error:
        raise StorageError(f"{root / name}: {error.strerror}") from None
    return found if len(found) <= most else None


def _of_url(url: str, name: str, most: int) -> bytes | None:
    """Return the bytes, None for too many."""
    fetcher = Fetcher(url)
    try:
        for _ in range(_TRIES):
            try:
                part = fetcher.get(name, 0, min(most, _FIRST_BYTES))
                if part.size > most:
                    return None
                if part.end == part.size:
                    return bytes(part.data)
                rest = fetcher.get(name, part.end, part.size, part.tag)
                return b"".join((part.data, rest.data))
            except FileReplacedError:
                continue
        raise StorageError(f"{url}/{name} changes while it is read")
    except UnavailableError as error:
        raise StorageError(f"{url}/{name} cannot be read: {error}") from None
    finally:
        fetcher.stop()

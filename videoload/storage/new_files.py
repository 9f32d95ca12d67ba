"""Write files in folders where other users may write, too: a shared folder of videos, ``/tmp``.

Such a user can put a link under a guessed name, and so make another user's process write through
it. So a file is created under an unguessable name, is opened only if it is new, and then replaces
the old file atomically. No link is followed.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from videoload.errors import VideoloadError

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def new_file(file: Path, *, alone: bool = False) -> Iterator[BinaryIO]:
    """Yield a new file that replaces ``file``, unless the ``with`` block raises. ``alone``: a lock
    excludes other processes, so remains of a killed one are deleted. Raises OSError."""
    _check(file)
    unfinished = _beside(file, "" if alone else f".{secrets.token_hex(8)}")
    if alone:
        unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, _FLAGS | os.O_EXCL, 0o666), "w+b") as opened:
        try:
            yield opened
            opened.flush()
            unfinished.replace(file)
        finally:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)


def continued(file: Path) -> FileIO:
    """Return a file that is open for appending, and is created if it is missing. Raises OSError."""
    _check(file)
    return FileIO(os.open(file, _FLAGS | os.O_APPEND, 0o666), "a+")


def check_place(file: Path) -> None:
    """Raise OSError if `new_file` cannot write there."""
    _check(file)
    unfinished = _beside(file, f".{secrets.token_hex(8)}")
    os.close(os.open(unfinished, _FLAGS | os.O_EXCL, 0o666))
    unfinished.unlink()


@contextmanager
def writing(place: object) -> Iterator[None]:
    """Raise an OSError inside the ``with`` as a VideoloadError that names this place: a new file
    has another name until it is whole, and a full disk names none."""
    try:
        yield
    except OSError as error:
        raise VideoloadError(f"cannot write {place}: {error.strerror or error}") from None


def _beside(file: Path, number: str) -> Path:
    return file.with_name(f".{file.name}{number}.unfinished")


def _check(file: Path) -> None:
    """Raise OSError if something else than a file has this name: it would be lost."""
    if Path("/dev") in file.absolute().parents or (file.exists() and not file.is_file()):
        raise OSError(errno.EINVAL, "it is not a file", str(file))

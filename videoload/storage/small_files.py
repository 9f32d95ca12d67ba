"""Small files that are read whole: their size is bounded before memory is taken for them."""

from __future__ import annotations

import posixpath
from contextlib import closing
from pathlib import Path

from videoload.errors import StorageError, VideoError
from videoload.storage.files import retry_if_replaced
from videoload.storage.roots import open_storage


def read_small(root: Path | str, name: str, most: int) -> bytes:
    """Read a file below a folder or a URL whole; requests are repeated as for videos.

    Args:
        root: The folder, or the URL.
        name: Its path from there.
        most: How many bytes it may have.

    Raises:
        StorageError: There is no such file, it is no regular file, has more bytes, or lies outside.
    """
    if name.startswith("/") or ".." in name.split("/") or posixpath.normpath(name) == ".":
        raise StorageError(f"{name!r:.200} leads out of {root}")
    storage = open_storage(root)

    def whole() -> bytes:
        with storage.reading(name, lambda: None):
            file = storage.resolve(name)
            if file.size > most:
                raise StorageError(f"{root}/{name} has more than {most} bytes, which is the limit")
            with closing(file.open()) as opened:
                return bytes(opened.pread(file.size, 0))

    try:
        return retry_if_replaced(name, whole)
    except (VideoError, OSError) as error:
        raise StorageError(f"{root}: {error}") from None
    finally:
        storage.close()

"""The storage of a root."""

from __future__ import annotations

import os

from videoload.storage.files import Folder, Storage
from videoload.storage.keep import Keep
from videoload.storage.roots import is_url
from videoload.storage.stores import check_extra


def open_storage(root: str | os.PathLike[str], keep: Keep | None = None) -> Storage:
    """The files in a folder or below a URL; its host is not asked anything yet. ``keep``: the file
    cache for files from a URL. Raises StorageError if the extra for URLs is not installed."""
    if is_url(root):
        check_extra(str(root))
        from videoload.storage.remote import RemoteStorage  # few processes need it

        return RemoteStorage(str(root), keep)
    return Folder(root)

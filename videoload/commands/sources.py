"""The catalog that a command's argument names: a folder, a URL, a CSV file or a split file."""

from __future__ import annotations

from pathlib import Path

from videoload.catalog.catalog import Catalog
from videoload.catalog.folders import SUFFIXES, read_one_class
from videoload.errors import VideoloadError
from videoload.storage.roots import is_url


def load(source: Path | str, root: Path | str | None) -> Catalog:
    """The catalog of a folder, a CSV file or a UCF-101 split file. A folder without sub-folders is
    one class. Raises CatalogError."""
    if is_url(source):
        return Catalog.from_folder(source, root=root)
    source = Path(source)
    if source.is_dir():
        one_class = read_one_class(source, root)
        if one_class is None:
            return Catalog.from_folder(source, root=root)
        return Catalog(one_class.paths, one_class.labels, one_class.classes, one_class.root)
    if source.suffix.lower() in SUFFIXES:
        raise VideoloadError(f"{source} is a video: give the folder that it is in")
    if source.suffix.lower() == ".csv":
        return Catalog.from_csv(source, root or source.parent)
    return Catalog.from_list(source, root or source.parent)

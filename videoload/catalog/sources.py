"""The catalog that a command's argument names: a folder, a URL, shards, a table or a split file."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from videoload.catalog.catalog import Catalog
from videoload.catalog.columns import text_lines
from videoload.catalog.folders import BY_FOLDER, SUFFIXES, is_archive, sub_folders
from videoload.catalog.table_rows import TABLES
from videoload.clips import call_text
from videoload.errors import VideoloadError
from videoload.storage.files import status_of
from videoload.storage.paths import files_of
from videoload.storage.roots import is_url

_LOOKED_AT = 20  # paths of a list


def load(
    source: Path | str,
    root: Path | str | None,
    chain: str | None = None,
    table: str = "",
    classes: Path | None = None,
    *,
    is_labelled: bool = True,
) -> Catalog:
    """Return the catalog of a folder, shards, a table or a UCF-101 split file. A folder without
    sub-folders, or of recordings in pieces, has no labels. ``chain``: what names a recording.
    ``table``: arguments of `Catalog.from_table`. ``classes``: a classInd.txt with their names.
    Without ``is_labelled``, labels are not required. Raises CatalogError."""
    if table and Path(source).suffix.lower() not in TABLES:
        raise VideoloadError(f"--table is for the columns of a table, but {source} is not one")
    if is_archive(str(source)) and not Path(source).is_dir():
        return Catalog.from_shards(str(source), root)
    if is_url(source) or Path(source).is_dir():
        has_labels = is_labelled and not chain and (is_url(source) or sub_folders(Path(source)))
        label = BY_FOLDER if has_labels else None
        return Catalog.from_folder(source, root=root, classes=classes, label=label, chain=chain)
    source = Path(source)
    if chain is not None:
        raise VideoloadError(f"--chain is for the files of a folder, but {source} is not one")
    if source.suffix.lower() in SUFFIXES:
        raise VideoloadError(f"{source} is a video: give the folder that it is in")
    if source.suffix.lower() in TABLES:
        known = list(inspect.signature(Catalog.from_table).parameters)[2:]
        columns = call_text.parse(table, known, "--table")
        catalog = Catalog.from_table(source, root or source.parent, classes, **columns)
        if root is None:
            _check_root(source, (video.path for video in catalog))
        return catalog
    if root is None:
        paths = (re.sub(r"\s+[+-]?\d+$", "", line.strip()) for line in text_lines(source))
        _check_root(source, filter(None, paths))
    return Catalog.from_list(source, root or source.parent, classes)


def _check_root(source: Path, paths: Iterable[str]) -> None:
    """Raise VideoloadError if the first paths of a list do not lead from its own folder to
    anything."""
    first = list(islice(paths, _LOOKED_AT))
    if first and all(status_of(source.parent, files_of(path)[0]) is None for path in first):
        raise VideoloadError(
            f"{source} lists {first[0]!r}, which is not in its folder: give --root, the folder "
            "that its paths are relative to"
        )

"""Class folders whose videos are folders of numbered images."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from videoload.errors import CatalogError
from videoload.listings.columns import is_hidden, is_text_line
from videoload.storage.images import in_order, is_image, is_pattern

_LOOSE = "images that are in no folder of a class folder"


def image_folders(
    root: Path, base: str, pattern: str | None, passed: Counter[str], *, by_class: bool
) -> dict[str, list[str]]:
    """The sequences of images below each folder of ``base``, relative to the root; with a
    ``pattern``, the images that it names. ``by_class``: images directly in these folders are no
    sequence, and counted in ``passed``. Raises CatalogError."""
    if pattern is not None and not (isinstance(pattern, str) and is_pattern(pattern)):
        raise CatalogError(f"images must be like 'img_%05d.jpg', not {pattern!r}")
    folders, _ = _listing(root, base)
    return {
        name: sorted(_below(root, base + name, pattern, passed, itself=not by_class))
        for name in folders
    }


def _below(
    root: Path, folder: str, pattern: str | None, passed: Counter[str], *, itself: bool
) -> Iterator[str]:
    folders, images = _listing(root, folder)
    if not itself:
        passed[_LOOSE] += len(images)
    elif images:
        try:
            names = in_order(images, pattern)
        except ValueError as error:
            raise CatalogError(f"{root / folder}: {error} (images=)") from None
        if names:
            yield folder if pattern is None else f"{folder}/{pattern}"
    for name in folders:
        yield from _below(root, f"{folder}/{name}", pattern, passed, itself=True)


def _listing(root: Path, folder: str) -> tuple[list[str], list[str]]:
    """The visible folders and images in a folder."""
    folders, images = [], []
    try:
        with os.scandir(root / folder) as entries:
            for entry in entries:
                if is_hidden(entry.name) or not is_text_line(entry.name):
                    continue
                if is_image(entry.name):
                    images.append(entry.name)
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
    except OSError as error:
        raise CatalogError(f"{root / folder} cannot be listed: {error.strerror}") from error
    return sorted(folders), images

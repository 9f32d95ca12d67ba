"""The videos of a directory, listed, labelled, shuffled and split as Keras does it for images.

`keras.utils.image_dataset_from_directory` and its sisters (Keras 3, ``dataset_utils.py``) fix which
file gets which label, and which files are for validation. With the same names and the same seed,
`video_dataset_from_directory` gives the same lists. It differs in three points: hidden files are
no videos, what cannot be listed is an error, and parts of a data set are no classes.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from videoload.catalog.catalog import Catalog
from videoload.catalog.splitting import recording
from videoload.errors import CatalogError, SpecError
from videoload.listings.columns import PathLike, some
from videoload.listings.folders import SUFFIXES, Found, are_parts, open_root
from videoload.listings.there import root_of
from videoload.storage.roots import is_url

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Listing:
    """Videos below a directory.

    ``paths`` are relative to it. ``numbers`` are the numbers of their classes in ``class_names``,
    and ``labels`` are what a model learns: int64 or float32 [N]. Without labels, the latter two are
    None.
    """

    directory: str
    paths: list[str]
    numbers: npt.NDArray[np.int64]
    labels: npt.NDArray[Any] | None
    class_names: list[str] | None
    has_links: bool

    @property
    def file_paths(self) -> list[str]:
        """The paths with their directory."""
        return [os.path.join(self.directory, path) for path in self.paths]

    def __str__(self) -> str:
        found = f"Found {len(self.paths)} files"
        if self.class_names is None:
            return f"{found}."
        return f"{found} belonging to {len(self.class_names)} classes."

    def take(self, order: npt.NDArray[np.int64]) -> Listing:
        """Some of the videos, in this order."""
        return replace(
            self,
            paths=[self.paths[i] for i in order.tolist()],
            numbers=self.numbers[order],
            labels=None if self.labels is None else self.labels[order],
        )

    def shuffled(self, seed: int) -> Listing:
        """All videos, in Keras's order for this seed."""
        order = np.arange(len(self.paths))
        np.random.RandomState(seed % 2**32).shuffle(order)
        return self.take(order)

    def split(self, validation_split: float) -> tuple[Listing, Listing]:
        """The videos to train on, and the last ones for validation. Raises CatalogError if one part
        is empty."""
        videos = np.arange(len(self.paths))
        last = len(videos) - int(validation_split * len(videos))
        for part, name in ((videos[:last], "training"), (videos[last:], "validation")):
            if not len(part):
                raise CatalogError(
                    f"No {name} videos found in directory {self.directory}: it has {len(videos)} "
                    f"videos, and validation_split is {validation_split}."
                )
        return self.take(videos[:last]), self.take(videos[last:])

    def on_both_sides(self, other: Listing) -> str:
        """A file whose recording, as its name says, also has a file in the other part; or ""."""
        there = set(map(recording, other.paths)) - {()}
        return next((path for path in self.paths if recording(path) in there), "")

    def catalog(self) -> Catalog:
        """Its catalog, with the labels as targets. Raises CatalogError."""
        root: str | None = self.directory
        paths = self.paths
        if not is_url(self.directory):
            root = os.path.realpath(self.directory)
            real = [os.path.realpath(f"{root}/{path}") for path in paths] if self.has_links else []
            # Workers open nothing outside of their root, and links may lead out of this one.
            if not all(path.startswith(os.path.join(root, "")) for path in real):
                root, paths = root_of(real)
        numbers = None if self.labels is None else self.numbers
        catalog = Catalog(paths, numbers, self.class_names, root, duplicates=True)
        return catalog if self.labels is None else catalog.with_targets(self.labels)


def list_directory(
    directory: PathLike,
    labels: object = "inferred",
    class_names: Sequence[str] | None = None,
    *,
    follow_links: bool = False,
) -> Listing:
    """The videos below a directory, by class, sub-folder and name.

    ``labels`` is ``"inferred"``, None or a list with a label for each video. Raises CatalogError,
    or SpecError if labels and class names do not match what is there.
    """
    top = os.fspath(directory)
    inferred = isinstance(labels, str) and labels == "inferred"
    if not inferred and class_names:
        raise SpecError(
            "When `labels=None` (no labels), argument `class_names` cannot be specified."
            if labels is None
            else "When argument `labels` is specified, argument `class_names` cannot be specified "
            "(the `class_names` will be the sorted list of labels)."
        )
    links: Literal["all", "files"] = "all" if follow_links else "files"
    files = Found(open_root(top) if is_url(top) else Path(top), links=links)
    of_folder, names = files.by_folder(), [""]
    if inferred:
        names = files.folders
        if class_names is not None:
            if not set(class_names) <= set(names):
                raise SpecError(
                    "The `class_names` passed did not match the names of the subdirectories of the "
                    f"target directory. Expected: {names} (or a subset of it), but received: "
                    f"class_names={class_names}"
                )
            names = list(class_names)
        elif are_parts(names):
            raise CatalogError(
                f"{top}: {', '.join(names)} are parts of a data set, not classes: make a dataset "
                f"of {os.path.join(top, names[0])}, and another of the other part"
            )
    found = [of_folder[name] for name in names] if inferred else [files.videos]
    paths = [path for videos in found for path in videos]
    if not paths:
        hint = ""
        if inferred and (loose := of_folder[""]):
            hint = f" Its {len(loose)} videos lie in no class sub-folder: give labels=."
        raise CatalogError(
            f"No videos found in directory {top}. Allowed formats: {', '.join(SUFFIXES)}.{hint}"
        )
    if empty := [name for name, videos in zip(names, found, strict=True) if not videos]:
        _log.warning("%s: no video in the class folders %s", top, some(empty))
    numbers = np.repeat(np.arange(len(names)), [len(videos) for videos in found])
    labelled: npt.NDArray[Any] | None = numbers
    classes: list[str] | None = names
    if labels is None:
        labelled = classes = None
    elif not inferred:
        labelled, own = _own_labels(labels, len(paths), top)
        values = sorted(set(own))
        classes = [str(value) for value in values]
        numbers = np.searchsorted(values, own)
    return Listing(top, paths, numbers, labelled, classes, files.has_links)


def _own_labels(
    labels: object, files: int, directory: str
) -> tuple[npt.NDArray[Any], list[int] | list[float]]:
    """The caller's labels as an array, and as a list."""
    if not isinstance(labels, list | tuple | np.ndarray):
        raise SpecError(
            "`labels` argument should be a list/tuple of integer labels, of the same size as the "
            "number of video files in the target directory. If you wish to infer the labels from "
            'the subdirectory names in the target directory, pass `labels="inferred"`. If you wish '
            "to get a dataset that only contains videos (no labels), pass `labels=None`. Received: "
            f"labels={labels!r}"
        )
    if len(labels) != files:
        raise SpecError(
            "Expected the lengths of `labels` to match the number of files in the target "
            f"directory. len(labels) is {len(labels)} while we found {files} files in directory "
            f"{directory}."
        )
    values = np.asarray(labels)
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        raise SpecError(f"`labels` must be numbers, one for each file. Received: labels={labels!r}")
    kind = np.float32 if values.dtype.kind == "f" else np.int64
    return values.astype(kind), values.tolist()

"""Which videos, which labels.

The problem: a data set comes as class folders, as UCF-101's split files or as a table, and the
trainer, its ranks and the decoders on other hosts must mean the same clip by the same number.
The invariant: a ``Catalog`` never changes. Its paths are normalised, UTF-8 and lexically inside the
root; its labels are indices into ``classes``; no segment of a file stands in it twice; its order is
that of the list it was made from, or of sorted paths, never that of a file system.
Whatever breaks this is a ``CatalogError`` of one line that names the file, and the line if any.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
import numpy.typing as npt

from videoload.errors import CatalogError
from videoload.spec.catalog_files import (
    ClassNames,
    Columns,
    PathLike,
    checked_names,
    normal_path,
    open_folder,
    read_csv,
    read_folder,
    read_list,
)  # fmt: skip

Ints = npt.NDArray[np.int64]
Column = Sequence[int] | Sequence[int | None] | npt.NDArray[np.integer[Any]]

_UNKNOWN = -1  # in a column of ends or frame counts


class Video(NamedTuple):
    """One segment of one file, and its class.

    ``path`` is relative to the catalog's root, with '/'. ``start`` and ``end`` are source frame
    ordinals, end exclusive; ``end`` None is the end of the file. ``frames`` is the true frame count
    of the whole file (not of the segment) where a scan told it.
    """

    path: str
    label: int
    start: int = 0
    end: int | None = None
    frames: int | None = None


class Catalog:
    """An immutable sequence of ``Video``s, kept as columns: a str and 8 to 32 bytes for each.

    ``labels`` index ``classes``. ``starts``, ``ends`` and ``frames`` are as in ``Video``; None is
    the default of a value or of a whole column, and so is -1 in ``ends`` and ``frames``. ``root``
    is an existing folder, or None where the files are only on the workers' hosts; no file is looked
    at. ``where(i)`` names the source of video i in errors.
    """

    __slots__ = ("_classes", "_columns", "_paths", "_root")

    def __init__(
        self,
        paths: Sequence[str],
        labels: Column,
        classes: Sequence[str],
        root: PathLike | None = None,
        starts: Column | None = None,
        ends: Column | None = None,
        frames: Column | None = None,
        *,
        where: Callable[[int], str] = "video {}".format,
    ) -> None:
        if not len(paths):
            raise CatalogError("there are no videos: a catalog needs at least one")
        normal = [normal_path(path, where, i) for i, path in enumerate(paths)]
        self._root = None if root is None else open_folder(root)
        self._classes = checked_names(classes, "classes")
        label = _column("labels", labels, len(paths), -1)
        start = _column("starts", starts, len(paths), 0)
        end = _column("ends", ends, len(paths), _UNKNOWN)
        known = _column("frames", frames, len(paths), _UNKNOWN)
        last = np.maximum(start, end - 1)
        for wrong, flaw in (
            ((label < 0) | (label >= len(self._classes)), "label {0} is not one of 0..{5}"),
            (start < 0, "start {1} is negative"),
            ((end != _UNKNOWN) & (end <= start), "end {2} (exclusive) is not after start {1}"),
            ((known != _UNKNOWN) & (last >= known), "frame {4} lies outside its {3} frames"),
        ):
            if wrong.any():
                i = int(wrong.argmax())
                numbers = (label[i], start[i], end[i], known[i], last[i], len(self._classes) - 1)
                raise CatalogError(f"{where(i)}: {normal[i]!r}: {flaw.format(*numbers)}")
        self._paths = _distinct(normal, start, end, where)
        self._columns = {"label": label}  # keyed by the fields of Video; only what is not a default
        self._columns |= {"start": start} if start.any() else {}
        self._columns |= {"end": end} if (end != _UNKNOWN).any() else {}
        self._columns |= {"frames": known} if (known != _UNKNOWN).any() else {}

    @classmethod
    def from_folder(
        cls,
        folder: PathLike,
        *,
        root: PathLike | None = None,
        classes: ClassNames | None = None,
        suffixes: Sequence[str] = (".avi",),
    ) -> Catalog:
        """The videos ``folder/<class>/**/*.avi``, by class and then by path.

        The classes are all visible sub-folders, sorted by name, also those without videos: so
        train/ and test/ number them alike. ``classes`` names them instead, in its own order, and
        then no other sub-folder may be there. Paths are relative to ``root``, ``folder`` or a
        parent of it. Suffixes are compared without case. Hidden names and symlinked folders are
        skipped; a symlink out of the root is an error, because no worker would open it.
        """
        return cls._of(read_folder(folder, root, classes, suffixes))

    @classmethod
    def from_list(
        cls, list_file: PathLike, root: PathLike | None, classes: ClassNames | None = None
    ) -> Catalog:
        """UCF-101's split files: lines ``Class/video.avi 3``, or without the number (from 1).

        Without a number the first folder of the path is the class. ``classes`` is the path of a
        classInd.txt (lines ``3 Class``) or the names in order; None takes the visible sub-folders
        of ``root``, sorted. Files are not looked at.
        """
        return cls._of(read_list(list_file, root, classes))

    @classmethod
    def from_csv(
        cls, csv_file: PathLike, root: PathLike | None, classes: ClassNames | None = None
    ) -> Catalog:
        """A table with a header: columns path, label and, if wanted, start, end, frames.

        Labels that are all whole numbers are the labels themselves, and the classes are '0', '1',
        ... up to the highest, or ``classes``; other labels are class names, sorted, or looked up in
        ``classes``. Where a given class name is itself a number, labels are always names. Other
        columns are ignored. Files are not looked at.
        """
        return cls._of(read_csv(csv_file, root, classes))

    @classmethod
    def _of(cls, columns: Columns) -> Catalog:
        return cls(*columns[:-1], where=columns.where)

    @classmethod
    def train_and_test(cls, folder: PathLike, seed: int = 0) -> tuple[Catalog, Catalog]:
        """The videos of a folder to train on, and those held back.

        Args:
            folder: Has ``train/`` and ``test/`` with class folders, or class folders alone.
            seed: Decides which videos are held back where ``folder`` does not say it.

        Returns:
            ``train/`` and ``test/`` where both are there, else four fifths of the videos of each
            class and the rest. Paths are relative to ``folder`` in both.

        Raises:
            CatalogError: There are no videos, or ``test/`` has a class that ``train/`` has not.
        """
        home = Path(folder)
        if not ((home / "train").is_dir() and (home / "test").is_dir()):
            return cls.from_folder(home).split(0.8, seed)
        train = cls.from_folder(home / "train", root=home)
        return train, cls.from_folder(home / "test", root=home, classes=train.classes)

    @property
    def root(self) -> Path | None:
        """The folder that paths are relative to, absolute and resolved; None: only workers know."""
        return self._root

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names; a label is an index into them."""
        return self._classes

    @property
    def labels(self) -> Ints:
        """The label of each video: int64 [videos], read-only."""
        return self._columns["label"]

    @property
    def segment_frames(self) -> Ints:
        """How long each segment is in source frames, -1 where neither its end nor a scan tells:
        int64 [videos]."""
        unknown = np.full(len(self), _UNKNOWN)
        end = self._columns.get("end", unknown)
        end = np.where(end == _UNKNOWN, self._columns.get("frames", unknown), end)
        return np.where(end == _UNKNOWN, _UNKNOWN, end - self._columns.get("start", 0))

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: SupportsIndex) -> Video:
        i = operator.index(index)
        if not -len(self) <= i < len(self):
            raise IndexError(f"video {i} of a catalog of {len(self)}")
        columns = self._columns.items()
        told = {name: n for name, column in columns if (n := column.item(i)) != _UNKNOWN}
        return Video(self._paths[i], **told)

    def __iter__(self) -> Iterator[Video]:
        return map(self.__getitem__, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Catalog):
            return NotImplemented
        return (
            (self._root, self._classes, self._paths) == (other._root, other._classes, other._paths)
            and self._columns.keys() == other._columns.keys()
            and all(np.array_equal(c, other._columns[name]) for name, c in self._columns.items())
        )

    def __hash__(self) -> int:
        return hash((self._root, self._classes, len(self)))

    def __repr__(self) -> str:
        return f"Catalog({len(self)} videos, {len(self._classes)} classes, root={self._root})"

    def subset(self, indices: Iterable[int]) -> Catalog:
        """The videos at ``indices``, in that order, each at most once; the classes stay."""
        chosen = np.asarray(indices if isinstance(indices, np.ndarray) else list(indices))
        if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
            raise CatalogError("subset takes whole numbers (of a mask: np.flatnonzero(mask))")
        chosen = np.arange(len(self))[chosen.astype(np.int64)]  # negative ones count from the end
        column = {name: told[chosen] for name, told in self._columns.items()}
        segments = (column.get(name) for name in ("start", "end", "frames"))
        paths = [self._paths[i] for i in chosen.tolist()]
        return Catalog(paths, column["label"], self._classes, self._root, *segments)

    def split(self, fraction: float, seed: int = 0) -> tuple[Catalog, Catalog]:
        """Two catalogs with ``fraction`` and the rest of the files of each class, in this order.

        Who goes where depends on ``seed`` and the set of videos, not on their order. All segments
        of a file go to one side; a file of several classes counts for the rarest of them. A class
        of n files gives round(fraction * n) to the first side, but one to each side if n > 1.
        """
        if not 0 < fraction < 1:
            raise CatalogError(f"a split needs a fraction between 0 and 1, not {fraction}")
        rarity = [(n, label) for label, n in enumerate(np.bincount(self.labels).tolist())]
        rarest: dict[str, tuple[int, int]] = {}
        for path, label in zip(self._paths, self.labels.tolist(), strict=True):
            rarest[path] = min(rarity[label], rarest.get(path, rarity[label]))
        key = hashlib.blake2b(str(operator.index(seed)).encode()).digest()
        strata: dict[tuple[int, int], list[tuple[bytes, str]]] = {}
        for path, stratum in rarest.items():
            drawn = hashlib.blake2b(path.encode(), digest_size=16, key=key).digest()
            strata.setdefault(stratum, []).append((drawn, path))
        first: set[str] = set()
        for files in strata.values():
            n, wanted = len(files), round(fraction * len(files))
            taken = sorted(files)[: min(max(wanted, 1), n - 1) if n > 1 else wanted]
            first.update(path for _, path in taken)
        if len(first) in (0, len(rarest)):
            raise CatalogError(
                f"a split by {fraction} leaves one side empty: no class has two files "
                f"({len(rarest)} files, {len(strata)} classes)"
            )
        mask = np.fromiter((path in first for path in self._paths), np.bool_, len(self))
        return self.subset(np.flatnonzero(mask)), self.subset(np.flatnonzero(~mask))


def _column(name: str, values: Column | None, count: int, default: int) -> Ints:
    """A read-only copy; None, of a value or of the whole column, is the default."""
    if values is None:
        values = np.full(count, default)
    elif not isinstance(values, np.ndarray):
        values = np.array([default if value is None else value for value in values])
    if values.dtype.kind not in "iu" or not np.can_cast(values.dtype, np.int64):
        raise CatalogError(f"{name} must be whole numbers that fit int64, not {values.dtype}")
    if values.shape != (count,):
        raise CatalogError(f"{name} has the shape {values.shape}, but there are {count} paths")
    column = values.astype(np.int64)
    column.setflags(write=False)
    return column


def _distinct(
    paths: list[str], starts: Ints, ends: Ints, where: Callable[[int], str]
) -> tuple[str, ...]:
    """The paths, one str for each file, once no segment stands there twice."""
    if len(set(paths)) == len(paths):
        return tuple(paths)
    first: dict[str, int] = {}
    file = np.fromiter((first.setdefault(p, i) for i, p in enumerate(paths)), np.int64, len(paths))
    rows = np.stack((file, starts, ends))
    order = np.lexsort(rows)
    twice = (np.diff(rows[:, order]) == 0).all(axis=0)
    if twice.any():
        i, j = order[twice.argmax() :][:2].tolist()
        raise CatalogError(f"{where(j)}: {paths[j]!r} is the same segment as {where(i)}: drop one")
    return tuple(paths[i] for i in file.tolist())

"""Which videos, which labels.

The problem: a data set comes as class folders, as UCF-101's split files or as a table, and the
trainer, its ranks and the workers on other hosts must mean the same clip by the same number.
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
    open_root,
    read_csv,
    read_folder,
    read_list,
)  # fmt: skip

Ints = npt.NDArray[np.int64]
Column = Sequence[int] | Sequence[int | None] | npt.NDArray[np.integer[Any]]

_UNKNOWN = -1  # in a column of ends or frame counts


class Video(NamedTuple):
    """One segment of one file, and its class.

    Attributes:
        path: Relative to the catalog's root, with ``/``.
        label: Index into the catalog's ``classes``.
        start: First source frame of the segment, counted from 0 in display order. Default 0.
        end: Source frame after the segment's last. Default None: the end of the file.
        frames: True frame count of the whole file (not of the segment), as ``videoload scan``
            finds it. Default None: not known.
    """

    path: str
    label: int
    start: int = 0
    end: int | None = None
    frames: int | None = None


class Catalog:
    """An immutable sequence of `Video`: which videos, which labels.

    ``len(catalog)``, ``catalog[i]`` and iteration give `Video`; it is kept as columns, a str and 8
    to 32 bytes each. The order is that of the arguments. No file is looked at.

    Args:
        paths: Of the videos, relative to the root, at least one. ``.`` and ``..`` in them are
            resolved, and none may lead out of the root.
        labels: Index into ``classes`` of each video, int [N].
        classes: Names of the classes, each once, at least one.
        root: Folder that the paths are relative to; it must exist. Or a URL (``s3://``, ``gs://``,
            ``az://``, ``http://``), of which nothing is asked here. None, the default: the files
            are on the workers' hosts only.
        starts: First source frame of each segment, int [N]. Default None: all 0. A value of None
            stands for its default here, in ``ends`` and in ``frames``.
        ends: Source frame after each segment's last, int [N], -1 for the end of the file. Default
            None: all to the end.
        frames: True frame count of each file, int [N], -1 where it is not known. Default None: of
            none.
        where: Gives the source of video i for messages (a file and its line). Default:
            ``"video i"``.

    Raises:
        CatalogError: A path, label or segment is not valid, or a segment stands there twice.
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
        self._root = None if root is None else open_root(root)
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

        Hidden names and symlinked folders are skipped. A symlink out of the root is an error,
        because no worker would open it.

        Args:
            folder: Holds a sub-folder for each class; it may lie in a bucket (``s3://...``).
            root: Folder that paths are relative to: ``folder`` or a parent of it. None, the
                default: ``folder``.
            classes: Path of a classInd.txt (lines ``3 Archery``), or the names in their order; no
                other sub-folder may then be there. None, the default: all visible sub-folders,
                sorted by name, also those without videos, so that train/ and test/ number them
                alike.
            suffixes: Of the videos' names, compared without case. Default: ``.avi``.

        Returns:
            A catalog of at least one video.

        Raises:
            CatalogError: There are no videos, or a folder, link or name cannot be used.
        """
        return cls._of(read_folder(folder, root, classes, suffixes))

    @classmethod
    def from_list(
        cls, list_file: PathLike, root: PathLike | None, classes: ClassNames | None = None
    ) -> Catalog:
        """A split file of UCF-101 (Soomro et al. 2012): ``Archery/v_Archery_g01_c01.avi 3``.

        The number is that of the class, from 1; where a line has none, the first folder of its path
        is the class. No file is looked at.

        Args:
            list_file: trainlist01.txt, testlist01.txt or one like them.
            root: Folder that the paths are relative to; None: the files are on the workers' hosts
                only, and ``classes`` is needed.
            classes: Path of a classInd.txt (lines ``3 Archery``), or the names in their order.
                None, the default: the visible sub-folders of ``root``, sorted by name.

        Returns:
            A catalog in the order of the lines.

        Raises:
            CatalogError: The file cannot be read or lists no videos, or a line has no such class.
        """
        return cls._of(read_list(list_file, root, classes))

    @classmethod
    def from_csv(
        cls, csv_file: PathLike, root: PathLike | None, classes: ClassNames | None = None
    ) -> Catalog:
        """A table with a header: columns path, label and, if wanted, start, end, frames.

        Other columns are ignored. Labels that are all whole numbers are indices, and the classes
        are then ``0``, ``1``, ... up to the highest, or ``classes``; other labels are names of
        classes. Numbers that are not whole are refused, unless they are names in ``classes``. No
        file is looked at.

        Args:
            csv_file: UTF-8, separated by commas, as ``videoload scan --output`` writes it.
            root: Folder that the paths are relative to; None: the files are on the workers' hosts
                only.
            classes: Path of a classInd.txt (lines ``3 Archery``), or the names in their order.
                Where one of them is itself a number, labels are always names. None, the default:
                what the labels say, names in sorted order.

        Returns:
            A catalog in the order of the rows.

        Raises:
            CatalogError: The file cannot be read or lists no videos, or a row is not valid.
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
            seed: Decides which videos are held back where ``folder`` does not say it. Default 0.

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
    def root(self) -> Path | str | None:
        """The folder that paths are relative to, absolute and resolved, or the URL, a str; None: on
        workers only."""
        return self._root

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names; a label is an index into them."""
        return self._classes

    @property
    def labels(self) -> Ints:
        """Label of each video, an index into ``classes``: int64 [N], read-only."""
        return self._columns["label"]

    @property
    def files(self) -> int:
        """How many files there are; several segments of one count once."""
        return len(set(self._paths))

    @property
    def segment_frames(self) -> Ints:
        """Length of each segment in source frames: int64 [N], -1 where neither its end nor the
        file's frame count is known."""
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
        """Some of the videos. The classes stay as they are, also those left without videos.

        Args:
            indices: Which, in the new order, each at most once; negative ones count from the end.
                Of a mask, take ``np.flatnonzero(mask)``.

        Returns:
            A new catalog.

        Raises:
            CatalogError: There are no indices, or one is not a whole number or stands there twice.
            IndexError: There is no such video.
        """
        chosen = np.asarray(indices if isinstance(indices, np.ndarray) else list(indices))
        if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
            raise CatalogError("subset takes whole numbers (of a mask: np.flatnonzero(mask))")
        chosen = np.arange(len(self))[chosen.astype(np.int64)]  # negative ones count from the end
        column = {name: told[chosen] for name, told in self._columns.items()}
        segments = (column.get(name) for name in ("start", "end", "frames"))
        paths = [self._paths[i] for i in chosen.tolist()]
        return Catalog(paths, column["label"], self._classes, self._root, *segments)

    def split(self, fraction: float, seed: int = 0) -> tuple[Catalog, Catalog]:
        """Two catalogs, with ``fraction`` and with the rest of the files of each class.

        Which file goes where depends on ``seed`` and the set of videos, not on their order. All
        segments of a file go to one side; a file of several classes counts for the rarest of them.
        A class of n files gives ``round(fraction * n)`` to the first, but one to each if n > 1.

        Args:
            fraction: Share of the files that goes to the first catalog, between 0 and 1.
            seed: Any int. Default 0.

        Returns:
            (first, rest), both in this catalog's order and with all of its classes.

        Raises:
            CatalogError: ``fraction`` is not between 0 and 1, or one side would be empty.
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

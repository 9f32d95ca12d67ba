"""Which videos, which labels.

The problem: a data set comes as class folders, as UCF-101's split files or as a table, and the
trainer, its ranks and the decoders on other hosts must mean the same clip by the same number.
The invariant: a ``Catalog`` never changes. Its paths are normalised, UTF-8 and lexically inside the
root; its labels are indices into ``classes``; no segment of a file stands in it twice; its order is
that of the list it was made from, or of sorted paths, never that of a file system.
Whatever breaks this is a ``CatalogError`` of one line that names the file, and the line if any.
"""

from __future__ import annotations

import csv
import hashlib
import operator
import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
import numpy.typing as npt

from videoload.errors import CatalogError

PathLike = str | os.PathLike[str]
ClassNames = PathLike | Sequence[str]  # the path of a classInd.txt, or the names themselves
Ints = npt.NDArray[np.int64]
Column = Sequence[int] | Sequence[int | None] | npt.NDArray[np.integer[Any]]

_UNKNOWN = -1  # in a column of ends or frame counts
_MOST_NUMBERED_CLASSES = (
    1_000_000  # a higher label is a timestamp or an id: no memory for its names
)


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
        normal = [_normal(path, where, i) for i, path in enumerate(paths)]
        self._root = None if root is None else _folder(root)
        self._classes = _checked_names(classes, "classes")
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
        home = _folder(folder)
        top = home if root is None else _folder(root)
        if not home.is_relative_to(top):
            raise CatalogError(f"{home} does not lie in the root {top}: give a parent as root")
        endings = tuple(s.lower() for s in ([suffixes] if isinstance(suffixes, str) else suffixes))
        if not endings or not all(len(s) > 1 and s.startswith(".") for s in endings):
            raise CatalogError(f"suffixes must be like '.avi', not {suffixes!r}")
        base = "" if home == top else f"{home.relative_to(top).as_posix()}/"
        found, loose = _listing(top, base, endings)
        names = tuple(sorted(found)) if classes is None else _names(classes)
        if strange := sorted(found.difference(names)):
            raise CatalogError(
                f"{home}: the sub-folder {strange[0]!r} is not in classes ({_some(names)}): "
                "add it to them, or move it away"
            )
        paths: list[str] = []
        labels: list[int] = []
        for label, name in enumerate(names):
            videos = sorted(_videos(top, base + name, endings)) if name in found else []
            paths += videos
            labels += [label] * len(videos)
        if not paths:
            hint = f"it has {len(found)} class sub-folders (hidden ones and links do not count)"
            if loose:
                hint = f"its {len(loose)} videos need class sub-folders to lie in"
            raise CatalogError(f"{home} has no <class>/**/*{' or *'.join(endings)}: {hint}")
        return cls(paths, labels, names, top, where=lambda _: str(home))

    @classmethod
    def from_list(
        cls, list_file: PathLike, root: PathLike | None, classes: ClassNames | None = None
    ) -> Catalog:
        """UCF-101's split files: lines ``Class/video.avi 3``, or without the number (from 1).

        Without a number the first folder of the path is the class. ``classes`` is the path of a
        classInd.txt (lines ``3 Class``) or the names in order; None takes the visible sub-folders
        of ``root``, sorted. Files are not looked at.
        """
        if classes is not None:
            names = _names(classes)
        elif root is not None:
            found, _ = _listing(_folder(root), "")
            names = _checked_names(sorted(found), f"sub-folders of {root}")
        else:
            raise CatalogError(f"{list_file}: without a root, give classes (classInd.txt or names)")
        label_of = {name: label for label, name in enumerate(names)}
        paths: list[str] = []
        labels: list[int] = []
        lines: list[int] = []

        def where(i: int) -> str:
            return f"{list_file}, line {lines[i]}"

        for line, text in enumerate(_lines(list_file), 1):
            if not text.strip():
                continue
            lines.append(line)
            path, *number = re.split(r"\s+(?=[+-]?[0-9]{1,18}$)", text.strip())
            path = _normal(path, where, -1)
            folder, slash, _ = path.partition("/")
            by_folder = label_of.get(folder, -1) if slash else -1
            label = int(number[0]) - 1 if number else by_folder
            flaw = ""
            if not number and by_folder < 0:
                flaw = f"has no class number, and its first folder is no class ({_some(names)})"
            elif not 0 <= label < len(names):
                flaw = f"has class number {number[0]}, which is not one of 1..{len(names)}"
            elif by_folder not in (-1, label):
                flaw = f"has class number {number[0]}, which is {names[label]!r}: mend either"
            if flaw:
                raise CatalogError(f"{where(-1)}: {path!r} {flaw}")
            paths.append(path)
            labels.append(label)
        if not paths:
            raise CatalogError(f"{list_file} lists no videos")
        return cls(paths, labels, names, root, where=where)

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
        codes: dict[str, int] = {}  # label text -> its code, in order of appearance
        coded: list[int] = []
        paths: list[str] = []
        lines: list[int] = []
        segments: tuple[list[int | None], ...] = ([], [], [])

        def where(i: int) -> str:
            return f"{csv_file}, line {lines[i]}"

        for line, (path, label, *segment) in _csv_rows(csv_file):
            lines.append(line)
            paths.append(path)
            coded.append(codes.setdefault(label, len(codes)))
            for column, text in zip(segments, segment, strict=True):
                if text and not _is_number(text):
                    raise CatalogError(f"{where(-1)}: not a whole number from 0: {text!r}")
                column.append(int(text) if text else None)
        if not paths:
            raise CatalogError(f"{csv_file} lists no videos below its header")
        given = None if classes is None else _names(classes)
        numbered = all(re.fullmatch("-?[0-9]+", text) for text in codes)
        if numbered and not any(map(_is_number, given or ())):
            most = len(given) if given else _MOST_NUMBERED_CLASSES
            label_of = {t: int(t) for t in codes if _is_number(t) and int(t) < most}
            names = given or tuple(map(str, range(max(label_of.values(), default=0) + 1)))
            meant = f"in 0..{most - 1}"
        else:
            names = given or tuple(sorted(filter(None, codes)))
            label_of = {name: label for label, name in enumerate(names)}
            meant = f"a class ({_some(names)})"
        for text, code in codes.items():
            if text not in label_of:
                raise CatalogError(f"{where(coded.index(code))}: label {text!r} is not {meant}")
        labels = np.array([label_of[text] for text in codes])[coded]
        return cls(paths, labels, names, root, *segments, where=where)

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


def _folder(path: PathLike) -> Path:
    folder = Path(os.path.realpath(path))  # Path.resolve() raises on a loop of links
    try:
        os.scandir(folder).close()
    except OSError as error:
        raise CatalogError(f"the folder {path} cannot be opened: {error.strerror}") from error
    return folder


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f", ... {len(names) - 5} more" if len(names) > 5 else "")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19  # fits int64


def _is_fit(text: str) -> bool:
    """Whether it can be a line of a UTF-8 message."""
    return text.isprintable() or not re.search("[\0\n\r\ud800-\udfff]", text)


def _normal(path: str, where: Callable[[int], str], i: int) -> str:
    """The path as the catalog keeps it: no '.', '..' or '//' in it, nothing outside the root."""
    if not isinstance(path, str) or not _is_fit(path):
        flaw = "is not a line of UTF-8 text and cannot travel to a worker: rename the file"
    else:
        normal = posixpath.normpath(path)
        if normal not in (".", "..") and not normal.startswith(("/", "../")):
            return path if path == normal else normal  # no second copy of what the caller has
        flaw = "does not lie inside the root: make it relative to it"
    raise CatalogError(f"{where(i)}: the path {path!r} {flaw}")


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


def _checked_names(names: Sequence[str], where: str) -> tuple[str, ...]:
    if isinstance(names, str) or not len(names):
        raise CatalogError(f"{where}: expected at least one class name in a sequence: {names!r}")
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str) or not name or not _is_fit(name):
            raise CatalogError(f"{where}: {name!r} cannot be the name of a class: rename it")
        if name in seen:
            raise CatalogError(f"{where}: the class {name!r} stands there twice")
        seen.add(name)
    return tuple(names)


def _names(classes: ClassNames) -> tuple[str, ...]:
    """The names given, or those of a classInd.txt: lines ``3 Class``, each of 1..n once."""
    if not isinstance(classes, str | os.PathLike):
        return _checked_names(classes, "classes")
    names: dict[int, str] = {}
    for line, text in enumerate(_lines(classes), 1):
        number, name = (*text.strip().split(None, 1), "", "")[:2]
        if not number:
            continue
        if not name or not _is_number(number) or int(number) in names:
            raise CatalogError(
                f"{classes}, line {line}: expected a new number and a name, like '3 Archery', "
                f"not {text.strip()!r}"
            )
        names[int(number)] = name
    if gaps := set(range(1, len(names) + 1)).difference(names):
        raise CatalogError(f"{classes}: class numbers go from 1 without a gap, {min(gaps)} misses")
    return _checked_names([name for _, name in sorted(names.items())], str(classes))


def _lines(file: PathLike) -> Iterator[str]:
    try:
        # surrogates stand for what is not UTF-8: so the line can be named
        with Path(file).open(encoding="utf-8-sig", errors="surrogateescape") as lines:
            for number, line in enumerate(lines, 1):
                if not _is_fit(line.rstrip("\n")):
                    raise CatalogError(f"{file}, line {number}: not UTF-8 text: save it as UTF-8")
                yield line
    except OSError as error:
        raise CatalogError(f"{file} cannot be read: {error.strerror}") from error


def _csv_rows(csv_file: PathLike) -> Iterator[tuple[int, list[str]]]:
    """The line number, and the path, label, start, end and frames of each row; '' if not given."""
    rows = csv.reader(_lines(csv_file), strict=True)
    try:
        header = [name.strip() for name in next(rows, [])]
        columns = ("path", "label", "start", "end", "frames")
        count = [header.count(name) for name in columns]
        if 0 in count[:2] or max(count) > 1:
            raise CatalogError(
                f"{csv_file}: the header must have the columns path and label (start, end, frames "
                f"at will), each once, separated by commas, not {','.join(header)[:80]!r}"
            )
        at = [header.index(name) if name in header else len(header) for name in columns]
        for row in rows:
            if not any(map(str.strip, row)):
                continue
            if len(row) != len(header):
                raise CatalogError(
                    f"{csv_file}, line {rows.line_num}: {len(row)} fields, the header has "
                    f"{len(header)}: a field with a comma needs quotes"
                )
            row.append("")
            yield rows.line_num, [row[at[0]], *(row[i].strip() for i in at[1:])]
    except csv.Error as error:
        raise CatalogError(f"{csv_file}, line {rows.line_num}: {error}") from error


def _listing(root: Path, folder: str, suffixes: tuple[str, ...] = ()) -> tuple[set[str], list[str]]:
    """The visible sub-folders of ``root/folder``, and its files with one of the suffixes."""
    folders: set[str] = set()
    videos: list[str] = []
    try:
        with os.scandir(root / folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                is_link = entry.is_symlink()
                is_video = entry.name.lower().endswith(suffixes)
                target = Path(os.path.realpath(entry.path)) if is_link else root
                is_folder = target.is_dir() if is_link else entry.is_dir(follow_symlinks=False)
                if (is_folder or is_video) and not target.is_relative_to(root):
                    raise CatalogError(
                        f"the symlink {entry.path!r} leads out of the root {root} to {target}: "
                        "copy it in, or give a root that holds both"
                    )
                if is_folder and not is_link:
                    folders.add(entry.name)
                elif is_video and not is_folder and (is_link or entry.is_file()):
                    videos.append(entry.name)
    except OSError as error:
        raise CatalogError(f"{root / folder} cannot be listed: {error.strerror}") from error
    return folders, videos


def _videos(root: Path, folder: str, suffixes: tuple[str, ...]) -> Iterator[str]:
    """The videos anywhere below ``root/folder``, relative to ``root``."""
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        folders, videos = _listing(root, here, suffixes)
        waiting += [f"{here}/{name}" for name in folders]
        yield from (f"{here}/{name}" for name in videos)

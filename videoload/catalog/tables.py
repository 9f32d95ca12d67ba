"""Turn any table into the rows of a catalog: map columns to roles, and check their cells.

Every list of videos is read here. A requested column must exist, and a column with the name of a
role has that role. A start without an end is an error: the end may have another name, and the
segment would silently run to the end of its file. ``where=`` and missing files leave rows out.
Labels are interpreted from all rows, so that they are the same in each part of a table.
"""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import date, timedelta
from difflib import get_close_matches
from enum import Enum
from itertools import pairwise
from numbers import Number
from pathlib import Path
from string import Formatter
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from videoload.catalog.columns import (
    ClassNames,
    Listed,
    PathLike,
    as_path,
    class_names,
    is_list,
    is_number,
    look_alike,
    normal_path,
)
from videoload.catalog.folders import open_root
from videoload.catalog.missing_files import check_there, find_by_name, root_of
from videoload.catalog.table_rows import (
    Rows,
    integer,
    is_missing,
    is_words,
    is_written_whole,
    means_missing,
    number,
    seconds,
    shown,
    text,
    whole,
)
from videoload.catalog.targets import OneOf
from videoload.clips.rows import COLUMNS
from videoload.errors import CatalogError, some
from videoload.logs import Log
from videoload.storage.content import fingerprint_in

T = TypeVar("T")
TargetColumns = str | Sequence[str] | Mapping[str, str | Sequence[str]]
PartColumns = Sequence[str] | Mapping[str, str]

_log = Log(__name__)

_USED_AS = {  # roles that a column may get by its name, and what its cells become
    "frames": ("start", "end", "at"),
    "seconds": ("start_s", "end_s", "at_s"),
    "boxes": ("box",),
    "classes": ("label", "labels"),
    "targets": ("targets",),
    "properties of the files": ("frames", "width", "height"),
}
_A_LIST = re.compile(r"\[.*\]|\{.*\}|\(.*,.*\)", re.DOTALL)  # written as text
_HOT = ({"0", "1"}, {"True", "False"})  # what one-hot rows consist of
_MAX_TARGET = float(np.finfo(np.float32).max)
_MAX_NUMBERED_CLASSES = 1_000_000  # a higher label is a timestamp or an id, not a class
_EXACT = 1 << 24  # float32 has all whole numbers up to it
_UNLABELLED = "-1"
OFFSET = "_offset_s"  # how the column of a part's offsets is named, after the part
_READ_OTHERWISE = ("label", "box", "width", "height", "fingerprint", "places")


def read_table(
    rows: Rows, root: PathLike | None, classes: ClassNames | None, names: Mapping[str, Any],
    *, look: bool = True,
) -> Listed:  # fmt: skip
    """Return the rows of a catalog. ``names``: keywords of `Catalog.from_table`, above all which
    column has which role; by default it is the one with the role's own name. ``look``: whether the
    files are there. Raises CatalogError."""
    return _TableReader(rows, root, names, look).read(classes)


def classes_file(table: Path) -> Path:
    """Return where a scan writes the names of classes that its table alone does not contain."""
    return table.with_name(f"{table.stem}.classes.txt")


def classes_of_scan(table: Any, rows: Rows) -> Path | None:
    """Return the class names that a scan wrote beside its table, if it did."""
    if not isinstance(table, str | os.PathLike) or "modified_ns" not in rows.columns:
        return None
    if not (file := classes_file(Path(table))).is_file():
        return None
    _log.info("%s: its classes are those of %s", table, file)
    return file


class _TableReader:
    """``_rows``: all rows of the table. ``_left``: the numbers of the requested rows whose files
    exist. Errors concern these; labels are interpreted from all."""

    def __init__(
        self, rows: Rows, root: PathLike | None, names: Mapping[str, Any], look: bool
    ) -> None:
        self._rows, self._names, self._looks = rows, names, look
        self._left: Sequence[int] = range(len(rows))
        self._given_root = root
        self._root = None if root is None else open_root(root)
        self._used: set[str] = set()

    def read(self, classes: ClassNames | None) -> Listed:
        if not len(self._rows):
            raise CatalogError(f"{self._rows.source} lists no videos")
        if (where := self._names.get("where")) is not None:
            self._left = self._where(where)
        if (requested := self._names.get("parts")) is None:
            parts, paths = None, self._paths(self._requested("path"))
        else:
            parts = self._parts(requested)
            paths = next(iter(parts[0].values()))
        columns: dict[str, Any] = {
            role: self._parsed(role, self._whole if default.dtype.kind == "i" else self._seconds)
            for role, (_, default) in COLUMNS.items()
            if role not in _READ_OTHERWISE
        }
        columns["box"], targets = self._parsed("box", self._box), self._targets()
        columns["fingerprint"] = self._fingerprints()
        if self._rows.places is not None:
            columns["places"] = self._rows.places[self._left]
        columns |= {role: self._pixels(role) for role in ("width", "height")}
        given = None if classes is None else class_names(classes)
        labels, known, hot = self._labels(given, has_targets=targets is not None)
        columns["label"], unused = labels, self._check_unused()
        if unused:
            # Without any label or target, one of them may have been meant.
            has_none = labels is None and targets is None and self._requested("label") is not None
            level = logging.WARNING if has_none else logging.INFO
            _log.log(level, "%s: columns that are not used: %s", self._rows.source, some(unused))
        self._log_defaults()
        self._warn_of_counting_from_1()
        targets = hot if targets is None else targets
        if isinstance(targets, dict) and labels is not None:
            targets.setdefault("label", labels)
        return Listed(paths, columns, known, self._root, targets, parts, self._where_is, unused)

    def _where_is(self, i: int) -> str:
        return self._rows.where(self._left[i])

    # Columns

    def _requested(self, role: str) -> Any:
        """Return the column or columns of a role; None: none."""
        return self._names.get(role, role)

    def _has(self, role: str) -> bool:
        """Return whether a column has a role, by name or by request."""
        name = self._requested(role)
        return name is not None and (name != role or name in self._rows.columns)

    def _error(self, row: int, what: str) -> CatalogError:
        return CatalogError(f"{self._rows.where(row)}: {what}")

    def _column(self, keyword: str, name: str) -> list[Any]:
        """Return the cells of a requested column, of all rows. Raises CatalogError."""
        if not isinstance(name, str):
            raise CatalogError(
                f"{keyword}= takes the name of a column as text, not {name!r}: write {str(name)!r}"
            )
        name = name.strip()
        if name not in self._rows.columns:
            raise CatalogError(
                f"{self._rows.source} has no column {name!r} for {keyword}="
                f"{_did_you_mean(name, self._rows.columns)}: its columns are "
                f"{', '.join(self._rows.columns)[:400]}"
                + ". Files beside the videos are read by from_folder and from_shards"
                * (":" in name)
            )
        self._used.add(name)
        return self._rows.columns[name]

    def _cells(self, role: str) -> list[Any] | None:
        """Return the cells of the column that has a role, of all rows, if there is one."""
        if not self._has(role):
            return None
        if isinstance(name := self._requested(role), str):
            return self._column(role, name)
        if not is_list(name):
            raise CatalogError(f"{role}= takes the name of a column, not {name!r}")
        several = zip(*(self._column(role, each) for each in name), strict=True)
        return [None if all(map(is_missing, cells)) else cells for cells in several]

    def _parsed(self, role: str, parse: Callable[[int, Any, str], T]) -> list[T | None] | None:
        """Return the values of a role, None for an empty cell."""
        if (cells := self._cells(role)) is None:
            return None
        found = ((row, cells[row]) for row in self._left)
        return [None if is_missing(cell) else parse(row, cell, role) for row, cell in found]

    def _where(self, wanted: Mapping[str, Any]) -> list[int]:
        """Return the requested rows. Raises CatalogError."""
        chosen = np.ones(len(self._rows), bool)
        if not isinstance(wanted, Mapping):
            raise CatalogError(f'where= is a dict, {{"column": value}}, not {wanted!r}')
        for name, values in wanted.items():
            cells = list(map(text, self._column("where", name)))
            several = isinstance(values, Iterable) and not isinstance(values, str)
            requested = {text(value) for value in (values if several else (values,))}
            if missing := sorted(requested - {*cells}):
                there = some([repr(cell) for cell in dict.fromkeys(cells)])
                raise CatalogError(
                    f"{self._rows.source}: where= requests {missing[0]!r} in {name!r}, which has "
                    f"{there}{_did_you_mean(missing[0], cells)}"
                )
            chosen &= [cell in requested for cell in cells]
        if not chosen.any():
            raise CatalogError(f"{self._rows.source}: where={dict(wanted)!r} matches no row")
        found: list[int] = np.flatnonzero(chosen).tolist()
        return found

    # Files

    def _paths(self, pattern: str, keyword: str = "path") -> list[str]:
        """Return the path of each row: from a column, or by a pattern. Raises CatalogError."""
        if not isinstance(pattern, str):
            raise CatalogError(f"{keyword}= takes the name of a column as text, not {pattern!r}")
        is_name = pattern.strip() in self._rows.columns
        if "*" in pattern and not pattern.startswith("**/") and not is_name:
            raise CatalogError(f'{keyword}={pattern!r} finds files by their name as "**/{pattern}"')
        self._files = self._filled(pattern, keyword)
        given = [self._files[row] for row in self._left]
        if pattern.startswith("**/"):
            if self._root is None:
                raise CatalogError(
                    f"{self._rows.source} lists videos without their paths: give root="
                )
            paths, there = find_by_name(self._root, given, self._rows.source)
            self._left = [self._left[i] for i in there]
            return paths
        if self._root is not None or self._names.get("parts") is None:
            found, given = root_of(given, self._given_root, self._files)
            self._root = None if found is None else open_root(found)
        if isinstance(self._root, Path) and self._looks:
            check_there(self._root, given, self._rows.source)
        return given

    def _filled(self, pattern: str, keyword: str) -> list[str]:
        """Return the text of each row: of the columns that a pattern names, or of one column. Rows
        that are not requested may have empty ones."""
        pieces: list[Any] = [("", pattern, None, None)]
        is_name = pattern.strip() in self._rows.columns
        try:
            pieces = list(Formatter().parse(pattern)) if "{" in pattern and not is_name else pieces
        except ValueError as error:
            raise CatalogError(f"{keyword}={pattern!r} is not a pattern: {error}") from None
        filled, is_left = [""] * len(self._rows), np.zeros(len(self._rows), bool)
        is_left[self._left] = True
        for literal, name, form, _ in pieces:
            filled = [path + literal for path in filled]
            for row, cell in enumerate(() if name is None else self._column(keyword, name)):
                try:
                    filled[row] += _formatted(cell, name, form)
                except ValueError as error:
                    if is_left[row]:
                        raise self._error(row, str(error)) from None
        return filled

    def _parts(self, columns: PartColumns) -> tuple[dict[str, list[str]], dict[str, list[float]]]:
        """Return the paths of each part, and its offsets where there is such a column."""
        of: Mapping[str, str] = {}
        if isinstance(columns, Mapping) or is_list(columns):
            of = dict(columns) if isinstance(columns, Mapping) else {name: name for name in columns}
        if not 2 <= len(of) == len(columns):
            raise CatalogError(f"parts are the names of at least two columns, got {columns!r}")
        rows, offsets = len(self._left), {}
        paths = {}
        for part, column in of.items():
            found = enumerate(self._paths(column, "parts"))
            paths[part] = [normal_path(path, self._where_is, i) for i, path in found]
        if len(self._left) < rows:
            raise CatalogError(f"{self._rows.source}: a row of several parts needs all its files")
        for part in of:
            if (column := part + OFFSET) in self._rows.columns:
                cells = self._column("parts", column)
                offsets[part] = [self._seconds(row, cells[row], column) for row in self._left]
        return paths, offsets

    # Cells

    def _number(
        self, i: int, cell: Any, name: str, what: str = "", read: Callable[[Any], float] = number
    ) -> float:
        value = read(cell)
        if not abs(value) <= _MAX_TARGET:
            has_comma = isinstance(cell, str) and not math.isnan(number(cell.replace(",", ".")))
            hint = " (write decimals with a point)" if has_comma else ""
            raise self._error(i, f"{name} must be a number{what}, not {shown(cell)}{hint}")
        return value

    def _seconds(self, i: int, cell: Any, role: str) -> float:
        return self._number(i, cell, role, " of seconds", seconds)

    def _whole(self, i: int, cell: Any, role: str) -> int:
        if (value := whole(cell)) is None:
            is_fraction = number(cell) >= 0 and role in ("start", "end", "at")
            hint = f": {role} counts frames, {role}_s= is in seconds" * is_fraction
            raise self._error(i, f"{role} must be an integer from 0, not {shown(cell)}{hint}")
        return value

    def _box(self, i: int, cell: Any, role: str) -> list[float]:
        parts = re.split(r"[\s,;]+", cell.strip("[()] ")) if isinstance(cell, str) else cell
        sides = [number(part) for part in parts] if isinstance(parts, Iterable) else []
        if len(sides) != 4 or any(map(math.isnan, sides)):
            raise self._error(
                i, f"{role} must be left, top, right, bottom in pixels, not {shown(cell)}"
            )
        return sides

    def _fingerprints(self) -> list[int | None] | None:
        """Return the fingerprints in a scan's table. Other columns of that name are ignored."""
        cells = self._rows.columns.get("fingerprint", [None] * len(self._rows))
        found = [fingerprint_in(cells[row]) for row in self._left]
        if all(each is None for each in found):
            return None
        self._used.add("fingerprint")
        return found

    def _pixels(self, role: str) -> list[int | None] | None:
        """Return the width or height of frames. A column of that name with other things is not
        meant."""
        cells = self._rows.columns.get(role, ())
        if self._requested(role) == role and not all(is_missing(x) or whole(x) for x in cells):
            return None
        return self._parsed(role, self._whole)

    def _targets(self) -> Any:
        """Return targets [N] of a single column, [N, columns] of several; a dict of them if they
        are named."""
        if not self._has("targets"):
            return None
        if not isinstance(requested := self._requested("targets"), Mapping):
            return self._target(requested)
        if not requested:
            raise CatalogError(f"{self._rows.source}: targets= names no column")
        return {name: self._target(of) for name, of in requested.items()}

    def _one_of(self, name: str, cells: list[Any]) -> OneOf:
        """Return texts of which each clip gets one."""
        rows: list[Any] = []
        for row in self._left:
            cell = cells[row]
            texts = [*cell] if isinstance(cell, list | tuple | np.ndarray) else [cell]
            if not texts or (len(texts) == 1 and is_missing(texts[0])):
                texts = [""]
            if not all(isinstance(each, str) for each in texts):
                raise self._error(row, f"{name}: {shown(cell)} is neither text nor a list of texts")
            rows.append(texts)
        _log.info(
            "%s: %s has up to %d texts in a row: each clip gets one of them, and Catalog.explode "
            "creates a row for each", self._rows.source, name, max(map(len, rows)),
        )  # fmt: skip
        return OneOf(rows)

    def _target(self, given: Any) -> npt.NDArray[Any] | OneOf:
        group = [given] if isinstance(given, str) else given
        if not isinstance(group, Sequence) or not all(
            isinstance(each, str) for each in group or [0]
        ):
            raise CatalogError(
                f"{self._rows.source}: targets= takes names of columns, not {given!r}"
            )
        columns = {name: self._column("targets", name) for name in group}
        if isinstance(given, str) and any(map(_are_texts, columns[given])):
            return self._one_of(given, columns[given])
        every = [cell for column in columns.values() for cell in column if not is_missing(cell)]
        dtype = _type_of_targets(every)

        def value(row: int, name: str) -> Any:
            cell = columns[name][row]
            if dtype is np.object_:
                return cell if isinstance(cell, str) else ""
            if dtype is np.int64 and (exact := integer(cell)) is not None:
                return exact
            value = self._number(row, cell, name, ", or text in all rows" * is_words(cell))
            if is_written_whole(cell) and int(np.float32(value)) != integer(cell):
                raise self._error(
                    row,
                    f"{name}: float32 cannot hold {shown(cell)}. If all cells are integers "
                    "that fit int64, they become that: targets= takes a dict of columns by name",
                )
            return value

        found = [np.array([value(row, name) for row in self._left], dtype) for name in columns]
        return found[0] if isinstance(given, str) else np.stack(found, axis=1)

    def _labels(
        self, given: tuple[str, ...] | None, *, has_targets: bool
    ) -> tuple[npt.NDArray[np.int64] | None, tuple[str, ...], npt.NDArray[np.float32] | None]:
        """Return the label of each row, the classes, and multi-hot targets if a row may have
        several."""
        one, many = self._cells("label"), self._cells("labels")
        if one is not None and many is not None:
            raise CatalogError(f"{self._rows.source} has columns label and labels: give one")
        cells = many if one is None else one
        if cells is None or all(_is_unlabelled(cell, given or ()) for cell in cells):
            return None, given or (), None
        if all(_is_unlabelled(cells[row], given or ()) for row in self._left):
            cells = [_UNLABELLED if _is_unlabelled(cell, given or ()) else cell for cell in cells]
        return labels_of(
            cells, given, self._rows.where, self._left, several=many is not None,
            has_targets=has_targets,
        )  # fmt: skip

    # What may be meant otherwise

    def _log_defaults(self) -> None:
        """Log which columns got a role by their names: they may mean something else."""
        taken = [
            f"{', '.join(names)} as {meaning}"
            for meaning, roles in _USED_AS.items()
            if (names := [role for role in roles if self._is_default(role)])
        ]
        if offsets := [part + OFFSET for part in self._names.get("parts") or ()]:
            names = [name for name in offsets if name in self._used]
            taken += [f"{', '.join(names)} as offsets of parts"] * bool(names)
        if taken:
            _log.info(
                "%s: columns are used by their names: %s; give KEYWORD=None for one that means "
                "something else", self._rows.source, "; ".join(taken),
            )  # fmt: skip

    def _is_default(self, role: str) -> bool:
        return self._requested(role) == role and role in self._used

    def _warn_of_counting_from_1(self) -> None:
        """Warn if segments look like first and last frames, counted from 1: none begins with frame
        0, and each begins one frame after the end of the one before it."""
        if not (self._has("start") and self._has("end")):
            return
        starts, ends = ([whole(c) for c in self._cells(role) or ()] for role in ("start", "end"))
        if None in starts or None in ends or 0 in starts:
            return
        rows: Any = sorted(zip(self._files, starts, ends, strict=True))
        steps = [b[1] - a[2] for a, b in pairwise(rows) if a[0] == b[0]]
        if steps and {*steps} == {1}:
            _log.warning(
                "%s: no segment starts with frame 0, and each starts one frame after the end of "
                "the one before it, as if first and last frames were counted from 1. Here start "
                "counts from 0 and end is the frame after the last: then subtract 1 from start",
                self._rows.source,
            )

    def _check_unused(self) -> list[str]:
        """Return the unused columns. Raises CatalogError if segments unexpectedly have a start
        without an end, or an end without a start; or if offsets belong to no part."""
        unused = [name for name in self._rows.columns if name and name not in self._used]
        others = f" (not used: {some(unused)})" if unused else ""
        for one, other, all_of_it in (
            ("start", "end", "runs to the end of its file"),
            ("end", "start", "begins with its file"),
        ):
            of_other = other, f"{other}_s"
            is_said = None in map(self._requested, of_other) or any(map(self._has, of_other))
            if (self._has(one) or self._has(f"{one}_s")) and not is_said:
                raise CatalogError(
                    f"{self._rows.source}: no column has the {other} of segments: give {other}= "
                    f"(frames) or {other}_s= (seconds), or {other}=None if each {all_of_it}{others}"
                )
        parts = tuple(self._names.get("parts") or ())
        for name in unused if parts else ():
            if name.endswith(OFFSET) or name.startswith(tuple(f"{part}_offset" for part in parts)):
                raise CatalogError(
                    f"{self._rows.source}: the column {name!r} is of no part: offsets are in "
                    f"seconds, in a column {' or '.join(part + OFFSET for part in parts)}"
                )
        return unused


def labels_of(
    cells: Sequence[Any],
    given: tuple[str, ...] | None,
    where: Callable[[int], str],
    rows: Sequence[int] | None = None,
    *,
    several: bool = False,
    has_targets: bool = False,
) -> tuple[npt.NDArray[np.int64], tuple[str, ...], npt.NDArray[np.float32] | None]:
    """Return the label of each cell, the classes, and multi-hot targets if there are several labels
    in a cell. Whole numbers are indices into the classes, -1 is no label. Only these ``rows`` are
    returned, and have to have a label; what labels mean is decided from all cells. Raises
    CatalogError."""
    known = {*(given or ())}
    keys: list[str | tuple[str, ...]] = []
    for place, cell in enumerate(cells):
        try:
            keys.append(cell.strip() if isinstance(cell, str) else _label_key(cell))
        except TypeError as error:
            raise CatalogError(f"{where(place)}: {error}") from None
    several = several or any(
        isinstance(key, tuple) or (";" in key and key not in known) for key in {*keys}
    )
    if several and has_targets:
        raise CatalogError(f"{where(0)}: give targets= or several labels of a video, not both")
    named: dict[Any, list[str]] = {
        key: ["" if _is_unlabelled(word, known) else word for word in words]
        for key in dict.fromkeys(keys)
        for words in (_words(key) if several or isinstance(key, tuple) else [key],)
    }
    for key, flaw in _flaws(named, known):
        raise CatalogError(f"{where(keys.index(key))}: {flaw}")
    rows = range(len(keys)) if rows is None else rows
    of_rows = [keys[row] for row in rows]
    none = {""} if _UNLABELLED in known else {"", _UNLABELLED}
    texts = dict.fromkeys(word for words in named.values() for word in words if word not in none)

    def row_of(word: str) -> str:
        return where(next(row for row, key in enumerate(keys) if word in named[key]))

    names, label_of, meant = _classes([*texts], given, row_of)
    for key in dict.fromkeys(of_rows):
        flaw = ""
        if "" in named[key]:
            flaw = "there is no label: write -1 for a row without one"
        elif len(named[key]) > 1 and not none.isdisjoint(named[key]):
            flaw = "-1 is no label, and others stand beside it"
        elif wrong := [word for word in named[key] if word not in none and word not in label_of]:
            flaw = f"label {shown(wrong[0])} is not {meant}"
        if flaw:
            raise CatalogError(f"{where(rows[of_rows.index(key)])}: {flaw}")
    labels = np.array([label_of.get(named[key][0], -1) for key in of_rows])
    if not several:
        return labels, names, None
    hot = np.zeros((len(of_rows), len(names)), np.float32)
    for row, key in zip(hot, of_rows, strict=True):
        row[[label_of[word] for word in named[key] if word in label_of]] = 1
    return labels, names, hot


def _label_key(cell: Any) -> str | tuple[str, ...]:
    """Return a label that is no str as text, or those of a list. Raises TypeError."""
    if isinstance(cell, set | frozenset):
        cell = sorted(cell, key=lambda word: (type(word).__name__, word))
    elif isinstance(cell, np.ndarray):
        cell = cell.tolist()
    if isinstance(cell, list | tuple):
        return tuple(map(_label_text, cell))
    return _label_text(cell)


def _label_text(cell: Any) -> str:
    """Return a label as text. Raises TypeError."""
    scalar = str | Number | np.generic | date | timedelta | Enum
    if isinstance(cell, bytes) or not (is_missing(cell) or isinstance(cell, scalar)):
        raise TypeError(
            f"a label is text or a whole number, or several are a list of these, not {shown(cell)}"
        )
    return text(cell)


def _flaws(
    named: Mapping[Any, list[str]], known: Set[str]
) -> Iterable[tuple[str | tuple[str, ...], str]]:
    """Return cells that cannot be labels: lists written as text, and one-hot rows."""
    lists = {key: words for key, words in named.items() if isinstance(key, tuple)}
    several = [words for key, words in named.items() if key not in ("", _UNLABELLED)]
    are_hot = (
        bool(lists)
        and len({*map(len, several)}) == 1 < len(several[0])
        and any({word for words in several for word in words} <= hot for hot in _HOT)
    )
    for key, words in named.items():
        numbers = [word for word in words if is_number(word)]
        if (are_hot and key in lists) or len({*numbers}) < len(numbers):
            yield (
                key,
                (
                    f"labels {shown(key)} name a class twice, or are a one-hot row: labels= takes "
                    "the numbers of classes, each once; give one-hot rows as targets="
                ),
            )
        if isinstance(key, str) and key not in known and _A_LIST.fullmatch(key):
            yield (
                key,
                (
                    f"label {shown(key)} is the text of a list: write 'cook;talk' in labels=, give "
                    "numbers as columns of targets=, or classes= if this is a name"
                ),
            )


def _is_unlabelled(cell: Any, known: Iterable[str]) -> bool:
    """Return whether a cell has no label. What programs write into an empty cell is none, unless a
    class has that name."""
    return means_missing(cell) and not (isinstance(cell, str) and cell.strip() in known)


def _words(key: str | tuple[str, ...]) -> list[str]:
    """Return the labels of a video, which have ';' between them; [""], which is no class, if there
    are none."""
    parts = key.split(";") if isinstance(key, str) else key
    return [word for word in map(str.strip, parts) if word] or [""]


def _classes(
    texts: list[str], given: tuple[str, ...] | None, where: Callable[[str], str]
) -> tuple[tuple[str, ...], dict[str, int], str]:
    """Return the classes that these labels mean, the class of each label, and what a label may
    be."""
    numbers = {each: number(each) for each in texts}
    wrong = next((each for each, n in numbers.items() if n % 1 != 0 and not math.isinf(n)), None)
    if wrong is not None and given is None and not any(map(math.isnan, numbers.values())):
        raise CatalogError(
            f"{where(wrong)}: the labels are numbers, and {shown(wrong)} is not a whole one. "
            "Write class numbers as 0, 1, ...; give classes= if these are names, or targets= "
            "if the model shall learn the numbers"
        )
    if wrong is not None and given is None:
        word = next(each for each, n in numbers.items() if math.isnan(n))
        if (label := next((x for x, n in numbers.items() if not math.isnan(n)), None)) is not None:
            raise CatalogError(
                f"{where(word)}: label {shown(word)} is a name, and {where(label)} has the number "
                f"{label}: write names or numbers in all rows, or give classes="
            )
        if alike := look_alike(texts):
            _log.warning("%s: %s", where(word), alike)
    if wrong is not None or any(map(is_number, given or ())):
        names = given or tuple(sorted(texts))
        return names, {name: label for label, name in enumerate(names)}, f"a class ({some(names)})"
    most = len(given) if given else _MAX_NUMBERED_CLASSES
    if min(numbers.values(), default=0) == 1:
        advice = "a table counts from 0. If yours counts from 1, write names or subtract 1"
        first, last = min(texts, key=numbers.__getitem__), max(texts, key=numbers.__getitem__)
        if given and numbers[last] == most:
            raise CatalogError(
                f"{where(last)}: label {last} of {most} classes, and none is 0: {advice}"
            )
        _log.warning("%s: label %s, and none is 0: %s", where(first), first, advice)
    label_of = {each: int(n) for each, n in numbers.items() if 0 <= n < most}
    names = given or tuple(map(str, range(max(label_of.values(), default=-1) + 1)))
    return names, label_of, f"in 0..{most - 1} (-1: no label)"


def _type_of_targets(cells: Sequence[Any]) -> type[np.object_ | np.int64 | np.float32]:
    """Return the type of targets with these cells, of all rows. It is text if all are str, and at
    least as many contain words as numbers: a caption may be a number, but a word among numbers is a
    mistake."""
    words = sum(map(is_words, cells))
    numbers = sum(not math.isnan(number(cell)) for cell in cells)
    if words and words >= numbers and all(isinstance(cell, str) for cell in cells):
        return np.object_
    wholes = [integer(cell) for cell in cells]
    if not wholes or any(each is None or not -(1 << 63) <= each < 1 << 63 for each in wholes):
        return np.float32
    # pandas has whole numbers as floats where a column has gaps.
    is_large = _EXACT < max(abs(each) for each in wholes if each is not None) < 1 << 53
    return np.int64 if is_large or all(map(is_written_whole, cells)) else np.float32


def _are_texts(cell: Any) -> bool:
    """Return whether it is a list of texts, at least one."""
    is_several = isinstance(cell, list | tuple | np.ndarray) and len(cell) > 0
    return is_several and all(isinstance(each, str) for each in cell)


def _formatted(cell: Any, name: str, form: str | None) -> str:
    """Return a cell as a part of a path; ``form`` None: it is a path as it stands. Raises
    ValueError."""
    if isinstance(cell, bytes | bytearray | Mapping):  # videos in Hugging Face datasets
        raise ValueError(
            f"{name!r} is {shown(cell)}, bytes or a structure, and no path: give text. Videos that "
            "are in the table itself become tars: the page about catalogs has the script"
        )
    path = as_path(cell) if form is None else cell
    found = path if form is None and isinstance(path, str) else text(cell)
    if not found:
        what = f"the column {name!r} of the path is empty"
        raise ValueError(f"there is no file in the column {name!r}" if form is None else what)
    try:
        return format(whole(cell), form) if form else found
    except (ValueError, TypeError):
        raise ValueError(f"{name!r} is {shown(cell)}, and no number for {form!r}") from None


def _did_you_mean(name: object, known: Iterable[str]) -> str:
    plain = {each.strip().lower(): each for each in known}
    close = get_close_matches(str(name).strip().lower(), plain, 1)
    return f" (did you mean {plain[close[0]]!r}?)" if close else ""

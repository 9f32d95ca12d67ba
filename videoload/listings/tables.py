"""From any table to the rows of a catalog: which column is what, and what its cells may be.

Every list of videos ends here. A column that is asked for must be there; one that has a role's own
name has that role; and one that looks as if it was meant for a role, and is not used, is an error:
a segment without its end would otherwise run to the end of the file, in silence.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from string import Formatter
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from videoload.errors import CatalogError
from videoload.listings.columns import (
    ClassNames,
    Listed,
    PathLike,
    as_path,
    class_names,
    is_number,
    normal_path,
    some,
)
from videoload.listings.folders import open_root
from videoload.listings.rows import Rows, is_missing, number, shown, text, whole
from videoload.listings.there import check_there, find_by_name, root_of
from videoload.storage.content import fingerprint_in

T = TypeVar("T")
TargetColumns = str | Sequence[str] | Mapping[str, str | Sequence[str]]
PartColumns = Sequence[str] | Mapping[str, str]

_log = logging.getLogger(__name__)

_MAX_TARGET = float(np.finfo(np.float32).max)
_MAX_NUMBERED_CLASSES = 1_000_000  # a higher label is a timestamp or an id, not a class
_UNLABELLED = "-1"
OFFSET = "_offset_s"  # how the column of a part's offsets is named, after the part
_WHOLE = ("start", "end", "frames", "at")
_SECONDS = ("start_s", "end_s", "at_s")
_ROLES = ("path", "label", "labels", "targets", "start", "end", *_SECONDS, "at", "box")
# Words of a column's name that say what it was meant for.
_MEANT = {
    "start": "start|begin|onset",
    "end": "end|stop|duration|dur|until",
    "label": "labels?|class|classes|category|targets?",
}
_SECONDS_WORDS = ("s", "sec", "secs", "seconds")
_UNIT = r"(s|ed|ing|time|frames?|secs?|seconds|ms|point|at|id|name)?"


def read_table(
    rows: Rows, root: PathLike | None, classes: ClassNames | None, names: Mapping[str, Any]
) -> Listed:
    """The rows of a catalog. ``names``: keywords of `Catalog.from_table`, above all which column
    has which role; by default it is the one with the role's own name. Raises CatalogError."""
    return _Reader(rows, root, names).read(classes)


class _Reader:
    def __init__(self, rows: Rows, root: PathLike | None, names: Mapping[str, Any]) -> None:
        self._rows, self._names = rows, names
        self._root = None if root is None else open_root(root)
        self._used: set[str] = set()

    def read(self, classes: ClassNames | None) -> Listed:
        if (where := self._names.get("where")) is not None:
            self._rows = self._where(where)
        if not len(self._rows):
            raise CatalogError(f"{self._rows.source} lists no videos")
        if (asked := self._names.get("parts")) is None:
            parts, paths = None, self._paths(self._asked("path"))
        else:
            parts = self._parts(asked)
            paths = next(iter(parts[0].values()))
        columns: dict[str, Any] = {role: self._parsed(role, self._whole) for role in _WHOLE}
        columns |= {role: self._parsed(role, self._seconds) for role in _SECONDS}
        columns["box"], targets = self._parsed("box", self._box), self._targets()
        columns["fingerprint"] = self._fingerprints()
        given = None if classes is None else class_names(classes)
        labels, known, hot = self._labels(given, has_targets=targets is not None)
        columns["label"], unused = labels, self._check_unused()
        if labels is None and targets is None:
            _log.info("%s: there is no column of labels: all labels are -1", self._rows.source)
        _warn_of_counting_from_1(self._rows.source, paths, columns["start"], columns["end"])
        targets = hot if targets is None else targets
        return Listed(paths, columns, known, self._root, targets, parts, self._rows.where, unused)

    # Columns

    def _asked(self, role: str) -> Any:
        """The column or columns of a role; None: none."""
        return self._names.get(role, role)

    def _error(self, i: int, what: str) -> CatalogError:
        return CatalogError(f"{self._rows.where(i)}: {what}")

    def _column(self, keyword: str, name: str) -> list[Any]:
        """The cells of a column that was asked for. Raises CatalogError."""
        name = name.strip() if isinstance(name, str) else name
        if name not in self._rows.columns:
            raise CatalogError(
                f"{self._rows.source} has no column {name!r} for {keyword}="
                f"{_did_you_mean(name, self._rows.columns)}: its columns are "
                f"{', '.join(self._rows.columns)[:400]}"
            )
        self._used.add(name)
        return self._rows.columns[name]

    def _optional(self, role: str) -> list[Any] | None:
        """The cells of the column that has a role, if there is one."""
        name = self._asked(role)
        if name is None or (name == role and name not in self._rows.columns):
            return None
        if isinstance(name, str):
            return self._column(role, name)
        several = zip(*(self._column(role, each) for each in name), strict=True)
        return [None if all(map(is_missing, cells)) else cells for cells in several]

    def _parsed(self, role: str, parse: Callable[[int, Any, str], T]) -> list[T | None] | None:
        """The values of a role, None for an empty cell."""
        if (cells := self._optional(role)) is None:
            return None
        return [None if is_missing(cell) else parse(i, cell, role) for i, cell in enumerate(cells)]

    def _where(self, wanted: Mapping[str, Any]) -> Rows:
        chosen = np.ones(len(self._rows), bool)
        if not isinstance(wanted, Mapping):
            raise CatalogError(f'where= is a dict, {{"column": value}}, not {wanted!r}')
        for name, values in wanted.items():
            cells = list(map(text, self._column("where", name)))
            several = isinstance(values, Iterable) and not isinstance(values, str)
            asked = {text(value) for value in (values if several else (values,))}
            if missing := sorted(asked - {*cells}):
                there = some([repr(cell) for cell in dict.fromkeys(cells)])
                raise CatalogError(
                    f"{self._rows.source}: where= asks for {missing[0]!r} in {name!r}, which has "
                    f"{there}{_did_you_mean(missing[0], cells)}"
                )
            chosen &= [cell in asked for cell in cells]
        if not chosen.any():
            raise CatalogError(f"{self._rows.source}: where={dict(wanted)!r} picks no row")
        return self._rows.take(np.flatnonzero(chosen).tolist())

    # Files

    def _paths(self, asked: str, keyword: str = "path") -> list[str]:
        """The path of each row: of a column, or as a pattern says. Raises CatalogError."""
        given = self._filled(asked, keyword)
        if asked.startswith("**/"):
            if self._root is None:
                raise CatalogError(
                    f"{self._rows.source} lists videos without their paths: give root="
                )
            paths, there = find_by_name(self._root, given, self._rows.source)
            self._rows = self._rows.take(there)
            return paths
        if self._root is None and self._names.get("parts") is None:
            found, given = root_of(given)
            self._root = None if found is None else open_root(found)
        paths = [normal_path(path, self._rows.where, i) for i, path in enumerate(given)]
        if isinstance(self._root, Path):
            check_there(self._root, paths, self._rows.source)
        return paths

    def _filled(self, pattern: str, keyword: str) -> list[str]:
        """The text of each row: of the columns that a pattern names, or of one column."""
        pieces: list[Any] = [("", pattern, None, None)]
        try:
            pieces = list(Formatter().parse(pattern)) if "{" in pattern else pieces
        except ValueError as error:
            raise CatalogError(f"{keyword}={pattern!r} is no pattern: {error}") from None
        filled = [""] * len(self._rows)
        for literal, name, form, _ in pieces:
            cells = filled if name is None else self._column(keyword, name)
            filled = [
                path + literal + ("" if name is None else self._formatted(i, cell, name, form))
                for i, (path, cell) in enumerate(zip(filled, cells, strict=True))
            ]
        return filled

    def _formatted(self, i: int, cell: Any, name: str, form: str | None) -> str:
        """``form`` None: the cell is a path as it stands."""
        path = as_path(cell) if form is None else cell
        told = path if form is None and isinstance(path, str) else text(cell)
        if not told:
            what = f"the column {name!r}, of which the path is made, is empty"
            raise self._error(
                i, f"there is no file in the column {name!r}" if form is None else what
            )
        try:
            return format(whole(cell), form) if form else told
        except (ValueError, TypeError):
            raise self._error(i, f"{name!r} is {shown(cell)}, and no number for {form!r}") from None

    def _parts(self, asked: PartColumns) -> tuple[dict[str, list[str]], dict[str, list[float]]]:
        """The paths of each part, and its offsets where there is such a column."""
        of = dict(asked) if isinstance(asked, Mapping) else {name: name for name in asked}
        if isinstance(asked, str) or len(of) < max(2, len(asked)):
            raise CatalogError(f"parts are the names of at least two columns, got {asked!r}")
        rows, offsets = self._rows, {}
        paths = {part: self._paths(of[part], "parts") for part in of}
        if len(self._rows) < len(rows):
            raise CatalogError(f"{rows.source}: a row of several parts needs all its files")
        for part in of:
            if (column := part + OFFSET) in self._rows.columns:
                offsets[part] = [
                    0.0 if is_missing(cell) else self._seconds(i, cell, column)
                    for i, cell in enumerate(self._column("parts", column))
                ]
        return paths, offsets

    # Cells

    def _number(self, i: int, cell: Any, name: str, what: str = "") -> float:
        value = number(cell)
        if not abs(value) <= _MAX_TARGET:
            has_comma = isinstance(cell, str) and not math.isnan(number(cell.replace(",", ".")))
            hint = " (write decimals with a point)" if has_comma else ""
            raise self._error(i, f"{name} must be a number{what}, not {shown(cell)}{hint}")
        return value

    def _seconds(self, i: int, cell: Any, role: str) -> float:
        return self._number(i, cell, role, " of seconds")

    def _whole(self, i: int, cell: Any, role: str) -> int:
        if (value := whole(cell)) is None:
            is_fraction = number(cell) >= 0 and role != "frames"
            hint = f": {role} counts frames, {role}_s= is in seconds" * is_fraction
            raise self._error(i, f"{role} must be a whole number from 0, not {shown(cell)}{hint}")
        return value

    def _box(self, i: int, cell: Any, role: str) -> list[float]:
        parts = re.split(r"[\s,;]+", cell.strip("[()] ")) if isinstance(cell, str) else cell
        sides = [number(part) for part in parts] if isinstance(parts, Iterable) else []
        if len(sides) != 4 or not (sides[0] < sides[2] and sides[1] < sides[3]):
            raise self._error(
                i, f"{role} must be left, top, right, bottom in pixels, not {shown(cell)}"
            )
        return sides

    def _fingerprints(self) -> list[int | None] | None:
        """What a scan found of each file. Another column of that name is not meant."""
        cells = self._rows.columns.get("fingerprint", [])
        found = list(map(fingerprint_in, cells))
        if all(each is None for each in found):
            return None
        self._used.add("fingerprint")
        return found

    def _targets(self) -> Any:
        """Targets [N] of a single column, [N, columns] of several; a dict of them if they are
        named."""
        asked = self._asked("targets")
        if asked is None or (asked == "targets" and asked not in self._rows.columns):
            return None
        if not isinstance(asked, Mapping):
            return self._target(asked)
        if not asked:
            raise CatalogError(f"{self._rows.source}: targets= names no column")
        return {name: self._target(of) for name, of in asked.items()}

    def _target(self, asked: Any) -> npt.NDArray[np.float32]:
        group = [asked] if isinstance(asked, str) else asked
        if not isinstance(group, Sequence) or not all(
            isinstance(each, str) for each in group or [0]
        ):
            raise CatalogError(
                f"{self._rows.source}: targets= takes names of columns, not {asked!r}"
            )
        columns = [
            [self._number(i, cell, name) for i, cell in enumerate(self._column("targets", name))]
            for name in group
        ]
        numbers = np.array(columns, np.float32).T
        return numbers[:, 0].copy() if isinstance(asked, str) else numbers.copy()

    def _labels(
        self, given: tuple[str, ...] | None, *, has_targets: bool
    ) -> tuple[npt.NDArray[np.int64] | None, tuple[str, ...], npt.NDArray[np.float32] | None]:
        """The label of each row, the classes, and multi-hot targets if a row may have several."""
        one, many = self._optional("label"), self._optional("labels")
        if one is not None and many is not None:
            raise CatalogError(f"{self._rows.source} has columns label and labels: give one")
        several, cells = many is not None, many if one is None else one
        if cells is None or all(map(is_missing, cells)):
            return None, given or (), None
        return labels_of(cells, given, self._rows.where, several=several, has_targets=has_targets)

    # What is not used

    def _check_unused(self) -> list[str]:
        """The columns that nothing uses. Raises CatalogError if one looks as if it was meant."""
        ignore, parts = self._names.get("ignore", ()), self._names.get("parts")
        ignored = {ignore} if isinstance(ignore, str) else {*ignore}
        unused = [name for name in self._rows.columns if name and name not in self._used | ignored]
        given = (role for role in _ROLES if self._asked(role) != role or role in self._used)
        filled = {*map(_family, given)}
        missing = {role for role in _ROLES if _family(role) not in filled}
        for name in unused:
            meant = _meant(name, missing)
            if parts is not None and "offset" in name.lower():
                meant = f"a column {' or '.join(part + OFFSET for part in parts)}"
            if meant:
                raise CatalogError(
                    f"{self._rows.source}: the column {name!r} is not used, and looks as if it was "
                    f"meant. Give {meant}; or ignore=[{name!r}] if it is something else"
                )
        if unused:
            _log.info("%s: columns that are not used: %s", self._rows.source, ", ".join(unused))
        return unused


def _family(role: str) -> str:
    """The same for roles of which a table has one."""
    return "label" if role in ("labels", "targets") else role.removesuffix("_s")


def _meant(name: str, roles: set[str]) -> str:
    """What a column was meant to be given as, of these roles; "" for none that is known."""
    plain = re.sub(r"[\W_]+", "_", name).strip("_").lower()
    if plain in roles:
        return f"{plain}={name!r}"
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]
    for role, beginnings in _MEANT.items():
        if role in roles and any(map(re.compile(f"({beginnings}){_UNIT}").fullmatch, words)):
            if plain.startswith("dur"):
                return "a column end or end_s, the start plus the duration"
            if role == "label":
                return f"label={name!r}"
            if words[-1] in _SECONDS_WORDS:
                return f"{role}_s={name!r}"
            return f"{role}={name!r} (frames) or {role}_s={name!r} (seconds)"
    alike = [role for role in roles if len(role) > 3 and role[0] == plain[:1]]
    close = get_close_matches(plain, alike, 1, 0.8)
    return f"{close[0]}={name!r}" if close else ""


def labels_of(
    cells: Sequence[Any],
    given: tuple[str, ...] | None,
    where: Callable[[int], str],
    *,
    several: bool = False,
    has_targets: bool = False,
) -> tuple[npt.NDArray[np.int64], tuple[str, ...], npt.NDArray[np.float32] | None]:
    """The label of each cell, the classes, and multi-hot targets if there are several labels in a
    cell. Whole numbers are indices into the classes, -1 is no label. Raises CatalogError."""
    cells = [sorted(cell) if isinstance(cell, set | frozenset) else cell for cell in cells]
    keys: list[Any] = [
        tuple(cell) if isinstance(cell, list | tuple | np.ndarray) else text(cell) for cell in cells
    ]
    known = given or ()
    several = several or any(
        isinstance(key, tuple) or (";" in key and key not in known) for key in {*keys}
    )
    if several and has_targets:
        raise CatalogError(f"{where(0)}: give targets= or several labels of a video, not both")
    named: dict[Any, list[str]] = {
        key: _words(key) if several else [key] for key in dict.fromkeys(keys)
    }

    def row_of(word: str) -> str:
        return where(next(i for i, key in enumerate(keys) if word in named[key]))

    words = [*dict.fromkeys(word for words in named.values() for word in words)]
    if "" in words:
        raise CatalogError(f"{row_of('')}: there is no label: write -1 for a row without one")
    if _UNLABELLED not in known:
        if mixed := [key for key, of in named.items() if _UNLABELLED in of and len(of) > 1]:
            raise CatalogError(
                f"{where(keys.index(mixed[0]))}: -1 is no label, and others stand beside it"
            )
        words = [word for word in words if word != _UNLABELLED]
    names, label_of = _classes(words, given, row_of)
    labels = np.array([label_of.get(named[key][0], -1) for key in keys])
    if not several:
        return labels, names, None
    hot = np.zeros((len(keys), len(names)), np.float32)
    for row, key in zip(hot, keys, strict=True):
        row[[label_of[word] for word in named[key] if word in label_of]] = 1
    return labels, names, hot


def _words(key: str | tuple[Any, ...]) -> list[str]:
    """The labels of a video, which have ';' between them; [""], which is no class, if there are
    none."""
    parts = key.split(";") if isinstance(key, str) else map(text, key)
    return [word for word in map(str.strip, parts) if word] or [""]


def _classes(
    texts: list[str], given: tuple[str, ...] | None, where: Callable[[str], str]
) -> tuple[tuple[str, ...], dict[str, int]]:
    """The classes that these labels mean, and the class of each label."""
    numbers = {each: number(each) for each in texts}
    wrong = next((each for each, n in numbers.items() if n % 1 != 0 and not math.isinf(n)), None)
    if wrong is not None and given is None and not any(map(math.isnan, numbers.values())):
        raise CatalogError(
            f"{where(wrong)}: the labels are numbers, and {shown(wrong)} is not a whole one. "
            "Write class numbers as 0, 1, ...; give classes= if these are names, or targets= "
            "if the model shall learn the numbers"
        )
    if wrong is None and not any(map(is_number, given or ())):
        most = len(given) if given else _MAX_NUMBERED_CLASSES
        label_of = {each: int(n) for each, n in numbers.items() if 0 <= n < most}
        names = given or tuple(map(str, range(max(label_of.values(), default=-1) + 1)))
        meant = f"in 0..{most - 1} (-1: no label)"
        if given and most in numbers.values():
            meant += (
                f": a table counts from 0 ({given[0]!r}). If yours counts from 1, as split files "
                "do, write names or subtract 1"
            )
    else:
        names = given or tuple(sorted(filter(None, texts)))
        label_of = {name: label for label, name in enumerate(names)}
        meant = f"a class ({some(names)})"
    for each in texts:
        if each not in label_of:
            raise CatalogError(f"{where(each)}: label {shown(each)} is not {meant}")
    return names, label_of


def _did_you_mean(name: object, known: Iterable[str]) -> str:
    plain = {each.strip().lower(): each for each in known}
    close = get_close_matches(str(name).strip().lower(), plain, 1)
    return f" (did you mean {plain[close[0]]!r}?)" if close else ""


def _warn_of_counting_from_1(source: str, paths: Sequence[str], starts: Any, ends: Any) -> None:
    """Warn if segments look like first and last frames, counted from 1: none begins with frame 0,
    and each begins one frame after the end of the one before it."""
    if starts is None or ends is None or None in starts or None in ends or 0 in starts:
        return
    rows = sorted(zip(paths, starts, ends, strict=True))
    steps = [b[1] - a[2] for a, b in pairwise(rows) if a[0] == b[0]]
    if steps and {*steps} == {1}:
        _log.warning(
            "%s: no segment starts with frame 0, and each starts one frame after the end of the "
            "one before it, as if first and last frames were counted from 1. Here start counts "
            "from 0 and end is the frame after the last: then subtract 1 from start", source,
        )  # fmt: skip

"""Reading catalogs from CSV tables with a header.

A mistake is a ``CatalogError`` of one line that names the file and its line.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from videoload.errors import CatalogError
from videoload.listings.columns import (  # fmt: skip
    ClassNames,
    Columns,
    PathLike,
    class_names,
    is_number,
    some,
    text_lines,
)
from videoload.listings.data_sets import KINETICS, read_kinetics
from videoload.listings.parts_columns import read_parts

TargetColumns = str | Sequence[str] | Mapping[str, str | Sequence[str]]

_FRACTION = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+)(e[+-]?\d+)?|nan", re.ASCII | re.IGNORECASE)
_MAX_TARGET = float(np.finfo(np.float32).max)
_SHOWN = 80  # characters of a wrong field that a message shows
_OPTIONAL = ("start", "end", "frames", "start_s", "end_s")
_NO_LABEL = ""  # the field of a column that does not exist
_MAX_NUMBERED_CLASSES = 1_000_000  # a higher label is a timestamp or an id, not a class


def read_csv(
    csv_file: PathLike,
    root: PathLike | None,
    classes: ClassNames | None,
    targets: TargetColumns | None = None,
    parts: Sequence[str] | None = None,
) -> Columns:
    """The rows of a table; see `Catalog.from_csv`."""
    columns_of_parts = None if parts is None else read_parts(csv_file, parts)
    of_path = "path" if parts is None else parts[0]
    lines_of_kinetics = csv.DictReader(text_lines(csv_file))
    if of_path == "path" and {*(lines_of_kinetics.fieldnames or ())} >= KINETICS:
        return read_kinetics(csv_file, lines_of_kinetics, root, classes)
    codes: dict[str, int] = {}  # label text -> its code, in order of appearance
    coded: list[int] = []
    paths: list[str] = []
    lines: list[int] = []
    starts: list[int | None] = []
    ends: list[int | None] = []
    frames: list[int | None] = []
    starts_s: list[float | None] = []
    ends_s: list[float | None] = []
    wanted = _target_names(csv_file, targets)
    numbers: list[list[float]] = []

    def where(i: int) -> str:
        return f"{csv_file}, line {lines[i]}"

    rows = _csv_rows(csv_file, of_path, [name for group in wanted.values() for name in group])
    several = next(rows) == ["labels"]
    for line, (path, label, *others) in rows:
        lines.append(line)
        paths.append(path)
        coded.append(codes.setdefault(label, len(codes)))
        for column, text in zip((starts, ends, frames), others, strict=False):
            if text and not is_number(text):
                raise CatalogError(
                    f"{where(-1)}: not a whole number from 0: {text[:_SHOWN]!r}{_hint(text)}"
                )
            column.append(int(text) if text else None)
        for moments, text in zip((starts_s, ends_s), others[3:], strict=False):
            moments.append(_finite(text, where, "a time in seconds") if text else None)
        if wanted:
            numbers.append([_finite(text, where, "a target") for text in others[5:]])
    if not paths:
        raise CatalogError(f"{csv_file} lists no videos below its header")
    given = None if classes is None else class_names(classes)
    several = several or any(";" in text and text not in (given or ()) for text in codes)
    if several and wanted:
        raise CatalogError(f"{csv_file}: give targets= or several labels of a video, not both")
    named = [_words(text) if several else [text] for text in codes]
    first = {word: code for code, words in reversed([*enumerate(named)]) for word in words}
    texts = list(dict.fromkeys(word for words in named for word in words))
    if wanted and codes.keys() == {_NO_LABEL}:  # there is no such column
        given, texts = given or ("all",), []
    names, label_of = _classes(texts, given, lambda text: where(coded.index(first[text])))
    labels = np.array([label_of.get(words[0], 0) for words in named])[coded]
    columns: Any = None
    if several:
        hot = np.zeros((len(named), len(names)), np.float32)
        for code, words in enumerate(named):
            hot[code, [label_of[word] for word in words]] = 1
        columns = hot[coded]
    elif wanted:
        columns = _target_columns(targets, wanted, np.array(numbers, np.float32))
    segments = starts, ends, frames, starts_s, ends_s
    return Columns(paths, labels, names, root, *segments, where, columns, columns_of_parts)


def _classes(
    texts: list[str], given: tuple[str, ...] | None, where: Callable[[str], str]
) -> tuple[tuple[str, ...], dict[str, int]]:
    """The classes that these labels mean, and the class of each label."""
    numbered = all(re.fullmatch("-?[0-9]+", text) for text in texts)
    if numbered and not any(map(is_number, given or ())):
        most = len(given) if given else _MAX_NUMBERED_CLASSES
        label_of = {t: int(t) for t in texts if is_number(t) and int(t) < most}
        names = given or tuple(map(str, range(max(label_of.values(), default=0) + 1)))
        meant = f"in 0..{most - 1}"
        if given and str(most) in texts:
            meant += (
                f": a table counts from 0 ({given[0]!r}). If yours counts from 1, as split files "
                "do, write names or subtract 1"
            )
    else:
        if given is None and not numbered and all(map(_FRACTION.fullmatch, texts)):
            # pandas writes 3.0 for 3 if a column has gaps; 0.73 is a target and no class.
            text = next(text for text in texts if not re.fullmatch("-?[0-9]+", text))
            raise CatalogError(
                f"{where(text)}: the labels are numbers, and {text[:_SHOWN]!r} is not a whole one. "
                "Write class numbers as 0, 1, ...; give classes= if these are names, or targets= "
                "if the model shall learn the numbers"
            )
        names = given or tuple(sorted(filter(None, texts)))
        label_of = {name: label for label, name in enumerate(names)}
        meant = f"a class ({some(names)})"
    for text in texts:
        if text not in label_of:
            raise CatalogError(f"{where(text)}: label {text[:_SHOWN]!r} is not {meant}")
    return names, label_of


def _words(text: str) -> list[str]:
    """The labels of a video, which have ';' between them; [""], which is no class, if there are
    none."""
    return [word for word in map(str.strip, text.split(";")) if word] or [""]


def _target_names(csv_file: PathLike, targets: TargetColumns | None) -> dict[str, list[str]]:
    """The names of the columns of each target."""
    if targets is None:
        return {}
    named = targets if isinstance(targets, Mapping) else {"targets": targets}
    found: dict[str, list[str]] = {}
    for name, of in named.items():
        names = [of] if isinstance(of, str) else list(of) if isinstance(of, Sequence) else [of]
        if not all(isinstance(each, str) for each in names):
            raise CatalogError(f"{csv_file}: targets= takes names of columns, not {of!r}")
        found[name] = names
    if not found or not all(found.values()):
        raise CatalogError(f"{csv_file}: targets= names no column")
    return found


def _target_columns(
    targets: TargetColumns | None, wanted: dict[str, list[str]], numbers: npt.NDArray[np.float32]
) -> Any:
    """Targets [N] of a single column, [N, columns] of several."""
    columns: dict[str, npt.NDArray[np.float32]] = {}
    at = 0
    for name, group in wanted.items():
        asked = targets[name] if isinstance(targets, Mapping) else targets
        mine = numbers[:, at : at + len(group)]
        columns[name] = mine[:, 0] if isinstance(asked, str) else mine
        at += len(group)
    return columns if isinstance(targets, Mapping) else columns["targets"]


def _hint(text: str) -> str:
    """What to do about a frame number that is a fraction."""
    is_fraction = _FRACTION.fullmatch(text) is not None
    return ": start and end are frames; name columns of seconds start_s, end_s" * is_fraction


def _finite(text: str, where: Callable[[int], str], what: str) -> float:
    number = float(text) if _FRACTION.fullmatch(text) else math.nan
    if not abs(number) <= _MAX_TARGET:
        raise CatalogError(f"{where(-1)}: {what} must be a number, not {text[:_SHOWN]!r}")
    return number


def _csv_rows(csv_file: PathLike, of_path: str, targets: list[str]) -> Iterator[Any]:
    """First the name of the column of labels, in a list: "label", "labels", or none if ``targets``
    are given. Then for each row its line number, and path, label, start, end, frames, start_s,
    end_s and targets; "" for columns that do not exist."""
    rows = csv.reader(text_lines(csv_file), strict=True)
    try:
        header = [name.strip() for name in next(rows, [])]
        labels = [name for name in ("label", "labels") if name in header]
        wanted = [of_path, *(labels or ["label"]), *_OPTIONAL, *targets]
        needed = {of_path, *targets} if targets else {of_path, wanted[1]}
        if (
            len(labels) > 1
            or any(header.count(name) > 1 for name in wanted)
            or not needed.issubset(header)
        ):
            must = " and ".join(name for name in wanted if name in needed)
            raise CatalogError(
                f"{csv_file}: the header must have the columns {must} (optional: start and end in "
                "frames, or start_s and end_s in seconds; frames), each once, separated by commas, "
                f"not {','.join(header)[:_SHOWN]!r}"
            )
        at = [header.index(name) if name in header else len(header) for name in wanted]
        yield labels
        for row in rows:
            if not any(map(str.strip, row)):
                continue
            if len(row) != len(header):
                raise CatalogError(
                    f"{csv_file}, line {rows.line_num}: {len(row)} fields, the header has "
                    f"{len(header)}: a field with a comma needs quotes"
                )
            row.append(_NO_LABEL)
            label = row[at[1]].strip()
            yield rows.line_num, [row[at[0]], label, *(row[i].strip() for i in at[2:])]
    except csv.Error as error:
        raise CatalogError(f"{csv_file}, line {rows.line_num}: {error}") from error

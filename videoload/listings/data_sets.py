"""The lists of HMDB-51, Kinetics and Something-Something, as they are distributed.

They name videos without a path, or as they were called on the web. Whoever downloaded them has
other folders and suffixes, and lacks some. So a list is joined with the files that are there, by
the name of a file without its suffix.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from videoload.errors import CatalogError
from videoload.listings.columns import (
    ClassNames,
    Columns,
    PathLike,
    checked_names,
    class_names,
    some,
    text_lines,
)
from videoload.listings.folders import SUFFIXES, open_root, videos_below

_log = logging.getLogger(__name__)

KINETICS = {"label", "youtube_id", "time_start", "time_end"}
_HMDB51 = re.compile(r"(.+)_test_split(\d+)\.txt")


def read_hmdb51(lists: PathLike, root: PathLike, split: int) -> tuple[Columns, Columns]:
    """The videos of a split of HMDB-51 to train on, and those to test on: ``lists`` is the folder
    of ``brush_hair_test_split1.txt`` and its sisters, with lines ``name.avi 1`` (1: to train on, 2:
    to test on, 0: neither). Raises CatalogError."""
    folder = Path(lists)
    files = {
        match[1]: folder / name.name
        for name in sorted(folder.iterdir() if folder.is_dir() else ())
        if (match := _HMDB51.fullmatch(name.name)) and int(match[2]) == split
    }
    if not files:
        raise CatalogError(f"{lists} has no split files like brush_hair_test_split{split}.txt")
    names = checked_names(sorted(files), str(lists))
    sides: dict[str, tuple[list[str], list[int]]] = {"1": ([], []), "2": ([], []), "0": ([], [])}
    for label, name in enumerate(names):
        for line, text in enumerate(text_lines(files[name]), 1):
            path, _, side = text.strip().rpartition(" ")
            if text.strip() and side not in sides:
                raise CatalogError(
                    f"{files[name]}, line {line}: expected a video and 0, 1 or 2, not {text!r}"
                )
            if text.strip():
                sides[side][0].append(f"{name}/{path.strip()}")
                sides[side][1].append(label)
    where = str(lists)
    train, test = (Columns(*sides[side], names, root, where=lambda _: where) for side in ("1", "2"))
    return train, test


def read_kinetics(
    csv_file: PathLike, rows: Iterable[Mapping[str, str]], root: PathLike | None,
    classes: ClassNames | None,
) -> Columns:  # fmt: skip
    """A list of Kinetics: label, youtube_id, time_start, time_end, split. The files are called
    ``<youtube_id>_000010_000020.mp4`` or ``<youtube_id>.mp4``. Raises CatalogError."""
    listed: list[tuple[tuple[str, ...], str]] = []
    for row in rows:
        try:
            begin, end = (f"{int(float(row[name])):06}" for name in ("time_start", "time_end"))
        except ValueError:
            raise CatalogError(f"{csv_file}: {row['youtube_id']}: times must be numbers") from None
        name = row["youtube_id"]
        listed.append(((f"{name}_{begin}_{end}", name), row["label"].strip().strip('"')))
    return _joined(csv_file, listed, root, classes)


def read_something(
    json_file: PathLike, root: PathLike | None, classes: ClassNames | None
) -> Columns:
    """A list of Something-Something: ``[{"id": "78687", "template": "Holding [something]"}, ...]``;
    ``classes`` may be its labels.json. Raises CatalogError."""
    try:
        rows: list[dict[str, Any]] = json.loads(Path(json_file).read_text(encoding="utf-8"))
        listed: list[tuple[tuple[str, ...], str]] = [
            ((str(row["id"]),), row["template"].replace("[", "").replace("]", "")) for row in rows
        ]
        if isinstance(classes, str | Path) and str(classes).endswith(".json"):
            numbers = json.loads(Path(classes).read_text(encoding="utf-8"))
            classes = sorted(numbers, key=lambda name: int(numbers[name]))
    except OSError as error:
        raise CatalogError(f"{error.filename} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CatalogError(
            f'{json_file}: expected a list of {{"id": ..., "template": ...}}, and in classes= '
            '{"template": "number"}'
        ) from None
    return _joined(json_file, listed, root, classes)


def _joined(
    list_file: PathLike,
    listed: list[tuple[tuple[str, ...], str]],
    root: PathLike | None,
    classes: ClassNames | None,
) -> Columns:
    """The listed videos that are there, by one of their names. Raises CatalogError."""
    if root is None:
        raise CatalogError(f"{list_file} lists videos without their paths: give root=")
    top = open_root(root)
    there: dict[str, str] = {}
    for path in videos_below(top, SUFFIXES):
        there.setdefault(path.rpartition("/")[2].rpartition(".")[0], path)
    names = class_names(classes) if classes is not None else None
    names = names or checked_names(sorted({label for _, label in listed}), str(list_file))
    label_of = {name: label for label, name in enumerate(names)}
    paths: list[str] = []
    labels: list[int] = []
    missing: list[str] = []
    for stems, label in listed:
        if label not in label_of:
            raise CatalogError(f"{list_file}: {label!r} is no class ({some(names)})")
        found = next((there[stem] for stem in stems if stem in there), None)
        if found is None:
            missing.append(stems[0])
            continue
        paths.append(found)
        labels.append(label_of[label])
    if not paths:
        raise CatalogError(f"{list_file} lists {len(listed)} videos, and {top} has none of them")
    if missing:
        _log.warning(
            "%s: %d of %d videos are not in %s: %s", list_file, len(missing), len(listed), top,
            some(missing),
        )  # fmt: skip
    return Columns(paths, labels, names, top, where=lambda _: str(list_file))

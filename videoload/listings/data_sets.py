"""The lists of UCF-101, HMDB-51 and Something-Something, as they are distributed.

Each becomes a table with a column of paths and one of labels, which `tables` reads.
"""

from __future__ import annotations

import re
from pathlib import Path

from videoload.errors import CatalogError
from videoload.listings.columns import (
    ClassNames,
    Listed,
    PathLike,
    checked_names,
    class_names,
    from_json,
    normal_path,
    some,
    text_lines,
)
from videoload.listings.folders import sub_folders
from videoload.listings.rows import Rows, rows_of
from videoload.listings.tables import read_table

_HMDB51 = re.compile(r"(.+)_test_split(\d+)\.txt")


def read_hmdb51(lists: PathLike, root: PathLike, split: int) -> tuple[Listed, Listed]:
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
    rows = []
    for label, file in files.items():
        for line, text in enumerate(text_lines(file), 1):
            path, _, side = text.strip().rpartition(" ")
            if text.strip() and side not in ("0", "1", "2"):
                raise CatalogError(
                    f"{file}, line {line}: expected a video and 0, 1 or 2, not {text!r}"
                )
            if text.strip():
                rows.append({"path": f"{label}/{path.strip()}", "label": label, "side": side})
    table = rows_of(rows, str(lists))
    train, test = (
        read_table(table, root, list(files), {"where": {"side": side}}) for side in ("1", "2")
    )
    return train, test


def read_something(
    json_file: PathLike, root: PathLike | None, classes: ClassNames | None
) -> Listed:
    """A list of Something-Something: ``[{"id": "78687", "template": "Holding [something]"}, ...]``.
    Raises CatalogError."""
    table = from_json(
        json_file,
        lambda found: {
            "id": [str(row["id"]) for row in found],
            "label": [row["template"].replace("[", "").replace("]", "") for row in found],
        },
        'a list of {"id": ..., "template": ...}',
    )
    return read_table(rows_of(table, str(json_file)), root, classes, {"path": "**/{id}.*"})


def read_list(list_file: PathLike, root: PathLike | None, classes: ClassNames | None) -> Listed:
    """The lines of a UCF-101 split file; see `Catalog.from_list`."""
    if str(list_file).lower().endswith(".json"):
        return read_something(list_file, root, classes)
    if classes is not None:
        names = class_names(classes)
    elif root is not None:
        names = checked_names(sub_folders(root), f"sub-folders of {root}")
    else:
        raise CatalogError(f"{list_file}: without a root, give classes (classInd.txt or names)")
    number_of = {name: number for number, name in enumerate(names, 1)}
    paths: list[str] = []
    labels: list[int] = []
    lines: list[int] = []

    def where(i: int) -> str:
        return f"{list_file}, line {lines[i]}"

    for line, text in enumerate(text_lines(list_file), 1):
        if not text.strip():
            continue
        lines.append(line)
        path, *number = re.split(r"\s+(?=[+-]?[0-9]{1,18}$)", text.strip())
        path = normal_path(path, where, -1)
        folder, slash, _ = path.partition("/")
        by_folder = number_of.get(folder, 0) if slash else 0
        label = int(number[0]) if number else by_folder
        flaw = ""
        if not number and not by_folder:
            flaw = f"has no class number, and its first folder is no class ({some(names)})"
        elif not 1 <= label <= len(names):
            flaw = f"has class number {number[0]}, which is not one of 1..{len(names)}"
            if label == 0:
                flaw += (
                    f": a split file counts from 1 ({names[0]!r}). If yours counts from 0, write a "
                    "CSV table with path,label, which counts from 0"
                )
        elif by_folder not in (0, label):
            flaw = (
                f"has class number {label}, which is {names[label - 1]!r}: correct one of the two"
            )
        if flaw:
            raise CatalogError(f"{where(-1)}: {path!r} {flaw}")
        paths.append(path)
        labels.append(label - 1)
    table = Rows({"path": paths, "label": [names[i] for i in labels]}, str(list_file), where)
    return read_table(table, root, names, {})

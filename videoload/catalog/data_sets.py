"""The split files of UCF-101 (Soomro et al. 2012): ``Archery/v_Archery_g01_c01.avi 3``.

A list becomes a table with a column of paths and one of labels, which `tables` reads.
"""

from __future__ import annotations

import re

from videoload.catalog.columns import (
    ClassNames,
    Listed,
    PathLike,
    checked_names,
    class_names,
    normal_path,
    text_lines,
)
from videoload.catalog.folders import sub_folders
from videoload.catalog.table_rows import Rows
from videoload.catalog.tables import read_table
from videoload.errors import CatalogError, some


def read_list(list_file: PathLike, root: PathLike | None, classes: ClassNames | None) -> Listed:
    """Return the lines of a split file; see `Catalog.from_list`."""
    if classes is not None:
        names = class_names(classes)
    elif root is not None:
        names = checked_names(sub_folders(root), f"sub-folders of {root}")
    else:
        raise CatalogError(f"{list_file}: without a root, give classes (classInd.txt or names)")
    number_of = {name: number for number, name in enumerate(names, 1)}
    table: dict[str, list[str]] = {"path": [], "label": []}
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
        label, flaw = int(number[0]) if number else by_folder, ""
        if not number and not by_folder:
            flaw = f"has no class number, and its first folder is not a class ({some(names)})"
        elif not 1 <= label <= len(names):
            flaw = (
                f"has class number {label}, which is not one of 1..{len(names)}: a split file "
                f"counts from 1 ({names[0]!r}), and a table for from_table from 0"
            )
        elif by_folder not in (0, label):
            flaw = f"has class number {label}, and that is {names[label - 1]!r}: correct one"
        if flaw:
            raise CatalogError(f"{where(-1)}: {path!r} {flaw}")
        table["path"].append(path)
        table["label"].append(names[label - 1])
    return read_table(Rows(table, str(list_file), where), root, names, {})

"""Reading catalogs from split files in the format of UCF-101."""

from __future__ import annotations

import re

from videoload.errors import CatalogError
from videoload.listings.columns import (
    ClassNames,
    Columns,
    PathLike,
    checked_names,
    class_names,
    normal_path,
    some,
    text_lines,
)
from videoload.listings.data_sets import read_something
from videoload.listings.folders import sub_folders


def read_list(list_file: PathLike, root: PathLike | None, classes: ClassNames | None) -> Columns:
    """The lines of a UCF-101 split file; see `Catalog.from_list`."""
    if str(list_file).lower().endswith(".json"):
        return read_something(list_file, root, classes)
    if classes is not None:
        names = class_names(classes)
    elif root is not None:
        names = checked_names(sub_folders(root), f"sub-folders of {root}")
    else:
        raise CatalogError(f"{list_file}: without a root, give classes (classInd.txt or names)")
    label_of = {name: label for label, name in enumerate(names)}
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
        by_folder = label_of.get(folder, -1) if slash else -1
        label = int(number[0]) - 1 if number else by_folder
        flaw = ""
        if not number and by_folder < 0:
            flaw = f"has no class number, and its first folder is no class ({some(names)})"
        elif not 0 <= label < len(names):
            flaw = f"has class number {number[0]}, which is not one of 1..{len(names)}"
            if label == -1:
                flaw += (
                    f": a split file counts from 1 ({names[0]!r}). If yours counts from 0, write a "
                    "CSV table with path,label, which counts from 0"
                )
        elif by_folder not in (-1, label):
            flaw = (
                f"has class number {number[0]}, which is {names[label]!r}: correct one of the two"
            )
        if flaw:
            raise CatalogError(f"{where(-1)}: {path!r} {flaw}")
        paths.append(path)
        labels.append(label)
    if not paths:
        raise CatalogError(f"{list_file} lists no videos")
    return Columns(paths, labels, names, root, where=where)

"""Which shards names and patterns stand for: ``{000..099}``, ``{a,b}``, ``*``, ``?`` and ``[``."""

from __future__ import annotations

import fnmatch
import glob
import itertools
import os
import re
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

from videoload.catalog.columns import PathLike, is_list
from videoload.catalog.folders import open_root, refusing
from videoload.errors import CatalogError
from videoload.storage.roots import files_below, is_url

_MAX_NAMES = 1_000_000  # that braces may stand for
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_SPECIAL = re.compile(r"[*?\[{]")


def shard_names(shards: str | Sequence[str], root: PathLike | None) -> tuple[Path | str, list[str]]:
    """Return the root, and the paths of the shards from there. Raises CatalogError."""
    given = [shards] if isinstance(shards, str | os.PathLike) else shards
    if not is_list(given) or not given:
        raise CatalogError(f"shards are names, a pattern or a list of these, not {shards!r:.80}")
    names = [str(each) for each in given]
    if root is None:
        folders = [_SPECIAL.split(name)[0].rpartition("/")[0] for name in names]
        if any(map(is_url, names)):
            scheme, *_ = folders[0].partition("://")
            above = os.path.commonpath([folder.partition("://")[2] for folder in folders])
            root = f"{scheme}://{above}" if above else folders[0]
        else:
            root = os.path.commonpath([os.path.abspath(folder) for folder in folders])  # noqa: PTH100
            names = [os.path.relpath(name, root) for name in names]
    names = [name.removeprefix(f"{str(root).rstrip('/')}/") for name in names]
    top = open_root(root)
    below = cache(partial(files_below, str(top)))
    found: list[str] = []
    for name in itertools.chain.from_iterable(map(_without_braces, names)):
        if not re.search(r"[*?\[]", name):
            found.append(name)
            continue
        if isinstance(top, Path):
            matches = sorted(glob.glob(name, root_dir=top))
        else:
            with refusing():
                listed = below(_SPECIAL.split(name)[0].rpartition("/")[0])
            matches = [path for path in listed if _matches(path, name)]
        if not matches:
            raise CatalogError(f"{top}: no file is named like {name!r}")
        found += matches
    for name in found:
        if name.startswith(("/", "../")) or is_url(name):
            raise CatalogError(f"the shard {name!r} is not in the root {top}")
        if isinstance(top, Path) and (top / name).is_dir():
            raise CatalogError(f"{top / name} is a folder: name its shards, as {name}/*.tar")
    return top, list(dict.fromkeys(found))


def _matches(path: str, pattern: str) -> bool:
    steps, wanted = path.split("/"), pattern.split("/")
    return len(steps) == len(wanted) and all(map(fnmatch.fnmatchcase, steps, wanted))


def _without_braces(name: str) -> list[str]:
    """Return the names that ``{000..099}`` and ``{a,b}`` stand for. Raises CatalogError."""
    pieces: list[list[str]] = []
    for n, piece in enumerate(_BRACES.split(name)):
        numbers = _RANGE.fullmatch(piece)
        if n % 2 == 0:
            pieces.append([piece])
        elif numbers is None:
            pieces.append(piece.split(","))
        else:
            first, last, width = int(numbers[1]), int(numbers[2]), len(numbers[1])
            if not 0 <= last - first < _MAX_NAMES:
                raise CatalogError(f"{{{piece}}} in {name!r} expands to no or too many names")
            pieces.append([f"{number:0{width}}" for number in range(first, last + 1)])
    return ["".join(each) for each in itertools.product(*pieces)]

"""Helpers for catalogs: the files that they are read from, random ones, and errors of one line."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from videoload.catalog.catalog import Catalog
from videoload.errors import CatalogError


def tree(root: Path, *files: str) -> Path:
    """Empty files below ``root``; a name that ends with '/' is a folder."""
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir(exist_ok=True)
        else:
            path.touch()
    return root


def text(folder: Path, content: str | bytes, name: str = "list.txt") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def table_of(folder: Path, content: str | bytes, **options: Any) -> Catalog:
    """The catalog of a file ``t.csv`` with this content."""
    return Catalog.from_table(text(folder, content, "t.csv"), root=None, **options)


def as_pandas(columns: dict[str, list[Any]]) -> Any:
    """A DataFrame whose index says nothing."""
    rows = len(next(iter(columns.values())))
    return pytest.importorskip("pandas").DataFrame(columns, index=[7, 7, 3, 0][:rows])


def as_polars(columns: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("polars").DataFrame(columns, strict=False)


def pairs(catalog: Catalog) -> list[tuple[str, str]]:
    """Each path with its class, "" for none."""
    return [(v.path, catalog.classes[v.label] if v.label >= 0 else "") for v in catalog]


def refused(*words: str | Path) -> Any:
    """Expects a CatalogError of one line that contains each of the words."""
    everything = "".join(f"(?=.*{re.escape(str(word))})" for word in words)
    return pytest.raises(CatalogError, match=rf"\A{everything}[^\n]+\Z")


words = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n/"), min_size=1, max_size=8
).filter(lambda word: word not in (".", ".."))
file_paths = st.lists(words, min_size=1, max_size=3).map("/".join)


@st.composite
def tables(draw: st.DrawFn) -> Catalog:
    paths = draw(st.lists(file_paths, min_size=1, max_size=12, unique=True))
    names = st.text(st.characters(categories=["L"]), min_size=1, max_size=5)
    classes = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    some: Any = {"min_size": len(paths), "max_size": len(paths)}
    starts = draw(st.lists(st.integers(0, 50), **some))
    lengths = draw(st.lists(st.none() | st.integers(1, 50), **some))
    spare = draw(st.lists(st.none() | st.integers(0, 50), **some))
    return Catalog(
        paths,
        draw(st.lists(st.integers(0, len(classes) - 1), **some)),
        classes,
        starts=starts,
        ends=[None if n is None else s + n for s, n in zip(starts, lengths, strict=True)],
        frames=[
            None if more is None else s + (n or 1) + more
            for s, n, more in zip(starts, lengths, spare, strict=True)
        ],
    )

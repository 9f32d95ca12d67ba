"""Read the files of a LeRobot dataset below its root: JSON, and columns of Parquet tables as
arrays."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any

import numpy as np
import numpy.typing as npt

from videoload.catalog.columns import PathLike
from videoload.catalog.folders import open_root, refusing
from videoload.errors import CatalogError
from videoload.storage.roots import files_below
from videoload.storage.small_files import read_small

Array = npt.NDArray[Any]

_TEXT = ("string", "large_string", "string_view")
_NUMBERS = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "halffloat",
    "float", "double",
)  # fmt: skip
_MOST_JSON, _MOST_TABLE = 64 << 20, 1 << 30  # bytes
_MOST_ROWS = 1 << 27  # of a table: a few bytes of it may stand for any number
_WIDTH = re.compile(r"(0?\d{1,2})?d?")
_FIELDS = ("chunk_index", "file_index", "video_key")


class UnusableError(Exception):
    """A column that was not requested, and that no batch can contain."""


class Tables:
    """The files of a dataset, in a folder or below a URL. Raises CatalogError."""

    def __init__(self, root: PathLike) -> None:
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            raise CatalogError(
                "LeRobot's tables are Parquet files: pip install videoload[lerobot]"
            ) from None
        self._arrow, self._parquet = pyarrow, parquet
        self.root = open_root(root)

    def json(self, name: str) -> dict[str, Any]:
        """Return the object in a JSON file."""
        data = self._bytes(name, _MOST_JSON)
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise CatalogError(f"{self.root}/{name} is not JSON: {error!s:.200}") from None
        if not isinstance(found, dict):
            raise CatalogError(f"{self.root}/{name} must contain a JSON object")
        return found

    def files(self, folder: str) -> list[str]:
        """Return the tables in a folder, in their order."""
        if isinstance(self.root, str):
            with refusing():
                found = files_below(self.root, folder)
        else:
            found = [
                each.relative_to(self.root).as_posix()
                for each in (self.root / folder).glob("*/*.parquet")
            ]
        found = sorted(each for each in found if each.endswith(".parquet"))
        if not found:
            raise CatalogError(f"{self.root} has no {folder}/*/*.parquet")
        return found

    def read(
        self,
        files: Sequence[str],
        columns: Mapping[str, Sequence[int]],
        optional: Sequence[str] = (),
    ) -> tuple[dict[str, Array], dict[str, str]]:
        """Read columns of these tables, one after the other.

        Args:
            files: Their names.
            columns: The shape of a row of each column.
            optional: Columns that may be missing, or unusable.

        Returns:
            The columns, and why others cannot be used.
        """
        parts: dict[str, list[Array]] = {name: [] for name in columns}
        flaws: dict[str, str] = {}
        for file in files:
            table = self._table(file, [*columns])
            for name, shape in columns.items():
                if name in flaws:
                    continue
                try:
                    if name not in table.column_names:
                        raise UnusableError("no such column")
                    at = f"{self.root}/{file}: column {name!r}"
                    parts[name].append(_array(at, table.column(name), shape))
                except UnusableError as error:
                    if name not in optional:
                        text = f"{self.root}/{file}: column {name!r}: {error}"
                        raise CatalogError(text) from None
                    flaws[name] = str(error)
        found = {}
        for name in columns:
            if name not in flaws:
                try:
                    found[name] = np.concatenate(parts.pop(name))
                except ValueError:
                    raise CatalogError(
                        f"{self.root}: the column {name!r} has another shape in each table"
                    ) from None
                found[name].flags.writeable = False  # then it is not copied again
        self._arrow.default_memory_pool().release_unused()  # it would hold as much memory again
        return found, flaws

    def tasks(self, number: str) -> dict[int, str]:
        """Return the text of each task, by its ``number``."""
        name = "meta/tasks.parquet"
        table = self._table(name, None)
        texts = [
            each for each in table.column_names
            if _kind(table.column(each).type) == "text"
        ]  # fmt: skip
        if len(texts) != 1 or number not in table.column_names:
            raise CatalogError(f"{self.root}/{name} needs {number!r} and a column of text")
        numbers, words = (_plain(table.column(each)).to_pylist() for each in (number, texts[0]))
        if None in numbers or None in words or not all(isinstance(n, int) for n in numbers):
            raise CatalogError(f"{self.root}/{name} has an empty cell, or no integers")
        return dict(zip(numbers, words, strict=True))

    def _table(self, name: str, columns: Sequence[str] | None) -> Any:
        where = f"{self.root}/{name}"
        data = self._bytes(name, _MOST_TABLE)
        try:
            file = self._parquet.ParquetFile(self._arrow.BufferReader(data))
            if (rows := file.metadata.num_rows) <= _MOST_ROWS:
                return file.read(columns=columns, use_threads=False)
        except Exception as error:  # pyarrow has its own kinds
            text = f"{where} cannot be read: {error!s:.200}"
            raise CatalogError((text.splitlines() or [""])[0]) from None
        raise CatalogError(f"{where} has {rows} rows, and no more than {_MOST_ROWS} are read")

    def _bytes(self, name: str, most: int) -> bytes:
        with refusing():
            return read_small(self.root, name, most)


def checked_pattern(name: str, pattern: object) -> str:
    """Return a pattern of paths below the root, such as ``data_path`` of ``meta/info.json``. Raises
    CatalogError."""
    if not isinstance(pattern, str):
        raise CatalogError(f"{name} must be text, not {pattern!r:.80}")
    try:
        pieces = list(Formatter().parse(pattern))
    except ValueError as error:
        raise CatalogError(f"{name} {pattern!r:.200}: {error}") from None
    used = [field for _, field, _, _ in pieces if field is not None]
    if odd := [field for field in used if field not in _FIELDS]:
        raise CatalogError(
            f"{name} {pattern!r:.200} has the field {odd[0]!r}, which is not one of "
            f"{', '.join(_FIELDS)}"
        )
    for _, field, width, conversion in pieces:
        fits = _WIDTH.fullmatch(width or "") if field != "video_key" else not width
        if conversion or not fits:
            raise CatalogError(f"{name} {pattern!r:.200}: {field!r} is given as {{{field}:03d}}")
    return pattern


def path_by(pattern: str, what: str, **fields: int | str) -> str:
    """Return the path of a file below the root. Raises CatalogError if it leads out of it."""
    path = pattern.format(**fields)
    steps = path.split("/")
    if path.startswith("/") or ".." in steps or "" in steps or "://" in path:
        raise CatalogError(f"{what} {pattern!r:.200} leads out of the root: {path!r:.200}")
    return path


def _plain(column: Any) -> Any:
    """Return a column as one array of plain arrow types: libraries register types of their own."""
    found = column.combine_chunks()
    while hasattr(found, "storage"):
        found = found.storage
    return found


def _array(at: str, column: Any, shape: Sequence[int]) -> Array:
    """Return a column as an array of rows of this shape; [1] may be plain numbers. Raises
    UnusableError, or CatalogError that names a row whose cell is empty or has another length."""
    rows, found, sides = len(column), _plain(column), list[int]()
    kind = _kind(found.type)
    if kind is None:
        raise UnusableError(f"its cells are {found.type!s:.60}, no numbers and no text")
    while _is_list(found.type):
        each = math.prod(sides)
        _check_full(at, found, each)
        if len(sides) == len(shape):
            raise CatalogError(f"{at} has lists, and a row has the shape {list(shape)}")
        if hasattr(found.type, "list_size"):
            lengths = np.full(len(found), found.type.list_size)
        else:
            lengths = found.value_lengths().to_numpy(zero_copy_only=False)
        if (wrong := np.flatnonzero(lengths != shape[len(sides)])).size:
            raise CatalogError(
                f"{at} has a list of {lengths[wrong[0]]} in row {wrong[0] // each}, and the shape "
                f"in meta/info.json is {list(shape)}"
            )
        sides.append(shape[len(sides)])
        found = found.flatten()
        while hasattr(found, "storage"):
            found = found.storage
    if sides != list(shape) and (sides or list(shape) != [1]):
        raise CatalogError(
            f"{at} has rows of the shape {sides}, and meta/info.json has {list(shape)}"
        )
    if hasattr(found.type, "index_type"):
        found = found.dictionary_decode()
    if kind == "text" and found.null_count:
        raise UnusableError("its text has empty cells")
    _check_full(at, found, math.prod(sides))
    array: Array = np.asarray(found.to_numpy(zero_copy_only=False))
    return array.reshape(rows, *sides)


def _is_list(kind: Any) -> bool:
    return hasattr(kind, "value_type") and not hasattr(kind, "index_type")


def _kind(kind: Any) -> str | None:
    """Return whether the values of a column, in lists or not, are ``"text"`` or ``"numbers"``."""
    while hasattr(kind, "value_type") or hasattr(kind, "storage_type"):
        kind = kind.value_type if hasattr(kind, "value_type") else kind.storage_type
    if str(kind) in _TEXT:
        return "text"
    return "numbers" if str(kind) in _NUMBERS else None


def _check_full(at: str, found: Any, each: int) -> None:
    """Raise CatalogError if one of these cells, so many in a row, is empty."""
    if found.null_count:
        empty = found.is_null().to_numpy(zero_copy_only=False)
        raise CatalogError(f"{at} has an empty cell in row {int(empty.argmax()) // each}")

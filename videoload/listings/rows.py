"""Any table as columns of cells: a DataFrame, a dict of columns, rows, or a CSV file.

pandas and polars are not imported: their tables and columns are asked what they can do.
"""

from __future__ import annotations

import csv
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Set
from itertools import chain
from typing import Any, NamedTuple

from videoload.errors import CatalogError
from videoload.listings.columns import PathLike, is_list, text_lines

_SHOWN = 80  # characters of a wrong cell that a message shows
_NUMBER = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_NONE = ("NAType", "NaTType")  # of pandas
# What a spreadsheet takes for a formula; a name that only begins with "-" is harmless.
_FORMULA = re.compile(r"[=+@\t]|-.*[(|!=]")


class Rows(NamedTuple):
    """A table: its columns, all of one length, what messages call it, and where a row stands."""

    columns: dict[str, list[Any]]
    source: str
    where: Callable[[int], str]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))


def rows_of(table: Any, source: str = "the table") -> Rows:
    """The columns of a table, or of a CSV file. Raises CatalogError."""
    if isinstance(table, str | os.PathLike):
        return read_csv(table)
    if isinstance(table, bytes | Set) or not (
        hasattr(table, "__getitem__") or isinstance(table, Iterable)
    ):
        raise CatalogError(
            f"a table is a DataFrame, a dict of columns, a list of rows or a CSV file, not "
            f"{table!r:.80}"
        )
    if hasattr(table, "collect"):
        raise CatalogError("a lazy table has no rows yet: give table.collect()")
    if isinstance(table, Mapping):
        named = [(name, table[name]) for name in table]
    elif hasattr(table, "columns"):
        named = [(name, table[name]) for name in dict.fromkeys(table.columns)]
    else:
        rows = [_row(row, i, source) for i, row in enumerate(table)]
        names = dict.fromkeys(name for row in rows for name in row)
        named = [(name, [row.get(name) for row in rows]) for name in names]
    columns: dict[str, list[Any]] = {}
    for name, column in named:
        if not is_list(column):
            raise CatalogError(f"{source}: the column {name!r} is no list of rows: {column!r:.80}")
        if getattr(column, "columns", None) is not None or str(name).strip() in columns:
            raise CatalogError(f"{source}: two columns are named {str(name).strip()!r}")
        columns[str(name).strip()] = _cells(column)
    lengths = {name: len(cells) for name, cells in columns.items()}
    if len({*lengths.values()}) > 1:
        told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise CatalogError(f"{source}: columns need as many rows each: {told}")
    return Rows(columns, source, lambda i: f"{source}, row {i}")


def read_csv(csv_file: PathLike) -> Rows:
    """The columns of a CSV file with a header, which are separated by ``,``, ``;`` or tabs. Raises
    CatalogError."""
    lines = text_lines(csv_file)
    first = next(lines, "")
    separator = max(",;\t", key=first.count)
    reader = csv.reader(chain((first,), lines), delimiter=separator, strict=True)
    found: list[list[str]] = []
    numbers: list[int] = []
    try:
        header = [name.strip() for name in next(reader, [])]
        for row in reader:
            if not any(map(str.strip, row)):
                continue
            if len(row) != len(header):
                raise CatalogError(
                    f"{csv_file}, line {reader.line_num}: {len(row)} fields, the header has "
                    f"{len(header)}: a field with {separator!r} needs quotes"
                )
            # Most cells of a long table come again.
            found.append([*map(sys.intern, map(unescaped, row))])
            numbers.append(reader.line_num)
    except csv.Error as error:
        raise CatalogError(f"{csv_file}, line {reader.line_num}: {error}") from error
    if not found:
        raise CatalogError(f"{csv_file} lists no videos below its header")
    if twice := [name for i, name in enumerate(header) if name and name in header[:i]]:
        raise CatalogError(f"{csv_file}: two columns are named {twice[0]!r}")
    columns = dict(zip(header, map(list, zip(*found, strict=True)), strict=True))
    return Rows(columns, str(csv_file), lambda i: f"{csv_file}, line {numbers[i]}")


def escaped(text: str) -> str:
    """Text as a cell of a CSV file that no spreadsheet runs. `read_csv` gives the text itself."""
    return f"'{text}" if _FORMULA.match(text) else text


def unescaped(cell: str) -> str:
    """The reverse of `escaped`."""
    return cell[1:] if cell[:1] == "'" and _FORMULA.match(cell, 1) else cell


def is_missing(cell: Any) -> bool:
    """Whether a cell is empty: no text, None, or NaN."""
    if isinstance(cell, str):
        return not cell.strip()
    return cell is None or type(cell).__name__ in _NONE or _is_nan(cell)


def text(cell: Any) -> str:
    """A cell as text: a whole number without its ``.0``, an empty cell as ""."""
    if is_missing(cell):
        return ""
    if isinstance(cell, float) and cell.is_integer():  # pandas has 3.0 where a column has gaps
        return str(int(cell))
    return str(cell).strip()


def shown(cell: Any) -> str:
    """A wrong cell, for a message."""
    return repr(cell)[: _SHOWN + 2] if isinstance(cell, str) else repr(cell)[:_SHOWN]


def number(cell: Any) -> float:
    """The number in a cell; NaN if there is none."""
    if isinstance(cell, str):
        # Infinity is a number too large to be used as any.
        return float(cell) if _NUMBER.fullmatch(cell.strip()) else math.nan
    try:
        return math.nan if isinstance(cell, bool) else float(cell)
    except (TypeError, ValueError):
        return math.nan


def whole(cell: Any) -> int | None:
    """The whole number from 0 in a cell, or None."""
    value = number(cell)
    return int(value) if 0 <= value < 2**63 and value.is_integer() else None


def _is_nan(cell: Any) -> bool:
    try:
        return bool(cell != cell)  # noqa: PLR0124 - only NaN differs from itself
    except (TypeError, ValueError):
        return False  # an array


def _cells(column: Any) -> list[Any]:
    for name in ("to_list", "tolist"):  # of polars and pandas, and of NumPy: as Python's numbers
        if (call := getattr(column, name, None)) is not None:
            found: list[Any] = call()
            return found
    return list(column)


def _row(row: Any, i: int, source: str) -> Mapping[Any, Any]:
    row = row._asdict() if hasattr(row, "_asdict") else row
    if not isinstance(row, Mapping):
        raise CatalogError(f"{source}, row {i}: a row is a dict of its cells, not {shown(row)}")
    return row

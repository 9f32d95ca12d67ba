"""Any table as columns of cells: a DataFrame, a dict of columns, rows, or a file of these.

pandas and polars are not imported: their tables and columns are asked what they can do.
"""

from __future__ import annotations

import csv
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from videoload.errors import CatalogError
from videoload.listings.columns import PathLike, is_list, text_lines

_SHOWN = 80  # characters of a wrong cell that a message shows
_NUMBER = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
TABLES = (".csv", ".tsv", ".jsonl", ".parquet")  # files of tables
# What reads a parquet file.
_PARQUET = {"polars": "read_parquet", "pyarrow.parquet": "read_table", "pandas": "read_parquet"}
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
    """The columns of a table, or of a file: .parquet, .jsonl (a row in each line), or CSV. Raises
    CatalogError."""
    if isinstance(table, str | os.PathLike):
        source, suffix = str(table), Path(table).suffix.lower()
        if suffix == ".jsonl":
            return _read_jsonl(table)
        if suffix != ".parquet":
            return read_csv(table)
        table = _read_parquet(source)
    if hasattr(table, "to_pydict"):  # of pyarrow
        table = table.to_pydict()
    if isinstance(table, bytes | Set) or not (
        hasattr(table, "__getitem__") or isinstance(table, Iterable)
    ):
        raise CatalogError(
            "a table is a DataFrame, a dict of columns, a list of rows or a file, not "
            f"{table!r:.80}"
        )
    if hasattr(table, "collect"):
        raise CatalogError("a lazy table has no rows yet: give table.collect()")
    if isinstance(table, Mapping):
        named = [(name, table[name]) for name in table]
    elif hasattr(table, "columns"):
        named = [(name, table[name]) for name in dict.fromkeys(table.columns)]
    else:
        named = [*_columns_of(table, lambda i: f"{source}, row {i}").items()]
    columns: dict[str, list[Any]] = {}
    for name, column in named:
        if not is_list(column):
            raise CatalogError(f"{source}: the column {name!r} is no list of rows: {column!r:.80}")
        if getattr(column, "columns", None) is not None or str(name).strip() in columns:
            raise CatalogError(f"{source}: two columns are named {str(name).strip()!r}")
        columns[str(name).strip()] = _cells(column)
    lengths = {name: len(cells) for name, cells in columns.items()}
    if len({*lengths.values()}) > 1:
        lengths_ = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise CatalogError(f"{source}: columns need as many rows each: {lengths_}")
    return Rows(columns, source, lambda i: f"{source}, row {i}")


def _read_parquet(file: str) -> Any:
    try:
        for module, read in _PARQUET.items():
            with suppress(ImportError):  # pandas may be there without a reader
                return getattr(import_module(module), read)(file)
    except Exception as error:  # each has its own kinds
        raise CatalogError(f"{file} cannot be read: {error!s:.200}".splitlines()[0]) from None
    raise CatalogError(f"{file}: to read it, pip install polars (or pyarrow)")


def _read_jsonl(file: PathLike) -> Rows:
    rows: list[Any] = []
    numbers: list[int] = []
    for line, text in enumerate(text_lines(file), 1):
        if text.strip():
            try:
                rows.append(json.loads(text))
            except ValueError as error:
                raise CatalogError(f"{file}, line {line}: {error}") from None
            numbers.append(line)

    def where(i: int) -> str:
        return f"{file}, line {numbers[i]}"

    return Rows(_columns_of(rows, where), str(file), where)


def read_csv(csv_file: PathLike) -> Rows:
    """The columns of a CSV file with a header, which are separated by ``,``, ``;`` or tabs. Raises
    CatalogError."""
    lines = text_lines(csv_file)
    first = next(lines, "")
    is_tsv = Path(csv_file).suffix.lower() == ".tsv"
    separator = "\t" if is_tsv else max(",;\t", key=first.count)
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


def is_words(cell: Any) -> bool:
    """Whether a cell is text: not a number, and nothing that was meant as one, as 1,5 or nan."""
    if not isinstance(cell, str) or not any(map(str.isalpha, cell)):
        return False
    try:
        float(cell)
    except ValueError:
        return True
    return False


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


def _columns_of(table: Iterable[Any], where: Callable[[int], str]) -> dict[Any, list[Any]]:
    """The columns of rows that are dicts or named tuples. Raises CatalogError."""
    rows: list[Mapping[Any, Any]] = []
    for i, given in enumerate(table):
        row = given._asdict() if hasattr(given, "_asdict") else given
        if not isinstance(row, Mapping):
            raise CatalogError(f"{where(i)}: a row is a dict of its cells, not {shown(row)}")
        rows.append(row)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}

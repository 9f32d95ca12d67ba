"""Read any table as columns of cells: a DataFrame, a dict of columns, rows, or a file. pandas and
polars are not imported: their tables are recognised by their methods.
"""

from __future__ import annotations

import csv
import json
import math
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from datetime import timedelta
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.catalog.columns import PathLike, is_list, text_lines
from videoload.errors import CatalogError

_SHOWN = 80  # characters of a wrong cell that a message shows
_NUMBER = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_INTEGER = re.compile(r"[+-]?\d{1,400}", re.ASCII)
# float() takes these, and durations and times count in any unit.
_NO_NUMBERS = (bool, np.bool_, np.timedelta64, np.datetime64)
TABLES = (".csv", ".tsv", ".jsonl", ".parquet")  # files of tables
# What reads a parquet file.
_PARQUET = {"polars": "read_parquet", "pyarrow.parquet": "read_table", "pandas": "read_parquet"}
_NONE = ("NAType", "NaTType")  # of pandas
# What programs write into an empty cell; pandas reads all but the last as one.
_NO_VALUE = {
    "#N/A", "#NA", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null", "-",
}  # fmt: skip
# What a spreadsheet takes for a formula; a name that only begins with "-" is harmless.
_FORMULA = re.compile(r"[=+@\t]|-.*[(|!=]")


class Rows(NamedTuple):
    """A table: its columns, all of one length, what messages call it, where a row stands, and
    perhaps where the bytes of its files are: see `Video.places`."""

    columns: dict[str, list[Any]]
    source: str
    where: Callable[[int], str]
    places: npt.NDArray[np.bytes_] | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))


def rows_of(table: Any, source: str = "the table") -> Rows:
    """Return the columns of a table, or of a file: .parquet, .jsonl (a row in each line), or CSV.
    Raises CatalogError."""
    if isinstance(table, str | os.PathLike):
        source, suffix = str(table), Path(table).suffix.lower()
        if suffix == ".jsonl":
            return _read_jsonl(table)
        if suffix != ".parquet":
            return read_csv(table)
        table = _read_parquet(source)
    if hasattr(table, "to_pydict"):  # of pyarrow
        _check_once(table.column_names, source)
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
            raise CatalogError(
                f"{source}: the column {name!r} is not a list of rows: {column!r:.80}"
            )
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
                read_parquet = getattr(import_module(module), read)
                if os.path.isdir(file):  # noqa: PTH112 - as it was given
                    return read_parquet(file)
                with open(file, "rb") as opened:  # noqa: PTH123 - a name may look like a pattern
                    return read_parquet(opened)
    except Exception as error:  # each has its own kinds
        raise CatalogError(f"{file} cannot be read: {error!s:.200}".splitlines()[0]) from None
    raise CatalogError(f"{file}: to read it, pip install polars (or pyarrow)")


def _read_jsonl(file: PathLike) -> Rows:
    rows: list[Any] = []
    numbers: list[int] = []
    for line, text in enumerate(text_lines(file), 1):
        if text.strip():
            try:
                rows.append(json.loads(text, object_pairs_hook=_row))
            except ValueError as error:
                raise CatalogError(f"{file}, line {line}: {error}") from None
            numbers.append(line)

    def where(i: int) -> str:
        return f"{file}, line {numbers[i]}"

    return Rows(_columns_of(rows, where), str(file), where)


def read_csv(csv_file: PathLike) -> Rows:
    """Return the columns of a CSV file with a header, which are separated by ``,``, ``;`` or tabs.
    Raises CatalogError."""
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
            # Most cells of a long table repeat.
            found.append([*map(sys.intern, map(unescaped, row))])
            numbers.append(reader.line_num)
    except csv.Error as error:
        raise CatalogError(f"{csv_file}, line {reader.line_num}: {error}") from error
    if not found:
        raise CatalogError(f"{csv_file} lists no videos below its header")
    _check_once(filter(None, header), str(csv_file))
    columns = dict(zip(header, map(list, zip(*found, strict=True)), strict=True))
    return Rows(columns, str(csv_file), lambda i: f"{csv_file}, line {numbers[i]}")


def escaped(text: str) -> str:
    """Return text as a cell of a CSV file that no spreadsheet runs. `read_csv` gives the text
    itself."""
    return f"'{text}" if _FORMULA.match(text) else text


def unescaped(cell: str) -> str:
    """Reverse `escaped`."""
    return cell[1:] if cell[:1] == "'" and _FORMULA.match(cell, 1) else cell


def is_missing(cell: Any) -> bool:
    """Return whether a cell is empty: no text, None, or NaN."""
    if isinstance(cell, str):
        return not cell.strip()
    is_none = cell is None or cell is np.ma.masked or type(cell).__name__ in _NONE
    return is_none or _is_nan(cell)


def means_missing(cell: Any) -> bool:
    """Return whether a cell is empty, or has what programs write into an empty one, such as NA."""
    return is_missing(cell) or (isinstance(cell, str) and cell.strip() in _NO_VALUE)


def text(cell: Any) -> str:
    """Return a cell as text: a whole number without its ``.0``, an empty cell as ""."""
    if is_missing(cell):
        return ""
    if isinstance(cell, float) and cell.is_integer():  # pandas has 3.0 where a column has gaps
        return str(int(cell))
    return str(cell).strip()


def shown(cell: Any) -> str:
    """Return a wrong cell, for a message."""
    return repr(cell)[: _SHOWN + 2] if isinstance(cell, str) else repr(cell)[:_SHOWN]


def number(cell: Any) -> float:
    """Return the number in a cell; NaN if there is none."""
    if isinstance(cell, str):
        # Infinity is a number too large to be used as any.
        return float(cell) if _NUMBER.fullmatch(cell.strip()) else math.nan
    try:
        return math.nan if isinstance(cell, _NO_NUMBERS) else float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def seconds(cell: Any) -> float:
    """Return the seconds in a cell: a number, or a duration; NaN if there are none."""
    if isinstance(cell, np.timedelta64):
        return math.nan if _has_no_unit(cell.dtype) else float(cell / np.timedelta64(1, "s"))
    return cell.total_seconds() if isinstance(cell, timedelta) else number(cell)


def is_words(cell: Any) -> bool:
    """Return whether a cell is text: not a number, nothing that was meant as one, as 1,5 or nan,
    and nothing that means an empty cell. A smiley is text."""
    if not isinstance(cell, str) or means_missing(cell):
        return False
    if any(map(str.isdigit, cell)) and not any(map(str.isalpha, cell)):
        return False
    try:
        float(cell)
    except ValueError:
        return True
    return False


def whole(cell: Any) -> int | None:
    """Return the whole number from 0 in a cell, or None."""
    found = integer(cell)
    return found if found is not None and 0 <= found < 2**63 else None


def is_written_whole(cell: Any) -> bool:
    """Return whether a cell has a whole number without a decimal point."""
    if isinstance(cell, str):
        return _INTEGER.fullmatch(cell.strip()) is not None
    return isinstance(cell, int | np.integer) and not isinstance(cell, _NO_NUMBERS)


def integer(cell: Any) -> int | None:
    """Return the whole number in a cell, with all of its digits, or None."""
    if is_written_whole(cell):
        return int(cell)
    value = number(cell)
    return int(value) if value.is_integer() else None


def _is_nan(cell: Any) -> bool:
    try:
        return bool(cell != cell)  # noqa: PLR0124 - only NaN differs from itself
    except (TypeError, ValueError):
        return False  # an array


def _has_no_unit(dtype: np.dtype[Any]) -> bool:
    return np.datetime_data(dtype)[0] == "generic"


def _row(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON. Raises ValueError if a name occurs twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        (name, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"two values are named {name!r}")
    return found


def _check_once(names: Iterable[str], source: str) -> None:
    """Raise CatalogError if two columns have one name."""
    for name, times in Counter(name.strip() for name in names).items():
        if times > 1:
            raise CatalogError(f"{source}: two columns are named {name!r}")


def _cells(column: Any) -> list[Any]:
    if isinstance(column, np.ndarray) and column.dtype.kind in "mM":
        # As Python's numbers, durations and times would lose their unit.
        return [
            np.ma.masked if is_masked else cell
            for cell, is_masked in zip(
                np.ma.getdata(column), np.ma.getmaskarray(column), strict=True
            )
        ]
    for name in ("to_list", "tolist"):  # of polars and pandas, and of NumPy: as Python's numbers
        if (call := getattr(column, name, None)) is not None:
            found: list[Any] = call()
            return found
    return list(column)


def _columns_of(table: Iterable[Any], where: Callable[[int], str]) -> dict[Any, list[Any]]:
    """Return the columns of rows that are dicts or named tuples. Raises CatalogError."""
    rows: list[Mapping[Any, Any]] = []
    for i, given in enumerate(table):
        row = given._asdict() if hasattr(given, "_asdict") else given
        if not isinstance(row, Mapping):
            raise CatalogError(f"{where(i)}: a row is a dict of its cells, not {shown(row)}")
        rows.append(row)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}

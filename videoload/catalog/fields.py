"""Fields of samples: the text and JSON files that bear the name of a video.

A column ``txt`` is the text of such a file, and ``json:caption`` what a JSON object has under this
key.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any

from videoload.catalog.columns import Listed
from videoload.catalog.table_rows import Rows
from videoload.catalog.tables import TargetColumns, read_table
from videoload.clips.rows import COLUMNS
from videoload.errors import CatalogError, FileReplacedError, StorageError, VideoError
from videoload.logs import Log
from videoload.storage.files import Storage
from videoload.storage.roots import is_url, open_storage
from videoload.storage.video_file import OpenFile

_MAX_TEXT = 1 << 20  # bytes of a caption or of JSON
_AT_ONCE = 16  # files below a URL

_log = Log(__name__)


def requested(targets: TargetColumns | None, *others: str | None) -> set[str]:
    """Return the requested columns."""
    groups = targets.values() if isinstance(targets, Mapping) else [targets]
    names = [name for each in groups for name in ([each] if isinstance(each, str) else each or ())]
    return {name.strip() for name in (*names, *others) if isinstance(name, str) and name}


def roles_of(**given: Any) -> dict[str, Any]:
    """Return the arguments of a table in which no column has a role by its name."""
    return {**dict.fromkeys((*COLUMNS, "labels", "label", "targets", "where", "parts")), **given}


def fields_in(columns: Iterable[str]) -> set[str]:
    """Return the files that have these columns."""
    return {column.partition(":")[0] for column in columns}


def cells_in(
    read: Callable[[], bytes], size: int, path: str, field: str, columns: Collection[str]
) -> dict[str, Any]:
    """Return the cells of these columns that a field has: its text, or values of its JSON. ``read``
    gives its bytes, and may raise ValueError. Raises CatalogError, OSError."""
    if size > _MAX_TEXT:
        raise CatalogError(f"{path} has more than {_MAX_TEXT} bytes")
    found: dict[str, Any] = {}
    try:
        text = read().decode()
        if field in columns:
            found[field] = text
        if any(column.startswith(f"{field}:") for column in columns):
            values = json.loads(text)
            if not isinstance(values, dict):
                raise CatalogError(f"{path} is not a JSON object")
            named = ((f"{field}:{key}", value) for key, value in values.items())
            # Null and an empty list are a value that is missing.
            found |= {
                name: cell for name, cell in named if name in columns and cell not in (None, [])
            }
    except ValueError as error:
        if isinstance(error, CatalogError):
            raise
        raise CatalogError(f"{path} cannot be read: {error}") from None
    return found


def with_fields(listed: Listed, home: str, targets: TargetColumns) -> Listed:
    """Return the videos of a folder with targets out of the files beside them. Raises
    CatalogError."""
    assert listed.root is not None
    columns, root = requested(targets), listed.root
    storage = open_storage(root)
    try:
        with ThreadPoolExecutor(_AT_ONCE if is_url(root) else 1) as threads:
            cells = [*threads.map(lambda path: _beside(storage, path, columns), listed.paths)]
    except (VideoError, StorageError, FileReplacedError, OSError) as error:
        raise CatalogError(f"{root}: {error}") from None
    finally:
        storage.close()
    for column in sorted(columns):
        lacking = [path for path, own in zip(listed.paths, cells, strict=True) if column not in own]
        if len(lacking) == len(cells):
            raise CatalogError(f"{home}: no video has {column!r} in a file beside it")
        if lacking:
            _log.warning(
                "%s: %d of %d videos have no %r beside them: %s", home, len(lacking), len(cells),
                column, lacking[0],
            )  # fmt: skip
    table = {name: [own.get(name) for own in cells] for name in sorted(columns)}
    rows = Rows({"path": [*listed.paths], **table}, home, lambda i: f"{home}: {listed.paths[i]}")
    found = read_table(rows, root, None, roles_of(path="path", targets=targets), look=False).targets
    if isinstance(found, dict) and (labels := listed.columns["label"]) is not None:
        found.setdefault("label", labels)
    listed.targets = found
    return listed


def _whole(opened: OpenFile, size: int) -> bytes:
    return bytes(opened.pread(size, 0))


def _beside(storage: Storage, path: str, columns: set[str]) -> dict[str, Any]:
    """Return the cells of a video. Raises CatalogError, VideoError, StorageError, OSError."""
    cells: dict[str, Any] = {}
    for field in sorted(fields_in(columns)):
        name = f"{path.rpartition('.')[0]}.{field}"
        try:
            file = storage.resolve(name)
        except VideoError as error:
            if type(error) is not VideoError:  # it may be there
                raise
            continue
        with closing(file.open()) as opened:
            text = partial(_whole, opened, file.size)
            cells |= cells_in(text, file.size, name, field, columns)
    return cells

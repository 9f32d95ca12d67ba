"""Several catalogs, one after the other. Errors name the catalog and what differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from videoload.catalog import side_by_side
from videoload.catalog import targets as targets_
from videoload.catalog.columns import Listed, look_alike
from videoload.catalog.table import Table, columns_of
from videoload.clips.sample_spec import SampleParts
from videoload.errors import CatalogError, some
from videoload.logs import Log
from videoload.storage.paths import below, parts_of

_log = Log(__name__)


def concatenated(parts: Mapping[str, Table]) -> Table:
    """Return several tables as one. Their names are for messages. Raises CatalogError."""
    _check(parts)
    tables = list(parts.values())
    root, ways = side_by_side.common_root({name: table.root for name, table in parts.items()})
    paths = [
        below(way, path) for way, table in zip(ways, tables, strict=True) for path in table.paths
    ]
    number: dict[str, int] = {}  # of all classes, in the order of their first appearance
    for table in tables:
        for name in table.classes:
            number.setdefault(name, len(number))
    labels = [
        np.array([*map(number.__getitem__, table.classes), -1], np.int64)[table.column("label")]
        for table in tables
    ]
    columns = columns_of(tables) | {"label": np.concatenate(labels)}
    if len(parts) > 1 and (alike := look_alike(number)):
        _log.warning("concat: %s", alike)
    leading = [parts_of(path)[0] for path in paths]
    joined = Table(Listed(leading, columns, tuple(number), root), duplicates=True)
    if (sample_parts := tables[0].sample_parts) is not None:
        joined = joined.replaced(paths=paths, sample_parts=sample_parts)
    if steps := [table.steps for table in tables if table.steps is not None]:
        joined = joined.replaced(steps=sum(steps, ()))
    targets = {name: table.targets for name, table in parts.items() if table.targets is not None}
    if not targets:
        return joined
    checked = targets_.checked(targets_.joined(targets), len(paths), joined.paths)
    return joined.replaced(targets=checked)


def _check(parts: Mapping[str, Table]) -> None:
    """Raise CatalogError if two tables do not fit together."""
    for name, table in parts.items():
        if table.parts:
            raise CatalogError(f"{name} is a mixture, which cannot be concatenated: give its parts")
    _all_or_none(parts, lambda table: table.steps is not None, "the steps of from_lerobot")
    _all_or_none(parts, lambda table: table.has_moments, "moments (at, at_s)")
    has_targets = _all_or_none(parts, lambda table: table.targets is not None, "targets")
    (first, leading), *others = parts.items()
    for name, table in others:
        if table.sample_parts != leading.sample_parts:
            raise CatalogError(
                f"to concatenate catalogs, their samples need the same parts, by= and offset_s=: "
                f"{first} has {_shown(leading.sample_parts)}, and {name} has "
                f"{_shown(table.sample_parts)}"
            )
        if has_targets and table.classes != leading.classes:
            raise CatalogError(
                "to concatenate catalogs with targets, give each the same classes=: "
                f"{first} has {some(leading.classes)}, and {name} has {some(table.classes)}"
            )


def _all_or_none(parts: Mapping[str, Table], has: Callable[[Table], bool], what: str) -> bool:
    """Return whether all tables have something. Raises CatalogError if only some have it."""
    having = [name for name, table in parts.items() if has(table)]
    lacking = [name for name in parts if name not in having]
    if having and lacking:
        raise CatalogError(
            f"to concatenate catalogs, all or none need {what}: {having[0]} has them, and "
            f"{lacking[0]} has none"
        )
    return bool(having)


def _shown(parts: SampleParts | None) -> str:
    if parts is None:
        return "one file a sample"
    late = f", offset_s={dict(parts.offsets_s)}" if parts.offsets_s else ""
    return f"the parts {', '.join(parts.names)} (by={parts.by!r}{late})"

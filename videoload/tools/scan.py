"""Decode every file of a catalog once, in parallel, for a row of facts about each.

A file may hang a decoder or crash it. So workers decode the files, one at a time. A journal writes
rows as they come, so a scan that was stopped continues from there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from videoload.catalog.catalog import Catalog
from videoload.catalog.joining import whole_files
from videoload.catalog.table import class_name
from videoload.client.client import Client
from videoload.clips.tasks import Report
from videoload.errors import VideoError, VideoloadError
from videoload.tools.scan_journal import ScanJournal, ScanRow, row_of

STALL_S = 20.0  # a decoder that shows no progress for so long hangs
AWAY_S = 10.0  # storage that refuses all decoders for so long ends the scan


def scan(
    catalog: Catalog,
    *,
    processes: int,
    journal: ScanJournal | None = None,
    on_row: Callable[[ScanRow], None] = lambda row: None,
    cache: str | None = None,
) -> list[ScanRow]:
    """Decode every file of ``catalog`` once. Returns a row per file, in the catalog's order; the
    journal gets a row per segment.

    ``on_row`` is called with each row as it comes; ``cache`` is the folder of an `IndexCache`.
    Raises VideoloadError.
    """
    if catalog.root is None:
        raise VideoloadError("a scan needs the videos: give their root")
    labels: dict[str, str] = {}
    for video in catalog:
        labels.setdefault(video.path, class_name(catalog.classes, video.label))
    rows: dict[str, ScanRow] = {}
    if journal is not None:
        if catalog.targets is not None:
            raise VideoloadError("videos with several labels: a scan writes one label for each")
        journal.check(catalog.root, labels)
        for path in labels:
            if (known := journal.find(catalog.root, path)) is not None:
                rows[path] = known
                on_row(known)
    left = [path for path in labels if path not in rows]
    for row in _decode_all(catalog, left, labels, processes, cache):
        rows[row.path] = row
        if journal is not None:
            journal.add(row)
        on_row(row)
    segments = segments_of(catalog, rows)
    if journal is not None:
        # A stream takes a segment up to the end of its file, even if its end lies behind that.
        journal.finish(
            (
                replace(row, end=min(row.end, row.frames)) if row.good and row.end else row
                for row in segments
            ),
            catalog,
        )
    outside = Counter(
        row.path
        for row in segments
        if rows[row.path].good and max(row.first, (row.end or 0) - 1) >= row.frames
    )
    for path, count in outside.items():
        damage = f"{count} of its segments do not lie within its {rows[path].frames} frames"
        rows[path] = replace(
            rows[path], damage="; ".join(filter(None, (rows[path].damage, damage)))
        )
    return [rows[path] for path in labels]


def segments_of(catalog: Catalog, rows: Mapping[str, ScanRow]) -> list[ScanRow]:
    """A row for each segment, by the rows of the files by their paths."""
    return [
        replace(
            rows[video.path], label=class_name(catalog.classes, video.label),
            start=video.start or None, end=video.end, start_s=video.start_s, end_s=video.end_s,
        )
        for video in catalog
    ]  # fmt: skip


def _decode_all(
    catalog: Catalog, paths: list[str], labels: dict[str, str], processes: int, cache: str | None
) -> Iterator[ScanRow]:
    root = catalog.root
    assert root is not None
    if not paths:
        return
    with Client(
        min(processes, len(paths)),
        cache=cache or False,
        stall_s=STALL_S,
        storage_timeout_s=AWAY_S,
    ) as client:
        for row, found in client.run(Report(), whole_files(catalog, paths)):
            if isinstance(found, VideoError):
                facts: dict[str, Any] = {"damage": found.reason}
            else:
                facts = msgspec.structs.asdict(found)
            yield row_of(root, paths[row], labels[paths[row]], facts)

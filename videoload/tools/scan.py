"""Decode every file of a catalog once, in parallel, for a row of facts about each.

A file may hang a decoder or crash it. So workers decode the files, one at a time. With an output, a
journal has what was found of each file at once, so a scan that was stopped continues from there,
and the tables are written at its end.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import msgspec
from xxhash import xxh3_64_hexdigest

from videoload import Catalog, Client, Report
from videoload.catalog.joining import whole_files
from videoload.catalog.table_rows import escaped
from videoload.catalog.tables import classes_file
from videoload.errors import CatalogError, VideoError, VideoloadError
from videoload.storage.files import status_of
from videoload.storage.new_files import writing
from videoload.storage.roots import identities_of
from videoload.tools.journal import Journal, Provenance, say_again
from videoload.versions import code_digest, ffmpeg_versions

STALL_S = 20.0  # a decoder that shows no progress for so long hangs
AWAY_S = 10.0  # storage that refuses all decoders for so long ends the scan

Facts = dict[str, Any]  # the fields of a `ScanRow` that are of its file


@dataclass(frozen=True, slots=True)
class ScanRow:
    """One file, or one segment of it if the catalog has segments.

    ``frames`` is the file's true frame count. It is 0 if nothing can be decoded; ``damage`` then
    contains the reason. ``width`` and ``height`` are those that a player shows. ``header_frames``
    is the count in the header, ``packets`` the number of coded ones, ``key_frames`` how many of
    them decoding can start at, ``sound`` the audio codec ("unknown" if it cannot be read).
    """

    path: str
    label: str
    start: int | None = None
    end: int | None = None
    start_s: float | None = None
    end_s: float | None = None
    frames: int = 0
    container: str = ""
    codec: str = ""
    pixels: str = ""
    width: int = 0
    height: int = 0
    fps: float = 0.0
    header_frames: int = 0
    packets: int = 0
    key_frames: int = 0
    sound: str = ""
    damage: str = ""
    file_bytes: int = 0
    modified_ns: int = 0
    fingerprint: str = ""  # that copies have in common: `storage.content.fingerprint_text`

    @property
    def mean_gop_frames(self) -> float:
        """Mean frames from one keyframe to the next; 0 if there is none to seek to."""
        return self.frames / self.key_frames if self.key_frames else 0.0

    @property
    def good(self) -> bool:
        """Whether the file can be decoded and the segment begins within it."""
        return self.first < self.frames

    @property
    def first(self) -> float:
        """The frame that the segment begins with; one in seconds, by the mean rate."""
        return self.start or (self.start_s or 0) * self.fps

    @property
    def length(self) -> int:
        """The frames of the segment; one in seconds, by the mean rate."""
        last = self.end or (self.end_s or 0) * self.fps or self.frames
        return max(1, round(min(last, self.frames) - self.first))


def scan(
    catalog: Catalog,
    *,
    processes: int,
    output: Path | None = None,
    on_row: Callable[[], None] = lambda: None,
    cache: Path | Literal[False] | None = False,
) -> list[ScanRow]:
    """Decode every file of ``catalog`` once. Returns a row per file, in the catalog's order; the
    table ``output`` gets a row per segment.

    ``on_row`` is called after each file; ``cache`` is the folder of indexes, as in `Client`. Raises
    VideoloadError.
    """
    if catalog.root is None:
        raise VideoloadError("a scan needs the videos: give their root")
    if output is not None and catalog.targets is not None:
        raise VideoloadError("videos with several labels: a scan writes one label for each")
    labels: dict[str, str] = {}
    for video in catalog:
        labels.setdefault(video.path, _class_of(catalog, video.label))
    found: dict[str, Facts] = {}
    with ExitStack() as stack:
        table = None if output is None else stack.enter_context(closing(ScanTable(output)))
        if table is not None:
            found |= table.known(catalog.root, labels)
        for _ in found:
            on_row()
        left = [path for path in labels if path not in found]
        for path, facts in _decode_all(catalog, left, processes, cache):
            found[path] = facts
            if table is not None:
                table.add(path, facts)
            on_row()
        rows = {path: ScanRow(path, label, **found[path]) for path, label in labels.items()}
        segments = segments_of(catalog, rows)
        if table is not None:
            table.finish(segments, catalog)
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
    return [*rows.values()]


def segments_of(catalog: Catalog, rows: Mapping[str, ScanRow]) -> list[ScanRow]:
    """Return a row for each segment, by the rows of the files by their paths."""
    return [
        replace(
            rows[video.path], label=_class_of(catalog, video.label),
            start=video.start or None, end=video.end, start_s=video.start_s, end_s=video.end_s,
        )
        for video in catalog
    ]  # fmt: skip


def _class_of(catalog: Catalog, label: int) -> str:
    return catalog.classes[label] if label >= 0 else ""


def _decode_all(
    catalog: Catalog, paths: list[str], processes: int, cache: Path | Literal[False] | None
) -> Iterator[tuple[str, Facts]]:
    if not paths:
        return
    with Client(
        min(processes, len(paths)),
        cache=cache,
        stall_s=STALL_S,
        storage_timeout_s=AWAY_S,
    ) as client:
        for row, found in client.run(Report(), whole_files(catalog, paths)):
            size, modified = status_of(str(catalog.root), paths[row]) or (0, 0)
            facts: Facts = {"file_bytes": size, "modified_ns": modified}
            if isinstance(found, VideoError):
                facts["damage"] = found.reason
            else:
                facts |= msgspec.structs.asdict(found)
            yield paths[row], facts


class ScanTable:
    """The rows of a scan in CSV files, beside their journal.

    ``file`` has the rows that can be decoded, for ``Catalog.from_table``, and ``bad`` the others.
    If those alone would give the classes other numbers, ``classes`` has the names of the classes,
    where ``Catalog.from_table`` finds them.
    """

    def __init__(self, file: Path) -> None:
        """Begin, or resume. Raises VideoloadError if a file is there that no scan has written."""
        self.file, self.bad, self.classes = file, bad_file(file), classes_file(file)
        self._provenances: dict[str, Provenance] = {}
        with writing(file):
            progress = file.with_name(f"{file.name}.progress")
            tables = self.file, self.bad, self.classes
            self._journal = Journal(progress, {"job": "scan"}, tables=tables)

    def known(self, root: Path | str, labels: Mapping[str, str]) -> dict[str, Facts]:
        """Return the results of files that have not changed. Raises VideoloadError for rows of
        another folder."""
        code = xxh3_64_hexdigest(f"{ffmpeg_versions()} {code_digest()}".encode())
        files = identities_of(root, labels)
        self._provenances = {
            path: Provenance(code if file else None, file) for path, file in files.items()
        }
        rows = self._journal.rows
        others = [path for path in rows if path not in labels]
        again = self._journal.keep(self._provenances)
        found = {path: rows[path]["found"] for path in labels if path in rows}
        if others and not found:
            raise VideoloadError(
                f"{self.file} is the table of {len(others)} other videos, and {others[0]} is the "
                f"first of them: write to another file, or delete {self._journal.file} and the "
                "tables"
            )
        say_again(again)
        return found

    def add(self, path: str, found: Facts) -> None:
        """Store the results of a file, at once. Raises VideoloadError."""
        with writing(self._journal.file):
            self._journal.add(path, self._provenances[path], found=found)

    def finish(self, rows: Iterable[ScanRow], catalog: Catalog) -> None:
        """Write the tables: these rows, in this order, and the classes if they are needed. Raises
        VideoloadError."""
        # A stream takes a segment up to the end of its file, even if its end lies behind that.
        rows = [
            replace(row, end=min(row.end, row.frames)) if row.good and row.end else row
            for row in rows
        ]
        with writing(self.file):
            self._journal.write(self.file, _lines([row for row in rows if row.good]))
            self._journal.write(self.bad, _lines([row for row in rows if not row.good]))
            self._journal.write(self.classes, "")  # of another catalog
            if self.file.exists() and not self._tells_classes(catalog):
                names = (f"{number} {name}\n" for number, name in enumerate(catalog.classes, 1))
                self._journal.write(self.classes, "".join(names))

    def _tells_classes(self, catalog: Catalog) -> bool:
        """Return whether ``Catalog.from_table`` finds the catalog's classes in the rows. It does
        not if a class has no video left, or if its name looks like a number or like several
        labels."""
        with suppress(CatalogError):
            found = Catalog.from_table(self.file, None, duplicates=True)
            return found.classes == catalog.classes and found.targets is None
        return False

    def close(self) -> None:
        """Release the files for another process."""
        self._journal.close()


def bad_file(table: Path) -> Path:
    """Return the file in which a scan with this table lists files that cannot be decoded."""
    return table.with_name(f"{table.stem}.bad.csv")


def _lines(rows: list[ScanRow]) -> str:
    """Return the lines of a table, with its head; "" without rows."""
    found = io.StringIO()
    writer = csv.DictWriter(found, [field.name for field in fields(ScanRow)], lineterminator="\n")
    for row in rows:
        if not found.tell():
            writer.writeheader()
        cells = asdict(row).items()
        writer.writerow({k: escaped(v) if isinstance(v, str) else v for k, v in cells})
    return found.getvalue()

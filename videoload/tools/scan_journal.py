"""The rows of a scan, and the CSV file that a stopped scan continues from."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from videoload.catalog.catalog import Catalog
from videoload.catalog.table_rows import escaped, unescaped
from videoload.catalog.tables import classes_file
from videoload.errors import CatalogError, VideoloadError
from videoload.storage.files import status_of
from videoload.storage.new_files import continued, new_file


@dataclass(frozen=True, slots=True)
class ScanRow:
    """One file, or one segment of it if the catalog has segments.

    ``frames`` is the file's true frame count. It is 0 if nothing can be decoded; ``damage`` then
    says why. ``width`` and ``height`` are those that a player shows. ``header_frames`` is the count
    that the header claims, ``packets`` how many are coded, ``key_frames`` how many of them decoding
    can start at, ``sound`` the codec of its sound ("unknown" if it cannot be read).
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
        """Frames from one key frame to the next, on average; 0 if there is none to seek to."""
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


_NAMES = [field.name for field in fields(ScanRow)]


class ScanJournal:
    """The rows of a scan in a CSV file.

    While the scan runs, the file has one row per decoded file. `finish` replaces them by one row
    per video of the catalog, in its order. Files that cannot be decoded go to ``<name>.bad.csv``,
    so ``Catalog.from_table`` can read the other rows. If those alone would give the classes other
    numbers, the class names go to ``<name>.classes.txt``, where it finds them.
    """

    def __init__(self, file: Path) -> None:
        """Raises VideoloadError if the file exists and no scan has written it."""
        if file.exists() and not file.is_file():
            raise VideoloadError(f"{file} is not a file that a scan could be written to")
        self.file = file
        self.bad = file.with_name(f"{file.stem}.bad.csv")
        self.classes: Path | None = None  # what `Catalog.from_table` needs as well
        self._rows: dict[str, ScanRow] = {}
        self._files: dict[str, Path] = {}  # the file that each row was read from
        for part in (self.bad, self.file):
            for row in _read(part):
                self._rows[row.path] = replace(row, start=None, end=None, start_s=None, end_s=None)
                self._files[row.path] = part

    def check(self, root: Path | str, paths: Collection[str]) -> None:
        """Raises VideoloadError if `finish` would delete rows of videos that still exist, or of
        another folder. Rows of videos that were deleted may go."""
        others = [path for path in self._rows if path not in paths]
        if not others:
            return
        same_folder = any(self.find(root, path) for path in paths)
        if not same_folder or any(status_of(root, path) for path in others):
            raise VideoloadError(
                f"{self._files[others[0]]} has rows of {len(others)} other videos, and {others[0]} "
                "is the first of them: write to another file, or delete that one"
            )

    def find(self, root: Path | str, path: str) -> ScanRow | None:
        """The row of a file that did not change since it was decoded."""
        row = self._rows.get(path)
        status = None if row is None else status_of(root, path)
        return row if row and (row.file_bytes, row.modified_ns) == status else None

    def add(self, row: ScanRow) -> None:
        """Write a row at once."""
        self._rows[row.path] = row
        file = self.file if row.good else self.bad
        with _writing(file), closing(continued(file)) as out:
            out.write(_lines([row], with_head=not out.tell()))

    def finish(self, rows: Iterable[ScanRow], catalog: Catalog) -> None:
        """Leave exactly these rows, in this order, and the classes if they are needed."""
        rows = list(rows)
        for file, part in (
            (self.file, [row for row in rows if row.good]),
            (self.bad, [row for row in rows if not row.good]),
        ):
            if not part:
                file.unlink(missing_ok=True)
                continue
            with _writing(file), new_file(file) as out:
                out.write(_lines(part, with_head=True))
        classes = classes_file(self.file)
        classes.unlink(missing_ok=True)  # of another scan
        if self.file.exists() and not self._tells_classes(catalog):
            self.classes = classes
            lines = [f"{number} {name}\n" for number, name in enumerate(catalog.classes, 1)]
            with _writing(self.classes), new_file(self.classes) as out:
                out.write("".join(lines).encode("utf-8", "surrogateescape"))

    def _tells_classes(self, catalog: Catalog) -> bool:
        """Whether ``Catalog.from_table`` finds the catalog's classes in the rows alone. It does not
        if a class has no video left, or if its name looks like a number or like several labels."""
        with suppress(CatalogError):
            found = Catalog.from_table(self.file, None, duplicates=True)
            return found.classes == catalog.classes and found.targets is None
        return False


def row_of(root: Path | str, path: str, label: str, facts: dict[str, Any]) -> ScanRow:
    """The row of a whole file."""
    size, modified = status_of(root, path) or (0, 0)
    return ScanRow(path, label, **facts, file_bytes=size, modified_ns=modified)


def _lines(rows: Iterable[ScanRow], *, with_head: bool) -> bytes:
    found = io.StringIO()
    writer = csv.DictWriter(found, _NAMES, lineterminator="\n")
    if with_head:
        writer.writeheader()
    for row in rows:
        cells = asdict(row).items()
        writer.writerow({k: escaped(v) if isinstance(v, str) else v for k, v in cells})
    return found.getvalue().encode("utf-8", "surrogateescape")


@contextmanager
def _writing(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise VideoloadError(f"cannot write {file}: {error.strerror}") from None


def _read(file: Path) -> Iterator[ScanRow]:
    """The rows of an earlier scan. The last line is dropped if the scan was stopped within it."""
    if not file.exists():
        return
    types: dict[str, Callable[[str], Any]] = {
        "int": int, "str": unescaped, "float": float,
        "int | None": lambda text: int(text) if text else None,
        "float | None": lambda text: float(text) if text else None,
    }  # fmt: skip
    with file.open(newline="", encoding="utf-8", errors="surrogateescape") as lines:
        reader = csv.DictReader(lines)
        try:
            is_other = list(reader.fieldnames or _NAMES) != _NAMES
        except UnicodeDecodeError:
            is_other = True
        if is_other:
            raise VideoloadError(f"{file} exists and is not the output of a scan; move it away")
        try:
            for line in reader:
                with suppress(TypeError, ValueError):
                    yield ScanRow(
                        **{f.name: types[str(f.type)](line[f.name]) for f in fields(ScanRow)}
                    )
        except (UnicodeDecodeError, csv.Error) as error:
            raise VideoloadError(f"{file}, line {reader.line_num}: {error}; move it away") from None

"""What a folder of videos holds: every file is decoded once, in parallel, for a row of facts.

Each decoder is a process of its own that is given one file at a time, because a file may hang or
crash it: it is then killed or replaced, and the file has its row like any other. Rows are written
as they come, so a scan that was stopped goes on where it was.
"""

from __future__ import annotations

import csv
import json
import os
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from itertools import islice
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from videoload.catalog.catalog import Catalog
from videoload.catalog.folders import SUFFIXES, kind, open_folder, tell_passed_over
from videoload.decoding.decoder import Decoder
from videoload.errors import CatalogError, StorageError, VideoError, VideoloadError
from videoload.index.complete_decode import Report
from videoload.index.index import VideoIndex
from videoload.processes.supervisor import start
from videoload.storage.roots import is_url

_BEAT_S = 1.0
_STALL_S = 20.0  # a decoder that shows no progress for so long hangs
# What people call the parts of a data set. As classes, they would label every video "train".
_PARTS = {"train", "training", "test", "testing", "val", "valid", "validation"}


@dataclass(frozen=True, slots=True)
class Row:
    """One file, or one segment of it as the catalog has it. ``frames`` is the file's true count (0:
    nothing can be decoded, ``damage`` says why), ``header_frames`` what its header claims,
    ``packets`` how many are coded, ``key_frames`` those that decoding can start at."""

    path: str
    label: str
    start: int | None = None
    end: int | None = None
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
    damage: str = ""
    file_bytes: int = 0
    modified_ns: int = 0

    @property
    def key_distance(self) -> float:
        """Frames from one key frame to the next, on average; 0 where none can be sought."""
        return self.frames / self.key_frames if self.key_frames else 0.0

    @property
    def good(self) -> bool:
        """Whether it can be decoded at all, and its segment begins within it."""
        return (self.start or 0) < self.frames


def load(source: Path | str, root: Path | str | None) -> Catalog:
    """The catalog of a folder, a CSV file or a UCF-101 split file. A folder without class
    sub-folders is taken as one class. Raises CatalogError."""
    if is_url(source):
        return Catalog.from_folder(source, root=root)
    source = Path(source)
    if source.is_dir():
        try:
            return Catalog.from_folder(source, root=root)
        except CatalogError:
            if root is not None and is_url(root):
                raise
            home, top = open_folder(source), open_folder(root or source)
            if not home.is_relative_to(top):
                raise
            files = sorted(p for p in home.rglob("*") if p.is_file() and p.name[0] != ".")
            loose = [
                path.relative_to(top).as_posix()
                for path in files
                if path.suffix.lower() in SUFFIXES
            ]
            if not loose:
                raise
            others = Counter(
                kind(path.name) for path in files if path.suffix.lower() not in SUFFIXES
            )
            tell_passed_over(source, others, SUFFIXES)
            return Catalog(loose, [0] * len(loose), [home.name], top)
    if source.suffix.lower() in SUFFIXES:
        raise VideoloadError(f"{source} is a video: give the folder that it is in")
    if source.suffix.lower() == ".csv":
        return Catalog.from_csv(source, root or source.parent)
    return Catalog.from_list(source, root or source.parent)


def parts(source: Path | str, catalog: Catalog) -> list[str]:
    """The parts of a data set (train, test) that a folder holds in the place of classes."""
    found = {name.lower() for name in catalog.classes}
    ours = Path(source).is_dir() and len(found) > 1 and found <= _PARTS
    return list(catalog.classes) if ours else []


class Journal:
    """The rows of a scan in a CSV file: one for each file, in the order in which they came, and
    those of the catalog once `finish` was called. What cannot be decoded goes to
    ``<name>.bad.csv``, so that ``Catalog.from_csv`` reads the rest; the classes, where they do not
    follow from that, to ``<name>.classes.txt``."""

    def __init__(self, file: Path) -> None:
        """Raises VideoloadError if the file is there and is something else."""
        if file.exists() and not file.is_file():
            raise VideoloadError(f"{file} is not a file that a scan could be written to")
        self.file = file
        self.bad = file.with_name(f"{file.stem}.bad.csv")
        self.classes: Path | None = None  # what has to be given to `Catalog.from_csv` as well
        self.rows = {
            row.path: replace(row, start=None, end=None)  # what is known of the whole file
            for part in (self.bad, self.file)
            for row in _read(part)
        }

    def check(self, root: Path | str, paths: Collection[str]) -> None:
        """Raises VideoloadError where `finish` would lose the rows of other videos than those that
        were here and are gone: of another folder, or of more of this one."""
        others = [path for path in self.rows if path not in paths]
        if not others:
            return
        same_folder = any(self.has(root, path) for path in paths)
        if not same_folder or any(_status(root, path) for path in others):
            raise VideoloadError(
                f"{self.file} has rows of {len(others)} other videos, and {others[0]} is the first"
                " of them: write to another file, or delete that one"
            )

    def has(self, root: Path | str, path: str) -> Row | None:
        """The row of a file that has not changed since."""
        row = self.rows.get(path)
        status = None if row is None else _status(root, path)
        return row if row and (row.file_bytes, row.modified_ns) == status else None

    def add(self, row: Row) -> None:
        """Write a row at once."""
        self.rows[row.path] = row
        file = self.file if row.good else self.bad
        new = not file.exists()
        try:
            with file.open("a", newline="", encoding="utf-8") as out:
                writer = csv.DictWriter(out, [field.name for field in fields(Row)])
                if new:
                    writer.writeheader()
                writer.writerow(asdict(row))
        except OSError as error:
            raise VideoloadError(f"cannot write {file}: {error.strerror}") from None

    def finish(self, rows: Iterable[Row]) -> None:
        """Leave exactly these rows, in this order."""
        rows = list(rows)
        for file, part in (
            (self.file, [row for row in rows if row.good]),
            (self.bad, [row for row in rows if not row.good]),
        ):
            if not part:
                file.unlink(missing_ok=True)
                continue
            fresh = file.with_name(f".{file.name}.new")
            try:
                with fresh.open("w", newline="", encoding="utf-8") as out:
                    writer = csv.DictWriter(out, [field.name for field in fields(Row)])
                    writer.writeheader()
                    writer.writerows(map(asdict, part))
                fresh.replace(file)
            except OSError as error:
                fresh.unlink(missing_ok=True)
                raise VideoloadError(f"cannot write {file}: {error.strerror}") from None

    def write_classes(self, catalog: Catalog) -> None:
        """Have ``Catalog.from_csv`` number the classes as the catalog does: with a file of them,
        where some have no video left, or names that a table alone would take for something else."""
        if not self.file.exists():
            return
        with suppress(CatalogError):
            found = Catalog.from_csv(self.file, None, duplicates=True)
            if found.classes == catalog.classes and found.targets is None:
                return
        self.classes = self.file.with_name(f"{self.file.stem}.classes.txt")
        lines = [f"{number} {name}\n" for number, name in enumerate(catalog.classes, 1)]
        try:
            self.classes.write_text("".join(lines), encoding="utf-8")
        except OSError as error:
            raise VideoloadError(f"cannot write {self.classes}: {error.strerror}") from None


def scan(
    catalog: Catalog,
    *,
    processes: int,
    journal: Journal | None = None,
    on_row: Callable[[Row], None] = lambda row: None,
    cache: str | None = None,
) -> list[Row]:
    """Decode every file of ``catalog`` once; a row for each, in the catalog's order. The journal
    gets a row for each segment.

    ``on_row`` is called with each row as it comes; ``cache`` is the folder of an `IndexCache`.
    Raises VideoloadError.
    """
    if catalog.root is None:
        raise VideoloadError("a scan needs the videos: give their root")
    labels: dict[str, str] = {}
    for video in catalog:
        labels.setdefault(video.path, catalog.classes[video.label])
    if journal is not None:
        if catalog.targets is not None:
            raise VideoloadError("videos with several labels: a scan writes one label for each")
        journal.check(catalog.root, labels)
    rows: dict[str, Row] = {}
    left = []
    for path in labels:
        known = None if journal is None else journal.has(catalog.root, path)
        if known is None:
            left.append(path)
        else:
            rows[path] = known
            on_row(known)
    for row in _decode_all(catalog.root, left, labels, processes, cache):
        rows[row.path] = row
        if journal is not None:
            journal.add(row)
        on_row(row)
    segments = [
        replace(
            rows[video.path], label=catalog.classes[video.label], start=video.start or None,
            end=video.end,
        )
        for video in catalog
    ]  # fmt: skip
    if journal is not None:
        # A stream takes a segment up to the end of its file, if it is said to end later.
        journal.finish(
            replace(row, end=min(row.end, row.frames)) if row.good and row.end else row
            for row in segments
        )
        journal.write_classes(catalog)
    outside = Counter(
        row.path
        for row in segments
        if rows[row.path].good and max(row.start or 0, (row.end or 0) - 1) >= row.frames
    )
    for path, count in outside.items():
        damage = f"{count} of its segments do not lie within its {rows[path].frames} frames"
        rows[path] = replace(
            rows[path], damage="; ".join(filter(None, (rows[path].damage, damage)))
        )
    return [rows[path] for path in labels]


class _Child:
    """A decoder process and the file that it is at."""

    def __init__(self, root: Path | str, path: str, cache: str | None) -> None:
        mine, theirs = socket.socketpair()
        self.pipe = Connection(mine.detach())
        self.process = start("videoload.commands.scan", theirs)
        self._tell(str(root))
        self._tell(cache or "")
        self.give(path)

    def give(self, path: str) -> None:
        """Give it the next file."""
        self.path = path
        self.heard = time.monotonic()
        self._tell(path)

    def end(self) -> None:
        """End it, whatever it is doing."""
        self.process.kill()
        self.process.wait()
        self.pipe.close()

    def _tell(self, text: str) -> None:
        with suppress(OSError):  # it has ended: `_hear` finds that out
            self.pipe.send_bytes(text.encode())


def _decode_all(
    root: Path | str, paths: list[str], labels: dict[str, str], processes: int, cache: str | None
) -> Iterator[Row]:
    waiting = iter(paths)
    children: list[_Child] = []
    try:
        children += [_Child(root, path, cache) for path in islice(waiting, processes)]
        while children:
            ready = wait([child.pipe for child in children], timeout=_BEAT_S)
            for child in list(children):
                got = _hear(child) if child.pipe in ready else _silence(child)
                if got is None:
                    continue
                facts, alive = got
                yield _row(root, child.path, labels[child.path], facts)
                following = next(waiting, None)
                if alive and following is not None:
                    child.give(following)
                    continue
                children.remove(child)
                child.end()
                if following is not None:
                    children.append(_Child(root, following, cache))
    finally:
        for child in children:
            child.end()


def _hear(child: _Child) -> tuple[dict[str, Any], bool] | None:
    """What a child reported of its file, and whether it is alive; None: it is still at it."""
    child.heard = time.monotonic()
    try:
        facts = json.loads(child.pipe.recv_bytes())
    except (EOFError, OSError):
        status = child.process.wait()
        return {"damage": f"its decoding ended the decoder (status {status})"}, False
    if facts is not None and "storage" in facts:  # no fault of the file's
        raise StorageError(facts["storage"])
    return None if facts is None else (facts, True)


def _silence(child: _Child) -> tuple[dict[str, Any], bool] | None:
    if time.monotonic() - child.heard < _STALL_S:
        return None
    return {"damage": f"its decoding hangs (no frame for {_STALL_S:.0f} s)"}, False


def _serve(pipe: Connection) -> None:
    """The decoder process: the root and then paths in, facts out; null in between is progress."""
    said = time.monotonic()

    def say(facts: dict[str, Any] | None) -> None:
        nonlocal said
        pipe.send_bytes(json.dumps(facts).encode())
        said = time.monotonic()

    def tick() -> None:
        if time.monotonic() - said > _BEAT_S:
            say(None)

    with suppress(EOFError, OSError):
        root, cache = pipe.recv_bytes().decode(), pipe.recv_bytes().decode()
        decoder = Decoder(root, cache=cache or None)
        while True:
            path = pipe.recv_bytes().decode()
            try:
                index, report = decoder.report(path, tick)
            except VideoError as error:
                say({"damage": error.reason})
                continue
            except StorageError as error:
                say({"storage": str(error)})
                continue
            say({
                "frames": index.info.frames, "width": index.info.width,
                "height": index.info.height, "fps": round(float(index.info.fps), 4),
                "container": report.container.split(",")[0], "codec": report.codec,
                "pixels": report.pixels, "header_frames": report.header_frames,
                "packets": report.packets, "key_frames": len(index.keyframes),
                "damage": "; ".join(_damage(index, report)),
            })  # fmt: skip


def _damage(index: VideoIndex, report: Report) -> Iterator[str]:
    """What is wrong with a file that can be decoded."""
    if report.refused:
        yield f"{report.refused} of {report.packets} packets cannot be decoded"
    if report.repaired:
        yield f"{report.repaired} frames were repaired"
    if index.info.frames != report.frames:
        yield f"{report.frames} of {index.info.frames} pictures come out"


def _status(root: Path | str, path: str) -> tuple[int, int] | None:
    """Bytes, and time of the last change; None where the file is not on this host."""
    if isinstance(root, Path):
        with suppress(OSError):
            status = os.stat(root / path)
            return status.st_size, status.st_mtime_ns
    return None


def _row(root: Path | str, path: str, label: str, facts: dict[str, Any]) -> Row:
    size, modified = _status(root, path) or (0, 0)
    return Row(path, label, **facts, file_bytes=size, modified_ns=modified)


def _read(file: Path) -> Iterator[Row]:
    """The rows of an earlier scan; a line that was cut off when that was stopped is dropped."""
    if not file.exists():
        return
    types: dict[str, Callable[[str], Any]] = {
        "int": int, "str": str, "float": float,
        "int | None": lambda text: int(text) if text else None,
    }  # fmt: skip
    with file.open(newline="", encoding="utf-8") as lines:
        reader = csv.DictReader(lines)
        names = [field.name for field in fields(Row)]
        try:
            is_other = reader.fieldnames is not None and list(reader.fieldnames) != names
        except UnicodeDecodeError:
            is_other = True
        if is_other:
            raise VideoloadError(f"{file} is there and is not the output of a scan; move it away")
        try:
            for line in reader:
                with suppress(TypeError, ValueError):
                    yield Row(**{f.name: types[str(f.type)](line[f.name]) for f in fields(Row)})
        except (UnicodeDecodeError, csv.Error) as error:
            raise VideoloadError(f"{file}, line {reader.line_num}: {error}; move it away") from None


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started this process ends it
    _serve(Connection(int(sys.argv[1])))

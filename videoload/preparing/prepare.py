"""Write a set of videos again, on all cores, into a new root.

A journal has a line for each file that is done. A run that was stopped or killed continues from
there. Hosts that share the folder write a shard each, with a journal of its own; a run without a
shard takes what all of them did. Lists and labels that are text files are copied.
"""

from __future__ import annotations

import os
import secrets
import shutil
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any

from videoload.catalog.catalog import Catalog
from videoload.catalog.joining import rewritten
from videoload.clips.choices import UnfitError
from videoload.clips.video_info import VideoInfo
from videoload.clips.windows import Segment, frames_in
from videoload.errors import VideoloadError
from videoload.journal import Entry, Journal
from videoload.preparing.encoding import Settings
from videoload.processes.inspector import Inspector, ask_all
from videoload.storage.files import status_of
from videoload.storage.paths import pieces_of

JOURNAL = "prepare.jsonl"
TABLE = "scan.csv"  # of the new files
_STALL_S = 60.0  # an encoder that shows no progress for so long hangs
_LISTS = (".txt", ".csv", ".json")
_LIST_BYTES = 256 << 20  # no list is larger


@dataclass
class Prepared:
    """What was written: so many files, with frames and bytes, of sources of so many bytes."""

    files: int = 0
    frames: int = 0
    bytes: int = 0
    source_bytes: int = 0
    bad: list[tuple[str, str]] = field(default_factory=list)  # path and why
    remarks: list[tuple[str, str]] = field(default_factory=list)  # path and what it lost
    lists: list[str] = field(default_factory=list)  # text files that were copied
    names: dict[str, str] = field(default_factory=dict)  # path -> its new one, if it has another
    timing: dict[str, VideoInfo] = field(default_factory=dict)  # of each source


def prepare(
    catalog: Catalog,
    out: Path,
    settings: Settings,
    *,
    processes: int,
    shard: tuple[int, int] = (0, 1),
    on_file: Callable[[], None] = lambda: None,
) -> Prepared:
    """Write the videos of ``catalog`` again, below ``out``: all, or every n-th one with ``shard``
    (i, n). ``on_file`` is called after each file. Raises VideoloadError."""
    root = catalog.root
    if not isinstance(root, Path):
        raise VideoloadError("the videos must be in a folder of this host: copy them to one")
    source, target = root.resolve(), out.resolve()
    if target == source or source in target.parents or target in source.parents:
        raise VideoloadError(f"{out} must lie outside of {root}, which is only read")
    paths = list(dict.fromkeys(video.path for video in catalog))
    done, (at, shards) = Prepared(names=new_names(paths)), shard
    own = paths[at::shards]
    if not any(out.glob("prepare*.jsonl")):
        _check_new(out, done.names, own)
    try:
        with ExitStack() as opened:
            files = [out / (JOURNAL if shards == 1 else f"prepare.{at}-of-{shards}.jsonl")]
            if shards == 1:
                files += out.glob("prepare.*-of-*.jsonl")
            journals = [opened.enter_context(closing(_begin(file, settings))) for file in files]
            _write_all(journals, own, root, out, settings, done, processes, on_file)
        taken = {out / new for new in done.names.values()} | {out / TABLE}
        done.lists = list(_copy_lists(root, out, taken))
    except OSError as error:
        raise VideoloadError(f"cannot write below {out}: {error.strerror or error}") from None
    return done


def _check_new(out: Path, names: dict[str, str], paths: Sequence[str]) -> None:
    """Raises VideoloadError if a file would be overwritten that no journal knows."""
    for path in paths:
        if os.path.lexists(file := out / names.get(path, path)):
            raise VideoloadError(f"{file} exists, and was not written by this: give another folder")


def _write_all(
    journals: Sequence[Journal],
    paths: Sequence[str],
    root: Path,
    out: Path,
    settings: Settings,
    done: Prepared,
    processes: int,
    on_file: Callable[[], None],
) -> None:
    """Write what no journal has, and note it in the first one. Raises OSError."""
    lines = {entry["path"]: entry for journal in reversed(journals) for entry in journal.entries}
    left = []
    for path in paths:
        line, new = lines.get(path), out / done.names.get(path, path)
        if line is not None and is_done(line, status_of(root, path), new):
            _add(done, path, line)
            on_file()
        else:
            left.append(path)
    begin = [str(root), str(out), {"how": asdict(settings), "names": done.names}]

    def start() -> Inspector:
        return Inspector(begin, silence_s=_STALL_S, module="videoload.preparing.encoding")

    for path, answer in ask_all(left, processes, start):
        line = {"path": path, "source": status_of(root, path), **answer}
        journals[0].append(line)
        _add(done, path, line)
        on_file()


def new_names(paths: Sequence[str]) -> dict[str, str]:
    """The names of new files, where they differ: ``run/a.mp4`` becomes ``run/a.avi``, or
    ``run/a.mp4.avi`` if there is another ``run/a``. A recording in pieces becomes one file, with
    the name of its first piece."""
    whole = (path for path in paths if len(pieces_of(path)) == 1)
    names, taken = {}, {path for path in whole if path.lower().endswith(".avi")}
    for path in paths:
        if path not in taken:
            first = pieces_of(path)[0]
            short = str(PurePosixPath(first).with_suffix(".avi"))
            names[path] = name = short if short not in taken else f"{first}.avi"
            taken.add(name)
    return names


def new_catalog(catalog: Catalog, out: Path, done: Prepared) -> Catalog:
    """The same videos, labels and segments below ``out``. Segments in seconds are given in frames,
    whose numbers hold: the times of new files may be others. Raises CatalogError if none is
    left."""
    bad = {path for path, _ in done.bad}
    left, starts, ends = [], [], []
    for row, video in enumerate(catalog):
        if video.path in bad:
            continue
        segment = Segment(video.start, video.end, video.start_s, video.end_s)
        start, end = video.start, video.end
        if segment.start_s is not None or segment.end_s is not None:
            try:
                start, end = frames_in(segment, done.timing[video.path])
            except UnfitError as error:
                done.bad.append((video.path, f"a row is left out: {error}"))
                continue
        left.append(row)
        starts.append(start)
        ends.append(-1 if end is None else end)
    kept = catalog.subset(left)
    return rewritten(kept, out.resolve(), done.names, starts, ends)


def _begin(file: Path, settings: Settings) -> Journal:
    """Raises VideoloadError if the folder was prepared in another way; OSError."""
    head = {"settings": asdict(settings)}
    journal = Journal(file, head)
    if journal.head != head:
        journal.close()
        before = ", ".join(
            f"{name} {value}" for name, value in journal.head.get("settings", {}).items()
        )
        raise VideoloadError(
            f"{file.parent} was prepared otherwise ({before or 'unknown'}): give the same, or "
            "another folder"
        )
    return journal


def is_done(line: Entry, source: tuple[int, int] | None, new: Path) -> bool:
    """Whether the journal's line of a file still holds: neither file changed since."""
    if source is None or line["source"] != list(source):
        return False
    status = status_of(new.parent, new.name)
    return "damage" in line or (status is not None and status[0] == line["bytes"])


def _add(done: Prepared, path: str, line: dict[str, Any]) -> None:
    if "damage" in line:
        done.bad.append((path, line["damage"]))
        return
    done.files += 1
    done.frames += line["frames"]
    done.bytes += line["bytes"]
    done.source_bytes += (line["source"] or [0])[0]
    times = array("d", line["times"]) if line.get("times") else None
    done.timing[path] = VideoInfo(line["frames"], Fraction(line["fps"]), 0, 0, times=times)
    if line["remark"]:
        done.remarks.append((path, line["remark"]))


def _copy_lists(root: Path, out: Path, taken: set[Path]) -> Iterator[str]:
    """Copy text files, which may be lists and labels, and yield their names. Those that are there
    stay as they are: somebody may have changed them."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            file = Path(folder) / name
            place = out / file.relative_to(root)
            if file.suffix.lower() not in _LISTS or name.startswith(".") or place in taken:
                continue
            if file.is_symlink() or file.stat().st_size > _LIST_BYTES:
                continue
            if not os.path.lexists(place):
                place.parent.mkdir(parents=True, exist_ok=True)
                new = place.with_name(f".{name}.{secrets.token_hex(4)}")
                shutil.copyfile(file, new)
                new.replace(place)  # so that one which is there is whole
            yield str(file.relative_to(root))

"""``videoload store``: the sets of a frame store, and how to delete them.

Trainings may use the store meanwhile: what is deleted under them is decoded again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from videoload.errors import VideoloadError, printable
from videoload.frame_store.sets import ABOUT, sets_in, videos_in
from videoload.stats.waiting import count
from videoload.storage.keep import own_folder

_DAY_S = 86_400.0
_UNITS = ((_DAY_S, "days"), (3600.0, "hours"), (60.0, "minutes"))
_COLUMNS = 72  # the width of the other columns, about


@dataclass(frozen=True, slots=True)
class StoredSet:
    """A set: the kept frames of the videos under one ``root``, all scaled in the same way.

    ``bytes`` are on the disk. ``last_used``: when a process last opened the set, in seconds since
    1970.
    """

    name: str
    root: str
    scaling: str
    software: str
    videos: int
    bytes: int
    last_used: float


def read_store(folder: Path) -> list[StoredSet]:
    """The sets of the frame store in ``folder``. The order does not change with their use. Raises
    VideoloadError if it is no frame store, or another user's."""
    if not folder.is_dir():
        raise VideoloadError(f"no such folder: {folder}")
    try:
        with own_folder(folder):
            found = [_read(path) for path in sets_in(folder)]
            is_store = any(found) or {path.name for path in folder.iterdir()} <= {"bytes"}
    except OSError as error:
        raise VideoloadError(f"{folder}: {error.strerror or error}") from None
    if not is_store:
        raise VideoloadError(f"{folder} is no frame store: no set of frames is in it")
    return sorted((each for each in found if each), key=lambda s: (s.root, s.scaling, s.name))


def choose(sets: Sequence[StoredSet], wanted: str) -> StoredSet:
    """The set with this number in the table, or whose name begins so. Raises VideoloadError."""
    if wanted.isdecimal() and 1 <= int(wanted) <= len(sets):
        return sets[int(wanted) - 1]
    found = [each for each in sets if wanted and each.name.startswith(wanted)]
    if not found:
        raise VideoloadError(f"no set has the number {wanted}, or a name that begins with it")
    if len(found) > 1:
        raise VideoloadError(
            f"the names of {len(found)} sets begin with {wanted}: write more of it"
        )
    return found[0]


def unused(sets: Sequence[StoredSet], days: float, now: float) -> list[StoredSet]:
    """The sets that no process has opened for so many days."""
    return [each for each in sets if now - each.last_used > days * _DAY_S]


def print_json(sets: Sequence[StoredSet]) -> None:
    """Print the sets for another program, as a list in JSON."""
    print(json.dumps([asdict(each) for each in sets], indent=1))


def print_sets(sets: Sequence[StoredSet]) -> None:
    """Print the sets as a table. In a pipe, no line is broken."""
    console = Console(emoji=False)
    if not sets:
        print("no frames are kept")
        return
    if not console.is_terminal:
        widest = max(len(printable(each.root)) + len(in_words(each)) for each in sets)
        console.width = max(console.width, widest + _COLUMNS)
    gigabytes = sum(each.bytes for each in sets) / 1e9
    title = f"{count(len(sets), 'set')}, {gigabytes:.2f} GB"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("name", no_wrap=True)
    for name in ("videos of", "scaled to"):
        table.add_column(name, overflow="fold")
    for name in ("videos", "GB", "last used"):
        table.add_column(name, justify="right", no_wrap=True)
    now = time.time()
    for number, each in enumerate(sets, 1):
        table.add_row(
            str(number), each.name[:8], Text(printable(each.root)), Text(in_words(each)),
            str(each.videos), f"{each.bytes / 1e9:.2f}", ago(now - each.last_used),
        )  # fmt: skip
    console.print(table)


def in_words(stored: StoredSet) -> str:
    """How the frames of a set are scaled."""
    words = []
    for field in stored.scaling.split():
        match field.partition("="):
            case "resize", _, "None":
                words.append("native size")
            case "resize", _, side:
                words.append(f"short side {side}")
            case "pixels", _, pixels:
                words += [] if pixels == "rgb24" else [pixels]
            case "rotate", _, rotate:
                words += [] if rotate == "True" else ["not rotated"]
            case "square_pixels", _, _:
                words.append("square pixels")
            case "crop", _, crop:
                words.append("whole frames" if crop == "none" else f"{crop} crop")
            case _:
                words.append(field.removeprefix("size="))
    return printable(", ".join(words))


def ago(seconds: float) -> str:
    """``3 days ago``."""
    for unit_s, unit in _UNITS:
        if seconds >= 2 * unit_s:
            return f"{seconds // unit_s:.0f} {unit} ago"
    return "just now"


def _read(folder: Path) -> StoredSet | None:
    """None: it has just been deleted."""
    videos = size = 0
    for file in videos_in(folder):
        size += 512 * file.st_blocks
        videos += 1
    try:
        about = json.loads((folder / ABOUT).read_text())
        root, scaling, software = (about[name] for name in ("root", "scaling", "software"))
        last_used = (folder / ABOUT).stat().st_mtime
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        root = scaling = software = "unknown"
        last_used = folder.stat().st_mtime
    return StoredSet(folder.name, str(root), str(scaling), str(software), videos, size, last_used)

"""The sets in the folder of a frame store.

5c1e...[.all]/set.json    what the set is, for people
5c1e...[.all]/3f/9a41...  one video
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

ABOUT = "set.json"
_NAME = re.compile(r"[0-9a-f]{32}(\.all)?")
_PART = "[0-9a-f][0-9a-f]"


def sets_in(folder: Path) -> Iterator[Path]:
    """The folders of all sets. Folders with another name, and links, are somebody else's."""
    for about in folder.glob(f"*/{ABOUT}"):
        if _NAME.fullmatch(about.parent.name) and not about.parent.is_symlink():
            yield about.parent


def videos_in(one: Path) -> Iterator[os.stat_result]:
    """The files of a set's videos. Raises OSError."""
    for file in _files(one):
        with suppress(FileNotFoundError):  # it has just been deleted
            yield file.stat(follow_symlinks=False)


def delete(one: Path, until: float = math.inf) -> bool:
    """Delete a set, or as much of it as can be deleted until this time of the monotonic clock: a
    disk may take minutes for it. The description goes last, so that a deletion which was stopped
    shows. Returns whether something was deleted. Raises OSError."""
    deleted = False
    for file in _files(one):
        if time.monotonic() >= until:
            return deleted
        Path(file).unlink(missing_ok=True)
        deleted = True
    for part in one.glob(_PART):
        with suppress(FileNotFoundError):
            part.rmdir()
    for about in sorted(one.glob("set.*"), key=lambda path: path.name == ABOUT):
        about.unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        one.rmdir()
    return True


def _files(one: Path) -> Iterator[os.DirEntry[str]]:
    for part in one.glob(_PART):
        with suppress(FileNotFoundError), os.scandir(part) as files:
            for file in files:
                if file.is_file(follow_symlinks=False):
                    yield file

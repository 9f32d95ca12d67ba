"""The sets in the folder of a frame store. What else is in that folder is never touched.

FOLDER/5c1e...[.all]/set.json    what the set is, for people
FOLDER/5c1e...[.all]/3f/9a41...  one video
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_NAME = re.compile(r"[0-9a-f]{32}(\.all)?")
_PART = "[0-9a-f][0-9a-f]"


def sets_in(folder: Path) -> Iterator[Path]:
    """The folders of all sets. Folders with another name, and links, are somebody else's."""
    for about in folder.glob("*/set.json"):
        if _NAME.fullmatch(about.parent.name) and not about.parent.is_symlink():
            yield about.parent


def videos_in(one: Path) -> Iterator[os.stat_result]:
    """The files of a set's videos. Raises OSError."""
    for part in one.glob(_PART):
        with suppress(FileNotFoundError), os.scandir(part) as files:
            for file in files:
                with suppress(FileNotFoundError):  # it has just been deleted
                    if file.is_file(follow_symlinks=False):
                        yield file.stat(follow_symlinks=False)


def delete(one: Path, until: float = math.inf) -> bool:
    """Delete a set, or as much of it as can be deleted until this time of the monotonic clock: a
    disk may take minutes for it. The description goes last, so that a deletion which was stopped
    shows. Returns whether something was deleted. Raises OSError."""
    deleted = False
    for part in one.glob(_PART):
        with suppress(FileNotFoundError), os.scandir(part) as files:
            for file in files:
                if time.monotonic() >= until:
                    return deleted
                if file.is_file(follow_symlinks=False):
                    Path(file).unlink(missing_ok=True)
                    deleted = True
        with suppress(FileNotFoundError):
            part.rmdir()
    for file_ in sorted(one.glob("set.*"), key=lambda path: path.name == "set.json"):
        file_.unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        one.rmdir()
    return True

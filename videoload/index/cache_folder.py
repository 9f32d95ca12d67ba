"""Where indexes are kept. A trainer asks, and `index_cache` would import FFmpeg."""

from __future__ import annotations

import errno
import logging
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Literal

_log = logging.getLogger(__name__)


def cache_folder(asked: str | os.PathLike[str] | Literal[False] | None) -> str | None:
    """The folder for a caller's argument; None: nothing is kept. The log names a folder that cannot
    be used, once.

    Args:
        asked: A folder; None: ``$VIDEOLOAD_CACHE`` (empty: none), else ``videoload`` in
            ``$XDG_CACHE_HOME`` or ``~/.cache``; False: none.
    """
    folder = None if asked is False else _named(asked)
    if folder is not None:
        _try(folder)
    return folder


def _named(asked: str | os.PathLike[str] | None) -> str | None:
    if asked is not None:
        return str(Path(asked).absolute())
    named = os.environ.get("VIDEOLOAD_CACHE")
    if named is not None:
        return str(Path(named).absolute()) if named else None
    home = os.environ.get("XDG_CACHE_HOME")
    with suppress(RuntimeError):  # no home
        return str((Path(home) if home else Path.home() / ".cache") / "videoload")
    return None


@cache
def _try(folder: str) -> None:
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        _log.warning(
            "what is found out of videos is not kept for later: %s: %s; let cache= (--cache, "
            "VIDEOLOAD_CACHE) be a folder that can be written",
            folder, error.strerror,
        )  # fmt: skip

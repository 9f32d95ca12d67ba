"""Where indexes are kept. A trainer asks, and `index_cache` would import FFmpeg."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Literal


def cache_folder(asked: str | os.PathLike[str] | Literal[False] | None) -> str | None:
    """The folder for a caller's argument; None: nothing is kept.

    Args:
        asked: A folder; None: ``$VIDEOLOAD_CACHE`` (empty: none), else ``videoload`` in
            ``$XDG_CACHE_HOME`` or ``~/.cache``; False: none.
    """
    if asked is False:
        return None
    if asked is not None:
        return str(Path(asked).absolute())
    named = os.environ.get("VIDEOLOAD_CACHE")
    if named is not None:
        return str(Path(named).absolute()) if named else None
    cache = os.environ.get("XDG_CACHE_HOME")
    with suppress(RuntimeError):  # no home
        return str((Path(cache) if cache else Path.home() / ".cache") / "videoload")
    return None

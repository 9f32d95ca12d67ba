"""``videoload worker``: what it was given is checked before processes start that wait for it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from videoload.catalog.folders import holds_videos, open_root
from videoload.errors import VideoloadError
from videoload.host import cores
from videoload.logs import Log
from videoload.storage.cache_directories import CacheDirectories, cache_folder
from videoload.storage.daemon_pool import DaemonPool
from videoload.storage.roots import index_of, is_url
from videoload.storage.stores import check_extra
from videoload.wire.private_messages import WorkerSettings
from videoload.wire.sockets import check_dial
from videoload.worker.keep_running import keep_running

_log = Log(__name__)

_LOOK_S = 5.0  # for a look at the root


def serve(
    connect: Sequence[str],
    root: str,
    *,
    workers: int | None,
    keys: Path | None,
    insecure: bool,
    allow: Sequence[str],
    cache: Path | None,
    file_cache: tuple[Path | None, float | None],
    frame_store: tuple[Path | None, float | None],
    index: str | None,
    metrics_port: str | None,
    log_format: Literal["text", "json"],
) -> int:
    """Decode for the trainers at these addresses until SIGTERM (returns 0) or Ctrl-C (130).
    ``file_cache`` and ``frame_store``: a folder and its limit in GB. Raises VideoloadError."""
    for address in connect:
        check_dial(address, keys=keys, insecure=insecure)
    if is_url(root):
        check_extra(root)
    for module in allow:
        _check_module(module)
    folders = CacheDirectories.of(cache_folder(cache), *file_cache, *frame_store, index_of(index))
    settings = WorkerSettings(
        [*connect],
        root=_looked_at(root, folders),
        keys=None if keys is None else os.path.realpath(keys),
        insecure=insecure,
        transforms=[*allow],
        folders=folders,
        log_format=log_format,
    )
    return keep_running(workers or cores(), settings, metrics_port=metrics_port)


def _looked_at(root: str, folders: CacheDirectories) -> str:
    """Return the root as workers take it. A folder that does not respond is theirs to wait for:
    their trainers hear of that. Raises VideoloadError."""

    def look() -> Path | str:
        if not is_url(root) and not Path(root).is_dir():
            raise VideoloadError(f"--root {root}: no such folder")
        videos = open_root(root)
        folders.beside(videos)
        if isinstance(videos, Path) and not holds_videos(videos):
            _log.warning("no video lies below --root %s: is it the right one, and mounted?", root)
        return videos

    try:
        return str(DaemonPool("root", 1).start(look).result(_LOOK_S))
    except TimeoutError:
        _log.warning("--root %s is not responding; the workers wait for it", root)
        return str(Path(root).absolute())


def _check_module(name: str) -> None:
    try:
        found = find_spec(name)
    except Exception:  # its package may raise anything while it is imported
        found = None
    if found is None:
        raise VideoloadError(
            f"--allow {name}: there is no such module on this host; install it, or add its folder "
            "to PYTHONPATH"
        )

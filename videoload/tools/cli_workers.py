"""The commands of hosts that decode: flags -> calls."""

from __future__ import annotations

import logging
import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from videoload.arguments import MAX_PROCESSES
from videoload.errors import VideoloadError
from videoload.logs import Log, log_to_stderr
from videoload.native import REACHES, switch_off
from videoload.tools.help_page import SERVICE, STORAGE
from videoload.tools.verbosity import Verbose

if TYPE_CHECKING:
    from videoload.storage.cache_directories import CacheDirectories

_log = Log(__name__)

_LOOK_S = 5.0  # for a look at the root, before workers are started that wait for it

Connect = Annotated[
    list[str],
    typer.Option(
        metavar="tcp://HOST:PORT",
        help="The trainer. Repeat it for several trainers, or give a name with several addresses.",
    ),
]
Root = Annotated[
    str,
    typer.Option(
        metavar="DIR|URL",
        help="The videos: a folder, or a URL like s3://bucket/folder. The worker opens nothing "
        "outside it.",
    ),
]
Keys = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="CURVE keys of a worker, made by 'videoload keygen'."),
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Connect to other hosts without keys.")]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODULE",
        help="A Python module whose functions a trainer may use as transform. Repeat it "
        "for several modules.",
    ),
]


def _folder(what: str, otherwise: str) -> Any:
    return typer.Option(rich_help_panel=STORAGE, metavar="DIR", help=what, show_default=otherwise)


def _limit_of(option: str) -> Any:
    return typer.Option(
        rich_help_panel=STORAGE,
        metavar="GB",
        min=0,
        help=f"Limit of {option}.",
        show_default="a tenth of what is free",
    )


CacheFolder = Annotated[
    Path | None,
    _folder(
        "Folder that keeps the indexes of videos for later runs.",
        "$VIDEOLOAD_CACHE or ~/.cache/videoload",
    ),
]
Kept = Annotated[
    Path | None,
    _folder(
        "Folder on this host that keeps files from a URL, for later epochs and trainings.",
        "each epoch downloads them again",
    ),
]
KeptGb = Annotated[float | None, _limit_of("--file-cache")]
FrameStoreFolder = Annotated[
    Path | None,
    _folder(
        "Folder on this host that keeps scaled frames, so that no frame is decoded twice. Several "
        "trainings can share it.",
        "each epoch decodes them again",
    ),
]
FrameStoreGb = Annotated[float | None, _limit_of("--frame-store")]


DatasetIndex = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=STORAGE,
        metavar="FILE|URL",
        help="An index of the videos, written by 'videoload index'.",
        show_default="the one in the root",
    ),
]


def worker(
    connect: Connect,
    root: Root,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_PROCESSES,
            help="Worker processes. Each keeps a core busy.",
            show_default="one per core",
        ),
    ] = None,
    processes: Annotated[
        int | None, typer.Option(hidden=True, min=1, max=MAX_PROCESSES, help="As --workers.")
    ] = None,
    keys: Keys = None,
    insecure: Insecure = False,
    cache: CacheFolder = None,
    file_cache: Kept = None,
    file_cache_gb: KeptGb = None,
    frame_store: FrameStoreFolder = None,
    frame_store_gb: FrameStoreGb = None,
    index: DatasetIndex = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            rich_help_panel=SERVICE,
            metavar="NAME",
            help=f"Disable a setting of the process: {', '.join(REACHES)}. Repeat it for several.",
        ),
    ] = None,
    metrics_port: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SERVICE,
            metavar="[HOST:]PORT",
            help="Serve /metrics for Prometheus, /healthz and /readyz on this port of loopback, or "
            "of HOST (0.0.0.0: all addresses); port 0 takes a free one. Needs the extra [metrics].",
        ),
    ] = None,
    allow: Allow = None,
    log_format: Annotated[
        Literal["text", "json"],
        typer.Option(
            rich_help_panel=SERVICE,
            metavar="text|json",
            help="Log lines with time and level, or one JSON object a line.",
        ),
    ] = "text",
    verbose: Verbose = 0,
) -> None:
    """Decode for a trainer on this or another host, until stopped.

    It waits for the trainer, serves it, and then waits for the next one. SIGTERM or Ctrl-C ends it;
    it hands back unfinished clips.

    An environment variable can set each option: `VIDEOLOAD_` and the name in capitals, with spaces
    between several values. A flag on the command line takes precedence.
    """
    from videoload.host import cores
    from videoload.storage.cache_directories import CacheDirectories, cache_folder
    from videoload.storage.roots import index_of, is_url
    from videoload.storage.stores import check_extra
    from videoload.wire.private_messages import WorkerSettings
    from videoload.wire.sockets import check_dial
    from videoload.worker.keep_running import keep_running

    for address in connect:
        check_dial(address, keys=keys, insecure=insecure)
    if is_url(root):
        check_extra(root)
    for module in allow or []:
        _check_module(module)
    for name in without or []:
        if name not in REACHES:
            raise VideoloadError(f"--without {name}: not one of {', '.join(REACHES)}")
    folders = CacheDirectories.of(
        cache_folder(cache), file_cache, file_cache_gb, frame_store, frame_store_gb, index_of(index)
    )
    log_to_stderr("videoload worker", log_format, logging.INFO)
    videos = _looked_at(root, folders)
    settings = WorkerSettings(
        connect,
        root=videos,
        keys=None if keys is None else os.path.realpath(keys),
        insecure=insecure,
        transforms=allow or [],
        folders=folders,
        log_format=log_format,
    )
    switch_off(*(without or []))
    raise typer.Exit(
        keep_running(workers or processes or cores(), settings, metrics_port=metrics_port)
    )


def _looked_at(root: str, folders: CacheDirectories) -> str:
    """The root as workers take it. A folder that does not answer is theirs to wait for: their
    trainers hear of that. Raises VideoloadError."""
    from videoload.catalog.folders import holds_videos, open_root
    from videoload.storage.daemon_pool import DaemonPool
    from videoload.storage.roots import is_url

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
        _log.warning("--root %s does not answer; the workers wait for it", root)
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

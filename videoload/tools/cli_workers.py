"""The commands of hosts that decode: flags -> calls."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from videoload.arguments import MAX_PROCESSES
from videoload.errors import VideoloadError
from videoload.logs import log_to_stderr
from videoload.native import REACHES, switch_off
from videoload.tools.terminal import SERVICE, STORAGE, Verbose

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
    typer.Option(
        metavar="DIR",
        help="CURVE keys of a worker, created by 'videoload keygen'. Trainers that share workers "
        "need "
        "the keys of one keygen.",
    ),
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
        show_default="a tenth of the free space",
    )


CacheFolder = Annotated[
    Path | None,
    _folder(
        "Folder that caches the indexes of videos for later runs.",
        "$VIDEOLOAD_CACHE or ~/.cache/videoload",
    ),
]
Kept = Annotated[
    Path | None,
    _folder(
        "Folder on this host that caches files from a URL, for later epochs and runs.",
        "each epoch downloads them again",
    ),
]
KeptGb = Annotated[float | None, _limit_of("--file-cache")]
FrameStoreFolder = Annotated[
    Path | None,
    _folder(
        "Folder on this host that stores scaled frames, so that no frame is decoded twice. Several "
        "training runs can share it.",
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
            help="Worker processes. Each uses one core.",
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
    it returns unfinished clips.

    An environment variable can set each option: `VIDEOLOAD_` and the name in capitals, with spaces
    between several values. A flag on the command line takes precedence.
    """
    from videoload.worker.serving import serve

    for name in without or []:
        if name not in REACHES:
            raise VideoloadError(f"--without {name}: not one of {', '.join(REACHES)}")
    switch_off(*(without or []))
    log_to_stderr("videoload worker", log_format, logging.INFO)
    raise typer.Exit(
        serve(
            connect, root, workers=workers or processes, keys=keys, insecure=insecure,
            allow=allow or [], cache=cache, file_cache=(file_cache, file_cache_gb),
            frame_store=(frame_store, frame_store_gb), index=index, metrics_port=metrics_port,
            log_format=log_format,
        )
    )  # fmt: skip

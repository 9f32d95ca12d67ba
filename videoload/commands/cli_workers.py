"""The commands of hosts that decode: flags -> calls."""

from __future__ import annotations

import os
import signal
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from videoload.arguments import MAX_PROCESSES
from videoload.commands.verbosity import Verbose, say
from videoload.errors import VideoloadError
from videoload.native import REACHES

_LOOK_S = 0.5

Connect = Annotated[
    list[str],
    typer.Option(
        metavar="tcp://HOST:PORT",
        help="The trainer; more than once for several, or a name with several addresses.",
    ),
]
Root = Annotated[
    str,
    typer.Option(
        metavar="DIR|URL",
        help="The videos: a folder, or a URL like s3://bucket/folder; nothing outside of it is "
        "opened.",
    ),
]
Keys = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="CURVE keys of a worker, made by 'videoload keygen'."),
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Dial other hosts without keys.")]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODULE",
        help="A Python module whose functions a trainer may name as transform or load; more than "
        "once for several.",
    ),
]
CacheFolder = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Where the indexes of videos are kept for later runs.",
        show_default="$VIDEOLOAD_CACHE or ~/.cache/videoload",
    ),
]
Kept = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Keep files from below a URL here, on a disk of this host: later epochs and trainings "
        "read them there.",
        show_default="each epoch fetches anew",
    ),
]
KeptGb = Annotated[
    float | None,
    typer.Option(
        metavar="GB",
        min=0,
        help="Keep so much in --keep at most.",
        show_default="until a fifth of the disk is free",
    ),
]


def worker(
    connect: Connect,
    root: Root,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_PROCESSES,
            help="Worker processes; one keeps a core busy.",
            show_default="one per core",
        ),
    ] = None,
    keys: Keys = None,
    insecure: Insecure = False,
    cache: CacheFolder = None,
    keep: Kept = None,
    keep_gb: KeptGb = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A setting of the process to leave out: malloc, gathers, memory-limit, "
            "parent-death, ffmpeg-log, descriptors, background; more than once for several.",
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            help="Serve /metrics for Prometheus and /healthz here; 0 takes a free port. Needs the "
            "extra [metrics].",
        ),
    ] = None,
    allow: Allow = None,
    verbose: Verbose = 0,
) -> None:
    """Decode for a trainer, here or on another host, until stopped.

    Waits for a trainer that is not there yet, serves it, and waits for the next one. SIGTERM or
    Ctrl-C hands back what is being decoded and ends it.

    Each option may come from the environment as well: `VIDEOLOAD_` and its name in capitals,
    several values with spaces between them. A flag on the command line wins.
    """
    from videoload.catalog.folders import open_root
    from videoload.host import cores
    from videoload.index.cache_folder import cache_folder
    from videoload.processes.supervisor import keep_running
    from videoload.storage.keep import Keep
    from videoload.storage.roots import is_url
    from videoload.transport.messages import WorkerSettings
    from videoload.transport.sockets import check_dial
    from videoload.worker.worker import serve

    for address in connect:
        check_dial(address, keys=keys, insecure=insecure)
    if not is_url(root) and not Path(root).is_dir():
        raise VideoloadError(f"--root {root}: no such folder")
    for module in allow or []:
        _check_module(module)
    settings = WorkerSettings(
        connect,
        root=str(open_root(root)),
        keys=None if keys is None else os.path.realpath(keys),
        insecure=insecure,
        transforms=allow or [],
        without=_reaches(without or []),
        cache=cache_folder(cache),
        keep=Keep.of(keep, keep_gb),
    )
    count = processes or cores()
    if count == 1 and metrics_port is None:
        raise typer.Exit(serve(settings))
    raise typer.Exit(keep_running(count, settings, metrics_port=metrics_port))


def ray(
    connect: Connect,
    root: Root,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Worker processes.", show_default="one per CPU of the cluster"),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            envvar="RAY_ADDRESS",
            metavar="HOST:PORT",
            help="The cluster; $RAY_ADDRESS names it as well.",
            show_default="this host's",
        ),
    ] = None,
    keys: Keys = None,
    insecure: Insecure = False,
    cache: CacheFolder = None,
    keep: Kept = None,
    keep_gb: KeptGb = None,
    allow: Allow = None,
    verbose: Verbose = 0,
) -> None:
    """Decode for a trainer on a Ray cluster, until stopped.

    Each worker process is an actor with a CPU of its own. Ray spreads them over its nodes and
    starts them again elsewhere when a node goes. The nodes need videoload, and the videos at
    `--root`.
    """
    from videoload.index.cache_folder import cache_folder
    from videoload.processes.ray_fleet import Fleet, connected
    from videoload.storage.keep import Keep
    from videoload.storage.roots import is_url
    from videoload.transport.messages import WorkerSettings
    from videoload.transport.sockets import check_dial

    for address in connect:
        check_dial(address, keys=keys, insecure=insecure)
    if not is_url(root) and not Path(root).is_absolute():
        raise VideoloadError(f"--root {root}: a path on other hosts, so it must be absolute")
    settings = WorkerSettings(
        connect,
        root=root,
        keys=None if keys is None else str(keys),
        insecure=insecure,
        transforms=allow or [],
        cache=cache_folder(cache),
        keep=Keep.of(keep, keep_gb, elsewhere=True),
    )
    fleet = Fleet(connected(cluster), settings)
    stopped_by: list[int] = []
    stop = threading.Event()

    def end(number: int, _: object) -> None:
        stopped_by.append(number)
        stop.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    count, said = workers or max(1, fleet.cpus), -1
    try:
        fleet.scale(count)
        while not stop.wait(_LOOK_S):
            if (placed := fleet.placed) != said:
                waits = "" if placed == count else f"; the cluster has {fleet.cpus} CPUs"
                say(f"{placed} of {count} workers have a place{waits}")
                said = placed
    finally:
        fleet.close()
    raise typer.Exit(130 if stopped_by[0] == signal.SIGINT else 0)


def healthy(
    within: Annotated[
        float,
        typer.Option(min=1, metavar="S", help="A process that does nothing for so long hangs."),
    ] = 10.0,
    below: Annotated[
        int,
        typer.Option(metavar="PID", help="Look at this process and its descendants, not at all."),
    ] = 1,
    kill: Annotated[bool, typer.Option("--kill", help="Kill the processes that hang.")] = False,
    verbose: Verbose = 0,
) -> None:
    """Tell whether the worker processes of this container get on, for its health checks.

    Exit status 1 if one hangs, or if there is none. An idle worker is healthy.

    Kubernetes ends a container that is not healthy, Docker only marks it: there, with `--kill`, a
    lone process that hangs ends its container, which the restart policy starts again, and one of
    several is replaced.
    """
    from videoload.commands.healthy import hanging

    found = hanging(below, within)
    for pid in found:
        say(f"worker process {pid} has done nothing for {within:g} s")
        if kill:
            os.kill(pid, signal.SIGKILL)
    raise typer.Exit(1 if found else 0)


def _check_module(name: str) -> None:
    try:
        found = find_spec(name)
    except Exception:  # whatever the package that it is in does when it is imported
        found = None
    if found is None:
        raise VideoloadError(
            f"--allow {name}: there is no such module on this host; install it, or name its folder "
            "in PYTHONPATH"
        )


def _reaches(names: list[str]) -> list[str]:
    for name in names:
        if name not in REACHES:
            raise VideoloadError(f"--without {name}: not one of {', '.join(REACHES)}")
    return names

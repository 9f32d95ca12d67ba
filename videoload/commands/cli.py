"""The ``videoload`` command: flags -> calls.

Exit status: 0; 1 with one clear line for what the user can correct; 2 for wrong usage; 130 on
Ctrl-C.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from videoload import __version__
from videoload.errors import VideoloadError
from videoload.native import REACHES

app = typer.Typer(
    name="videoload",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # paragraphs of a docstring are filled, not broken as in the code
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Decodes AVI files into clip batches while the model trains.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"videoload {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    videos: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Your own videos, one folder per class (or train/ and test/ with such folders). "
            "Without it, a small set of moving shapes is made.",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Worker processes.", show_default="one per core")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs to train.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the videos, the order and the model.")] = 0,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the videos that are made, here.")
    ] = None,
) -> None:
    """The whole thing on this host, in under two minutes.

    Makes (or takes) AVI files, starts workers, trains a small Keras model on the stream, and shows
    what the waiting for data cost.
    """
    from videoload.commands import demo as show

    show.run(videos, workers=workers, epochs=epochs, seed=seed, keep=keep)


@app.command(context_settings={"auto_envvar_prefix": "VIDEOLOAD"})
def worker(
    connect: Annotated[
        list[str],
        typer.Option(
            metavar="tcp://HOST:PORT",
            help="The trainer; more than once for several, or a name with several addresses.",
        ),
    ],
    root: Annotated[
        str,
        typer.Option(
            metavar="DIR|URL",
            help="The videos: a folder, or a URL like s3://bucket/folder; nothing outside of it is "
            "opened.",
        ),
    ],
    processes: Annotated[
        int | None,
        typer.Option(
            min=1, help="Worker processes; one keeps a core busy.", show_default="one per core"
        ),
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="CURVE keys of a worker, made by 'videoload keygen'."),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Dial other hosts without keys.")
    ] = False,
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where the indexes of videos are kept for later runs.",
            show_default="$VIDEOLOAD_CACHE or ~/.cache/videoload",
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A setting of the process to leave out: malloc, gathers, memory-limit, "
            "parent-death, ffmpeg-log, descriptors; more than once for several.",
        ),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE",
            help="A Python module whose functions a trainer may name as transform or load; more "
            "than once for several.",
        ),
    ] = None,
) -> None:
    """Decode for a trainer, here or on another host, until stopped.

    Waits for a trainer that is not there yet, serves it, and waits for the next one. SIGTERM or
    Ctrl-C hands back what is being decoded and ends it.

    Each option may come from the environment as well: `VIDEOLOAD_` and its name in capitals,
    several values with spaces between them. A flag on the command line wins.
    """
    from videoload.decoding.cache_folder import cache_folder
    from videoload.native import cores
    from videoload.spec.catalog_files import open_root
    from videoload.spec.roots import is_url
    from videoload.transport.messages import WorkerSettings
    from videoload.transport.sockets import check_dial
    from videoload.worker.supervisor import keep_running
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
    )
    count = processes or cores()
    raise typer.Exit(serve(settings) if count == 1 else keep_running(count, settings))


@app.command()
def healthy(
    within: Annotated[
        float, typer.Option(metavar="S", help="A process that does nothing for so long hangs.")
    ] = 10.0,
    below: Annotated[
        int,
        typer.Option(metavar="PID", help="Look at this process and its descendants, not at all."),
    ] = 1,
    kill: Annotated[bool, typer.Option("--kill", help="Kill the processes that hang.")] = False,
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
        _say(f"worker process {pid} has done nothing for {within:g} s")
        if kill:
            os.kill(pid, signal.SIGKILL)
    raise typer.Exit(1 if found else 0)


@app.command()
def scan(
    videos: Annotated[
        str,
        typer.Argument(
            metavar="DIR|CATALOG",
            help="A folder (or the URL of one in a bucket), a CSV file or a UCF-101 split file.",
        ),
    ],
    root: Annotated[
        str | None,
        typer.Option(metavar="DIR|URL", help="What a catalog's paths are relative to."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV",
            help="Write what was found, for Catalog.from_csv. A scan that was stopped goes on "
            "where it was; files that cannot be decoded go to CSV's .bad.csv. A file with rows of "
            "other videos is left alone.",
        ),
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes that decode.", show_default="one per core")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with status 1 if a file is damaged.")
    ] = False,
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where the indexes of videos are kept for later runs.",
            show_default="$VIDEOLOAD_CACHE or ~/.cache/videoload",
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="List every file, not only those with something to tell.")
    ] = False,
) -> None:
    """Decode every file once and report what it holds.

    Codec, size, rate, the true number of frames against the header's, key frames, damage; and a
    summary of what to do about it. The indexes are kept for trainings on this host.
    """
    from videoload.commands import scan as scanning
    from videoload.commands.tables import scan_table, scan_verdict
    from videoload.decoding.cache_folder import cache_folder
    from videoload.native import cores
    from videoload.spec.roots import is_url

    source = videos if is_url(videos) else Path(videos)
    catalog = scanning.load(source, root if root is None or is_url(root) else Path(root))
    parts = scanning.parts(source, catalog)
    notice = (
        f"{', '.join(parts)} in {videos} are parts of a data set, not classes; for a catalog, scan "
        f"each: videoload scan {videos}/{parts[0]} --root {videos} --output {parts[0]}.csv"
        if parts
        else ""
    )
    if notice and output is not None:
        raise VideoloadError(notice)
    journal = None if output is None else scanning.Journal(output)
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=Console(stderr=True), transient=True,
    ) as progress:  # fmt: skip
        task = progress.add_task("decoding", total=len({video.path for video in catalog}))
        rows = scanning.scan(
            catalog,
            processes=processes or cores(),
            journal=journal,
            on_row=lambda row: progress.advance(task),
            cache=cache_folder(cache),
        )
    console = Console(emoji=False)
    console.print(scan_table(rows, every=every))
    console.print(scan_verdict(rows, output), highlight=False)
    if notice:
        console.print(notice, markup=False, highlight=False, soft_wrap=True)
    if strict and any(row.damage for row in rows):
        raise typer.Exit(1)


@app.command()
def bench(
    videos: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Your own AVI files. Without it, files like UCF-101's are made."
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each loader is timed.")] = 5,
) -> None:
    """Compare this loader with the usual ones, on the same clips.

    The limit is bare libav on the same cores. Loaders that are not installed are skipped by name;
    results and plots go to benchmark-results/. Many more options: `python -m benchmarks --help`.
    """
    source = Path(__file__).parents[2]
    if not (source / "benchmarks" / "loaders" / "limit.py").is_file():
        raise VideoloadError(
            "the benchmarks are in the source tree only: clone it, and there "
            "pip install -e '.[tensorflow,bench]'"
        )
    sys.path.insert(0, str(source))  # not any other package of that name
    from benchmarks.__main__ import main as compare

    options = ["--rounds", str(rounds)]
    if videos is not None:
        if not videos.is_dir():
            raise VideoloadError(f"no such folder: {videos}")
        options += ["--videos", str(videos)]
    raise typer.Exit(compare(options))


@app.command()
def keygen(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the keys go.")],
) -> None:
    """Make CURVE keys for a trainer and its workers."""
    from videoload.transport.keys import make_keys

    trainer, workers = make_keys(folder)
    print(f"for the trainer:  Client(listen=..., keys={str(trainer)!r})")
    print(f"for each worker:  videoload worker --keys {workers}   (copy this folder to its host)")


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


def main() -> None:
    """The console entry point."""
    logging.basicConfig(level=logging.WARNING, format="videoload: %(message)s")
    try:
        app()
    except VideoloadError as error:
        _say(f"videoload: {error}")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


def _say(line: str) -> None:
    Console(stderr=True, soft_wrap=True, highlight=False, emoji=False).print(line, markup=False)


if __name__ == "__main__":
    main()

"""The ``videoload`` command: flags -> calls.

Exit status: 0; 1 with one clear line for what the user can correct; 2 for wrong usage; 130 on
Ctrl-C.
"""

from __future__ import annotations

import logging
import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from videoload import __version__
from videoload.commands import cli_batches, cli_workers
from videoload.commands.cli_workers import CacheFolder
from videoload.commands.verbosity import Verbose, say
from videoload.errors import VideoloadError

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
    verbose: Verbose = 0,
) -> None:
    """The whole thing on this host, in under two minutes.

    Makes (or takes) AVI files, starts workers, trains a small Keras model on the stream, and shows
    what the waiting for data cost.
    """
    from videoload.commands import demo as show

    show.run(videos, workers=workers, epochs=epochs, seed=seed, keep=keep)


app.command(context_settings={"auto_envvar_prefix": "VIDEOLOAD"})(cli_workers.worker)
app.command()(cli_workers.ray)
app.command()(cli_workers.healthy)


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
    cache: CacheFolder = None,
    every: Annotated[
        bool, typer.Option("--all", help="List every file, not only those with something to tell.")
    ] = False,
    form: Annotated[
        Literal["table", "csv", "json"],
        typer.Option(
            "--format",
            metavar="table|csv|json",
            help="A table and what to do, for people; or a row for every file, for programs.",
        ),
    ] = "table",
    verbose: Verbose = 0,
) -> None:
    """Decode every file once and report what it holds.

    Codec, size, rate, the true number of frames against the header's, key frames, damage; and what
    that means for a training: hours of video, clips per second to expect, files that are dear to
    seek, classes out of balance, duplicates. The indexes are kept for trainings on this host.
    """
    from videoload.commands import scan as scanning
    from videoload.commands import tables
    from videoload.host import cores
    from videoload.index.cache_folder import cache_folder

    catalog = scanning.load(videos, root)
    parts = scanning.parts(videos, catalog)
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
        try:
            rows = scanning.scan(
                catalog,
                processes=processes or cores(),
                journal=journal,
                on_row=lambda row: progress.advance(task),
                cache=cache_folder(cache),
            )
        except KeyboardInterrupt:
            progress.stop()
            done = f"stopped after {progress.tasks[task].completed:.0f} files"
            known = f"they are in {output}" if output else "with --output, they would be kept"
            say(f"{done}: {known}, and the same command goes on with the others")
            raise
    if form == "table":
        # Of a bucket, no file is read a second time for what is told of them all.
        folder = catalog.root if isinstance(catalog.root, Path) else None
        tables.show_scan(rows, journal, folder, every=every)
        print(notice, end="\n" if notice else "")
    else:
        tables.write_rows(rows, form, sys.stdout)
    if strict and any(row.damage for row in rows):
        raise typer.Exit(1)


app.command()(cli_batches.preview)
app.command()(cli_batches.replay)


@app.command()
def top(
    trainer: Annotated[
        str, typer.Argument(metavar="tcp://HOST:PORT", help="Where the trainer listens.")
    ],
    keys: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="CURVE keys of a worker, where the trainer has keys."),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Dial another host without keys.")
    ] = False,
    every: Annotated[
        float, typer.Option(min=0.1, metavar="S", help="Seconds between two looks.")
    ] = 1.0,
    json: Annotated[bool, typer.Option("--json", help="One look, for programs.")] = False,
    verbose: Verbose = 0,
) -> None:
    """Watch a trainer: its streams, its workers, and who waits for whom.

    Only looks. Shares are of the last ten seconds. Without a terminal, one look is printed.
    """
    from videoload.commands.top import run

    run(trainer, keys=keys, insecure=insecure, every_s=every, json=json)


@app.command()
def bench(
    videos: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Your own AVI files. Without it, files like UCF-101's are made."
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each loader is timed.")] = 5,
    verbose: Verbose = 0,
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
    verbose: Verbose = 0,
) -> None:
    """Make CURVE keys for a trainer and its workers."""
    from videoload.transport.keys import make_keys

    trainer, workers = make_keys(folder)
    print(f"for the trainer:  Client(listen=..., keys={str(trainer)!r})")
    print(f"for each worker:  videoload worker --keys {workers}   (copy this folder to its host)")


def _abandon_output() -> None:
    """What cannot be written is not to be tried again at the interpreter's end."""
    try:
        if sys.stdout is not None:  # it may have been closed
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """Run the command that was given. What the user can mend is one line, and status 1."""
    logging.basicConfig(level=logging.WARNING, format="videoload: %(message)s")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # file names may be of any letters
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except VideoloadError as error:
        say(f"videoload: {error}")
        sys.exit(1)
    except OSError as error:  # a folder that may not be entered, a disk that is full
        where = "" if error.filename is None else f"{error.filename}: "
        say(f"videoload: {where}{error.strerror or error}")
        _abandon_output()
        sys.exit(1)
    except MemoryError as error:
        say(f"videoload: not enough memory: {error}")
        sys.exit(1)

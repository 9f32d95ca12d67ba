"""The ``videoload`` command: flags -> calls.

Exit status: 0; 1 with one line about what the user can correct; 2 for wrong usage; 130 on Ctrl-C.
"""

from __future__ import annotations

import logging
import os
import sys
from io import TextIOWrapper
from itertools import count
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from videoload import __version__
from videoload.errors import VideoloadError
from videoload.logs import log_to_stderr
from videoload.tools import cli_batches, cli_extract, cli_index, cli_workers
from videoload.tools.cli_batches import CatalogRoot, Source, TableColumns, per_core
from videoload.tools.cli_workers import CacheFolder
from videoload.tools.help_page import BEGIN, FILES, PLACES, RUNS, Command, Group
from videoload.tools.verbosity import Verbose, progress_bar, say

app = typer.Typer(
    name="videoload",
    cls=Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # fills the paragraphs of a docstring
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Turns video files into batches of clips while a model trains on them.",
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


@app.command(cls=Command, rich_help_panel=BEGIN)
def demo(
    videos: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Your own videos: one folder per class, or train/ and test/ with one folder per "
            "class. Without it, the demo generates a small set of moving shapes.",
        ),
    ] = None,
    workers: Annotated[int | None, per_core("Worker processes.")] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs to train.")] = 4,
    seed: Annotated[int, typer.Option(help="Seed of the videos, the order and the model.")] = 0,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the generated videos here.")
    ] = None,
    verbose: Verbose = 0,
) -> None:
    """Train a small model on this host, in under two minutes.

    Generates AVI files (or takes yours), starts workers, trains a Keras model on their clips, and
    shows how long it waited for data.
    """
    from videoload.tools import demo as show

    show.run(videos, workers=workers, epochs=epochs, seed=seed, output=output)


app.command(
    cls=Command,
    rich_help_panel=PLACES,
    context_settings={"auto_envvar_prefix": "VIDEOLOAD"},
)(cli_workers.worker)


@app.command(cls=Command, rich_help_panel=FILES)
def scan(
    videos: Source,
    root: CatalogRoot = None,
    table: TableColumns = "",
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV",
            help="Write the rows for Catalog.from_table. A stopped scan continues from them. Files "
            "that cannot be decoded go to NAME.bad.csv. "
            "NAME.csv.progress has what is done; a table that no scan wrote is not overwritten.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="HTML",
            help="Write an HTML report: histograms, sample frames of each class, and problems.",
        ),
    ] = None,
    workers: Annotated[int | None, per_core("Processes that decode.")] = None,
    chain: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX",
            help="Treat files whose groups match the same text as one recording: "
            "`(.*)/\\d+\\.avi`. There are no labels then.",
        ),
    ] = None,
    index: Annotated[
        bool,
        typer.Option(
            "--index",
            help="Also write the dataset index beside the videos, like 'videoload index'.",
        ),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with status 1 if a file is damaged.")
    ] = False,
    cache: CacheFolder = None,
    every: Annotated[
        bool, typer.Option("--all", help="List every file, not only those with problems.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print a row for every file, for programs.")
    ] = False,
    verbose: Verbose = 0,
) -> None:
    """Decode every file once and report what it contains.

    Shows codec, size, frame rate, the true number of frames, key frames and damage. Then it says
    what that means for a training: hours of video, the buckets that fit their lengths, files that
    are slow to seek in, classes out of balance, duplicates. Trainings on this host use the indexes
    that it makes.
    """
    from videoload.catalog import sources
    from videoload.host import cores
    from videoload.tools import advice
    from videoload.tools import scan as scanning
    from videoload.tools import scan_report as report
    from videoload.tools import scan_table as tables

    catalog = sources.load(videos, root, chain, table)
    if html is not None:
        report.check_place(html)
    known = "they are kept" if output else "with --output, they would be kept"
    with progress_bar(
        "decoding", len({video.path for video in catalog}), f"{known}, and "
    ) as advance:
        rows = scanning.scan(
            catalog,
            processes=workers or cores(),
            output=output,
            on_row=advance,
            cache=cache,
        )
    if index:
        cli_index.write(catalog, None, workers=workers, cache=cache)
    segments = scanning.segments_of(catalog, {row.path: row for row in rows})
    folder = catalog.root if isinstance(catalog.root, Path) else None  # no second download
    copies = advice.groups_of_copies(rows, folder) if folder and (html or not json) else []
    if html is not None:
        shown = count(1)
        with Console(stderr=True).status("pictures") as status:

            def tick() -> None:
                status.update(f"picture {next(shown)}")

            report.write(html, rows, segments, str(catalog.root), folder, copies, tick)
    if json:
        tables.print_rows(rows)
    else:
        tables.print_scan(rows, segments, output, folder, copies, every=every)
    if strict and any(row.damage for row in rows):
        raise typer.Exit(1)


app.command(cls=Command, rich_help_panel=FILES)(cli_index.index)
app.command(cls=Command, rich_help_panel=FILES)(cli_batches.preview)
app.command(cls=Command, rich_help_panel=RUNS)(cli_extract.extract)


@app.command(cls=Command, rich_help_panel=RUNS)
def top(
    page: Annotated[
        str,
        typer.Argument(
            metavar="http://HOST:PORT",
            help="The trainer's live page: the port is the metrics_port of its client.",
        ),
    ],
    every: Annotated[
        float, typer.Option(min=0.1, metavar="S", help="Seconds between two updates.")
    ] = 1.0,
    json: Annotated[bool, typer.Option("--json", help="Print one snapshot for programs.")] = False,
    verbose: Verbose = 0,
) -> None:
    """Show what a trainer and its workers do: streams, rates, and who waits for whom.

    It changes nothing. Shares are those of the last ten seconds. `q` ends it. In a pipe, it prints
    one snapshot.
    """
    from videoload.tools.top import run

    run(page, every_s=every, json=json)


@app.command(cls=Command, rich_help_panel=PLACES)
def keygen(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder for the keys.")],
    verbose: Verbose = 0,
) -> None:
    """Make CURVE keys for a trainer and its workers."""
    from videoload.wire.keys import make_keys

    trainer, workers = make_keys(folder)
    print(f"for the trainer:  Client(listen=..., keys={str(trainer)!r})")
    print(f"for each worker:  videoload worker --keys {workers}   (copy this folder to its host)")


def _abandon_output() -> None:
    """Drop what cannot be written, or the interpreter tries again at its end."""
    try:
        if sys.stdout is not None:  # it may be closed
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """Run the command. A mistake that the user can correct is one line and status 1."""
    log_to_stderr("videoload")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # file names may contain any letters
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except VideoloadError as error:
        if error.__cause__ is not None:  # a user's function may have raised it
            logging.getLogger(__name__).info("it began with", exc_info=error.__cause__)
        say(f"videoload: {error}")
        sys.exit(1)
    except OSError as error:  # no permission, a full disk
        where = "" if error.filename is None else f"{error.filename}: "
        say(f"videoload: {where}{error.strerror or error}")
        _abandon_output()
        sys.exit(1)
    except MemoryError as error:
        say(f"videoload: not enough memory: {error}")
        sys.exit(1)

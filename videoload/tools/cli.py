"""The ``videoload`` command: flags -> calls.

Exit status: 0; 1 with one line about what the user can correct; 2 for wrong usage; 130 on Ctrl-C.
"""

from __future__ import annotations

import logging
import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

from videoload import __version__
from videoload.errors import VideoloadError
from videoload.logs import log_to_stderr
from videoload.tools import cli_videos, cli_workers
from videoload.tools.cli_videos import per_core
from videoload.tools.terminal import BEGIN, FILES, PLACES, RUNS, Command, Group, Verbose, say

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
        Path | None, typer.Option(metavar="DIR", help="Folder for the generated videos.")
    ] = None,
    verbose: Verbose = 0,
) -> None:
    """Train a small model on this host, in two to four minutes.

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


app.command(cls=Command, rich_help_panel=FILES)(cli_videos.scan)
app.command(cls=Command, rich_help_panel=FILES)(cli_videos.index)
app.command(cls=Command, rich_help_panel=FILES)(cli_videos.preview)
app.command(cls=Command, rich_help_panel=RUNS)(cli_videos.extract)


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
    """Show the state of a trainer and its workers: streams, rates, and the bottleneck.

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
    """Create CURVE keys for a trainer and its workers."""
    from videoload.wire.keys import make_keys

    trainer, workers = make_keys(folder)
    print(f"for a new trainer:  Client(listen=..., keys={str(trainer)!r})")
    print(f"for its workers:    videoload worker --keys {workers}   (copied to their hosts)")


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

"""How commands look on a terminal: --help in 80 columns, lines for the user on stderr, a progress
bar, and the log with its option ``-v``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Annotated, Any

import typer
import typer.core
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from videoload.errors import printable

BEGIN, FILES, PLACES, RUNS = "Start here", "Files and frames", "Decode for trainers", "Training"
STORAGE, SERVICE = "Caches", "Running as a service"  # of options that few need


class Command(typer.core.TyperCommand):
    """A command with a short list of options."""

    def get_params(self, ctx: Any) -> Any:
        """Return the options and arguments, with --help."""
        return _short(super().get_params(ctx))


class Group(typer.core.TyperGroup):
    """All commands."""

    def get_params(self, ctx: Any) -> Any:
        """Return the options, with --help."""
        return _short(super().get_params(ctx))


def _short(params: list[Any]) -> list[Any]:
    """Format an option: a flag takes nothing, a number is N, and the text above the options names
    the variables."""
    for option in params:
        if option.param_type_name == "option":
            option.show_envvar = False
            if option.metavar is None:
                option.metavar = "" if option.is_flag else "N"
    return params


def tell(times: int) -> int:
    """Log from INFO on, or from DEBUG on if ``times`` is 2."""
    if times:
        level = logging.INFO if times == 1 else logging.DEBUG
        logging.getLogger("videoload").setLevel(level)
    return times


Verbose = Annotated[
    int,
    typer.Option(
        "-v", "--verbose", count=True, callback=tell, metavar="",
        help="Print a line on stderr for each event; -vv prints more.", show_default=False,
    ),
]  # fmt: skip


@contextmanager
def silent(*modules: ModuleType) -> Iterator[None]:
    """Log nothing of these modules: the demo lists bad videos below Keras's progress bar, and an
    error that stops it is printed once."""
    logs = [logging.getLogger(module.__name__) for module in modules]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)


def say(text: str) -> None:
    """Print lines on stderr, with control characters escaped."""
    console = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)
    console.print("\n".join(map(printable, text.split("\n"))), markup=False)


@contextmanager
def progress_bar(what: str, files: int, known: str = "") -> Iterator[Callable[[], None]]:
    """A bar, on a terminal: each call is a file that is done. A Ctrl-C prints how to resume."""
    columns = TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task("", total=files)
        try:
            yield lambda: progress.advance(task)
        except KeyboardInterrupt:
            progress.stop()
            done = progress.tasks[task].completed
            say(
                f"stopped after {done:.0f} files: {known}the same command continues with the others"
            )
            raise

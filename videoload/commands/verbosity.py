"""``-v`` of every command: how much of what happens is told, a line an event."""

from __future__ import annotations

import logging
from typing import Annotated

import typer
from rich.console import Console


def tell(times: int) -> int:
    """Log from INFO on, or with ``times`` of 2 from DEBUG on."""
    if times:
        level = logging.INFO if times == 1 else logging.DEBUG
        logging.getLogger("videoload").setLevel(level)
    return times


Verbose = Annotated[
    int,
    typer.Option(
        "-v", "--verbose", count=True, callback=tell, metavar="",
        help="Tell each event in a line on stderr; -vv tells more.", show_default=False,
    ),
]  # fmt: skip


def say(line: str) -> None:
    """A line on stderr, as it is."""
    Console(stderr=True, soft_wrap=True, highlight=False, emoji=False).print(line, markup=False)

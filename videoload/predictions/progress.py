"""A progress bar for a long run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(total: int, shown: bool) -> Iterator[Callable[[int], None]]:
    """A bar on stderr for as long as the ``with`` lasts: call it with how much of ``total`` is
    done."""
    if not shown:
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn

    with Progress(
        BarColumn(), TaskProgressColumn(), TimeRemainingColumn(),
        console=Console(stderr=True),
    ) as bar:  # fmt: skip
        task = bar.add_task("", total=total)
        yield lambda done: bar.update(task, completed=done)

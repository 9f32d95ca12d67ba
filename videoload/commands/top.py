"""``videoload top``: what a trainer and its workers do, live.

A trainer and its workers may run anywhere, so control characters in their names are escaped.
"""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from videoload.errors import TransportError, printable
from videoload.transport.messages import Snapshot, StreamLine, WorkerLine, as_json
from videoload.transport.watching import watch

_NARROW = 100  # columns; a narrower screen leaves out three columns
_AROUND = 16  # lines of a screen that are not workers
_STATES = {"decoding": "green", "idle": "dim", "silent": "red"}


def run(endpoint: str, *, keys: Path | None, insecure: bool, every_s: float, json: bool) -> None:
    """Show it until ``q`` or Ctrl-C, or once with ``json`` or without a terminal. Raises
    TransportError if the trainer does not answer at first."""
    snapshot = watch(endpoint, keys=keys, insecure=insecure)
    console = Console(emoji=False)
    if json:
        print(as_json(snapshot))
        return
    if not console.is_terminal:
        console.print(screen(snapshot, console.width))
        return
    answered, note = time.monotonic(), ""
    with _keyboard() as is_q, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            width, height = console.size
            shown = screen(snapshot, width, height)
            live.update(Group(shown, _text(note, "red")), refresh=True)
            if is_q(every_s):
                return
            try:
                snapshot = watch(endpoint, keys=keys, insecure=insecure)
                answered, note = time.monotonic(), ""
            except TransportError as error:
                note = f"{error}; {time.monotonic() - answered:.0f} s old"


@contextmanager
def _keyboard() -> Iterator[Callable[[float], bool]]:
    """A function that waits for some seconds, and returns whether ``q`` was pressed."""
    if not sys.stdin.isatty():
        yield _sleep
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal)  # Keys come at once and are not shown. Ctrl-C stays a signal.
        yield partial(pressed_q, terminal)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _sleep(wait_s: float) -> bool:
    time.sleep(wait_s)
    return False


def pressed_q(terminal: int, wait_s: float) -> bool:
    """Whether ``q`` is pressed within ``wait_s`` seconds. Other keys do nothing."""
    until = time.monotonic() + wait_s
    while select.select([terminal], [], [], max(0.0, until - time.monotonic()))[0]:
        keys = os.read(terminal, 64)
        if not keys or b"q" in keys.lower():  # The terminal is closed.
            return True
    return False


def screen(snapshot: Snapshot, width: int, height: int = 1000) -> RenderableType:
    """A snapshot for a terminal of this size."""
    wide = width >= _NARROW
    room = max(4, height - _AROUND)
    parts: list[RenderableType] = [_text(f"trainer {snapshot.trainer}", "bold")]
    for stream in snapshot.streams:
        parts += [Text(), *_stream(stream)]
    parts += [Text(), _workers(snapshot.workers[:room], wide=wide)]
    if more := snapshot.more + max(0, len(snapshot.workers) - room):
        parts.append(Text(f"and {more} more", "dim"))
    parts += _files(snapshot)
    return Group(*parts)


def _stream(line: StreamLine) -> list[Text]:
    epoch, batch = divmod(max(0, line.batch), max(1, line.batches_per_epoch))
    at = f"epoch {epoch + 1}, batch {batch + 1} of {line.batches_per_epoch}"
    facts = [
        "not begun" if line.batch < 0 else at,
        f"queue {line.ready} of {line.slots}",
        f"{line.clips_per_s:.0f} clips/s",
        f"waits {line.wait_share:.0%}",
    ]
    if line.kept_share:
        facts.append(f"{line.kept_share:.0%} from the frame store")
    if not line.readers:
        facts.append("nobody reads")
    if line.bad_videos:
        facts.append(f"{line.bad_videos} bad")
    return [
        Text.assemble((f"stream {line.stream}", "bold"), f"  {printable(line.clips)}"),
        Text(", ".join(facts)),
        _text(line.verdict, "cyan"),
    ]


def _workers(lines: list[WorkerLine], *, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("worker", overflow="fold", ratio=2 if wide else None)
    for name in ("state", "clips/s", "busy", *(("line", "clips") if wide else ())):
        table.add_column(name, justify="left" if name == "state" else "right", no_wrap=True)
    if wide:
        table.add_column("last error", overflow="ellipsis", no_wrap=True, ratio=3)
    for line in lines:
        cells: list[RenderableType] = [
            _text(line.name), _text(line.state, _STATES.get(line.state, "")),
            f"{line.clips_per_s:.0f}", f"{line.busy_share:.0%}",
        ]  # fmt: skip
        if wide:
            cells += [f"{line.wire_share:.0%}", str(line.clips), _text(line.last_error)]
        table.add_row(*cells)
    return table


def _files(snapshot: Snapshot) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for title, rows in (
        ("slowest files, ms a clip", [
            (f"{1000 * file.clip_s:.0f}", file.path)
            for stream in snapshot.streams for file in stream.slowest[:4]
        ]),
        ("bad videos", [
            (file.path, file.reason) for stream in snapshot.streams for file in stream.quarantine
        ]),
    ):  # fmt: skip
        if rows:
            table = Table(box=None, pad_edge=False, show_header=False)
            table.add_column(overflow="fold")
            table.add_column(overflow="fold")
            for row in rows[:8]:
                table.add_row(*map(_text, row))
            parts += [Text(), Text(title, "dim"), table]
    return parts


def _text(text: str, style: str = "") -> Text:
    return Text(printable(text), style)

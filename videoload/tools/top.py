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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.client import HTTPException
from operator import attrgetter
from urllib.parse import urlsplit, urlunsplit
from urllib.request import urlopen

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from videoload.engine.snapshots import as_json, unpacked
from videoload.engine.stats import ClientRecord, StreamRecord, WorkerStats
from videoload.errors import TransportError, printable

_NARROW = 100  # columns; a narrower screen leaves out three columns
_ANSWERS_S = 5.0
_MOST_BYTES = 64 << 20  # of an answer; those of a thousand workers have 2 MB
_AROUND = 16  # lines of a screen that are not workers
_STATES = {
    "decoding": "green", "idle": "dim", "failing": "red", "cannot read": "red", "silent": "red",
}  # fmt: skip


def run(page: str, *, every_s: float, json: bool) -> None:
    """Show it until ``q`` or Ctrl-C, or once with ``json`` or without a terminal. Raises
    TransportError if the page does not respond at first."""
    record = _record(page)
    console = Console(emoji=False)
    if json:
        print(as_json(record))
        return
    if not console.is_terminal:
        console.print(screen(record, console.width))
        return
    answered, note = time.monotonic(), ""
    with _keyboard() as is_q, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            width, height = console.size
            shown = screen(record, width, height)
            live.update(Group(shown, _text(note, "red")), refresh=True)
            if is_q(every_s):
                return
            try:
                record = _record(page)
                answered, note = time.monotonic(), ""
            except TransportError as error:
                note = f"{error}; {time.monotonic() - answered:.0f} s old"


def _record(page: str) -> ClientRecord:
    """Return the record of a live page. Raises TransportError."""
    parts = urlsplit(page)
    try:
        if parts.scheme not in ("http", "https"):
            raise ValueError("give http://HOST:PORT, with the port of Client(metrics_port=)")
        with urlopen(urlunsplit(parts._replace(path="/record")), timeout=_ANSWERS_S) as answer:
            body = answer.read(_MOST_BYTES + 1)
            if len(body) > _MOST_BYTES:
                raise ValueError(f"it answers with more than {_MOST_BYTES >> 20} MB")
            return unpacked(body)
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise TransportError(f"no trainer responds at {page}: {reason}") from None


@contextmanager
def _keyboard() -> Iterator[Callable[[float], bool]]:
    """A function that waits for some seconds, and returns whether ``q`` was pressed."""
    if not sys.stdin.isatty():
        yield _sleep
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal)  # Keys arrive at once and are not echoed. Ctrl-C stays a signal.
        yield partial(pressed_q, terminal)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _sleep(wait_s: float) -> bool:
    time.sleep(wait_s)
    return False


def pressed_q(terminal: int, wait_s: float) -> bool:
    """Return whether ``q`` is pressed within ``wait_s`` seconds. Other keys do nothing."""
    until = time.monotonic() + wait_s
    while select.select([terminal], [], [], max(0.0, until - time.monotonic()))[0]:
        keys = os.read(terminal, 64)
        if not keys or b"q" in keys.lower():  # The terminal is closed.
            return True
    return False


def screen(record: ClientRecord, width: int, height: int = 1000) -> RenderableType:
    """Return a record for a terminal of this size."""
    wide = width >= _NARROW
    room = max(4, height - _AROUND)
    parts: list[RenderableType] = [_text(f"trainer {record.trainer}", "bold")]
    for stream in record.streams:
        parts += [Text(), *_stream(stream)]
    parts += [Text(), _workers(record.workers[:room], wide=wide)]
    if more := record.more + max(0, len(record.workers) - room):
        parts.append(Text(f"and {more} more", "dim"))
    parts += _files(record)
    return Group(*parts)


def _stream(record: StreamRecord) -> list[Text]:
    epoch, batch = divmod(max(0, record.step), max(1, record.batches_per_epoch))
    at, stats = f"epoch {epoch + 1}, batch {batch + 1} of {record.batches_per_epoch}", record.stats
    facts = [
        "not begun" if record.step < 0 else at,
        f"queue {record.ready} of {record.slots}",
        f"{stats.clips_per_s:.0f} clips/s",
        f"waits {stats.wait_ratio:.0%}",
    ]
    if stats.frame_store_hit_ratio:
        facts.append(f"{stats.frame_store_hit_ratio:.0%} from the frame store")
    if not record.readers:
        facts.append("no reader")
    if record.bad:
        rows = f" ({record.bad_rows} rows)" if record.bad_rows > record.bad else ""
        facts.append(f"{record.bad} bad{rows}")
    return [
        Text.assemble((f"stream {record.stream}", "bold"), f"  {printable(record.what)}"),
        Text(", ".join(facts)),
        _text(stats.verdict, "cyan"),
    ]


def _workers(lines: Sequence[WorkerStats], *, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("worker", overflow="fold", ratio=2 if wide else None)
    for name in ("state", "clips/s", "busy", *(("network", "clips") if wide else ())):
        table.add_column(name, justify="left" if name == "state" else "right", no_wrap=True)
    if wide:
        table.add_column("last error", overflow="ellipsis", no_wrap=True, ratio=3)
    for line in lines:
        cells: list[RenderableType] = [
            _text(line.name), _text(line.state, _STATES.get(line.state, "")),
            f"{line.clips_per_s:.0f}", f"{line.busy_ratio:.0%}",
        ]  # fmt: skip
        if wide:
            cells += [f"{line.network_ratio:.0%}", str(line.clips), _text(line.last_error)]
        table.add_row(*cells)
    return table


def _files(record: ClientRecord) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for title, rows in (
        ("slowest files, ms a clip", [
            (f"{1000 * file.clip_s:.0f}", file.path)
            for file in sorted(
                (file for stream in record.streams for file in stream.stats.slowest_files),
                key=attrgetter("clip_s"), reverse=True,
            )
        ]),
        ("bad videos", [
            bad for stream in record.streams for bad in stream.stats.bad_videos
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

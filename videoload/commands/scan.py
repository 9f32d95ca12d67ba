"""Decode every file of a catalog once, in parallel, for a row of facts about each.

Each decoder is a process that gets one file at a time, because a file may hang or crash it. The
process is then killed and replaced, and the file has its row like any other. A journal writes rows
as they come, so a scan that was stopped continues from there.
"""

from __future__ import annotations

import json
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from videoload.catalog.catalog import Catalog
from videoload.commands.journal import Journal, Row, row_of
from videoload.decoding.decoder import Decoder
from videoload.errors import StorageError, VideoError, VideoloadError
from videoload.index.complete_decode import Report
from videoload.index.index import VideoIndex
from videoload.processes.supervisor import start

_BEAT_S = 1.0
_STALL_S = 20.0  # a decoder that shows no progress for so long hangs


def scan(
    catalog: Catalog,
    *,
    processes: int,
    journal: Journal | None = None,
    on_row: Callable[[Row], None] = lambda row: None,
    cache: str | None = None,
) -> list[Row]:
    """Decode every file of ``catalog`` once. Returns a row per file, in the catalog's order; the
    journal gets a row per segment.

    ``on_row`` is called with each row as it comes; ``cache`` is the folder of an `IndexCache`.
    Raises VideoloadError.
    """
    if catalog.root is None:
        raise VideoloadError("a scan needs the videos: give their root")
    labels: dict[str, str] = {}
    for video in catalog:
        labels.setdefault(video.path, catalog.classes[video.label])
    rows: dict[str, Row] = {}
    if journal is not None:
        if catalog.targets is not None:
            raise VideoloadError("videos with several labels: a scan writes one label for each")
        journal.check(catalog.root, labels)
        for path in labels:
            if (known := journal.find(catalog.root, path)) is not None:
                rows[path] = known
                on_row(known)
    left = [path for path in labels if path not in rows]
    for row in _decode_all(catalog.root, left, labels, processes, cache):
        rows[row.path] = row
        if journal is not None:
            journal.add(row)
        on_row(row)
    segments = [
        replace(
            rows[video.path], label=catalog.classes[video.label], start=video.start or None,
            end=video.end,
        )
        for video in catalog
    ]  # fmt: skip
    if journal is not None:
        # A stream takes a segment up to the end of its file, even if its end lies behind that.
        journal.finish(
            (
                replace(row, end=min(row.end, row.frames)) if row.good and row.end else row
                for row in segments
            ),
            catalog,
        )
    outside = Counter(
        row.path
        for row in segments
        if rows[row.path].good and max(row.start or 0, (row.end or 0) - 1) >= row.frames
    )
    for path, count in outside.items():
        damage = f"{count} of its segments do not lie within its {rows[path].frames} frames"
        rows[path] = replace(
            rows[path], damage="; ".join(filter(None, (rows[path].damage, damage)))
        )
    return [rows[path] for path in labels]


class _Child:
    """A decoder process and the file that it is at."""

    def __init__(self, root: Path | str, path: str, cache: str | None) -> None:
        mine, theirs = socket.socketpair()
        self.pipe = Connection(mine.detach())
        self.process = start("videoload.commands.scan", theirs)
        self._tell(str(root))
        self._tell(cache or "")
        self.give(path)

    def give(self, path: str) -> None:
        """Give it the next file."""
        self.path = path
        self.heard = time.monotonic()
        self._tell(path)

    def end(self) -> None:
        """End it, whatever it is doing."""
        self.process.kill()
        self.process.wait()
        self.pipe.close()

    def _tell(self, text: str) -> None:
        with suppress(OSError):  # it has ended: `_hear` finds that out
            self.pipe.send_bytes(text.encode())


def _decode_all(
    root: Path | str, paths: list[str], labels: dict[str, str], processes: int, cache: str | None
) -> Iterator[Row]:
    waiting = iter(paths)
    children: list[_Child] = []
    try:
        children += [_Child(root, path, cache) for path in islice(waiting, processes)]
        while children:
            ready = wait([child.pipe for child in children], timeout=_BEAT_S)
            for child in list(children):
                got = _hear(child) if child.pipe in ready else _silence(child)
                if got is None:
                    continue
                facts, alive = got
                yield row_of(root, child.path, labels[child.path], facts)
                following = next(waiting, None)
                if alive and following is not None:
                    child.give(following)
                    continue
                children.remove(child)
                child.end()
                if following is not None:
                    children.append(_Child(root, following, cache))
    finally:
        for child in children:
            child.end()


def _hear(child: _Child) -> tuple[dict[str, Any], bool] | None:
    """What a child reported of its file, and whether it is alive; None: it is still at it."""
    child.heard = time.monotonic()
    try:
        facts = json.loads(child.pipe.recv_bytes())
    except (EOFError, OSError):
        status = child.process.wait()
        return {"damage": f"its decoding ended the decoder (status {status})"}, False
    if facts is not None and "storage" in facts:  # no fault of the file's
        raise StorageError(facts["storage"])
    return None if facts is None else (facts, True)


def _silence(child: _Child) -> tuple[dict[str, Any], bool] | None:
    if time.monotonic() - child.heard < _STALL_S:
        return None
    return {"damage": f"its decoding hangs (no frame for {_STALL_S:.0f} s)"}, False


def _serve(pipe: Connection) -> None:
    """The decoder process: the root and then paths in, facts out; null in between is progress."""
    said = time.monotonic()

    def say(facts: dict[str, Any] | None) -> None:
        nonlocal said
        pipe.send_bytes(json.dumps(facts).encode())
        said = time.monotonic()

    def tick() -> None:
        if time.monotonic() - said > _BEAT_S:
            say(None)

    with suppress(EOFError, OSError):
        root, cache = pipe.recv_bytes().decode(), pipe.recv_bytes().decode()
        decoder = Decoder(root, cache=cache or None)
        while True:
            path = pipe.recv_bytes().decode()
            try:
                index, report = decoder.report(path, tick)
            except VideoError as error:
                say({"damage": error.reason})
                continue
            except StorageError as error:
                say({"storage": str(error)})
                continue
            say({
                "frames": index.info.frames, "width": index.info.width,
                "height": index.info.height, "fps": round(float(index.info.fps), 4),
                "container": report.container.split(",")[0], "codec": report.codec,
                "pixels": report.pixels, "header_frames": report.header_frames,
                "packets": report.packets, "key_frames": len(index.keyframes),
                "damage": "; ".join(_damage(index, report)),
            })  # fmt: skip


def _damage(index: VideoIndex, report: Report) -> Iterator[str]:
    """What is wrong with a file that can be decoded."""
    if report.refused:
        yield f"{report.refused} of {report.packets} packets cannot be decoded"
    if report.repaired:
        yield f"{report.repaired} frames were repaired"
    if index.info.frames != report.frames:
        yield f"{report.frames} of {index.info.frames} pictures come out"


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started this process ends it
    _serve(Connection(int(sys.argv[1])))

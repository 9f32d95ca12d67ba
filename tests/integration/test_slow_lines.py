"""A slow line to a bucket is used fully (at night), and no byte crosses it twice."""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from pathlib import Path

import pytest

from benchmarks.object_server import ObjectServer
from tests.support.videos import make_avi
from tests.support.waiting import SECOND
from videoload import Catalog, Client, ClipSpec

pytest.importorskip("obstore", reason="needs videoload[remote]")

SPEC = ClipSpec(frames=8, stride=2, resize=64, size=(56, 56), sampling="random")
_ASKED = re.compile(rb"GET /(\S+) .*\r\nrange: *bytes=(\d+)-(\d+)", re.IGNORECASE | re.DOTALL)


def make(folder: Path, total: float) -> list[str]:
    """Make files of ``total`` bytes in all: four are shorter than the first request, one
    is longer."""
    kinds = [
        make_avi(folder / name, frames=frames, codec="mjpeg", pixels="yuvj420p", size=(240, 320))
        for name, frames in (("short", 60), ("long", 300))
    ]
    paths: list[str] = []
    while total > 0:
        kind = kinds[len(paths) % 5 == 4]
        paths.append(f"{len(paths)}.avi")
        os.link(kind, folder / paths[-1])
        total -= kind.stat().st_size
    return paths


def bytes_asked(server: ObjectServer) -> tuple[int, int]:
    """How many bytes were asked for, and how many different ones."""
    asked = defaultdict(list)
    for head in server.heads:
        found = _ASKED.match(head)
        assert found, head
        path, begin, last = found.groups()
        if not (file := server.folder / path.decode()).exists():
            continue  # the index of a set, which is looked for first
        size = file.stat().st_size
        asked[path].append((int(begin), min(int(last) + 1, size)))
    everything = different = 0
    for ranges in asked.values():
        at = 0
        for begin, end in sorted(ranges):
            everything += end - begin
            different += max(0, end - max(begin, at))
            at = max(at, end)
    return everything, different


def test_no_byte_crosses_a_slow_line_twice(tmp_path: Path) -> None:
    used_share(tmp_path, make(tmp_path, 2e6), 4e6)


def used_share(folder: Path, paths: list[str], rate: float) -> float:
    """The share of a line that an epoch of two workers used. No byte may go over it twice."""
    with ObjectServer(folder, 0.02) as server, Client(workers=2, cache=False) as client:
        client.wait_for_workers(2, 40 * SECOND)
        catalog = Catalog(paths, [0] * len(paths), ["any"], server.url)
        server.line_rate = rate
        began = time.monotonic()
        stream = client.stream(catalog, SPEC, 4, shuffle=True)
        assert sum(1 for _ in stream.batches(epochs=1)) == len(stream)
        share = server.line_bytes / rate / (time.monotonic() - began)
        assert stream.quarantine == []
    everything, different = bytes_asked(server)
    assert everything == different
    return share

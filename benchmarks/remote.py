"""Clips of files in a bucket, compared with the same files on this host: `python -m
benchmarks.remote`.

Files like UCF-101's behind a server of this host with a latency of 0, 5 and 50 ms a request, as a
web server and as S3, and one file of an hour.

    clips/s     of random 16-frame clips: a first epoch of unknown files, then later ones
    of local    share of a folder's rate, round by round: the median of the rounds' own shares
    KB a clip   that the server sent, and that as a share of the file
    kept        files stay on a disk of this host, in a new folder each round
    requests    a clip
    server ms   CPU of the server for each clip: it runs on the same cores, and slows the rate down;
                with --apart it has the last core to itself, and local is measured on the others too
    hour        share of an hour of video that was read for one clip, and how long that took

With more names than memory holds, each worker reads a file again only in the next epoch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.request import urlopen

import numpy as np

import videoload as vl
from benchmarks.figures import Row, cpu_s, parser, save, show
from benchmarks.long import make as make_long
from benchmarks.object_server import COUNTS
from benchmarks.videos import Recipe, make_video
from benchmarks.works import FOLDER
from videoload.clips.rows import Clip
from videoload.decoding.decoder import Decoder
from videoload.host import cores

SPEC = vl.ClipSpec(frames=16, stride=2, resize=128, size=(112, 112), sampling="random")
BATCH = 8
BUCKET = "clips"
_FILES = 32  # that differ
_HOUR = 90_000


class Server(NamedTuple):
    """A server process, and the roots that it serves."""

    pid: int
    http: str
    s3: str

    def counts(self) -> tuple[int, int]:
        """Requests and bytes so far."""
        with urlopen(f"{self.http.rpartition('/')[0]}{COUNTS}", timeout=10) as answer:
            requests, sent = json.load(answer)
        return requests, sent


@contextmanager
def served(folder: Path, latency_s: float, on: Iterable[int] = ()) -> Iterator[Server]:
    """A server of the files in ``folder``, and the environment that leads to it; pinned to the
    cores ``on`` if there are any."""
    command = [sys.executable, "-m", "benchmarks.object_server", str(folder), str(latency_s)]
    with subprocess.Popen(
        [*command, "--bucket", BUCKET], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        home = f"http://127.0.0.1:{int(process.stdout.readline())}"
        if on:
            os.sched_setaffinity(process.pid, on)
        os.environ |= {
            "AWS_ENDPOINT_URL": home, "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none",
        }  # fmt: skip
        try:
            yield Server(process.pid, f"{home}/{BUCKET}", f"s3://{BUCKET}")
        finally:
            process.kill()


def make(folder: Path, names: int) -> list[str]:
    """Make the files, unless they are there, and further names for them."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [f"v{number:04}.avi" for number in range(names)]
    for number, path in enumerate(paths):
        if (folder / path).exists():
            continue
        if number < _FILES:
            make_video(folder / path, Recipe("mpeg4"), seed=number)
        else:
            os.link(folder / paths[number % _FILES], folder / path)
    return paths


def rates(
    root: str | Path, paths: list[str], epochs: int, seed: int, keep: str | None = None
) -> tuple[float, float]:
    """Clips a second in a first epoch, and in later ones."""
    catalog = vl.Catalog(paths, root=root)
    with vl.Client(workers=cores(), cache=False, keep=keep) as client:
        client.wait_for_workers(cores())
        stream = client.stream(catalog, SPEC, BATCH, shuffle=True, seed=seed)
        marks = []
        for step, _ in enumerate(stream.batches(epochs=epochs)):
            if step == 0 or (step + 1) % len(stream) == 0:
                marks.append(time.perf_counter())
        if stream.quarantine:
            raise SystemExit(f"not all files were read: {stream.quarantine[:3]}")
    first = BATCH * (len(stream) - 1) / (marks[1] - marks[0])
    return first, BATCH * len(stream) * (epochs - 1) / (marks[-1] - marks[1])


def measure(
    folder: Path,
    paths: list[str],
    kind: str,
    latency_ms: float,
    rounds: int,
    epochs: int,
    *,
    keeps: bool,
    on: Iterable[int] = (),
) -> Row:
    """One line of the table."""
    local, remote = [], []
    clips = rounds * epochs * len(paths)
    with served(folder, latency_ms / 1000, on) as server:
        root = server.http if kind == "http" else server.s3
        (requests, sent), began = server.counts(), sum(cpu_s(server.pid).values())
        for seed in range(rounds):
            with TemporaryDirectory() as keep:
                remote.append(rates(root, paths, epochs, seed, keep if keeps else None))
            local.append(rates(folder, paths, epochs, seed))
        (more, all_sent), ended = server.counts(), sum(cpu_s(server.pid).values())
    file_bytes = sum((folder / path).stat().st_size for path in paths) / len(paths)
    shares = np.array(remote) / np.array(local)
    clip_bytes = (all_sent - sent) / clips
    return {
        "root": kind,
        "latency_ms": latency_ms,
        "kept": "yes" if keeps else "",
        "first": median(first for first, _ in remote),
        "later": median(later for _, later in remote),
        "local_first": median(first for first, _ in local),
        "local_later": median(later for _, later in local),
        "first_share": float(np.median(shares[:, 0])),
        "later_share": float(np.median(shares[:, 1])),
        "clip_kb": clip_bytes / 1000,
        "file_share": clip_bytes / file_bytes,
        "requests": (more - requests) / clips,
        "server_ms": 1000 * (ended - began) / clips,
    }


def hour(folder: Path, latency_ms: float) -> Row:
    """What one clip of an hour of video takes."""
    work = make_long("mpeg4", folder, _HOUR)
    path = Path(work.path(work.files[0]))
    out = np.empty((1, *SPEC.shape), np.uint8)
    with served(path.parent, latency_ms / 1000) as server:
        decoder = Decoder(server.http)
        before = server.counts()
        began = time.perf_counter()
        decoder.decode(path.name, SPEC, [Clip(0)], out)
        took = time.perf_counter() - began
        requests, sent = (b - a for a, b in zip(before, server.counts(), strict=True))
    size = path.stat().st_size
    return {
        "latency_ms": latency_ms, "file_mb": size / 1e6, "read_mb": sent / 1e6,
        "share": sent / size, "requests": requests, "seconds": took,
    }  # fmt: skip


def main() -> None:
    """Measure, print, write."""
    made = parser(__doc__)
    made.add_argument("--latency", type=float, action="append", help="ms; default 0, 5 and 50")
    made.add_argument("--root", choices=("http", "s3"), action="append", help="only this one")
    made.add_argument("--apart", action="store_true", help="the server has a core of its own")
    made.add_argument("--no-keep", dest="kept", action="store_const", const=[False])
    made.add_argument("--keep", dest="kept", action="store_const", const=[True])
    made.add_argument("--names", type=int, default=512)
    made.add_argument("--epochs", type=int, default=3)
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--folder", type=Path, default=FOLDER, help="where files are kept")
    given = made.parse_args()
    own = sorted(os.sched_getaffinity(0))
    if given.apart:
        if len(own) < 2:
            raise SystemExit("--apart needs two cores")
        os.sched_setaffinity(0, own[:-1])
    servers = own[-1:] if given.apart else []
    paths = make(given.folder / "remote", given.names)
    latencies = given.latency or [0.0, 5.0, 50.0]
    rows: list[dict[str, Any]] = [
        dict(
            measure(
                given.folder / "remote",
                paths,
                kind,
                ms,
                given.rounds,
                given.epochs,
                keeps=keeps,
                on=servers,
            )
        )
        for kind in given.root or ("http", "s3")
        for ms in latencies
        for keeps in given.kept or (False, True)
    ]
    where = "a server on its own core" if given.apart else "the server on the same cores"
    show(f"{given.names} files like UCF-101's, workers: {cores()}, {where}", rows, {
        "root": "{root}", "ms": "{latency_ms:g}", "kept": "{kept}",
        "clips/s": "{first:.0f}", "later": "{later:.0f}",
        "of local": "{first_share:.2f}", "of local ": "{later_share:.2f}",
        "KB a clip": "{clip_kb:.0f}", "of the file": "{file_share:.0%}",
        "requests": "{requests:.1f}", "server ms": "{server_ms:.2f}",
    })  # fmt: skip
    hours = [dict(hour(given.folder / "long", ms)) for ms in latencies]
    show("an hour of video, one clip", hours, {
        "ms": "{latency_ms:g}", "MB": "{file_mb:.0f}", "read": "{read_mb:.1f}",
        "share": "{share:.1%}", "requests": "{requests}", "s": "{seconds:.2f}",
    })  # fmt: skip
    save(given.json, "remote", [*rows, *hours], rounds=given.rounds, epochs=given.epochs)


if __name__ == "__main__":
    main()

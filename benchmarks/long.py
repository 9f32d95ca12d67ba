"""What an hour of video keeps a trainer waiting for: `python -m benchmarks.long`.

One file of 90 000 frames, 25 a second, that nobody has seen: a short sequence, encoded once, whose
packets are repeated with later time stamps. Its workers have started before the clock does.

    index     until a process knows the file, opening it included
    first     from a stream of random clips to its first batch of 8
    clips/s   from there on, for some seconds

Beside it, on as many cores, processes of bare libav that know all key frames beforehand and keep
the file open: from a common start until they have opened it and have a batch's clips between them,
and their rate for the same clips.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from fractions import Fraction
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, cast

import av
import numpy as np
from av.bitstream import BitStreamFilterContext
from av.packet import Packet

import videoload as vl
from benchmarks.figures import Row, parser, save, show
from benchmarks.loaders.bare import Plain
from benchmarks.videos import Recipe, make_video, new_packet
from benchmarks.work import Clip, File, Work
from benchmarks.works import FOLDER, WORKS
from videoload.host import cores
from videoload.index.index import find_index
from videoload.storage.files import Folder

FRAMES = 90_000
BATCH = 8
_FPS = 25  # of `make_video`
_CLIPS = 4096  # of an epoch
_WAIT_S = 60


class Recording(NamedTuple):
    """A long file: the sequence that it repeats, its container, and the clip to take from it."""

    recipe: Recipe
    suffix: str
    clip: Clip


def _h264(key_every: int, frames: int, suffix: str) -> Recording:
    recipe = Recipe("libx264", 1280, 720, frames, key_every, b_frames=2)
    return Recording(recipe, suffix, WORKS["hd"].clip)


RECORDINGS = {
    "mpeg4": Recording(Recipe("mpeg4", frames=360), ".avi", WORKS["ucf"].clip),
    "h264-48-avi": _h264(48, 480, ".avi"),
    "h264-250-avi": _h264(250, 500, ".avi"),
    "h264-48-mp4": _h264(48, 480, ".mp4"),
    "h264-250-mp4": _h264(250, 500, ".mp4"),
}


def make(name: str, folder: Path, frames: int) -> Work:
    """The file, made if it is not there; whole groups of pictures, ``frames`` at most."""
    recipe, suffix, clip = RECORDINGS[name]
    frames -= frames % recipe.key_every
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{frames}{suffix}"
    if not path.exists():
        # A container that keeps both time stamps.
        short = path.with_name(f"short{suffix if recipe.b_frames == 0 else '.mp4'}")
        make_video(short, recipe, seed=0)
        unfinished = path.with_name(f"unfinished{suffix}")
        _repeat(short, unfinished, frames)
        unfinished.rename(path)
        short.unlink()
    return Work(name, folder, (_look_at(path, recipe, frames),), clip, BATCH)


def _repeat(short: Path, path: Path, frames: int) -> None:
    with av.open(str(short)) as source, av.open(str(path), "w") as target:
        stream = source.streams.video[0]
        packets: list[Packet[Any]] = [packet for packet in source.demux(stream) if packet.size]
        ticks = cast(int, packets[1].dts) - cast(int, packets[0].dts)  # of a frame
        copy = target.add_stream_from_template(stream)
        copy.time_base = Fraction(1, _FPS)  # an AVI file fills what is in between with empty chunks
        if path.suffix == ".avi" and stream.codec.name == "h264":
            start_codes = BitStreamFilterContext("h264_mp4toannexb", stream, copy)
            packets = [new for packet in packets for new in start_codes.filter(packet)]
        for i in range(frames):
            turn, place = divmod(i, len(packets))
            packet = packets[place]
            new = new_packet(bytes(packet), copy, i, is_key=packet.is_keyframe)
            if path.suffix == ".mp4":
                delay = -cast(int, packets[0].dts) // ticks  # of the first picture shown
                new.dts = i - delay
                new.pts = cast(int, packet.pts) // ticks + turn * len(packets)
            target.mux(new)


def _look_at(path: Path, recipe: Recipe, frames: int) -> File:
    """Its groups are closed, so packet i after a key frame is frame i."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        packets = (packet for packet in container.demux(stream) if packet.size)
        keys = tuple((i, packet.dts or 0) for i, packet in enumerate(packets) if packet.is_keyframe)
    assert [i for i, _ in keys] == list(range(0, frames, recipe.key_every))
    size = recipe.width, recipe.height
    return File(path.name, recipe.codec, *size, frames, _FPS, False, keys)


def index_s(work: Work) -> float:
    """Seconds until a process knows the file."""
    file = Folder(work.root).resolve(work.files[0].path)
    began = time.perf_counter()
    index, opened = find_index(file, lambda: None)
    seconds = time.perf_counter() - began
    if opened is not None:
        opened.close()
    assert index is not None
    assert index.info.frames == work.files[0].frames
    assert index.info.fps == Fraction(_FPS)
    return seconds


class Timing(NamedTuple):
    """Seconds to the first batch, and clips a second from there on."""

    first_s: float
    clips_s: float


def ours(work: Work, processes: int, seed: int, seconds: float) -> tuple[Timing, list[int]]:
    """videoload; and where the clips began that came, in their order."""
    catalog = vl.Catalog([work.files[0].path], root=work.root)
    clip = work.clip.spec(sampling="random", clips_per_video=_CLIPS)
    with vl.Client(workers=processes, cache=False) as client:
        client.wait_for_workers(processes)
        began = time.perf_counter()
        stream = client.stream(catalog, clip, BATCH, shuffle=True, seed=seed)
        starts: list[int] = []
        came: list[float] = []
        for _, _, info in stream.batches(epochs=1, info=True):
            came.append(time.perf_counter())
            starts += info.frames[:, 0].tolist()
            if came[-1] - came[0] > seconds:
                break
    rate = BATCH * (len(came) - 1) / (came[-1] - came[0])
    return Timing(came[0] - began, rate), starts


def bare(work: Work, processes: int, starts: Sequence[int]) -> Timing:
    """Bare libav, each process with its share of the same clips."""
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(processes)
    pipes = []
    for number in range(processes):
        pipe, theirs = spawn.Pipe()
        shares = starts[:BATCH][number::processes], starts[BATCH:][number::processes]
        spawn.Process(target=_loop, args=(theirs, barrier, work, *shares), daemon=True).start()
        theirs.close()  # so that it is noticed if the child dies
        pipes.append(pipe)
    times: list[tuple[float, float]] = [pipe.recv() for pipe in pipes]
    rates = [len(starts[BATCH:][n::processes]) / rest_s for n, (_, rest_s) in enumerate(times)]
    return Timing(max(first_s for first_s, _ in times), sum(rates))


def _loop(
    pipe: Connection, barrier: Barrier, work: Work, first: Sequence[int], rest: Sequence[int]
) -> None:
    plain, file = Plain(work, tables=True), work.files[0]
    out = np.empty(work.clip.shape, np.uint8)
    barrier.wait(_WAIT_S)
    marks = [time.perf_counter()]
    with plain.open(file) as container:
        for part in (first, rest):
            for start in part:
                plain.read_open(container, file, start, out)
            marks.append(time.perf_counter())
    pipe.send((marks[1] - marks[0], marks[2] - marks[1]))


def measure(work: Work, rounds: int, processes: int, seconds: float) -> Row:
    """One line of the table: medians of rounds, both ways in each."""
    mine, theirs = [], []
    for seed in range(rounds):
        timing, starts = ours(work, processes, seed, seconds)
        mine.append(timing)
        theirs.append(bare(work, processes, starts))
    firsts, rates = (sorted(column) for column in zip(*mine, strict=True))
    return {
        "file": work.name,
        "frames": work.files[0].frames,
        "mb": Path(work.path(work.files[0])).stat().st_size / 1e6,
        "index_s": median(index_s(work) for _ in range(rounds)),
        "first_s": median(firsts),
        "first_most_s": firsts[-1],
        "clips_s": median(rates),
        "bare_first_s": median(timing.first_s for timing in theirs),
        "bare_clips_s": median(timing.clips_s for timing in theirs),
        "share": median(a.clips_s / b.clips_s for a, b in zip(mine, theirs, strict=True)),
    }


def main() -> None:
    """Measure, print, write."""
    made = parser(__doc__)
    made.add_argument("--file", choices=RECORDINGS, action="append", help="only this one")
    made.add_argument("--frames", type=int, default=FRAMES)
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument(
        "--seconds", type=float, default=8.0, help="seconds of random clips in each round"
    )
    made.add_argument("--processes", type=int, default=cores())
    made.add_argument("--folder", type=Path, default=FOLDER / "long", help="where files are kept")
    given = made.parse_args()
    rows = []
    for name in given.file or RECORDINGS:
        work = make(name, given.folder, given.frames)
        rows.append(measure(work, given.rounds, given.processes, given.seconds))
    columns = {
        "file": "{file}",
        "MB": "{mb:,.0f}",
        "index s": "{index_s:.2f}",
        "first s": "{first_s:.2f}",
        "at most": "{first_most_s:.2f}",
        "libav": "{bare_first_s:.2f}",
        "clips/s": "{clips_s:.1f}",
        "libav ": "{bare_clips_s:.1f}",
        "of libav": "{share:.0%}",
    }
    show(f"{given.frames:,} frames; {given.processes} processes", rows, columns)
    save(given.json, "long", rows, rounds=given.rounds, processes=given.processes)


if __name__ == "__main__":
    main()

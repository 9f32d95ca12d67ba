"""Checks whether the frames of broken files depend on the way that leads to them.

Each file is decoded completely by the canonical route, and then in random windows, by fresh
decoders and by used ones. All of that runs in two processes, whose fresh memory holds different
bytes. As a program, for a larger campaign than the tests have time for:

    python -m tests.support.routes --mutants 20000 --videos /path/to/avi/files
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO
from zlib import crc32

import av
from av.video.frame import VideoFrame

from tests.support.codecs import KINDS, make
from tests.support.mutants import mutant
from videoload import native
from videoload.index.complete_decode import decode_index
from videoload.index.index import find_index, open_video
from videoload.reading.containers import UnreadableError
from videoload.reading.frames import StaleIndexError, read_canonically, read_frames
from videoload.reading.video import Video
from videoload.storage.files import LocalFile

LEFT_OUT = (
    "dv",  # 144 000 bytes a frame
    "raw_pal8",  # without its palette, FFmpeg shows old memory
)
_WINDOWS = 5
_MAX_BYTES = 700_000  # of a file of others
_MAX_FRAMES = 4000
_MEMORY = ("85", "170")  # content of fresh memory in each of the two processes


def make_sources(folder: Path) -> None:
    """A small file of every kind. Made once: encoders do not always write the same bytes."""
    for kind in KINDS:
        if kind.name in LEFT_OUT:
            continue
        size = (64, 48) if kind.size in ((96, 64), (320, 240)) else kind.size
        with suppress(av.error.FFmpegError, ValueError):
            make(replace(kind, size=size, frames=min(kind.frames, 16)), folder)


def read_sources(*folders: Path) -> list[tuple[str, bytes]]:
    """Small files of these folders, by name."""
    paths = [path for folder in folders for path in sorted(folder.rglob("*.avi"))]
    small = [path for path in paths if path.stat().st_size <= _MAX_BYTES]
    return [(path.stem, path.read_bytes()) for path in small]


def write_mutant(folder: Path, source: tuple[str, bytes], seed: int) -> Path:
    """A broken copy of a source."""
    name, data = source
    path = folder / f"{seed:06d}_{name}.avi"
    path.write_bytes(mutant(data, seed))
    return path


def look_at(path: Path, seed: int) -> tuple[str, object, list[str]]:
    """The index of a file, all frames that come out of it, and the windows that differ from the
    canonical route."""
    file = LocalFile(str(path), path.stat())
    try:
        index, _ = find_index(file, _tick)
        known = "decoded" if index is None else "proven"
        index = index or decode_index(file, _tick)[0]
    except UnreadableError as error:
        return "refused", str(error), []
    if index.info.frames > _MAX_FRAMES:
        return known, index.info, []

    def read(wanted: list[int], opened: Video | None) -> tuple[object, Video | None]:
        got: dict[int, int] = {}

        def use(ordinal: int, frame: VideoFrame) -> None:
            got[ordinal] = _digest(frame)

        try:
            if opened is None:
                read_canonically(open_video(file, index), index.order, wanted, use, _tick)
            elif read_frames(opened, index.order, wanted, use, _tick):
                return got, opened
        except (UnreadableError, StaleIndexError) as error:
            return repr(error), None
        return got, None

    everything, _ = read(list(range(index.info.frames)), None)
    draw = random.Random(seed)
    differing = []
    again: Video | None = None
    for _ in range(_WINDOWS):
        length, stride = draw.randint(1, 6), draw.randint(1, 8)
        start = draw.randrange(index.info.frames)
        wanted = list(range(start, index.info.frames, stride))[:length]
        how = "fresh" if again is None else "used"
        got, again = read(wanted, again or open_video(file, index))
        if isinstance(everything, dict):
            if got != {ordinal: everything[ordinal] for ordinal in wanted}:
                differing.append(f"{how} {wanted}")
        elif got != everything:
            differing.append(f"{how} {wanted}: {everything}")
        if draw.random() < 0.3:
            again = None
    info = (index.info, index.order.starts.tolist())
    return known, (repr(info), crc32(repr(everything).encode())), differing


def _digest(frame: VideoFrame) -> int:
    picture = frame.to_ndarray(format="rgb24", threads=1)
    return crc32(picture.tobytes(), crc32(f"{frame.format.name} {picture.shape}".encode()))


def _tick() -> None:
    pass


def _look_at_all(out: Path, sources_of: list[tuple[str, bytes]], seeds: range) -> None:
    """A line for each mutant. A child decodes them; if it dies, another child continues."""
    left = iter(seeds)
    with out.open("w") as lines, TemporaryDirectory(dir=out.parent) as folder:
        while True:
            child = os.fork()
            if not child:
                try:
                    _write_lines(lines, Path(folder), sources_of, left)
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)  # the folder is the parent's
                os._exit(0)
            if not os.waitpid(child, 0)[1]:
                return
            last = json.loads(out.read_text().splitlines()[-1])[0]
            left = iter(range(last + 1, seeds.stop))


def _write_lines(
    lines: TextIO, folder: Path, sources_of: list[tuple[str, bytes]], seeds: Iterator[int]
) -> None:
    for seed in seeds:
        path = write_mutant(folder, sources_of[seed % len(sources_of)], seed)
        lines.write(json.dumps([seed, path.stem]) + "\n")
        lines.flush()
        lines.write(json.dumps([seed, path.stem, *look_at(path, seed)], default=str) + "\n")
        path.unlink()
    lines.flush()


def compare(
    mutants: int, first: int = 0, videos: Path | None = None
) -> tuple[Counter[str], list[str]]:
    """Compare this many mutants, starting at a seed. Returns how many were proven, decoded and
    refused, how many killed the decoder, and the mutants that differ between the ways."""
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        folder = Path(name)
        outs = [folder / memory for memory in _MEMORY]
        made = folder / "made"
        made.mkdir()
        make_sources(made)
        command = [sys.executable, "-m", "tests.support.routes", "--first", str(first)]
        command += ["--mutants", str(mutants), "--sources", str(made)]
        command += ["--videos", str(videos)] if videos else []
        children = [
            subprocess.Popen(
                [*command, "--out", str(out)], env={**os.environ, "MALLOC_PERTURB_": memory}
            )
            for out, memory in zip(outs, _MEMORY, strict=True)
        ]
        ended = [child.wait() for child in children]
        if any(ended):
            raise RuntimeError("a decoder's parent has failed")
        seen = [dict(_results(out)) for out in outs]
    counts = Counter(result[0] for result in seen[0].values())
    differing = []
    for mutant_name, (known, everything, windows) in seen[0].items():
        other = seen[1][mutant_name]
        differing += [f"{mutant_name} ({known}): {window}" for window in {*windows, *other[2]}]
        if (known, everything) != other[:2]:
            differing.append(f"{mutant_name} ({known}): not the same in another process")
    return counts, differing


def _results(out: Path) -> Iterator[tuple[str, tuple[str, object, list[str]]]]:
    for line in out.read_text().splitlines():
        _, name, *result = json.loads(line)
        known, everything, windows = result or ("killed", None, [])
        yield name, (known, everything, windows)


def _arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=2200)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--videos", type=Path, help="a folder whose files are broken as well")
    parser.add_argument("--sources", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    asked = _arguments()
    if asked.out is None:
        counts, differing = compare(asked.mutants, asked.first, asked.videos)
        print(dict(counts), *differing, f"{len(differing)} differ", sep="\n")
        sys.exit(bool(differing))
    native.silence_ffmpeg()
    folders = [asked.sources, *([asked.videos] if asked.videos else [])]
    _look_at_all(asked.out, read_sources(*folders), range(asked.first, asked.first + asked.mutants))

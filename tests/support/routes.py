"""Checks whether the frames of broken files depend on the way that leads to them.

Each file is decoded completely by the canonical route, and then in random windows, by fresh
decoders and by used ones. All of that runs in two processes, whose fresh memory holds different
bytes, and of which one reads from a web server. Each second file counts as a large one.
"""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock
from zlib import crc32

import av
from av.video.frame import VideoFrame

from tests.support.codecs import KINDS, Kind, make
from tests.support.mutants import flip_a_bit, mutant
from tests.support.object_server import ObjectServer
from videoload import native
from videoload.reading.complete_decode import decode_index
from videoload.reading.containers import BrokenFileError
from videoload.reading.frames import StaleIndexError, read_canonically, read_frames
from videoload.reading.index import find_index, open_video
from videoload.reading.video import VideoReader
from videoload.storage import content
from videoload.storage.roots import open_storage
from videoload.storage.video_file import VideoFile

LEFT_OUT = (
    "dv",  # 144 000 bytes a frame
    "raw_pal8",  # without its palette, FFmpeg shows old memory
)
_WINDOWS = 5
_MAX_FRAMES = 4000
_MEMORY = ("85", "170")  # content of fresh memory in each of the two processes


def every_kind() -> Iterator[Kind]:
    """Small."""
    for kind in KINDS:
        if kind.name not in LEFT_OUT:
            size = (64, 48) if kind.size in ((96, 64), (320, 240)) else kind.size
            yield replace(kind, size=size, frames=min(kind.frames, 16))


_X265 = "ctu=16:bframes=3:keyint=60:log-level=none:pools=none"
LONGER = [
    *(kind for kind in KINDS if kind.name in (
        "mpeg4_xvid", "mjpeg", "mpeg4_audio_first", "mkv_h264_named_avi", "mkv_named_avi",
        "mpeg4_packed", "h264_bframes", "h263p", "huffyuv_422", "ffv1", "raw_yuv420p")),
    Kind("mpeg4", "mpeg4", size=(320, 240), frames=60, options={"bf": "2", "g": "30"}),
    Kind("mpeg4_in_mp4", "mpeg4", container="mp4", size=(96, 64), options={"bf": "3", "g": "30"}),
    Kind("hevc", "libx265", container="mp4", size=(112, 80), frames=60,
         options={"preset": "superfast", "x265-params": _X265}),
    Kind("h264", "libx264", size=(128, 96), options={
        "preset": "fast", "x264-params": "keyint=40:slices=2:bframes=4:b-pyramid=normal"}),
]  # fmt: skip


def make_sources(folder: Path, kinds: Iterable[Kind]) -> None:
    """Made once: encoders do not always write the same bytes."""
    for kind in kinds:
        with suppress(av.error.FFmpegError, ValueError):
            make(kind, folder)


def read_sources(folder: Path) -> list[tuple[str, bytes]]:
    """These files, by name."""
    return [(path.stem, path.read_bytes()) for path in sorted(folder.glob("*.avi"))]


def look_at(file: VideoFile, seed: int) -> tuple[str, object, list[str]]:
    """The index of a file, all frames that come out of it, and the windows that differ from the
    canonical route."""
    try:
        index, _ = find_index(file, _tick)
        known = "decoded" if index is None else "proven"
        index = index or decode_index(file, _tick)[0]
    except BrokenFileError as error:
        return "refused", str(error), []
    if index.info.num_frames > _MAX_FRAMES:
        return known, index.info, []

    def read(wanted: list[int], opened: VideoReader | None) -> tuple[object, VideoReader | None]:
        got: dict[int, int] = {}

        def use(ordinal: int, frame: VideoFrame) -> None:
            got[ordinal] = _digest(frame)

        try:
            if opened is None:
                read_canonically(open_video(file, index), index.order, wanted, use, _tick)
            elif read_frames(opened, index.order, wanted, use, _tick):
                return got, opened
        except (BrokenFileError, StaleIndexError) as error:
            return repr(error), None
        return got, None

    every = range(index.info.num_frames)
    everything, _ = read([*every], None)
    draw = random.Random(seed)
    differing = []
    again: VideoReader | None = None
    windows = [[*every], [*every[::7]]]
    for _ in range(_WINDOWS):
        length, stride = draw.randint(1, 6), draw.randint(1, 8)
        windows.append([*every[draw.randrange(len(every)) :: stride][:length]])
    for wanted in windows:
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


def compare(mutants: int, kinds: Iterable[Kind], how: str) -> tuple[Counter[str], list[str]]:
    """Compare this many mutants of these kinds, ``how``: with one bit that is flipped, or broken in
    any way. Returns how many were proven, decoded and refused, and those that differ between the
    ways."""
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        make_sources(Path(folder), kinds)
        children = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.support.routes", folder, str(mutants), how, where],
                stdout=subprocess.PIPE, env={**os.environ, "MALLOC_PERTURB_": memory},
            )
            for memory, where in zip(_MEMORY, ("folder", "server"), strict=True)
        ]  # fmt: skip
        told = [child.communicate()[0].splitlines() for child in children]
    one, other = ({name: result for name, *result in map(json.loads, lines)} for lines in told)
    for child, lines in zip(children, told, strict=True):
        assert child.returncode == 0, f"a decoder crashed after {lines[-1:]}"
    differing = []
    for name, (known, everything, windows) in one.items():
        differing += [f"{name} ({known}): {window}" for window in (*windows, *other[name][2])]
        if [known, everything] != other[name][:2]:
            differing.append(f"{name} ({known}): not the same in another process")
    return Counter(known for known, *_ in one.values()), differing


def main(sources: Path, mutants: int, how: str, where: str) -> None:
    """Print a line for each mutant."""
    good = read_sources(sources)
    breaks = {"one bit": flip_a_bit, "in any way": mutant}[how]
    with TemporaryDirectory(dir=sources.parent) as folder, ObjectServer(Path(folder)) as server:
        storage = open_storage(server.url if where == "server" else folder)
        for seed in range(mutants):
            name, data = good[seed % len(good)]
            path = Path(folder, f"{seed:06d}_{name}.avi")
            path.write_bytes(breaks(data, seed))
            small = 0 if seed % 2 else 1 << 20
            with mock.patch(f"{content.__name__}.SMALL_BYTES", small):
                found = look_at(storage.resolve(path.name), seed)
            print(json.dumps([path.stem, *found], default=str), flush=True)
            path.unlink()


if __name__ == "__main__":
    native.silence_ffmpeg()
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])

"""One clip by the fewest libav calls: the limit for every loader.

Open, seek to the key frame before, decode, scale in the file's own 4:2:0 and convert at the small
size (two contexts that are kept, one thread), copy the crop. A table of key frames, which the limit
gets for free, says which frame is which. Other users go by time stamps and the mean rate, which are
wrong in AVI files with B-frames and where frames come at unequal distances.

The limit is one bare process per core, each in this loop, with one buffer of its own. It has no
queue, no batch and no trainer. A loader that hands out clips has to do all of this and more.
"""

from __future__ import annotations

import itertools
import multiprocessing
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier

import av
import numpy as np
import numpy.typing as npt
from av.container import InputContainer
from av.video.reformatter import Interpolation, VideoReformatter

from benchmarks import measure
from benchmarks.loaders import Batches
from benchmarks.measure import Span, Timing
from benchmarks.work import File, Item, Work

_BILINEAR = int(Interpolation.BILINEAR)  # looking up an enum at every call takes time
_WAIT_S = 600


class Plain:
    """The loop; one per process."""

    def __init__(self, work: Work, *, tables: bool) -> None:
        self._work = work
        self._tables = tables
        self._scalers: dict[tuple[int, int], tuple[VideoReformatter, VideoReformatter]] = {}

    def read(self, file: File, start: int, out: npt.NDArray[np.uint8]) -> None:
        """Write the clip that begins at frame ``start`` into ``out``, uint8 [T, H, W, 3]."""
        with self.open(file) as container:
            self.read_open(container, file, start, out)

    def open(self, file: File) -> InputContainer:
        """Open the file, for a decoder of one thread."""
        container = av.open(self._work.path(file))
        context = container.streams.video[0].codec_context
        context.thread_type = "NONE"
        context.thread_count = 1
        return container

    def read_open(
        self, container: InputContainer, file: File, start: int, out: npt.NDArray[np.uint8]
    ) -> None:
        """Read a clip from a file that is open."""
        clip = self._work.clip
        (width, height), (x, y), crop = clip.scaled(file), clip.corner(file), clip.crop
        scale, convert = self._scalers.setdefault(
            (file.width, file.height), (VideoReformatter(), VideoReformatter())
        )
        lines = out.reshape(clip.frames, crop, crop * 3)
        wanted, stride, taken, ordinal = start, clip.stride, 0, -1
        stream = container.streams.video[0]
        begins, rate = stream.start_time or 0, file.fps * float(stream.time_base or 1)
        key, at = file.key_before(start) if self._tables else (-1, begins + int(start / rate))
        container.seek(at, stream=stream)
        for frame in container.decode(stream):
            if key < 0:
                ordinal = round(((frame.pts or 0) - begins) * rate)
            elif ordinal < 0 and not frame.key_frame:
                continue
            else:
                ordinal = key if ordinal < 0 else ordinal + 1
            if ordinal < wanted:
                continue
            small = scale.reformat(
                frame, width, height,
                format=frame.format.name, interpolation=_BILINEAR, threads=1,
            )  # fmt: skip
            color = convert.reformat(small, format="rgb24", interpolation=_BILINEAR, threads=1)
            plane = color.planes[0]
            rows = np.frombuffer(memoryview(plane), np.uint8).reshape(height, plane.line_size)
            lines[taken] = rows[y : y + crop, x * 3 : (x + crop) * 3]
            taken, wanted = taken + 1, wanted + stride
            if taken == clip.frames:
                return
        raise EOFError(f"{file.path}: {taken} of {clip.frames} frames from {start}")


def batches(work: Work, items: Sequence[Item], processes: int, variant: str) -> Batches:
    """No loader at all: the training loop decodes for itself, one clip after the other. With the
    variant "tables", this checks the frames of the limit."""
    plain = Plain(work, tables=variant == "tables")
    for at in range(0, len(items), work.batch):
        part = items[at : at + work.batch]
        clips = np.empty((len(part), *work.clip.shape), np.uint8)
        for (_, file, start), clip in zip(part, clips, strict=True):
            plain.read(work.files[file], start, clip)
        yield np.array([item.number for item in part]), clips


def timed(work: Work, items: Sequence[Item], warm: int, span: Span, processes: int) -> Timing:
    """The sum of the processes' own rates, from a common start to each one's end. ``warm``: the
    items before the clock, of all processes."""
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(processes)
    began = time.perf_counter()
    pipes, children = [], []
    for number in range(processes):
        pipe, theirs = spawn.Pipe()
        mine = items[number::processes]
        given = (theirs, barrier, work, mine, max(1, warm // processes), span)
        child = spawn.Process(target=_loop, args=given, daemon=True)
        child.start()
        theirs.close()  # so that a dead child is noticed
        pipes.append(pipe)
        children.append(child)
    # A first batch would be complete when each process has made its share of one.
    first_s = max(pipe.recv() for pipe in pipes) - began
    results = [pipe.recv() for pipe in pipes]
    memory = measure.resident_bytes()  # the processes still wait
    for pipe, child in zip(pipes, children, strict=True):
        pipe.send(None)
        child.join()
    rate = sum(clips / wall_s for clips, wall_s, _ in results)
    clips = sum(clips for clips, *_ in results)
    return Timing(rate, first_s, sum(cpu_s for *_, cpu_s in results) / clips, memory)


def _loop(
    pipe: Connection, barrier: Barrier, work: Work, items: Sequence[Item], warm: int, span: Span
) -> None:
    plain = Plain(work, tables=True)
    clip = np.empty(work.clip.shape, np.uint8)
    share = -(-work.batch // barrier.parties)  # of a first batch
    turn = itertools.cycle(items)

    def read(done: Callable[[int], bool]) -> int:
        clips = 0
        while not done(clips):
            _, file, start = next(turn)
            plain.read(work.files[file], start, clip)
            clips += 1
        return clips

    read(lambda clips: clips >= share)
    pipe.send(time.perf_counter())
    warm_until = span.warm_until()
    read(lambda clips: clips >= warm - share or time.monotonic() > warm_until)
    barrier.wait(_WAIT_S)
    until = span.clock_until()
    began, cpu = time.perf_counter(), time.process_time()
    clips = read(lambda clips: clips > 0 and time.monotonic() > until)
    pipe.send((clips, time.perf_counter() - began, time.process_time() - cpu))
    pipe.recv()

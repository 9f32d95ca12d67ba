"""One clip by the fewest libav calls: the limit for every loader.

Open, seek to the key frame before, decode, scale in the file's own 4:2:0 and convert at the small
size (two contexts that are kept, one thread), copy the crop. A table of key frames, which the limit
gets for free, says which frame is which. Other users go by time stamps, which are wrong in AVI
files with B-frames.
"""

from __future__ import annotations

import av
import numpy as np
import numpy.typing as npt
from av.container import InputContainer
from av.video.reformatter import Interpolation, VideoReformatter

from benchmarks.work import File, Work

_BILINEAR = int(Interpolation.BILINEAR)  # looking up an enum at every call takes time


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
        key, dts = file.key_before(start) if self._tables else (-1, start)
        container.seek(dts, stream=stream)  # the time base of an AVI file is one frame
        for frame in container.decode(stream):
            if key < 0:
                ordinal = frame.pts or 0
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
            colour = convert.reformat(small, format="rgb24", interpolation=_BILINEAR, threads=1)
            plane = colour.planes[0]
            rows = np.frombuffer(memoryview(plane), np.uint8).reshape(height, plane.line_size)
            lines[taken] = rows[y : y + crop, x * 3 : (x + crop) * 3]
            taken, wanted = taken + 1, wanted + stride
            if taken == clip.frames:
                return
        raise EOFError(f"{file.path}: {taken} of {clip.frames} frames from {start}")

"""Clips whose colours are changed: their frames are converted to pixels together, at the end.

The colours change between scaling and conversion, in the small planes of a 4:2:0 frame. For one
frame after the other, the calls would take longer than the maths.
"""

from __future__ import annotations

from itertools import groupby
from typing import cast

import numpy as np
from av.video.frame import VideoFrame

from videoload.clips.clip_params import ClipParams
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.video_info import VideoInfo
from videoload.pixels.chains import Chains, FrameFormat
from videoload.pixels.kept_form import KeptForm
from videoload.pixels.scaling import REFUSED, Buffer, SourceFrame, cannot_be_scaled


class RecolouredClip:
    """Source frames -> pixels ``out`` [T, ...] of one clip, with the colours in ``params``."""

    def __init__(
        self, spec: ClipSpec, info: VideoInfo, params: ClipParams, chains: Chains, out: Buffer
    ) -> None:
        self._spec, self._info, self._params = spec, info, params
        self._chains, self._out = chains, out
        self._gathered: dict[FrameFormat, _Gathered] = {}  # several if they change in the file
        self._taken: dict[int, FrameFormat] = {}

    def take(self, source: SourceFrame, at: int) -> None:
        """Scale ``source``, which is frame ``at`` of the clip. Raises UnreadableError."""
        try:
            gathered = self._gathered.get(source.format)
            if gathered is None:
                form = KeptForm(self._spec, self._info, self._params, source.format)
                gathered = self._gathered[source.format] = _Gathered(form, len(self._out))
            scaled, _ = source.through(self._chains[gathered.way])
        except REFUSED as error:
            raise cannot_be_scaled(error) from None
        gathered.put(scaled, at)
        self._taken[at] = source.format

    def finish(self) -> None:
        """Make the pixels of all frames that were taken. Raises UnreadableError."""
        for format_, taken in groupby(sorted(self._taken), self._taken.__getitem__):
            gathered, run = self._gathered[format_], list(taken)
            part = slice(run[0], run[-1] + 1)
            planes = [plane[part] for plane in gathered.planes]
            gathered.form.convert(planes, self._chains, self._out[part], self._params.colours)


class _Gathered:
    """Scaled frames of one source format, with the gaps that their lines have in memory: so they
    are copied at once.

    Attributes:
        form: What makes pixels of them.
        way: The way to them.
        planes: [T, height, width, channels].
    """

    def __init__(self, form: KeptForm, frames: int) -> None:
        self.form, self.way = (
            form,
            form.way._replace(goes="to final" if form.way.scales_again else "to kept"),
        )
        self.planes: list[Buffer] = []
        self._frames = frames
        self._bytes: list[Buffer] = []

    def put(self, scaled: VideoFrame, at: int) -> None:
        """Copy a frame to its place."""
        if not self._bytes:
            channels = 3 if scaled.format.name == "rgb24" else 1
            for plane in scaled.planes:
                rows = np.empty((self._frames, plane.height, plane.line_size), np.uint8)
                self._bytes.append(rows.reshape(self._frames, -1))
                shape = (self._frames, plane.height, plane.width, channels)
                self.planes.append(rows[:, :, : plane.width * channels].reshape(shape))
        for to, plane in zip(self._bytes, scaled.planes, strict=True):
            to[at] = np.frombuffer(cast(memoryview, plane), np.uint8)

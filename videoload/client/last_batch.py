"""The last batch of a stream as small images, copied on request."""

from __future__ import annotations

import math
import time
from itertools import islice
from typing import Any, NamedTuple
from weakref import ref

import numpy as np
import numpy.typing as npt

from videoload.client.contact_sheet import check_drawable, marked, rows_of
from videoload.client.page import picture
from videoload.engine.open_streams import OpenStream
from videoload.errors import SpecError, named
from videoload.plan.batches import BatchWithInfo

_CLIPS, _FRAMES, _SIDE = 8, 4, 160  # that are shown, and the longer side of a frame at most
_EVERY_S = 1.0  # for any number of requests


class _Clip(NamedTuple):
    """uint8 ``pixels`` [H, W, 3]: some of a clip's frames, side by side."""

    pixels: npt.NDArray[np.uint8]
    words: dict[str, str]


class LastBatch:
    """Copies the next batch after each request, and no other."""

    def __init__(self, stream: OpenStream) -> None:
        self._stream, self._why_not = ref(stream), ""
        self._clips: list[_Clip] = []
        self._made: list[dict[str, Any]] = []
        self._again_at = -math.inf
        try:
            check_drawable(stream.spec)
        except SpecError as error:
            self._why_not = str(error)

    def shown(self) -> dict[str, Any]:
        """Return pictures of the batch that was handed over after the last call, for a page."""
        stream = self._stream()
        if stream is not None and not self._why_not and time.monotonic() >= self._again_at:
            self._again_at = time.monotonic() + _EVERY_S
            stream.look = self._take
        if self._clips:
            self._made = [{**words, "src": picture(pixels)} for pixels, words in self._clips]
            self._clips = []
        return {"clips": self._made, "why_not": self._why_not}

    def _take(self, batch: BatchWithInfo) -> None:
        """Copy the batch, some 100 kB, in the trainer's thread."""
        stream = self._stream()
        if stream is None:
            return
        clips = []
        for row in islice(rows_of(batch, stream.catalog, stream.spec), _CLIPS):
            every = max(1, max(row.pictures.shape[1:3]) // _SIDE)
            which = np.linspace(
                0, len(row.pictures) - 1, min(_FRAMES, len(row.pictures)), dtype=int
            )
            small = row.pictures[which, ::every, ::every].copy()
            frames = [
                marked(frame, row.marks_at(at), every)
                for frame, at in zip(small, which, strict=True)
            ]
            words = {"label": row.label, "path": named(row.path), "place": row.place}
            clips.append(_Clip(np.concatenate(frames, axis=1), words))
        self._clips = clips

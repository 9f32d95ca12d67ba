"""The one record of a row: of a catalog, and as a worker gets it with each clip of it."""

from __future__ import annotations

import sys
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np

from videoload.clips.choices import MAX_BOXES_BYTES
from videoload.clips.edges import pictures
from videoload.clips.moments import Ints
from videoload.clips.regions import Box
from videoload.clips.step_times import StepTimes

# Bounds of values from other hosts.
Natural = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
_Moment = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]  # of any table
MAX_PATHS = 1 << 14  # characters of all files of a row
_MAX_PLACES = 16 * MAX_PATHS // 2  # no path is shorter

# A row travels with each clip: what it has from its defaults is left out, and names are short.
_SHORT = {
    "path": "p", "start": "s", "end": "e", "start_s": "S", "end_s": "E", "at": "a", "at_s": "A",
    "boxes": "b", "steps": "t", "places": "P",
}  # fmt: skip


class Video(
    msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True,
    forbid_unknown_fields=True, rename=_SHORT,
):  # fmt: skip
    """One segment of one file, and its class.

    Attributes:
        path: Relative to the catalog's root, with ``/``.
        label: Index into the catalog's ``classes``. Default -1: none.
        start: First source frame of the segment, counted from 0 in display order. Default 0.
        end: Source frame after the segment's last. Default None: the end of the file.
        frames: True frame count of the whole file (not of the segment), as ``videoload scan``
            finds it. Default None: not known.
        start_s: When the segment starts, in seconds from the file's first frame, if it is given in
            seconds. Then ``start`` is 0 and ``end`` None. Default None.
        end_s: When it ends: its frames are those that a player begins to show before that, so
            segments that follow each other share no frame. Default None: the end of the file.
        at: The frame that matters, counted from 0. Default None: none.
        at_s: The moment that matters, in seconds from the file's first frame. Default None.
        box: (left, top, right, bottom) of what ``crop="box"`` shows, in pixels of the stored frame,
            as in ``frame[top:bottom, left:right]``. Default None.
        width: Of the frames as a player shows them, in pixels, as ``videoload scan`` finds it. It
            and ``height`` decide which of several sizes clips have. Default None: not known.
        height: The same. Default None.
        fingerprint: What each copy of the file has in common, as ``videoload scan`` finds it.
            Workers of other hosts must have such a copy, if the trainer has none. Default None.
        boxes: As workers get it: float32 [n, 4], the box of all frames, or of those from
            ``start`` on; NaN, or no area: a frame has none. Default b"".
        steps: As workers get it: when each step is shown. Default None.
        places: As workers get it: where the bytes of each file were seen when it was listed,
            if that is a part of another file: a hint, which decides nothing. Default b"".
    """

    path: Annotated[str, msgspec.Meta(max_length=MAX_PATHS)]
    label: int = -1
    start: Natural = 0
    end: Natural | None = None
    frames: Natural | None = None
    start_s: _Moment | None = None
    end_s: _Moment | None = None
    at: Natural | None = None
    at_s: _Moment | None = None
    box: Box | None = None
    width: Natural | None = None
    height: Natural | None = None
    fingerprint: Natural | None = None
    boxes: Annotated[bytes, msgspec.Meta(max_length=MAX_BOXES_BYTES)] = b""
    steps: StepTimes | None = None
    places: Annotated[bytes, msgspec.Meta(max_length=_MAX_PLACES)] = b""


def box_of(row: Video, frames: Ints) -> Box | None:
    """Return the box around the ``boxes`` of these frames of a row's video."""
    boxes = np.frombuffer(row.boxes, "<f4").reshape(-1, 4)
    if len(boxes) > 1:
        shown = pictures(frames)
        boxes = boxes[np.clip(shown[shown >= 0] - row.start, 0, len(boxes) - 1)]
    boxes = boxes[np.isfinite(boxes).all(1) & (boxes[:, :2] < boxes[:, 2:]).all(1)]
    if not len(boxes):
        return None
    (left, top), (right, bottom) = boxes[:, :2].min(0).tolist(), boxes[:, 2:].max(0).tolist()
    return left, top, right, bottom


# The columns, by the field of `Video`: what a caller's argument is called, and what is not given.
UNKNOWN, _NO_TIME = np.int64(-1), np.float64(np.nan)
COLUMNS: dict[str, tuple[str, Any]] = {
    "label": ("labels", UNKNOWN),
    "start": ("starts", np.int64(0)),
    "end": ("ends", UNKNOWN),
    "frames": ("frames", UNKNOWN),
    "at": ("at", UNKNOWN),
    "start_s": ("starts_s", _NO_TIME),
    "end_s": ("ends_s", _NO_TIME),
    "at_s": ("at_s", _NO_TIME),
    "box": ("box", np.full(4, np.nan, np.float32)),
    "width": ("width", UNKNOWN),
    "height": ("height", UNKNOWN),
    "fingerprint": ("fingerprints", UNKNOWN),
    "places": ("places", np.bytes_(b"")),  # without the zeros at their ends
}
# These make no other segment of a file. Workers get all the others, which decide its clips;
# places; and boxes where they are used.
OF_FILE = frozenset(("label", "frames", "width", "height", "fingerprint", "places"))


class Clip(NamedTuple):
    """Clip number ``clip`` of a row, and of several crops of it that number ``crop``, its
    parameters from ``seed``, which has 64 bits."""

    seed: Annotated[int, msgspec.Meta(ge=0)]
    clip: Natural = 0
    crop: Natural = 0
    row: Video = Video("")

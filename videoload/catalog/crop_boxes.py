"""The boxes that ``crop="box"`` cuts out: of a row, or of each frame of its file. Pure.

They are the catalog's column ``box``, or without one its targets that are `Boxes` of one box. The
frames of a clip are known where it is decoded, so the boxes of all frames of a row go there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from videoload.catalog.catalog import Catalog, table_of
from videoload.catalog.targets import PerFrame, Rows, arrays_of, leading_boxes
from videoload.clips.choices import MAX_BOXES_BYTES
from videoload.clips.rows import OF_FILE, Video
from videoload.clips.sample_spec import SampleSpec
from videoload.errors import SpecError, named

_UNTOLD = OF_FILE - {"places"} | {"box"}


def check_boxes(catalog: Catalog, videos: range) -> None:
    """Raise SpecError if these videos have no boxes, or a row has too many."""
    values = _boxes(catalog)
    if values is None:
        raise SpecError(
            'crop="box" needs boxes: give the catalog a column box (left, top, right, bottom), or '
            "vl.Boxes of one box as targets"
        )
    if isinstance(values, PerFrame):
        lengths = np.array([_of_row(values, catalog[video], video).nbytes for video in videos])
        if lengths.max() > MAX_BOXES_BYTES:
            raise SpecError(
                f"{named(catalog.paths[videos[int(lengths.argmax())]])}: "
                f'crop="box" takes rows of at most {MAX_BOXES_BYTES // 16} frames with a box each: '
                "cut it into rows with start= and end="
            )
    elif np.isnan(values[videos.start : videos.stop]).any(1).all():
        raise SpecError(f'crop="box" needs boxes, and none of these {len(videos)} rows has one')


def rows_for_workers(catalog: Catalog, spec: SampleSpec | None) -> Callable[[int], Video]:
    """Return the rows by their numbers, as workers get them: with what decides their clips. Their
    ``boxes`` are float32 [1, 4], or [n, 4] of the frames. Without a ``spec``, none are cut out."""
    values = _boxes(catalog) if spec is not None and spec.leader.crop == "box" else None

    table = table_of(catalog)

    def row(video: int) -> Video:
        found = table.video(video, _UNTOLD)
        if table.steps is not None:
            found = replace(found, steps=table.steps[video])
        if values is None:
            return found
        return replace(found, boxes=_of_row(values, found, video).tobytes())

    return row


def _of_row(values: Rows, row: Video, video: int) -> npt.NDArray[np.float32]:
    found: npt.NDArray[np.float32]
    if isinstance(values, PerFrame):
        found = arrays_of(values)[video][row.start : row.end]
    else:
        found = values[video]
    return found


def _boxes(catalog: Catalog) -> Rows | None:
    if "box" in (table := table_of(catalog)).columns:
        return table.column("box")
    found = leading_boxes(catalog.targets)
    if len(found) > 1:
        raise SpecError(
            f'{len(found)} targets are boxes: give the catalog a column box, which crop="box" takes'
        )
    return found[0] if found else None

"""A row's box for ``crop="box"``: from the catalog's column, or from targets that are boxes."""

from typing import Any

import numpy as np
import pytest

from videoload import Boxes, Catalog, ClipSpec, Points, SpecError, mix
from videoload.catalog.crop_boxes import rows_for_workers
from videoload.clips.choices import MAX_BOXES_BYTES
from videoload.clips.sample_spec import one_clip
from videoload.plan.identity import Identity
from videoload.plan.options import checked_options
from videoload.plan.plan import Plan
from videoload.plan.windows import warnings_of

CLIP = ClipSpec(frames=2, size=(8, 8), crop="box")
OPTIONS = checked_options(2, drop_remainder=False)
BOX = [[1, 2, 3, 4], [5, 6, 7, 8]]
EACH = [np.arange(36).reshape(9, 4), np.arange(36, 72).reshape(9, 4)]


def catalog(**columns: Any) -> Catalog:
    return Catalog(["a.avi", "b.avi"], **columns)


def boxes(made: Catalog, video: int = 1) -> Any:
    found = rows_for_workers(made, one_clip(CLIP))(video).boxes
    return np.frombuffer(found, "<f4").reshape(-1, 4).tolist()


def test_the_column_comes_before_targets_and_of_these_one_is_taken() -> None:
    of_rows, of_frames = Boxes(BOX), Boxes(EACH)
    assert boxes(catalog(box=BOX)) == [[5, 6, 7, 8]]
    assert boxes(catalog(box=BOX).with_targets(of_frames)) == [[5, 6, 7, 8]]
    assert boxes(catalog().with_targets({"a": np.zeros(2), "face": of_rows})) == [[5, 6, 7, 8]]
    assert boxes(catalog().with_targets(of_frames)) == EACH[1].tolist()
    parts = catalog(starts=[0, 2], ends=[5, 4]).with_targets(of_frames)
    assert boxes(parts) == EACH[1][2:4].tolist(), "those of its own frames"


def test_a_stream_without_boxes_is_refused() -> None:
    others = {"several": Boxes(np.ones((2, 3, 4))), "pose": Points(np.ones((2, 1, 2)))}
    last, long = (Boxes([np.ones((MAX_BOXES_BYTES // 16 + n, 4))] * 2) for n in (0, 1))
    two = {"face": Boxes(BOX), "hand": Boxes(BOX)}
    for made, word in (
        (catalog(), 'crop="box"'), (catalog().with_targets(others), 'crop="box"'),
        (catalog(box=[[np.nan] * 4] * 2), 'crop="box"'),
        (mix({"a": (catalog(box=BOX), 1), "b": (Catalog(["c.avi"]), 1)}), " 1 "),
        (catalog().with_targets(two), "2"), (catalog().with_targets(long), "a.avi.*32768"),
    ):  # fmt: skip
        with pytest.raises(SpecError, match=word):
            Plan.of(made, one_clip(CLIP), OPTIONS)
    for made in (catalog(box=[BOX[0], [np.nan] * 4]), catalog().with_targets(last)):
        Plan.of(made, one_clip(CLIP), OPTIONS)


def test_boxes_go_to_workers_and_into_the_identity_where_they_are_used() -> None:
    made, plain = catalog(box=BOX), ClipSpec(frames=2, size=(8, 8))
    for spec, used in ((CLIP, True), (plain, False)):
        assert bool(rows_for_workers(made, one_clip(spec))(1).boxes) is used
        assert ("box" in Identity.of(made, one_clip(spec), OPTIONS).settings) is used
        assert (
            any("the catalog has boxes" in text for text in warnings_of(made, one_clip(spec)))
            is not used
        )

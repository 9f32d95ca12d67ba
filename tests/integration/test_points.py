"""Points and boxes are where the pixels of a clip show what was marked, by every way."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import spots
from tests.support.thorough import either, rest_nightly
from videoload import Boxes, Catalog, ClipSpec, Points, decode_serially
from videoload.client import contact_sheet
from videoload.clips.sample_spec import one_clip

HOW: dict[str, Any] = {"batch_size": 4, "shuffle": True, "seed": 3, "drop_remainder": False}
SPECS: dict[str, dict[str, Any]] = {
    "random": {"size": (112, 112), "crop": "random"},
    "resized": {"size": (96, 128), "crop": "resized", "area": (0.4, 1.0)},
    "resized of the resized frame": {
        "resize": 120, "size": (96, 96), "crop": "resized", "area": (0.5, 1.0),
    },
    "center": {"resize": 100, "size": (96, 96)},
    "pad": {"size": (96, 160), "crop": "pad"},
    "stretch": {"size": (80, 160), "crop": "stretch"},
    "three": {"resize": 120, "size": (120, 104), "crop": "three"},
    "five": {"resize": 128, "size": (112, 112), "crop": "five"},
    "box": {"size": (112, 96), "crop": "box", "box_scale": 1.2},
    "box of the resized frame": {
        "resize": 128, "size": (96, 128), "crop": "box", "box_scale": (1.1, 2.5),
    },
    "views": {"size": (112, 112), "crop": "random", "views": 2},
    "views of regions": {"size": (112, 112), "crop": "resized", "area": (0.5, 1.0), "views": 3},
}  # fmt: skip
RANDOM = ClipSpec(
    4, 2, resize=128, size=(112, 112), crop="random", flip=True, sampling="random",
    clips_per_video=4,
)  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spots")
    spots.make(folder)
    return folder


def around(points: spots.Floats) -> spots.Floats:
    """A box around all spots of each frame, [frames, 4]."""
    boxes = spots.boxes_of(points)
    return np.concatenate([boxes[..., :2].min(1), boxes[..., 2:].max(1)], -1)


@pytest.fixture(scope="module")
def catalog(root: Path) -> Catalog:
    """Points and boxes of each frame; and of each video, those of its first frame."""
    found = [spots.points_of(number) for number in range(len(spots.KINDS))]
    return spots.catalog_of(root).with_targets(
        {
            "points": Points(found, mirror=[(1, 2)]),
            "boxes": Boxes(list(map(spots.boxes_of, found))),
            "first": Points(np.stack([each[0] for each in found]), mirror=[(1, 2)]),
            "around": Boxes(list(map(around, found))),
            "number": np.arange(len(found)),
        }
    )


def check(batch: Any) -> int:
    """How many spots are where the targets say."""
    clips, targets, info = batch
    mirrored = np.linalg.det(info.affine[..., :2]) < 0
    found = spots.check(clips, targets["points"], mirrored[..., None])
    boxes = targets["boxes"]
    middle = (boxes[..., :2] + boxes[..., 2:]) / 2 - 0.5
    same = np.where(mirrored[..., None, None, None], middle[..., [0, 2, 1], :], middle)
    np.testing.assert_allclose(same, targets["points"], atol=1e-3)
    sides = np.sort(boxes[..., 2:] - boxes[..., :2], -1)
    scale = np.sort(np.abs(info.affine[..., :2]).sum(-1), -1)
    np.testing.assert_allclose(
        sides, np.broadcast_to(18 * scale[..., None, None, :], sides.shape), rtol=1e-4
    )
    first = np.equal(info.frames, 0)
    told = np.broadcast_to(targets["first"][..., None, :, :], targets["points"].shape)
    np.testing.assert_allclose(told[first], targets["points"][first], atol=1e-3)
    return found


@pytest.mark.parametrize("kind", SPECS)
def test_spots_are_found_where_the_targets_say(kind: str, catalog: Catalog) -> None:
    spec = ClipSpec(frames=3, stride=3, flip=True, sampling="random", **SPECS[kind])
    batches = list(decode_serially(catalog, spec, info=True, epochs=either(2, 10), **HOW))
    found = sum(map(check, batches))
    assert found > 6
    if spec.crop == "box":
        assert found == sum(len(clips) for clips, _, _ in batches) * 3 * 3, "no spot is cut off"
    turned = [(np.linalg.det(info.affine[..., :2]) < 0).ravel() for _, _, info in batches]
    assert {*np.concatenate(turned).tolist()} == {False, True}


@pytest.mark.parametrize("crop", ["random", "box"])
def test_each_part_of_a_sample_has_its_own_points(crop: Any, root: Path) -> None:
    found = [spots.points_of(number) for number in range(len(spots.KINDS))]
    big, small = Points(found, [(1, 2)]), Points(found, [(1, 2)], part="small")
    alone = spots.catalog_of(root)
    pairs = Catalog.side_by_side(big=alone, small=alone)
    faces = Boxes(list(map(around, found)))
    told = pairs.with_targets({"big": big, "small": small, "faces": faces})
    specs = {
        "big": ClipSpec(3, size=(128, 128), crop=crop, flip=True, sampling="random"),
        "small": ClipSpec(3, resize=108, size=(96, 96)),
    }
    checked = 0
    for clips, targets, info in decode_serially(told, specs, info=True, epochs=4, **HOW):
        for part in specs:
            mirrored = np.linalg.det(info.affine[part][..., :2]) < 0
            checked += spots.check(clips[part], targets[part], mirrored[..., None])
    assert checked > 40


BOXED: dict[str, dict[str, Any]] = {
    "drawn": {"size": (80, 48), "box_scale": (0.8, 1.6), "flip": True, "views": 2},
    "planes": {"size": (64, 80), "resize": 100, "pixels": "yuv420p"},
    "source": {"size": (64, 80)},
    "resized": {"size": (64, 80), "resize": 100},
}


@pytest.mark.parametrize("how", rest_nightly(BOXED, 2))
def test_a_row_shows_its_box(how: str, root: Path) -> None:
    """Two boxes of each file, one of which is wider than its frame allows, and none."""
    paths = spots.catalog_of(root).paths
    rows = np.array([[70, 60, 110, 84], [-10, 4, 170, 138], [np.nan] * 4])
    boxes = np.repeat(rows, 3, 0)
    made = Catalog([*paths] * 3, root=root, box=boxes)
    corners = made.with_targets({"box": Boxes(np.nan_to_num(boxes))})
    spec = ClipSpec(3, crop="box", sampling="random", **BOXED[how])
    for clips, targets, info in decode_serially(corners, spec, info=True, **HOW):
        height, width = BOXED[how]["size"]
        shown = targets["box"].reshape(len(clips), -1, 4)
        for sample, number in enumerate((info.video // 3).tolist()):
            sides = shown[sample, :, 2:] - shown[sample, :, :2]
            middle = (shown[sample, :, 2:] + shown[sample, :, :2]) / 2
            part = np.abs(sides / (width, height)).max(-1)  # the share that the box takes
            if number == 0:
                assert ((part > 0.6) & (part < 1.3)).all(), "it fills the clip"
                np.testing.assert_allclose(middle, [[width / 2, height / 2]] * len(middle), atol=3)
            elif number == 2:
                dark = clips[sample].reshape(-1, *clips.shape[-3:]).max((0, -1)) < 20
                assert dark.any(), "the rest of the whole frame is black"


def test_a_preview_shows_points_and_boxes(catalog: Catalog, tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image")
    [batch, *_] = decode_serially(catalog, RANDOM, info=True, **HOW)
    rows = list(contact_sheet.rows_of(batch, catalog, one_clip(RANDOM)))
    for row, points, boxes in zip(rows, batch[1]["points"], batch[1]["boxes"], strict=True):
        np.testing.assert_array_equal(row.marks[0], points)
        np.testing.assert_array_equal(row.marks[1], boxes)
        assert row.label.startswith("number ")
    plain = [row._replace(marks=()) for row in rows]
    drawn, bare = (np.asarray(contact_sheet.sheet(each, "")) for each in (rows, plain))
    assert (drawn != bare).any()

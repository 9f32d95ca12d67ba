"""A preview shows the pixels of the batch one by one, with the right words beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from videoload import Catalog, ClipSpec, SpecError, VideoloadError
from videoload.clips.sample_spec import one_clip
from videoload.plan.plan import BatchInfo
from videoload.trainer import contact_sheet

Image = pytest.importorskip("PIL.Image")

CATALOG = Catalog(["run/a.avi", "walk/some/b.avi"], [0, 1], ["run", "walk"])
SPEC = ClipSpec(frames=3, size=(40, 60))


def noise(*shape: int) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(7).integers(0, 256, shape, np.uint8)


def batch(clips: npt.NDArray[np.uint8], frames: int = 3) -> Any:
    size = len(clips)
    which = np.arange(size) % 2
    shown = np.arange(size * frames).reshape(size, frames)
    paths = np.array([CATALOG[video].path for video in which], object)
    info = BatchInfo(4, which, shown, paths, which * 0, which * 0, shown / 25)
    return clips, np.arange(size) % 2, info


def holds(image: Any, picture: npt.NDArray[np.uint8]) -> bool:
    """Whether the image holds ``picture``, pixel by pixel."""
    whole = np.asarray(image)
    height, width, _ = picture.shape
    places = np.argwhere((whole == picture[0, 0]).all(axis=-1))
    return any(
        np.array_equal(whole[top : top + height, left : left + width], picture)
        for top, left in places
    )


def test_the_sheet_shows_every_frame_of_every_clip_as_it_is() -> None:
    clips = noise(2, 3, 40, 60, 3)
    rows = list(contact_sheet.rows_of(batch(clips), CATALOG, one_clip(SPEC)))
    image = contact_sheet.sheet(rows, contact_sheet.title(rows, one_clip(SPEC)))
    for clip in clips:
        for picture in clip:
            assert holds(image, picture)
    assert not holds(image, 255 - clips[0, 0])


def test_rows_say_class_file_frames_and_place() -> None:
    first, second = contact_sheet.rows_of(batch(noise(2, 3, 40, 60, 3)), CATALOG, one_clip(SPEC))
    assert (first.label, first.path, first.frames) == ("run", "run/a.avi", (0, 1, 2))
    assert (second.label, second.path, second.frames) == ("walk", "walk/some/b.avi", (3, 4, 5))
    assert second.place == "step 4, clip 1"


def test_padding_does_not_look_like_frames() -> None:
    clips = noise(1, 3, 40, 60, 3)
    clips[0, 2] = 0
    pixels, labels, info = batch(clips)
    shorter = info._replace(frames=np.array([[0, 1, -1]]))
    (row,) = contact_sheet.rows_of((pixels, labels, shorter), CATALOG, one_clip(SPEC))
    assert row.place == "step 4, clip 0, 2 of 3 frames"
    image = contact_sheet.sheet([row], "")
    assert holds(image, clips[0, 1])
    assert not holds(image, clips[0, 2]), "it is no black frame of the video"
    assert holds(image, np.full((40, 60, 3), 191, np.uint8))


def test_clips_of_several_lengths_are_in_one_sheet() -> None:
    rows = [
        row
        for frames in (3, 5)
        for row in contact_sheet.rows_of(
            batch(noise(1, frames, 40, 60, 3), frames), CATALOG, one_clip(SPEC)
        )
    ]
    head = contact_sheet.title(rows, one_clip(SPEC))
    assert all(word in head for word in ("2 clips", "3 to 5", "60x40"))
    assert holds(contact_sheet.sheet(rows, head), rows[1].pictures[4])


def test_points_and_boxes_are_drawn_where_they_are() -> None:
    black = np.zeros((40, 60, 3), np.uint8)

    def drawn(*marks: Any, shrunk: int = 1) -> Any:
        arrays = [np.array(each, np.float32) for each in marks]
        picture = contact_sheet.marked(black[::shrunk, ::shrunk].copy(), arrays, shrunk)
        return np.argwhere(picture.any(-1))[:, ::-1]

    assert drawn([[10, 20]]).mean(0).tolist() == [10, 20]
    assert drawn([[20.5, 30.5]], shrunk=2).mean(0).tolist() == [10, 15]
    assert drawn([[0, 0]]).max(0).tolist() == [2, 2], "it is cut off at the edge"
    assert not len(drawn([[np.nan, 3], [-9, 3], [70, 3]], [[-20, -20, -5, -5]]))
    box = drawn([[10, 4, 30, 24]])
    assert (box.min(0).tolist(), box.max(0).tolist()) == ([10, 4], [29, 23])
    assert len(box) == 2 * 20 + 2 * 18, "its edge alone"
    row = next(contact_sheet.rows_of(batch(noise(1, 3, 40, 60, 3)), CATALOG, one_clip(SPEC)))
    of_frames = np.array([[[10, 20]], [[10, 20]], [[40, 33]]], np.float32)
    plain, dots = (
        np.asarray(contact_sheet.sheet([each], "")).astype(int)
        for each in (row, row._replace(marks=(of_frames,)))
    )
    changed = np.argwhere((plain != dots).any(-1))[:, ::-1]
    assert len(changed) in range(70, 76)
    assert changed.max(0)[0] - changed.min(0)[0] == 2 * 62 + 30 + 4
    assert changed.max(0)[1] - changed.min(0)[1] == 13 + 4


def test_several_views_of_a_sample_are_a_row_each() -> None:
    clips = noise(2, 5, 3, 40, 60, 3)
    rows = list(contact_sheet.rows_of(batch(clips), CATALOG, one_clip(SPEC)))
    assert len(rows) == 10
    assert np.array_equal(rows[6].pictures, clips[1, 1])
    assert (rows[6].label, rows[6].frames) == ("walk", (3, 4, 5))
    assert rows[6].place == "step 4, clip 1, view 1"


def test_gray_clips_are_gray() -> None:
    clips = noise(1, 3, 40, 60, 1)
    spec = ClipSpec(frames=3, size=(40, 60), pixels="gray")
    (row,) = contact_sheet.rows_of(batch(clips), CATALOG, one_clip(spec))
    np.testing.assert_array_equal(row.pictures, clips[0].repeat(3, axis=-1))


def test_the_planes_of_the_codec_are_shown_in_colour() -> None:
    spec = ClipSpec(frames=3, size=(40, 60), pixels="yuv420p")
    for luma, blue, red, seen in (
        (16, 128, 128, (0, 0, 0)), (235, 128, 128, (255, 255, 255)),
        (81, 90, 240, (254, 0, 0)), (41, 240, 110, (0, 0, 255)),
    ):  # fmt: skip
        clips = np.full((1, 3, 60, 60), luma, np.uint8)
        clips[:, :, 40:50], clips[:, :, 50:] = blue, red
        (row,) = contact_sheet.rows_of(batch(clips), CATALOG, one_clip(spec))
        assert np.abs(row.pictures.astype(int) - seen).max() <= 2


def test_labels_that_are_no_classes_are_shown_as_they_are() -> None:
    targets = np.array([[0.25, 0.5], [1, 2]], np.float32)
    assert contact_sheet.label_text(np.array([1, 0]), 0, ("run", "walk")) == "walk"
    assert contact_sheet.label_text(np.array([7, 0]), 0, ("run", "walk")) == "7"
    assert contact_sheet.label_text(targets, 0, ("run",)) == "[0.25 0.5 ]"
    several = {"age": np.array([31, 4]), "at": targets}
    assert contact_sheet.label_text(several, 1, ("run",)) == "age 4, at [1. 2.]"


def test_a_clip_that_is_wider_than_a_screen_is_shown_smaller_and_the_title_says_so() -> None:
    spec = ClipSpec(frames=3, size=(40, 3000))
    rows = list(
        contact_sheet.rows_of(
            batch(np.zeros((1, 3, 40, 3000, 3), np.uint8)), CATALOG, one_clip(spec)
        )
    )
    head = contact_sheet.title(rows, one_clip(spec))
    assert all(word in head for word in ("1 clip", "3000x40", "1/3"))
    assert 3000 < contact_sheet.sheet(rows, head).width < 3500


def test_the_file_holds_the_picture(tmp_path: Path) -> None:
    clips = noise(2, 3, 40, 60, 3)
    assert contact_sheet.save(tmp_path / "a.png", [batch(clips)], CATALOG, one_clip(SPEC)) == 2
    with Image.open(tmp_path / "a.png") as image:
        assert holds(image, clips[1, 2])


def test_files_and_specs_that_cannot_be_drawn_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"sheet\.jpg"):
        contact_sheet.check("sheet.jpg", one_clip(SPEC))
    floats = ClipSpec(3, size=(40, 60), transform="a:b", output=((1,), "float32"))
    with pytest.raises(SpecError, match=r"float32 \[1\]"):
        contact_sheet.check("sheet.png", one_clip(floats))
    with pytest.raises(VideoloadError, match="no batch to show"):
        contact_sheet.save("sheet.png", [], CATALOG, one_clip(SPEC))
    shown = [batch(noise(1, 3, 40, 60, 3))]
    with pytest.raises(VideoloadError, match=r"none/sheet\.png.*No such file"):
        contact_sheet.save(tmp_path / "none/sheet.png", shown, CATALOG, one_clip(SPEC))

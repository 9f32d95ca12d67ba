"""Folders of numbered images are the videos of class folders that have no other videos."""

from __future__ import annotations

from pathlib import Path

from tests.support.catalogs import pairs, refused, tree
from videoload.catalog.catalog import Catalog


def test_folders_of_images_are_videos_if_there_are_no_others(tmp_path: Path) -> None:
    tree(tmp_path, *(f"{s}/img_{i}.jpg" for s in ("run/a", "run/deep/b", "jump/c") for i in (1, 2)))
    tree(tmp_path, "run/.thumbs/1.jpg", "run/@eaDir/1.jpg", "run/a/notes.txt")
    assert pairs(Catalog.from_folder(tmp_path)) == [
        ("jump/c", "jump"),
        ("run/a", "run"),
        ("run/deep/b", "run"),
    ]
    inner = Catalog.from_folder(tmp_path / "run", root=tmp_path, label=r"run/(?:deep/)?(\w)")
    assert pairs(inner) == [("run/a", "a"), ("run/deep/b", "b")]
    tree(tmp_path, "run/v.avi")
    assert pairs(Catalog.from_folder(tmp_path)) == [("run/v.avi", "run")]


def test_a_pattern_says_which_images_are_meant(tmp_path: Path) -> None:
    kinds = ("img", "flow_x", "flow_y")
    tree(tmp_path, "run/v.avi", *(f"run/a/{kind}_{i:05}.jpg" for kind in kinds for i in (1, 2)))
    tree(tmp_path, "run/b/img_00001.jpg")
    flow = Catalog.from_folder(tmp_path, images="flow_x_%05d.jpg")
    assert pairs(flow) == [("run/a/flow_x_%05d.jpg", "run")]
    images = Catalog.from_folder(tmp_path, images="img_%05d.jpg")
    assert [video.path for video in images] == ["run/a/img_%05d.jpg", "run/b/img_%05d.jpg"]


def test_what_is_no_sequence_is_named(tmp_path: Path) -> None:
    tree(tmp_path, "run/a/x_1.jpg", "run/a/y_1.jpg")
    with refused(tmp_path / "run/a", "'x_1.jpg' and 'y_1.jpg' are not named alike", "images="):
        Catalog.from_folder(tmp_path)
    with refused("has no <class>/**/*z_%d.jpg"):
        Catalog.from_folder(tmp_path, images="z_%d.jpg")
    with refused("images must be like 'img_%05d.jpg', not '*.jpg'"):
        Catalog.from_folder(tmp_path, images="*.jpg")
    with refused("s3://bucket/a: sequences of images are read from a folder, not a URL"):
        Catalog.from_folder("s3://bucket/a", images="z_%d.jpg")


def test_images_that_lie_in_a_class_folder_itself_are_no_sequence(tmp_path: Path) -> None:
    tree(tmp_path, "cats/1.jpg", "dogs/1.jpg")
    needed = "the images of a video need a folder: <class>/<video>/img_00001.jpg"
    with refused("has no <class>/**/*.avi", needed, "passed over 2 *.jpg"):
        Catalog.from_folder(tmp_path)
    tree(tmp_path, "cats/a/1.jpg")
    assert pairs(Catalog.from_folder(tmp_path)) == [("cats/a", "cats")]

"""Directories are listed, labelled, shuffled and split as Keras's image_dataset_from_directory does
it. (test_directory_dataset.py compares with Keras itself.)"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.catalogs import pairs, refused, tree
from videoload.catalog.directories import list_directory
from videoload.errors import SpecError


def wrong(text: str) -> Any:
    return pytest.raises(SpecError, match=re.escape(text))


def test_the_order_is_by_class_then_sub_folder_then_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tree(
        tmp_path, "run/z.avi", "run/a/b.avi", "run/a-b/c.MP4", "jump/2.avi", "jump/10.mkv",
        "jump/notes.txt", "empty/", "loose.avi", ".hidden/x.avi", "jump/._2.avi",
    )  # fmt: skip
    found = list_directory(tmp_path)
    assert caplog.messages == [f"{tmp_path}: no video in the class folders empty"]
    assert found.paths == [
        "jump/10.mkv", "jump/2.avi", "run/z.avi", "run/a/b.avi", "run/a-b/c.MP4",
    ]  # fmt: skip
    assert found.class_names == ["empty", "jump", "run"]
    assert found.file_paths[0] == f"{tmp_path}/jump/10.mkv"
    assert str(found) == "Found 5 files belonging to 3 classes."
    catalog = found.catalog()
    assert pairs(catalog)[0] == ("jump/10.mkv", "jump")
    assert isinstance(catalog.targets, np.ndarray)
    assert catalog.targets.dtype == np.int64
    assert catalog.targets.tolist() == catalog.labels.tolist() == [1, 1, 2, 2, 2]


def test_class_names_choose_the_sub_folders_and_their_labels(tmp_path: Path) -> None:
    tree(tmp_path, "a/1.avi", "b/1.avi", "c/1.avi")
    found = list_directory(tmp_path, class_names=["c", "a"])
    assert (found.paths, found.class_names) == (["c/1.avi", "a/1.avi"], ["c", "a"])
    with wrong("Expected: ['a', 'b', 'c'] (or a subset of it), but received: class_names=['d']"):
        list_directory(tmp_path, class_names=["d"])


def test_labels_of_ones_own_belong_to_the_sorted_paths(tmp_path: Path) -> None:
    tree(tmp_path, "x/2.avi", "1.avi", "3.avi")
    assert str(list_directory(tmp_path, None)) == "Found 3 files."
    assert list_directory(tmp_path, None).catalog().classes == ()
    found = list_directory(tmp_path, [7, 3, 7])
    assert found.paths == ["1.avi", "3.avi", "x/2.avi"]
    assert found.class_names == ["3", "7"]
    catalog = found.take(np.array([2, 1])).catalog()
    assert pairs(catalog) == [("x/2.avi", "7"), ("3.avi", "3")]
    assert np.asarray(catalog.targets).tolist() == [7, 3]
    with wrong("len(labels) is 2 while we found 3 files in directory"):
        list_directory(tmp_path, [1, 2])
    with wrong('pass `labels="inferred"`'):
        list_directory(tmp_path, "infered")
    with wrong("`class_names` cannot be specified"):
        list_directory(tmp_path, [1, 2, 3], ["a"])


def test_the_split_is_made_after_the_shuffle_and_leaves_no_part_empty(tmp_path: Path) -> None:
    tree(tmp_path, *(f"{name}/{i}.avi" for name in "ab" for i in range(5)))
    found = list_directory(tmp_path)
    mixed = found.shuffled(3)
    assert sorted(mixed.paths) == found.paths != mixed.paths
    assert mixed.shuffled(3).paths != mixed.paths == found.shuffled(3).paths
    train, val = mixed.split(0.25)
    assert (train.paths, val.paths) == (mixed.paths[:8], mixed.paths[8:])
    assert [path[0] for path in val.paths] == ["ab"[label] for label in val.numbers]
    with refused("No validation videos", "10 videos", "0.01"):
        found.split(0.01)


def test_a_recording_on_both_sides_is_found_by_names_like_those_of_ucf101(tmp_path: Path) -> None:
    tree(tmp_path, *(f"Bowling/v_Bowling_g0{g}_c0{c}.avi" for g in (1, 2) for c in (1, 2)))
    found = list_directory(tmp_path)
    one, other = found.split(0.5)
    assert not one.on_both_sides(other)
    some, rest = found.split(0.25)
    assert some.on_both_sides(rest) == "Bowling/v_Bowling_g02_c01.avi"
    tree(tmp_path / "else", "Bowling/1.avi", "Bowling/2.avi")
    one, other = list_directory(tmp_path / "else").split(0.5)
    assert not one.on_both_sides(other), "nothing is known of other names"


def test_links_are_followed_if_asked_for_and_may_lead_out(tmp_path: Path) -> None:
    tree(tmp_path, "store/far/1.avi", "store/2.avi", "set/b/own.avi", "set/a/")
    (tmp_path / "set/a/linked").symlink_to(tmp_path / "store/far")
    (tmp_path / "set/a/2.avi").symlink_to(tmp_path / "store/2.avi")
    (tmp_path / "set/b/again").symlink_to(tmp_path / "set/b")
    assert list_directory(tmp_path / "set").paths == ["a/2.avi", "b/own.avi"]
    found = list_directory(tmp_path / "set", follow_links=True)
    assert found.paths == ["a/2.avi", "a/linked/1.avi", "b/own.avi"]
    catalog = found.catalog()
    assert [video.path for video in catalog] == ["store/2.avi", "store/far/1.avi", "set/b/own.avi"]
    assert catalog.root == tmp_path.resolve()


def test_a_directory_without_videos_says_what_is_missing(tmp_path: Path) -> None:
    tree(tmp_path, "flat/1.avi", "flat/2.avi", "parts/train/a/1.avi", "parts/test/a/1.avi", "none/")
    with refused("No videos found in directory", "2 videos lie in no class sub-folder", "labels="):
        list_directory(tmp_path / "flat")
    with refused("test, train are parts of a data set", f"{tmp_path}/parts/test"):
        list_directory(tmp_path / "parts")
    with refused("No videos found", "Allowed formats: .avi"):
        list_directory(tmp_path / "none")
    with refused("nowhere cannot be listed: No such file"):
        list_directory(tmp_path / "nowhere")
    if os.getuid():
        (tmp_path / "flat").chmod(0)
        with refused("Permission denied"):
            list_directory(tmp_path / "flat")

"""Catalogs from folders. Mistakes are refused in one line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.catalogs import pairs, refused, text, tree
from videoload.catalog.catalog import Catalog
from videoload.listings.folders import holds_videos

TWO = ("jump", "run")


def test_a_folder_of_class_folders_is_a_catalog(tmp_path: Path) -> None:
    tree(tmp_path, "run/b.avi", "run/a.avi", "jump/deep/er/c.avi", "jump/a.avi")
    catalog = Catalog.from_folder(tmp_path)
    assert (catalog.root, catalog.classes) == (tmp_path, TWO)
    assert pairs(catalog) == [
        ("jump/a.avi", "jump"),
        ("jump/deep/er/c.avi", "jump"),
        ("run/a.avi", "run"),
        ("run/b.avi", "run"),
    ]


def test_the_order_does_not_depend_on_the_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(
        tmp_path, *(f"{c}/{s}{i}.avi" for c in TWO for s in ("", "sub/", "Sub/") for i in range(5))
    )
    expected = Catalog.from_folder(tmp_path)
    scandir = os.scandir

    class Backwards:
        def __init__(self, path: Path) -> None:
            with scandir(path) as entries:
                self.entries = sorted(entries, key=lambda entry: entry.name, reverse=True)

        def __enter__(self) -> list[os.DirEntry[str]]:
            return self.entries

        def __exit__(self, *_: object) -> None: ...

        def close(self) -> None: ...

    monkeypatch.setattr(os, "scandir", Backwards)
    assert Catalog.from_folder(tmp_path) == expected
    assert list(expected) == sorted(expected, key=lambda video: (video.label, video.path))


def test_a_class_folder_without_videos_is_a_class(tmp_path: Path) -> None:
    catalog = Catalog.from_folder(tree(tmp_path, "jump/", "run/a.avi"))
    assert catalog.classes == TWO
    assert catalog.labels.tolist() == [1]


def test_classes_are_sorted_by_name(tmp_path: Path) -> None:
    tree(tmp_path, *(f"{name}/a.avi" for name in "gaCfbed"))
    catalog = Catalog.from_folder(tmp_path)
    assert "".join(catalog.classes) == "Cabdefg"
    assert [video.path[0] for video in catalog] == list(catalog.classes)


def test_suffixes_are_compared_without_case(tmp_path: Path) -> None:
    tree(tmp_path, "jump/a.AVI", "jump/b.Avi", "jump/c.avi", "jump/d.webm", "jump/avi", "jump/xavi")
    assert len(Catalog.from_folder(tmp_path)) == 4, "with .webm"
    assert len(Catalog.from_folder(tmp_path, suffixes=(".WebM", ".avi"))) == 4
    assert len(Catalog.from_folder(tmp_path, suffixes=".webm")) == 1


@pytest.mark.parametrize("suffixes", [(), ("avi",), (".",), ("",)])
def test_invalid_suffixes_are_refused(tmp_path: Path, suffixes: tuple[str, ...]) -> None:
    with refused("suffixes", ".avi"):
        Catalog.from_folder(tree(tmp_path, "jump/a.avi"), suffixes=suffixes)


def test_hidden_files_and_folders_are_skipped(tmp_path: Path) -> None:
    tree(tmp_path, ".cache/a.avi", "jump/.b.avi", "jump/.git/c.avi", "jump/d.avi", ".avi")
    assert pairs(Catalog.from_folder(tmp_path)) == [("jump/d.avi", "jump")]


def test_a_folder_named_like_a_video_is_a_folder(tmp_path: Path) -> None:
    tree(tmp_path, "jump/a.avi/b.avi")
    assert pairs(Catalog.from_folder(tmp_path)) == [("jump/a.avi/b.avi", "jump")]


def test_a_pipe_named_like_a_video_is_skipped(tmp_path: Path) -> None:
    tree(tmp_path, "jump/b.avi")
    os.mkfifo(tmp_path / "jump/a.avi")
    assert pairs(Catalog.from_folder(tmp_path)) == [("jump/b.avi", "jump")]


def test_given_classes_set_the_numbers_and_may_lack_a_folder(tmp_path: Path) -> None:
    tree(tmp_path, "run/a.avi", "jump/b.avi")
    catalog = Catalog.from_folder(tmp_path, classes=["walk", "run", "jump"])
    assert catalog.classes == ("walk", "run", "jump")
    assert [(video.path, video.label) for video in catalog] == [("run/a.avi", 1), ("jump/b.avi", 2)]


def test_a_folder_can_use_a_class_file(tmp_path: Path) -> None:
    tree(tmp_path, "run/a.avi")
    index = text(tmp_path, "1 run\n2 jump\n", "classInd.txt")
    assert Catalog.from_folder(tmp_path, classes=index).classes == ("run", "jump")


def test_a_sub_folder_that_is_not_in_classes_is_refused(tmp_path: Path) -> None:
    tree(tmp_path, "run/a.avi", "walk/b.avi")
    with refused(tmp_path, "'walk'", "jump, run"):
        Catalog.from_folder(tmp_path, classes=TWO)


def test_paths_are_relative_to_a_root_above(tmp_path: Path) -> None:
    tree(tmp_path, "train/jump/a.avi", "train/run/b.avi", "test/jump/c.avi", "test/run/")
    train = Catalog.from_folder(tmp_path / "train", root=tmp_path)
    test = Catalog.from_folder(tmp_path / "test", root=tmp_path)
    assert pairs(train) == [("train/jump/a.avi", "jump"), ("train/run/b.avi", "run")]
    assert pairs(test) == [("test/jump/c.avi", "jump")]
    assert (train.root, train.classes) == (test.root, test.classes) == (tmp_path, TWO)


def test_a_root_that_is_not_above_the_folder_is_refused(tmp_path: Path) -> None:
    tree(tmp_path, "data/jump/a.avi", "data2/")
    with refused(tmp_path / "data", tmp_path / "data2", "root"):
        Catalog.from_folder(tmp_path / "data", root=tmp_path / "data2")


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with refused(tmp_path / "none", "No such file"):
        Catalog.from_folder(tmp_path / "none")


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    tree(tmp_path, "a.avi")
    with refused(tmp_path / "a.avi", "Not a directory"):
        Catalog.from_folder(tmp_path / "a.avi")


def test_a_folder_that_is_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with refused(tmp_path / "loop"):
        Catalog.from_folder(tmp_path / "loop")


def test_a_sub_folder_that_cannot_be_listed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, "jump/locked/a.avi")
    scandir = os.scandir

    def locked(path: Path) -> Any:  # a mode would not stop root, who may run this
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", locked)
    with refused(tmp_path / "jump/locked", "Permission denied"):
        Catalog.from_folder(tmp_path)


def test_a_folder_without_class_folders_is_refused(tmp_path: Path) -> None:
    with refused(tmp_path, "*.avi", "0 class sub-folders"):
        Catalog.from_folder(tree(tmp_path, ".hidden/a.avi", "readme.txt"))


def test_class_folders_without_videos_are_refused_with_the_pattern(tmp_path: Path) -> None:
    with refused(tmp_path, "*.mkv, *.avi", "2 class sub-folders"):
        Catalog.from_folder(tree(tmp_path, "jump/a.mp4", "run/"), suffixes=(".mkv", ".avi"))


@pytest.mark.parametrize("beside", [[], ["notes/a.txt"]])
def test_videos_directly_in_the_folder_need_class_sub_folders(
    tmp_path: Path, beside: list[str]
) -> None:
    with refused(tmp_path, "its 2 videos need class sub-folders"):
        Catalog.from_folder(tree(tmp_path, "a.avi", "b.avi", *beside))


def test_given_classes_without_any_folder_are_refused(tmp_path: Path) -> None:
    with refused(tmp_path, "0 class sub-folders"):
        Catalog.from_folder(tmp_path, classes=TWO)


def test_a_symlinked_video_inside_the_root_is_a_video(tmp_path: Path) -> None:
    tree(tmp_path, "jump/a.avi", ".store/b")
    (tmp_path / "jump/b.avi").symlink_to("../.store/b")
    assert pairs(Catalog.from_folder(tmp_path)) == [("jump/a.avi", "jump"), ("jump/b.avi", "jump")]


def test_a_dangling_link_inside_the_root_is_left_for_the_decoder_to_name(tmp_path: Path) -> None:
    tree(tmp_path, "jump/a.avi")
    (tmp_path / "jump/b.avi").symlink_to("gone.avi")
    (tmp_path / "jump/c.avi").symlink_to("c.avi")
    assert len(Catalog.from_folder(tmp_path)) == 3


def test_a_symlinked_folder_inside_the_root_is_skipped(tmp_path: Path) -> None:
    tree(tmp_path, "jump/a.avi")
    (tmp_path / "alias").symlink_to("jump")
    (tmp_path / "jump/loop").symlink_to(tmp_path)
    (tmp_path / "jump/folder.avi").symlink_to(tmp_path / "jump")
    catalog = Catalog.from_folder(tmp_path)
    assert catalog.classes == ("jump",)
    assert pairs(catalog) == [("jump/a.avi", "jump")]


@pytest.mark.parametrize("link", ["data/jump/b.avi", "data/jump/more", "data/run"])
def test_a_symlink_out_of_the_root_is_refused(tmp_path: Path, link: str) -> None:
    tree(tmp_path, "data/jump/a.avi", "other.avi", "others/c.avi")
    (tmp_path / link).symlink_to(tmp_path / ("other.avi" if link.endswith("avi") else "others"))
    with refused(tmp_path / link, "out of the root", tmp_path / "other"):
        Catalog.from_folder(tmp_path / "data")


def test_a_root_above_both_allows_a_symlink_out_of_the_folder(tmp_path: Path) -> None:
    tree(tmp_path, "data/jump/a.avi", "other.avi")
    (tmp_path / "data/jump/b.avi").symlink_to(tmp_path / "other.avi")
    catalog = Catalog.from_folder(tmp_path / "data", root=tmp_path)
    assert [video.path for video in catalog] == ["data/jump/a.avi", "data/jump/b.avi"]


def test_a_link_to_a_sibling_with_a_longer_name_leaves_the_root(tmp_path: Path) -> None:
    tree(tmp_path, "data/jump/a.avi", "data2/b.avi")
    (tmp_path / "data/jump/b.avi").symlink_to(tmp_path / "data2/b.avi")
    with refused("out of the root"):
        Catalog.from_folder(tmp_path / "data")


def test_a_symlink_that_is_no_video_may_lead_anywhere(tmp_path: Path) -> None:
    tree(tmp_path, "data/jump/a.avi", "readme.txt")
    (tmp_path / "data/jump/readme.txt").symlink_to(tmp_path / "readme.txt")
    assert len(Catalog.from_folder(tmp_path / "data")) == 1


def test_a_folder_may_itself_be_reached_by_a_symlink(tmp_path: Path) -> None:
    tree(tmp_path, "real/jump/a.avi")
    (tmp_path / "link").symlink_to("real")
    catalog = Catalog.from_folder(tmp_path / "link")
    assert (catalog.root, catalog[0].path) == (tmp_path / "real", "jump/a.avi")


@pytest.mark.parametrize("name", [b"jump/\xff.avi", b"j\xffmp/b.avi", b"jump/x\xff/b.avi"])
def test_a_name_that_is_not_utf_8_is_passed_over(
    name: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tree(tmp_path, "jump/a.avi")
    path = os.path.join(os.fsencode(tmp_path), name)
    os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 - pathlib takes no bytes
    with open(path, "wb"):  # noqa: PTH123
        pass
    assert pairs(Catalog.from_folder(tmp_path)) == [("jump/a.avi", "jump")]
    assert "passed over 1 names that are not a line of UTF-8 text; videos are named" in caplog.text


@pytest.mark.parametrize("name", ["jump/b\nc.avi", "ju\rmp/b.avi", "jump/\n/b.avi"])
def test_a_name_with_a_line_break_is_passed_over(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = Catalog.from_folder(tree(tmp_path, "jump/a.avi", name))
    assert pairs(catalog) == [("jump/a.avi", "jump")]
    assert "passed over 1 names that are not a line of UTF-8 text" in caplog.text
    (tmp_path / "jump/a.avi").unlink()
    with refused("*.avi", ": passed over 1 names that are not a line of UTF-8 text"):
        Catalog.from_folder(tmp_path)


@pytest.mark.parametrize("parts", [("train", "test"), ("train", "val"), ("Training", "validation")])
def test_the_parts_of_a_data_set_are_not_taken_for_classes(
    parts: tuple[str, str], tmp_path: Path
) -> None:
    tree(tmp_path, *(f"{part}/{kind}/{i}.avi" for part in parts for kind in TWO for i in range(2)))
    with refused(tmp_path, f"{parts[0]}, {parts[1]}" if parts[1] > parts[0] else parts[0],
                 "are parts of a data set, not classes: use Catalog.train_and_test"):  # fmt: skip
        Catalog.from_folder(tmp_path)
    assert Catalog.from_folder(tmp_path, classes=parts).classes == parts
    train, test = Catalog.train_and_test(tmp_path)
    assert train.classes == test.classes == TWO
    assert {path.path.split("/")[0] for path in train} == {parts[0]}
    assert {path.path.split("/")[0] for path in test} == {parts[1]}


def test_train_is_a_class_beside_other_classes(tmp_path: Path) -> None:
    tree(tmp_path, "train/a.avi", "bus/b.avi")  # vehicles
    assert Catalog.from_folder(tmp_path).classes == ("bus", "train")


def test_without_labels_videos_may_lie_at_any_depth(tmp_path: Path) -> None:
    tree(tmp_path, "b.avi", "x/a.avi", "x/y/z/c.MP4", ".hidden/d.avi", "train/e.avi", "test/f.avi")
    catalog = Catalog.from_folder(tmp_path, label=None)
    assert catalog.paths == ("b.avi", "test/f.avi", "train/e.avi", "x/a.avi", "x/y/z/c.MP4")
    assert catalog.classes == ()
    assert set(catalog.labels.tolist()) == {-1}
    assert Catalog.from_folder(tmp_path / "x", root=tmp_path, label=None).paths[0] == "x/a.avi"
    assert Catalog.from_folder(tmp_path, label=None, classes=TWO).classes == TWO
    with refused("has no videos"):
        Catalog.from_folder(tree(tmp_path / "none", "notes.txt"), label=None)


def test_a_short_look_tells_whether_a_folder_holds_videos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert holds_videos(tree(tmp_path / "some", "notes.txt", "deep/er/b.AVI"))
    none = tree(tmp_path / "none", "notes.txt", "class/", "deep/er/more.txt")
    assert not holds_videos(none)
    (none / "round").symlink_to(none)
    assert not holds_videos(none), "a link that leads back is no endless way"
    monkeypatch.setattr("videoload.listings.folders._MOST_LOOKED_AT", 3)
    assert holds_videos(none), "nobody waits for a look at a million names"

"""Catalogs from folders, lists and tables: what is read, and what is refused in one clear line."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.catalogs import file_paths, pairs, refused, tables, text, tree
from videoload.errors import CatalogError
from videoload.spec.catalog import Catalog
from videoload.spec.table import Video

patient = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
TWO = ("jump", "run")


# from_folder


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
    assert len(Catalog.from_folder(tmp_path)) == 3
    assert len(Catalog.from_folder(tmp_path, suffixes=(".WebM", ".avi"))) == 4
    assert len(Catalog.from_folder(tmp_path, suffixes=".webm")) == 1


@pytest.mark.parametrize("suffixes", [(), ("avi",), (".",), ("",)])
def test_suffixes_that_cannot_be_meant_are_refused(
    tmp_path: Path, suffixes: tuple[str, ...]
) -> None:
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


def test_a_class_file_serves_a_folder_too(tmp_path: Path) -> None:
    tree(tmp_path, "run/a.avi")
    index = text(tmp_path, "1 run\n2 jump\n", "classInd.txt")
    assert Catalog.from_folder(tmp_path, classes=index).classes == ("run", "jump")


def test_a_sub_folder_that_is_no_given_class_is_refused(tmp_path: Path) -> None:
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
    with refused(tmp_path, "*.mkv or *.avi", "2 class sub-folders"):
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


def test_a_root_that_holds_both_mends_a_symlink_out_of_the_folder(tmp_path: Path) -> None:
    tree(tmp_path, "data/jump/a.avi", "other.avi")
    (tmp_path / "data/jump/b.avi").symlink_to(tmp_path / "other.avi")
    catalog = Catalog.from_folder(tmp_path / "data", root=tmp_path)
    assert [video.path for video in catalog] == ["data/jump/a.avi", "data/jump/b.avi"]


def test_a_link_to_a_sibling_with_a_longer_name_leaves_the_root(tmp_path: Path) -> None:
    tree(tmp_path, "data/jump/a.avi", "data2/b.avi")
    (tmp_path / "data/jump/b.avi").symlink_to(tmp_path / "data2/b.avi")
    with refused("out of the root"):
        Catalog.from_folder(tmp_path / "data")


def test_a_symlinked_text_may_lead_anywhere(tmp_path: Path) -> None:
    tree(tmp_path, "data/jump/a.avi", "readme.txt")
    (tmp_path / "data/jump/readme.txt").symlink_to(tmp_path / "readme.txt")
    assert len(Catalog.from_folder(tmp_path / "data")) == 1


def test_a_folder_may_itself_be_reached_by_a_symlink(tmp_path: Path) -> None:
    tree(tmp_path, "real/jump/a.avi")
    (tmp_path / "link").symlink_to("real")
    catalog = Catalog.from_folder(tmp_path / "link")
    assert (catalog.root, catalog[0].path) == (tmp_path / "real", "jump/a.avi")


@pytest.mark.parametrize("name", [b"jump/\xff.avi", b"j\xffmp/a.avi"])
def test_a_file_name_that_is_not_utf_8_is_refused_by_its_repr(tmp_path: Path, name: bytes) -> None:
    path = os.path.join(os.fsencode(tmp_path), name)
    os.makedirs(os.path.dirname(path))  # noqa: PTH103, PTH120 - pathlib takes no bytes
    with open(path, "wb"):  # noqa: PTH123
        pass
    with refused(tmp_path, repr(os.fsdecode(name)), "rename"):
        Catalog.from_folder(tmp_path)


def test_a_folder_name_with_a_line_break_is_refused_in_one_line(tmp_path: Path) -> None:
    with refused("'ju\\nmp/a.avi'", "rename"):
        Catalog.from_folder(tree(tmp_path, "ju\nmp/a.avi"))


# from_list


def test_a_split_file_of_ucf_101_is_a_catalog(tmp_path: Path) -> None:
    index = text(tmp_path, "1 ApplyEyeMakeup\n2 Archery\n", "classInd.txt")
    split = text(tmp_path, "Archery/v_b_g01_c01.avi 2\nApplyEyeMakeup/v_a_g08_c01.avi 1\n")
    catalog = Catalog.from_list(split, tmp_path, index)
    assert (catalog.root, catalog.classes) == (tmp_path, ("ApplyEyeMakeup", "Archery"))
    assert list(catalog) == [
        Video("Archery/v_b_g01_c01.avi", 1),
        Video("ApplyEyeMakeup/v_a_g08_c01.avi", 0),
    ]


def test_without_a_number_the_first_folder_is_the_class(tmp_path: Path) -> None:
    split = text(tmp_path, "run/deep/a.avi\n./jump/b.avi\n")
    assert pairs(Catalog.from_list(split, None, TWO)) == [
        ("run/deep/a.avi", "run"),
        ("jump/b.avi", "jump"),
    ]


def test_a_numbered_path_needs_no_class_folder(tmp_path: Path) -> None:
    split = text(tmp_path, "all/a.avi 2\nb.avi 1\nrun 1\n")
    assert Catalog.from_list(split, None, TWO).labels.tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    "content",
    [
        "run/a b.avi 2\r\n\r\njump/c.avi 1\r\n",
        b"\xef\xbb\xbfrun/a b.avi 2\njump/c.avi 1",
        "\n  run/a b.avi \t 2  \n \njump/c.avi\n\n",
    ],
)
def test_line_ends_marks_blanks_and_spaces_are_no_trouble(
    tmp_path: Path, content: str | bytes
) -> None:
    catalog = Catalog.from_list(text(tmp_path, content), None, TWO)
    assert pairs(catalog) == [("run/a b.avi", "run"), ("jump/c.avi", "jump")]


def test_no_listed_file_is_looked_at(tmp_path: Path) -> None:
    tree(tmp_path, "data/jump/")
    split = text(tmp_path, "jump/not-there.avi\n")
    assert len(Catalog.from_list(split, tmp_path / "data")) == 1


def test_without_classes_the_sub_folders_of_the_root_are_the_classes(tmp_path: Path) -> None:
    tree(tmp_path, "data/run/", "data/jump/", "data/.git/", "data/notes.txt")
    split = text(tmp_path, "run/a.avi 2\njump/b.avi\n")
    catalog = Catalog.from_list(split, tmp_path / "data")
    assert (catalog.classes, catalog.labels.tolist()) == (TWO, [1, 0])


def test_without_classes_and_root_the_list_is_refused(tmp_path: Path) -> None:
    with refused("list.txt", "classes"):
        Catalog.from_list(text(tmp_path, "run/a.avi 1\n"), None)


def test_a_root_without_sub_folders_gives_no_classes(tmp_path: Path) -> None:
    with refused(tmp_path, "class"):
        Catalog.from_list(text(tmp_path, "run/a.avi 1\n"), tmp_path)


@pytest.mark.parametrize("classes", [None, TWO])
def test_a_given_root_must_exist(tmp_path: Path, classes: Sequence[str] | None) -> None:
    split = text(tmp_path, "run/a.avi 2\n")
    with refused(tmp_path / "none"):
        Catalog.from_list(split, tmp_path / "none", classes)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("run/a.avi 3", ["3", "1..2"]),
        ("run/a.avi 0", ["0", "1..2"]),
        ("run/a.avi -1", ["-1", "1..2"]),
        ("run/a.avi 1", ["'run/a.avi'", "1", "'jump'"]),
        ("walk/a.avi", ["'walk/a.avi'", "jump, run"]),
        ("a.avi", ["'a.avi'", "no class number"]),
        ("run", ["'run'", "no class number"]),
        ("/run/a.avi 2", ["'/run/a.avi'", "relative"]),
        ("run/../../a.avi 2", ["inside the root"]),
        ("jump/x.avi 1", ["line 1", "'jump/x.avi'", "same segment"]),
        ("jump/a\0.avi 1", ["UTF-8 text"]),
    ],
)
def test_a_bad_line_is_named_with_its_file_and_number(
    tmp_path: Path, line: str, words: list[str]
) -> None:
    split = text(tmp_path, f"jump/x.avi 1\n\n{line}\n")
    with refused(f"{split}, line 3", *words):
        Catalog.from_list(split, None, TWO)


def test_a_list_without_videos_is_refused(tmp_path: Path) -> None:
    with refused("list.txt", "no videos"):
        Catalog.from_list(text(tmp_path, "\n \n"), None, TWO)


def test_a_list_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with refused(tmp_path / "none.txt", "No such file"):
        Catalog.from_list(tmp_path / "none.txt", None, TWO)


def test_a_folder_given_as_a_list_is_refused(tmp_path: Path) -> None:
    with refused(tmp_path, "Is a directory"):
        Catalog.from_list(tmp_path, None, TWO)


@pytest.mark.parametrize(
    "content",
    [
        "jump/a.avi 1\njump/übung.avi 1\n".encode("latin-1"),
        b"jump/a.avi 1\nRIFF\x10\x00\x00\x00AVI \n",
    ],
)
def test_a_list_that_is_not_utf_8_text_is_refused(tmp_path: Path, content: bytes) -> None:
    split = text(tmp_path, content)
    with refused(f"{split}, line 2", "UTF-8"):
        Catalog.from_list(split, None, TWO)


# classInd.txt


def test_a_class_file_may_stand_in_any_order_with_spaces_in_names(tmp_path: Path) -> None:
    index = text(tmp_path, "\ufeff2 run  fast\r\n\r\n1\tjump\r\n", "classInd.txt")
    catalog = Catalog.from_list(text(tmp_path, "run  fast/a.avi 2\n"), None, str(index))
    assert catalog.classes == ("jump", "run  fast")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("1 jump\n3 run\n", ["2 is missing"]),
        ("0 jump\n1 run\n", ["2 is missing"]),
        ("2 jump\n3 run\n", ["1 is missing"]),
        ("1 jump\n1 run\n", ["line 2", "'1 run'"]),
        ("1 jump\nrun\n", ["line 2", "'run'"]),
        ("1 jump\n2\n", ["line 2", "'2'"]),
        ("1 jump\n-2 run\n", ["line 2", "'-2 run'"]),
        ("1 jump\n2 jump\n", ["'jump'", "twice"]),
        ("\n", ["at least one"]),
    ],
)
def test_a_bad_class_file_is_named(tmp_path: Path, content: str, words: list[str]) -> None:
    index = text(tmp_path, content, "classInd.txt")
    with refused(index, *words):
        Catalog.from_list(text(tmp_path, "jump/a.avi 1\n"), None, index)


def test_a_class_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with refused(tmp_path / "classInd.txt", "No such file"):
        Catalog.from_list(text(tmp_path, "a.avi 1\n"), None, tmp_path / "classInd.txt")


# from_csv


def test_a_table_of_names_is_a_catalog(tmp_path: Path) -> None:
    table = text(tmp_path, "path,label\nx/a.avi,run\ny/b.avi,jump\nc.avi,run\n")
    catalog = Catalog.from_csv(table, tmp_path)
    assert (catalog.root, catalog.classes) == (tmp_path, TWO)
    assert pairs(catalog) == [("x/a.avi", "run"), ("y/b.avi", "jump"), ("c.avi", "run")]


def test_whole_number_labels_are_the_labels_themselves(tmp_path: Path) -> None:
    catalog = Catalog.from_csv(text(tmp_path, "path,label\na.avi,10\nb.avi,2\nc.avi,02\n"), None)
    assert catalog.labels.tolist() == [10, 2, 2]
    assert catalog.classes == tuple(map(str, range(11)))


def test_given_classes_name_whole_number_labels(tmp_path: Path) -> None:
    catalog = Catalog.from_csv(text(tmp_path, "path,label\na.avi,1\nb.avi,0\n"), None, TWO)
    assert pairs(catalog) == [("a.avi", "run"), ("b.avi", "jump")]


def test_given_classes_look_names_up(tmp_path: Path) -> None:
    catalog = Catalog.from_csv(
        text(tmp_path, "path,label\na.avi,jump\n"), None, ["walk", "run", "jump"]
    )
    assert (catalog.classes, catalog[0].label) == (("walk", "run", "jump"), 2)


def test_where_class_names_are_numbers_the_labels_are_names(tmp_path: Path) -> None:
    table = text(tmp_path, "path,label\na.avi,1\nb.avi,3\n")
    assert Catalog.from_csv(table, None, ["1", "2", "3"]).labels.tolist() == [0, 2]


def test_one_label_that_is_no_number_makes_all_of_them_names(tmp_path: Path) -> None:
    catalog = Catalog.from_csv(text(tmp_path, "path,label\na.avi,7\nb.avi,run\n"), None)
    assert (catalog.classes, catalog.labels.tolist()) == (("7", "run"), [0, 1])


@pytest.mark.parametrize("labels", [["0.0", "3.0"], ["1", "2.5"], ["0.1", "1e-3", "nan"], [".5"]])
def test_numbers_that_are_not_whole_are_no_classes(labels: list[str], tmp_path: Path) -> None:
    rows = "".join(f"{i}.avi,{label}\n" for i, label in enumerate(labels))
    table = text(tmp_path, f"path,label\n{rows}")
    wrong = next(label for label in labels if not label.isdigit())
    with refused(table, f"line {labels.index(wrong) + 2}", repr(wrong), "give classes="):
        Catalog.from_csv(table, None)
    assert Catalog.from_csv(table, None, labels).labels.tolist() == list(range(len(labels)))


def test_columns_may_stand_in_any_order_and_others_are_ignored(tmp_path: Path) -> None:
    table = text(
        tmp_path,
        "note,frames, end ,label,start,path\n"
        '"a, ""quoted""\nnote",300,40,run,20,a.avi\n'
        ",,,jump,,b.avi\n",
    )
    assert list(Catalog.from_csv(table, None)) == [
        Video("a.avi", 1, 20, 40, 300),
        Video("b.avi", 0, 0, None, None),
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfpath,label\r\na.avi,run\r\n\r\n,\r\n",
        b"path,label\na.avi, run \n",
        b'"path","label"\r\n"a.avi","run"',
    ],
)
def test_marks_line_ends_blanks_and_quotes_of_a_table_are_no_trouble(
    tmp_path: Path, content: bytes
) -> None:
    assert pairs(Catalog.from_csv(text(tmp_path, content), None)) == [("a.avi", "run")]


def test_a_path_with_a_comma_is_quoted(tmp_path: Path) -> None:
    catalog = Catalog.from_csv(text(tmp_path, 'path,label\n"a, b.avi",run\n'), None)
    assert catalog[0].path == "a, b.avi"


def test_many_segments_of_a_file_are_many_videos(tmp_path: Path) -> None:
    table = text(tmp_path, "path,label,start,end\na.avi,run,0,9\na.avi,jump,9,\na.avi,run,0,8\n")
    assert [video[1:4] for video in Catalog.from_csv(table, None)] == [
        (1, 0, 9),
        (0, 9, None),
        (1, 0, 8),
    ]


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("path;label", "'path;label'"),
        ("file,label", "'file,label'"),
        ("path", "'path'"),
        ("path,label,label", "'path,label,label'"),
        ("path,label,end,end", "'path,label,end,end'"),
        ("Path,Label", "'Path,Label'"),
        ("", "''"),
    ],
)
def test_a_header_without_the_columns_is_refused(tmp_path: Path, header: str, found: str) -> None:
    table = text(tmp_path, f"{header}\na.avi,run\n")
    with refused(table, "path and label", found):
        Catalog.from_csv(table, None)


@pytest.mark.parametrize("content", ["", "path,label\n", "path,label\n,\n\n"])
def test_a_table_without_videos_is_refused(tmp_path: Path, content: str) -> None:
    table = text(tmp_path, content)
    with refused(table):
        Catalog.from_csv(table, None)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("b.avi,jump,x,,", ["'x'", "whole number"]),
        ("b.avi,jump,-1,,", ["'-1'", "whole number"]),
        ("b.avi,jump,,1.5,", ["'1.5'"]),
        ("b.avi,jump,,,many", ["'many'"]),
        ("b.avi,jump,,,99999999999999999999", ["'99999999999999999999'"]),
        ("b.avi,jump,9,9,", ["'b.avi'", "end 9"]),
        ("b.avi,jump,9,8,", ["'b.avi'", "end 8"]),
        ("b.avi,jump,0,11,10", ["'b.avi'", "10 frames"]),
        ("b.avi,,,,", ["label ''"]),
        (",jump,,,", ["path ''"]),
        ("/b.avi,jump,,,", ["'/b.avi'", "relative"]),
        ("../b.avi,jump,,,", ["'../b.avi'"]),
        ('"b\n.avi",jump,,,', ["'b\\n.avi'"]),
        ("./a.avi,jump,,,", ["line 2", "'a.avi'", "same segment"]),
        ("b.avi,jump", ["2 fields", "5", "quotes"]),
        ("b,1.avi,jump,,,", ["6 fields", "quotes"]),
        ('"b"x.avi,jump,,,', ["expected after"]),
        ('"b.avi,jump,,,', ["unexpected end"]),
    ],
)
def test_a_bad_row_is_named_with_its_file_and_line(
    tmp_path: Path, row: str, words: list[str]
) -> None:
    table = text(tmp_path, f"path,label,start,end,frames\na.avi,run,,,\n\n{row}")
    with refused(f"{table}, line {4 + row.count(chr(10))}", *words):
        Catalog.from_csv(table, None)


@pytest.mark.parametrize(
    ("labels", "classes", "words"),
    [
        (["run", "walk"], TWO, ["'walk'", "jump, run"]),
        (["0", "2"], TWO, ["'2'", "0..1"]),
        (["0", "-1"], TWO, ["'-1'", "0..1"]),
        (["0", "-1"], None, ["'-1'", "0.."]),
        (["0", "1699999999999"], None, ["'1699999999999'", "0..999999"]),
        (["0", "9" * 5000], None, ["0..999999"]),
        (["1", "0"], ["1", "2"], ["'0'", "1, 2"]),
        (["k0", "x"], [f"k{i}" for i in range(9)], ["'x'", "k0, k1, k2, k3, k4, ... 4 more"]),
    ],
)
def test_a_label_that_is_no_class_is_named_with_its_line(
    tmp_path: Path, labels: list[str], classes: Sequence[str] | None, words: list[str]
) -> None:
    table = text(tmp_path, f"path,label\na.avi,{labels[0]}\nb.avi,{labels[1]}\n")
    with refused(f"{table}, line 3", *words):
        Catalog.from_csv(table, None, classes)


@pytest.mark.parametrize(
    "content",
    [
        "path,label\nübung.avi,run\n".encode("latin-1"),
        "path,label\na.avi,run\n".encode("utf-16"),
        b"RIFF\x00\x01\x02\x03AVI LIST\xff\xfe",
        bytes(range(256)),
    ],
)
def test_a_table_that_is_not_utf_8_text_is_refused(tmp_path: Path, content: bytes) -> None:
    table = text(tmp_path, content)
    with refused(table, "UTF-8"):
        Catalog.from_csv(table, None)


def test_a_table_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with refused(tmp_path / "none.csv", "No such file"):
        Catalog.from_csv(tmp_path / "none.csv", None)


def test_a_root_given_to_a_table_must_exist(tmp_path: Path) -> None:
    with refused(tmp_path / "none"):
        Catalog.from_csv(text(tmp_path, "path,label\na.avi,run\n"), tmp_path / "none")


# Round trips


@patient
@given(catalog=tables())
def test_a_catalog_written_as_a_table_reads_back_the_same(tmp_path: Path, catalog: Catalog) -> None:
    with (tmp_path / "t.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(Video._fields)
        table.writerows((v.path, catalog.classes[v.label], *v[2:]) for v in catalog)
    assert Catalog.from_csv(tmp_path / "t.csv", None, catalog.classes) == catalog


@patient
@given(
    paths=st.lists(
        file_paths.filter(lambda path: path == path.strip()), min_size=1, max_size=12, unique=True
    ),
    data=st.data(),
)
def test_a_catalog_written_as_a_list_reads_back_the_same(
    tmp_path: Path, paths: list[str], data: st.DataObject
) -> None:
    classes = [f"no such folder {i}" for i in range(3)]
    labels = data.draw(st.lists(st.integers(0, 2), min_size=len(paths), max_size=len(paths)))
    split = text(tmp_path, "".join(f"{p} {n + 1}\n" for p, n in zip(paths, labels, strict=True)))
    assert Catalog.from_list(split, None, classes) == Catalog(paths, labels, classes)


def test_a_path_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    # A worker would refuse the lease that names it, and be sent it again and again.
    list_of = tmp_path / "list.txt"
    list_of.write_text(f"a/good.avi\na/{'x' * 5000}.avi\n")
    with pytest.raises(CatalogError, match=r"xxx\.\.\.' has 5006 characters, and no file's has"):
        Catalog.from_list(list_of, root=tmp_path, classes=["a"])

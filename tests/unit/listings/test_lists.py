"""Catalogs from lists. Mistakes are refused in one line."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.catalogs import file_paths, pairs, refused, tables, text, tree
from videoload.catalog.catalog import Catalog
from videoload.catalog.table import Video
from videoload.errors import CatalogError

patient = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
TWO = ("jump", "run")


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
def test_a_list_may_have_a_byte_order_mark_any_line_ends_blanks_and_spaces(
    tmp_path: Path, content: str | bytes
) -> None:
    catalog = Catalog.from_list(text(tmp_path, content), None, TWO)
    assert pairs(catalog) == [("run/a b.avi", "run"), ("jump/c.avi", "jump")]


def test_from_list_opens_no_video(tmp_path: Path) -> None:
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
        ("0 jump\n1 run\n", ["go from 1 without a gap, but 0 is there"]),
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


# Round trips


@patient
@given(catalog=tables())
def test_a_catalog_written_as_a_table_reads_back_the_same(tmp_path: Path, catalog: Catalog) -> None:
    with (tmp_path / "t.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(Video._fields)
        table.writerows((v.path, catalog.classes[v.label], *v[2:]) for v in catalog)
    assert Catalog.from_table(tmp_path / "t.csv", None, catalog.classes) == catalog


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
    # A worker refuses a lease with this path, so it would get the lease again and again.
    list_of = tmp_path / "list.txt"
    list_of.write_text(f"a/good.avi\na/{'x' * 5000}.avi\n")
    with pytest.raises(CatalogError, match=r"xxx\.\.\.' has 5006 characters, more than the 4096"):
        Catalog.from_list(list_of, root=tmp_path, classes=["a"])

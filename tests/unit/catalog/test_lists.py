"""Catalogs from lists. Mistakes are refused in one line."""

import csv
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple

from tests.support.catalogs import file_paths, pairs, refused, tables, text, tree
from videoload.catalog.catalog import Catalog
from videoload.clips.rows import Video

patient = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
TWO = ("jump", "run")


@pytest.mark.parametrize(
    ("content", "classes", "found"),
    [
        ("run/up/a.avi\n./jump/b.avi\n", TWO, [("run/up/a.avi", "run"), ("jump/b.avi", "jump")]),
        ("all/a.avi 2\nb.avi 1\nrun 1\n", TWO,
         [("all/a.avi", "run"), ("b.avi", "jump"), ("run", "jump")]),
        *((content, TWO, [("run/a b.avi", "run"), ("jump/c.avi", "jump")]) for content in (
            "run/a b.avi 2\r\n\r\njump/c.avi 1\r\n",
            b"\xef\xbb\xbfrun/a b.avi 2\njump/c.avi 1",
            "\n  run/a b.avi \t 2  \n \njump/c.avi\n\n",
        )),
        ("run/a.avi 2\njump/b.avi\n", None, [("run/a.avi", "run"), ("jump/b.avi", "jump")]),
        ("run  fast/a.avi 2\n", "\ufeff2 run  fast\r\n\r\n1\tjump\r\n",
         [("run  fast/a.avi", "run  fast")]),
    ],
)  # fmt: skip
def test_a_list_is_a_catalog(tmp_path: Path, content: Any, classes: Any, found: Any) -> None:
    root = tree(tmp_path / "data", "run/", "jump/", ".git/", "notes.txt")  # no video is opened
    if isinstance(classes, str):
        classes = str(text(tmp_path, classes, "classInd.txt"))
    catalog = Catalog.from_list(text(tmp_path, content), root, classes)
    assert (catalog.root, pairs(catalog)) == (root, found)
    assert len(catalog.classes) == 2
    assert catalog.classes[0] == "jump"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("run/a.avi 3", ["3", "1..2"]), ("run/a.avi 0", ["0", "1..2", "1"]),
        ("run/a.avi -1", ["-1", "1..2"]), ("run/a.avi 1", ["'run/a.avi'", "1", "'jump'"]),
        ("walk/a.avi", ["'walk/a.avi'", "jump, run"]), ("a.avi", ["'a.avi'"]),
        ("run", ["'run'"]), ("/run/a.avi 2", ["'/run/a.avi'"]),
        ("run/../../a.avi 2", ["a.avi"]),
        ("jump/x.avi 1", [" 1", "'jump/x.avi'"]), ("jump/a\0.avi 1", ["UTF-8"]),
        ("jump/übung.avi 1".encode("latin-1"), ["UTF-8"]), (b"RIFF\x10\x00\x00AVI ", ["UTF-8"]),
        # A worker refuses a lease with this path, so it would get the lease again and again.
        (f"run/{'x' * 5000}.avi 2", ["xxx...", "5008", "4096"]),
    ],
)  # fmt: skip
def test_a_bad_line_is_named_with_its_file_and_number(
    tmp_path: Path, line: str | bytes, words: list[str]
) -> None:
    raw = line if isinstance(line, bytes) else line.encode()
    split = text(tmp_path, b"jump/x.avi 1\n\n" + raw + b"\n")
    with refused(split, " 3", *words):
        Catalog.from_list(split, None, TWO)


@pytest.mark.parametrize(
    ("content", "root", "classes", "words"),
    [
        ("\n \n", None, TWO, ["list.txt"]), ("a.avi 1\n", None, None, ["classInd.txt"]),
        ("a.avi 1\n", "", None, ["[]"]), ("a.avi 1\n", "none", None, ["none"]),
        ("a.avi 1\n", "none", TWO, ["none"]), (None, None, TWO, ["list.txt", "No such file"]),
        ("a.avi 1\n", None, "none.txt", ["none.txt", "No such file"]),
    ],
)  # fmt: skip
def test_a_list_that_is_not_there_or_says_too_little_is_refused(
    tmp_path: Path, content: str | None, root: str | None, classes: Any, words: list[str]
) -> None:
    split = tmp_path / "list.txt" if content is None else text(tmp_path, content)
    classes = tmp_path / classes if isinstance(classes, str) else classes
    with refused(*words):
        Catalog.from_list(split, None if root is None else tmp_path / root, classes)
    with refused(tmp_path, "Is a directory"):
        Catalog.from_list(tmp_path, None, TWO)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("1 jump\n3 run\n", ["2"]), ("0 jump\n1 run\n", ["1, 2, 3", "0"]),
        ("2 jump\n3 run\n", ["1"]), ("1 jump\n1 run\n", [" 2", "'1 run'"]),
        ("1 jump\nrun\n", [" 2", "'run'"]), ("1 jump\n2\n", [" 2", "'2'"]),
        ("1 jump\n-2 run\n", [" 2", "'-2 run'"]), ("1 jump\n2 jump\n", ["'jump'"]),
        ("\n", []),
    ],
)  # fmt: skip
def test_a_bad_class_file_is_named(tmp_path: Path, content: str, words: list[str]) -> None:
    index = text(tmp_path, content, "classInd.txt")
    with refused(index, *words):
        Catalog.from_list(text(tmp_path, "jump/a.avi 1\n"), None, index)


@pytest.mark.parametrize("content", ["run left\n\njump\n3\n", "1 run left\n\n2 jump\n3 3\n"])
def test_a_class_file_has_a_name_a_line_or_numbers_and_names(tmp_path: Path, content: str) -> None:
    index = text(tmp_path, content, "classInd.txt")
    found = Catalog.from_list(text(tmp_path, "jump/a.avi 2\n"), None, index)
    assert found.classes == ("run left", "jump", "3")


# Round trips


@patient
@given(catalog=tables())
def test_a_catalog_written_as_a_table_reads_back_the_same(tmp_path: Path, catalog: Catalog) -> None:
    with (tmp_path / "t.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(Video.__struct_fields__[:-1])
        for video in catalog:
            path, label, *others = astuple(video)
            table.writerow((path, catalog.classes[label], *others[:-1]))
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

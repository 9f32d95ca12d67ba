"""Data sets as people have them: the lists that come with them, and folders without classes."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.support.catalogs import pairs, refused, tree
from videoload.catalog.catalog import Catalog


def test_ntu_has_one_folder_and_classes_in_names(tmp_path: Path) -> None:
    root = tree(tmp_path, *(f"S001C00{c}P001R001A0{a}_rgb.avi" for c in (1, 2) for a in (10, 43)))
    catalog = Catalog.from_folder(root, label=r"A(\d{3})")
    train, test = catalog.split(0.5, by=r"C(\d{3})")
    assert catalog.classes == ("010", "043")
    assert [catalog.classes[video.label] for video in catalog] == ["010", "043"] * 2
    assert {video.path[:8] for video in train} != {video.path[:8] for video in test}
    names = [f"action {n}" for n in range(1, 61)]
    named = Catalog.from_folder(root, label=r"A(\d{3})", classes=names)
    assert pairs(named)[:2] == [(catalog[0].path, "action 10"), (catalog[1].path, "action 43")]
    with refused("'043'", "action 1"):
        Catalog.from_folder(root, label=r"A(\d{3})", classes=names[:42])
    with refused("label='B(.)'"):
        Catalog.from_folder(root, label="B(.)")


def test_a_flat_folder_is_told_what_to_do(tmp_path: Path) -> None:
    root = tree(tmp_path, "a_1.avi", "b_2.webm")
    with refused("2 videos", "label=REGEX", "label=None", "Catalog.from_table"):
        Catalog.from_folder(root)
    assert pairs(Catalog.from_folder(root, label="[ab]")) == [("a_1.avi", "a"), ("b_2.webm", "b")]


def test_folders_of_the_system_are_no_classes_and_empty_ones_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = tree(
        tmp_path, "jump/a.avi", "jump/@eaDir/a.avi/t.avi", "@eaDir/x.avi", "__MACOSX/jump/a.avi",
        "System Volume Information/y.avi", "lost+found/z.avi", "$RECYCLE.BIN/w.avi",
    )  # fmt: skip
    (tmp_path / "walk").mkdir()
    (tmp_path / "lost+found").chmod(0)
    with caplog.at_level(logging.WARNING):
        catalog = Catalog.from_folder(root)
    (tmp_path / "lost+found").chmod(0o700)
    assert catalog.classes == ("jump", "walk")
    assert pairs(catalog) == [("jump/a.avi", "jump")]
    assert "no video in the class folders walk" in caplog.text


def test_a_list_of_kinetics_is_joined_with_the_files_that_are_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = "abseiling/-3B32lodo2M_000059_000069.mp4", "x/0347ZoDXyP0_000095_000105.webm"
    root = tree(tmp_path / "k400", *files)
    (tmp_path / "val.csv").write_text(
        "label,youtube_id,time_start,time_end,split\nabseiling,-3B32lodo2M,59,69,validate\n"
        "zumba,0347ZoDXyP0,95,105,validate\nzumba,gone,1,11,validate\n"
    )
    name = "**/{youtube_id}_{time_start:06}_{time_end:06}.*"
    catalog = Catalog.from_table(tmp_path / "val.csv", root, path=name)
    assert pairs(catalog) == [(files[0], "abseiling"), (files[1], "zumba")]
    assert "1 of 3 videos are not in" in caplog.text
    assert "gone_000001_000011" in caplog.text
    with refused("lists videos without their paths: give root="):
        Catalog.from_table(tmp_path / "val.csv", path=name)

"""Catalogs from folders. Mistakes are refused in one line."""

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.catalogs import pairs, refused, tree
from videoload.catalog.catalog import Catalog
from videoload.catalog.folders import holds_videos

TWO = ("jump", "run")


@pytest.mark.parametrize(
    ("files", "how", "classes", "found"),
    [
        (["run/b.avi", "run/a.avi", "jump/deep/er/c.avi", "jump/a.avi"], {}, TWO,
         ["jump/a.avi", "jump/deep/er/c.avi", "run/a.avi", "run/b.avi"]),
        (["jump/", "run/a.avi"], {}, TWO, ["run/a.avi"]),
        (["g/a.avi", "a/a.avi", "C/a.avi"], {}, tuple("Cag"), ["C/a.avi", "a/a.avi", "g/a.avi"]),
        (["j/a.AVI", "j/b.Avi", "j/d.webm", "j/avi", "j/xavi"], {}, ("j",),
         ["j/a.AVI", "j/b.Avi", "j/d.webm"]),
        ([".cache/a.avi", "j/.b.avi", "j/.git/c.avi", "j/d.avi", ".avi"], {}, ("j",), ["j/d.avi"]),
        (["jump/a.avi/b.avi"], {}, ("jump",), ["jump/a.avi/b.avi"]),  # a folder named like a video
        (["run/a.avi", "jump/b.avi"], {"classes": ["walk", "run", "jump"]},
         ("walk", "run", "jump"), ["run/a.avi", "jump/b.avi"]),
        (["train/a.avi", "bus/b.avi"], {}, ("bus", "train"), ["bus/b.avi", "train/a.avi"]),
        (["b.avi", "x/a.avi", "x/y/z/c.MP4", ".hidden/d.avi", "train/e.avi", "test/f.avi"],
         {"label": None}, (), ["b.avi", "test/f.avi", "train/e.avi", "x/a.avi", "x/y/z/c.MP4"]),
        (["b.avi"], {"label": None, "classes": TWO}, TWO, ["b.avi"]),
    ],
)  # fmt: skip
def test_a_folder_is_a_catalog(
    tmp_path: Path, files: list[str], how: Any, classes: tuple[str, ...], found: list[str]
) -> None:
    catalog = Catalog.from_folder(tree(tmp_path, *files), **how)
    named = "label" not in how
    assert (catalog.root, catalog.classes) == (tmp_path, classes)
    assert pairs(catalog) == [(path, path.split("/")[0] if named else "") for path in found]


@pytest.mark.parametrize(
    ("files", "how", "words"),
    [
        (["run/a.avi", "walk/b.avi"], {"classes": TWO}, ["'walk'", "jump, run"]),
        ([".hidden/a.avi", "readme.txt"], {}, ["*.avi", " 0 "]),
        (["jump/a.txt", "run/"], {}, ["*.avi", " 2 "]),
        (["a.avi", "b.avi"], {}, [" 2 "]), (["a.avi", "notes/a.txt"], {}, [" 1 "]),
        ([], {"classes": TWO}, [" 0 "]),
        (["notes.txt"], {"label": None}, []),
    ],
)  # fmt: skip
def test_a_folder_that_cannot_be_meant_is_refused(
    tmp_path: Path, files: list[str], how: Any, words: list[str]
) -> None:
    with refused(tmp_path, *words):
        Catalog.from_folder(tree(tmp_path, *files), **how)


def test_what_is_no_folder_or_cannot_be_listed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, "data/jump/a.avi", "data/jump/locked/a.avi", "data2/")
    (tmp_path / "loop").symlink_to("loop")
    for name, why in (("none", "No such"), ("data/jump/a.avi", "Not a dir"), ("loop", "")):
        with refused(tmp_path / name, why):
            Catalog.from_folder(tmp_path / name)
    with refused(tmp_path / "data", tmp_path / "data2", "root"):
        Catalog.from_folder(tmp_path / "data", root=tmp_path / "data2")
    scandir = os.scandir

    def locked(path: Path) -> Any:  # a mode would not stop root, who may run this
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", locked)
    with refused(tmp_path / "data/jump/locked", "Permission denied"):
        Catalog.from_folder(tmp_path / "data")


# Links


def test_links_of_files_inside_the_root_are_videos_and_all_others_are_skipped(
    tmp_path: Path,
) -> None:
    """Also those that lead nowhere: decoders name them."""
    tree(tmp_path, "real/jump/a.avi", "real/.store/b", "readme.txt")
    (tmp_path / "link").symlink_to("real")
    jump = tmp_path / "real/jump"
    os.mkfifo(jump / "pipe.avi")
    for name, to in (
        ("b.avi", "../.store/b"), ("gone.avi", "none.avi"), ("self.avi", "self.avi"),
        ("loop", tmp_path / "real"), ("folder.avi", jump), ("readme.txt", tmp_path / "readme.txt"),
        ("../alias", "jump"),
    ):  # fmt: skip
        (jump / name).symlink_to(to)
    catalog = Catalog.from_folder(tmp_path / "link")
    assert (catalog.root, catalog.classes) == (tmp_path / "real", ("jump",))
    assert catalog.paths == tuple(f"jump/{name}.avi" for name in ("a", "b", "gone", "self"))


@pytest.mark.parametrize(
    ("link", "to"),
    [("jump/b.avi", "other.avi"), ("jump/more", "others"), ("run", "others"),
     ("jump/b.avi", "data2/b.avi")],
)  # fmt: skip
def test_a_symlink_out_of_the_root_is_refused(tmp_path: Path, link: str, to: str) -> None:
    tree(tmp_path, "data/jump/a.avi", "other.avi", "others/c.avi", "data2/b.avi")
    (tmp_path / "data" / link).symlink_to(tmp_path / to)
    with refused(tmp_path / "data" / link, tmp_path / to, f"root={str(tmp_path)!r}"):
        Catalog.from_folder(tmp_path / "data")
    above = Catalog.from_folder(tmp_path / "data", root=tmp_path)
    linked = f"data/{link}" if link.endswith(".avi") else f"data/{link}/c.avi"
    assert above.paths == ("data/jump/a.avi", linked)
    assert above.classes == (("jump", "run") if link == "run" else ("jump",))


def test_linked_folders_that_lead_round_are_searched_once(tmp_path: Path) -> None:
    tree(tmp_path, "data/jump/a.avi", "disk/more/b.avi")
    for link, to in (
        ("data/jump/disk", "disk"), ("data/jump/disk2", "disk"), ("data/up", "."),
        ("disk/back", "data/jump"), ("disk/more/round", "disk"), ("data/jump/self", "data/jump"),
    ):  # fmt: skip
        (tmp_path / link).symlink_to(tmp_path / to)
    found = Catalog.from_folder(tmp_path / "data", root=tmp_path)
    assert found.paths == ("data/jump/a.avi", "data/jump/disk/more/b.avi")


# Names


@pytest.mark.parametrize(
    "name",
    [b"jump/\xff.avi", b"j\xffmp/b.avi", b"jump/x\xff/b.avi", b"jump/b\nc.avi", b"ju\rmp/b.avi"],
)
def test_a_name_that_is_no_line_of_utf_8_is_passed_over(
    name: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tree(tmp_path, "jump/a.avi", os.fsdecode(name))
    assert pairs(Catalog.from_folder(tmp_path)) == [("jump/a.avi", "jump")]
    assert " 1 " in caplog.text
    assert "PYTHONUTF8" not in caplog.text, "names are UTF-8 here"
    (tmp_path / "jump/a.avi").unlink()
    with refused("*.avi", " 1 ", "UTF-8"):
        Catalog.from_folder(tmp_path)


@pytest.mark.parametrize("parts", [("train", "test"), ("train", "val"), ("Training", "validation")])
def test_the_parts_of_a_data_set_are_not_taken_for_classes(
    parts: tuple[str, str], tmp_path: Path
) -> None:
    tree(tmp_path, *(f"{part}/{kind}/{i}.avi" for part in parts for kind in TWO for i in range(2)))
    with refused(tmp_path, *parts, "Catalog.train_and_test"):
        Catalog.from_folder(tmp_path)
    assert Catalog.from_folder(tmp_path, classes=parts).classes == parts
    train, test = Catalog.train_and_test(tmp_path)
    assert train.classes == test.classes == TWO
    assert {path.path.split("/")[0] for path in train} == {parts[0]}
    assert {path.path.split("/")[0] for path in test} == {parts[1]}


def test_a_short_look_tells_whether_a_folder_holds_videos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert holds_videos(tree(tmp_path / "some", "notes.txt", "deep/er/b.AVI"))
    none = tree(tmp_path / "none", "notes.txt", "class/", "deep/er/more.txt")
    assert not holds_videos(none)
    (none / "round").symlink_to(none)
    assert not holds_videos(none), "a link that leads back is no endless way"
    monkeypatch.setattr("videoload.catalog.folders._MOST_LOOKED_AT", 3)
    assert holds_videos(none), "nobody waits for a look at a million names"


# Folders as people have them


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
    assert "class folders walk" in caplog.text

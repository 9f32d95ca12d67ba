"""What a command's argument means: class folders, one folder, a table or a list."""

import tarfile
from pathlib import Path

import pytest

from videoload import CatalogError, VideoloadError
from videoload.catalog import sources


def make(root: Path, *names: str) -> Path:
    """Empty files."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


def test_a_folder_without_sub_folders_has_no_labels(tmp_path: Path) -> None:
    folder = make(tmp_path, "data/walk/b.avi", "data/walk/a.AVI", "data/walk/notes.txt") / "data"
    alone = sources.load(folder / "walk", None)
    assert (alone.classes, [v.path for v in alone]) == ((), ["a.AVI", "b.avi"])
    below = sources.load(folder / "walk", folder)
    assert [v.path for v in below] == ["walk/a.AVI", "walk/b.avi"]
    assert below.root == folder


def test_a_folder_that_cannot_be_read_as_classes_is_not_taken_as_one(tmp_path: Path) -> None:
    make(tmp_path, "data/run/a.avi", "data/walk/b.avi", "elsewhere/c.avi", "data/loose.avi")
    (tmp_path / "data/walk/linked.avi").symlink_to(tmp_path / "elsewhere/c.avi")
    with pytest.raises(CatalogError, match=r"linked\.avi"):
        sources.load(tmp_path / "data", None)
    with pytest.raises(CatalogError, match="none"):
        sources.load(make(tmp_path / "none", "notes.txt"), None)


def test_a_single_video_is_no_catalog(tmp_path: Path) -> None:
    with pytest.raises(VideoloadError, match=r"a\.avi"):
        sources.load(make(tmp_path, "a.avi") / "a.avi", None)


def test_shards_and_tables_of_their_members_are_catalogs(tmp_path: Path) -> None:
    make(tmp_path, "a.avi", "b.avi")
    for shard, name in (("0.tar", "a.avi"), ("1.tar", "b.avi")):
        with tarfile.open(tmp_path / shard, "w") as archive:
            archive.add(tmp_path / name, name)
    (tmp_path / "all.csv").write_text("path\n0.tar/a.avi\n1.tar/b.avi\n")
    assert sources.load(tmp_path / "1.tar", None).paths == ("1.tar/b.avi",)
    for source in ("{0..1}.tar", "*.tar", "all.csv"):
        assert sources.load(tmp_path / source, None).paths == ("0.tar/a.avi", "1.tar/b.avi")


def test_a_list_whose_videos_lie_elsewhere_asks_for_the_root(tmp_path: Path) -> None:
    make(tmp_path, "ucf101/Archery/a.avi", "ucf101/Bowling/b.avi")
    split = tmp_path / "lists/testlist01.txt"
    split.parent.mkdir(exist_ok=True)
    split.write_text("Bowling/b.avi\nArchery/gone.avi\n")
    table = tmp_path / "lists/test.csv"
    table.write_text("path,label\nBowling/b.avi,1\n")
    for file in (split, table):
        with pytest.raises(VideoloadError, match=r"'Bowling/b.avi'.*--root"):
            sources.load(file, None)
        assert sources.load(file, tmp_path / "ucf101")[0].path == "Bowling/b.avi"
    table.write_text("clip,what,set\nBowling/b,run,1\nArchery/a,sit,2\n")
    how = 'path="{clip}.avi", label=what, where={"set": 2}'
    names = tmp_path / "classInd.txt"
    names.write_text("1 Archery\n2 Bowling\n3 Diving\n")
    for file in (split, tmp_path / "ucf101"):
        by_name = sources.load(file, tmp_path / "ucf101", classes=names)
        assert by_name.classes == ("Archery", "Bowling", "Diving")
    named = sources.load(table, tmp_path / "ucf101", table=how)
    assert [(video.path, named.classes[video.label]) for video in named] == [
        ("Archery/a.avi", "sit")
    ]
    for file, text, word in ((table, "lable=what", "label="), (split, how, split.name)):
        with pytest.raises(VideoloadError, match=f"--table.*{word}"):
            sources.load(file, tmp_path / "ucf101", table=text)
    beside = tmp_path / "ucf101/split.txt"
    make(tmp_path, "ucf101/Bowling/a b 7.avi")
    beside.write_text("Archery/gone.avi 1\n\nBowling/a b 7.avi 2\n")
    assert len(sources.load(beside, None)) == 2

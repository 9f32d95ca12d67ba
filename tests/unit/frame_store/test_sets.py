"""What a set of a frame store is, and that nothing else is deleted."""

from __future__ import annotations

import os
import time
from pathlib import Path

from videoload.frame_store import sets
from videoload.frame_store.store import FrameStore, Scaling
from videoload.frame_store.stored_video import Head, StoredVideo

SCALING = Scaling("128", all_frames=True)
HEAD = Head(bytes(32), 1, 100, b"", b"")


def keep(folder: Path, root: str, path: str = "a.avi") -> StoredVideo | None:
    place = FrameStore(folder, HEAD.file_bytes, root, "software 1")
    return place.create(path, SCALING, HEAD, [0])


def make_set(folder: Path, files: int = 3) -> Path:
    part = folder / "ab"
    part.mkdir(parents=True)
    (folder / "set.json").write_text("{}")
    os.utime(folder / "set.json", (1, 1))
    for number in range(files):
        (part / f"{number:030x}").write_bytes(bytes(100 * HEAD.file_bytes))
    return folder


def test_only_a_folder_with_the_name_of_a_set_is_one(tmp_path: Path) -> None:
    one = make_set(tmp_path / ("0" * 32))
    all_frames = make_set(tmp_path / ("1" * 32 + ".all"))
    make_set(tmp_path / "results")
    make_set(tmp_path / "elsewhere" / ("2" * 32))
    (tmp_path / ("3" * 32)).mkdir()  # without a description
    (tmp_path / ("4" * 32)).symlink_to(tmp_path / "results")
    assert set(sets.sets_in(tmp_path)) == {one, all_frames}
    assert [file.st_size for file in sets.videos_in(one)] == [100 * HEAD.file_bytes] * 3


def test_a_full_store_deletes_nothing_of_others(tmp_path: Path) -> None:
    mine = make_set(tmp_path / "results")
    linked = make_set(tmp_path / "elsewhere" / "data")
    (tmp_path / ("4" * 32)).symlink_to(linked)
    assert keep(tmp_path, "/one") is not None
    assert keep(tmp_path, "/two") is None
    assert len(list(mine.rglob("*"))) == len(list(linked.rglob("*"))) == 5


def test_a_set_that_cannot_be_deleted_leaves_the_store_full(tmp_path: Path) -> None:
    stuck = make_set(tmp_path / ("0" * 32))
    (stuck / "ab" / "folder").mkdir()
    (stuck / "ab" / "folder" / "file").write_text("")
    old = make_set(tmp_path / ("1" * 32 + ".all"), files=1)
    os.utime(old / "set.json", (2, 2))
    assert keep(tmp_path, "/one") is not None, "the other one makes room"
    assert keep(tmp_path, "/two") is None
    assert (stuck / "ab" / "folder" / "file").exists()


def test_a_deletion_that_takes_long_goes_on_later(tmp_path: Path) -> None:
    one = make_set(tmp_path / ("0" * 32))
    (one / "set.0123").write_text("half written")
    assert not sets.delete(one, until=time.monotonic())
    assert len(list(sets.videos_in(one))) == 3
    assert list(sets.sets_in(tmp_path)) == [one], "its description is left"
    assert sets.delete(one)
    assert list(tmp_path.iterdir()) == []

"""The folder where files are kept, as a caller gives it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from videoload.errors import SpecError
from videoload.storage.keep import Folders, Keep


def test_the_folder_is_made(tmp_path: Path) -> None:
    keep = Keep.of(tmp_path / "a" / "b", 1.5)
    assert keep is not None
    assert (keep.folder, keep.max_bytes) == (str(tmp_path / "a" / "b"), 1_500_000_000)
    assert Path(keep.folder).is_dir()


def test_without_a_folder_nothing_is_kept(tmp_path: Path) -> None:
    assert Keep.of(None, None) is None
    with pytest.raises(SpecError, match="keep_gb limits the folder of keep=, which is not given"):
        Keep.of(None, 3)
    with pytest.raises(SpecError, match="keep_gb must be a number of at least 0, got -1"):
        Keep.of(tmp_path, -1)


@pytest.mark.parametrize("folder", ["", "a\0b", False, 7, b"bytes", "\udc80"])
def test_what_cannot_be_a_folder_is_refused(folder: object) -> None:
    with pytest.raises(SpecError, match="keep must be a folder, got "):
        Keep.of(folder, None)  # type: ignore[arg-type]


def test_only_the_owner_can_read_a_folder_that_is_made(tmp_path: Path) -> None:
    """If the folder exists already, its owner has decided."""
    Keep.of(tmp_path / "made", None)
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SpecError, match=r"nothing can be kept in .*/file/x: Not a directory"):
        Keep.of(tmp_path / "file" / "x", None)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, 12345)
    with pytest.raises(SpecError, match=r"nothing can be kept in .*: it belongs to another user"):
        Keep.of(tmp_path, None)


def test_frames_do_not_lie_among_the_videos_where_they_would_be_a_class(tmp_path: Path) -> None:
    videos = tmp_path / "videos"
    videos.mkdir()
    for folder in (videos, videos / "frames"):
        with pytest.raises(SpecError, match=r"lies among the videos of .*: give a folder outside"):
            Folders.of(None, None, None, folder, None).beside(videos)
    assert not (videos / "frames").exists()
    for folder in (tmp_path / "frames", tmp_path / "videos2", videos / ".frames" / "a"):
        assert Folders.of(None, None, None, folder, None).beside(videos)
        assert Folders.of(None, None, None, folder, None).beside("s3://bucket")

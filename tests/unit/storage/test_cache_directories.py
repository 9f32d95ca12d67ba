"""The folders where something is kept, as a caller gives them."""

import errno
import fcntl
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from videoload.errors import SpecError
from videoload.storage.cache_directories import (
    CacheDirectories,
    CacheDirectory,
    cache_folder,
)


def test_without_a_folder_nothing_is_kept(tmp_path: Path) -> None:
    assert CacheDirectory.of(None, None) is None
    with pytest.raises(SpecError, match=r"file_cache_gb.* file_cache="):
        CacheDirectory.of(None, 3)
    with pytest.raises(SpecError, match=r"file_cache_gb.* -1"):
        CacheDirectory.of(tmp_path, -1)


@pytest.mark.parametrize("folder", ["", "a\0b", False, 7, b"bytes", "\udc80"])
def test_what_cannot_be_a_folder_is_refused(folder: object) -> None:
    with pytest.raises(SpecError, match="file_cache"):
        CacheDirectory.of(folder, None)  # type: ignore[arg-type]


def of_another_user(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    os.chown(folder, 12345, 12345)


def open_to_others(folder: Path) -> None:
    folder.chmod(0o770)


def link(folder: Path) -> None:
    folder.rmdir()
    folder.symlink_to(folder.parent)


@pytest.mark.parametrize("inside", ["", "videoload-files", "videoload-frames"])
@pytest.mark.parametrize("made", [of_another_user, open_to_others, link])
def test_a_folder_that_others_may_change_is_refused(
    made: Callable[[Path], None], inside: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = tmp_path / "given"
    (given / inside).mkdir(mode=0o700, parents=True)
    made(given / inside)
    if made is link and not inside:  # the user's own link to a folder of the user
        assert CacheDirectory.of(given, None) is not None
        assert cache_folder(given) == str(given)
        return
    with pytest.raises(SpecError, match=str(given)):
        CacheDirectory.of(given, None)
    if not inside:
        assert cache_folder(given) is None
        assert str(given) in caplog.text


def test_a_folder_without_locks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "lockf", no_locks)
    assert cache_folder(tmp_path) is None
    assert [str(tmp_path) in told for told in caplog.messages] == [True]


def test_frames_do_not_lie_among_the_videos_where_they_would_be_a_class(tmp_path: Path) -> None:
    videos = tmp_path / "videos"
    videos.mkdir()
    for folder in (videos, videos / "frames"):
        with pytest.raises(SpecError, match=f"frame_store=.*{videos}"):
            CacheDirectories.of(None, None, None, folder, None).beside(videos)
    assert not (videos / "frames").exists()
    for folder in (tmp_path / "frames", tmp_path / "videos2", videos / ".frames" / "a"):
        assert CacheDirectories.of(None, None, None, folder, None).beside(videos)
        for root in ("s3://bucket", Path("/")):
            assert CacheDirectories.of(None, None, None, folder, None).beside(root)


def test_an_argument_wins_over_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache_folder(False) is None
    monkeypatch.setenv("VIDEOLOAD_CACHE", "")
    assert cache_folder(None) is None
    assert cache_folder(tmp_path) == str(tmp_path)
    monkeypatch.setenv("VIDEOLOAD_CACHE", str(tmp_path / "told"))
    assert cache_folder(None) == str(tmp_path / "told")


def test_indexes_are_kept_in_the_users_cache_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VIDEOLOAD_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder(None) == str(tmp_path / ".cache" / "videoload")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    assert cache_folder(None) == str(tmp_path / "elsewhere" / "videoload")


def test_a_folder_that_cannot_be_used_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no folder")
    for _ in range(2):
        assert cache_folder(tmp_path / "file/cache") is None
    [told] = caplog.messages
    assert f"{tmp_path}/file/cache: Not a directory" in told
    assert cache_folder(tmp_path / "new") == str(tmp_path / "new")
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("name", ["frame_store", "file_cache"])
def test_without_a_limit_it_is_a_tenth_of_what_is_free_and_the_log_names_it(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = list(os.statvfs(tmp_path))
    disk[1], disk[4] = 4096, 100_000_000_000 // 4096  # f_frsize, f_bavail
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(disk))
    with caplog.at_level(logging.INFO):
        found = CacheDirectory.of(tmp_path / "kept", None, name)
    assert found is not None
    assert found.max_bytes == disk[1] * disk[4] // 10
    assert f"{name}_gb=" in caplog.text
    assert f"--{name.replace('_', '-')}-gb" in caplog.text
    assert "10 GB" in caplog.text
    assert [record.levelname for record in caplog.records] == ["INFO"]
    own = found.own("frames" if name == "frame_store" else "files")
    own.mkdir()
    (own / "bytes").write_bytes(b"50000000000")  # its own does not count as taken
    again = CacheDirectory.of(tmp_path / "kept", None, name)
    assert again is not None
    assert again.max_bytes == found.max_bytes + 5_000_000_000
    disk[4] = 0
    CacheDirectory.of(tmp_path / "full", None, name)
    assert "at most 0 GB" in caplog.text
    assert [record.levelname for record in caplog.records][-1:] == ["WARNING"]

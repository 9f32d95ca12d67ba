"""Files of a bucket on a disk: one version of each, up to a limit for all processes together."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import pytest

from tests.support.waiting import SECOND, wait_until
from videoload.storage import file_cache
from videoload.storage.file_cache import FileCache, _number
from videoload.storage.files import IDENTITY_BYTES
from videoload.storage.keep import Keep

ROOT = "s3://bucket/videos"


made: list[FileCache] = []


def kept_in(folder: Path, most: int | None = None, root: str = ROOT) -> FileCache:
    made.append(FileCache(Keep(str(folder.parent), most), root))
    return made[-1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What is ours of a folder."""
    own = Keep(str(tmp_path), None).own("files")
    own.mkdir(mode=0o700)
    return own


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    while made:
        files = made.pop()
        files.stop()
        for thread in files._writer._threads:
            thread.join(30 * SECOND)
            assert not thread.is_alive()


def version_of(data: bytes, tag: str = "1") -> tuple[int, bytes]:
    """Size and identity."""
    return len(data), blake2b(data + tag.encode(), digest_size=IDENTITY_BYTES).digest()


def keep(files: FileCache, name: str, data: bytes, tag: str = "1") -> None:
    """Keep a file, and wait until it is written or is not kept."""
    files.add(name, version_of(data, tag)[1], data)
    wait_until(lambda: not files._waiting, 30 * SECOND, name)


def kept_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*.avi"))


def test_all_processes_find_a_kept_file_in_its_version_only(folder: Path) -> None:
    files = kept_in(folder)
    assert not files.has_some("a/b.avi")
    keep(files, "a/b.avi", b"content")
    assert Path(files.path("a/b.avi")).read_bytes() == b"content"
    assert files.path("a/b.avi").endswith(".avi"), "FFmpeg guesses the format from it"
    other = kept_in(folder)
    assert other.find("a/b.avi", *version_of(b"content"))
    assert not other.find("a/b.avi", *version_of(b"content", "2"))
    assert not other.find("a/b.avi", *version_of(b"content and more"))
    assert not other.find("a/c.avi", *version_of(b"content"))
    assert not kept_in(folder, root="s3://bucket").find("a/b.avi", *version_of(b"content"))


def test_another_version_replaces_the_one_before(folder: Path) -> None:
    files = kept_in(folder, most=100)
    keep(files, "a.avi", b"before")
    keep(files, "a.avi", b"and now", "2")
    assert files.find("a.avi", *version_of(b"and now", "2"))
    assert kept_bytes(folder) == 7
    assert (folder / "bytes").read_bytes() == b"7"


@pytest.mark.parametrize(
    "name", ["no suffix", "a.", "a." + "x" * 300, "ü.ävi", "a.b/c", "coming-a", "bytes"]
)
def test_a_file_of_any_name_can_be_kept(folder: Path, name: str) -> None:
    files = kept_in(folder)
    keep(files, name, b"content")
    assert files.find(name, *version_of(b"content"))


def test_a_limit_is_not_exceeded(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    files = kept_in(folder, most=250)
    for number in range(5):
        keep(files, f"{number}.avi", bytes(100))
    assert kept_bytes(folder) == 200
    assert not files.has_room
    assert [record.message for record in caplog.records] == [
        f"the file cache {folder} is full; it stays as it is; other files are fetched"
    ]
    assert not list(folder.glob("coming-*"))


def test_a_deleted_file_makes_room(folder: Path) -> None:
    keep(kept_in(folder, most=250), "a.avi", bytes(200))
    Path(made[-1].path("a.avi")).unlink()
    keep(kept_in(folder, most=250), "b.avi", bytes(200))
    assert kept_bytes(folder) == 200
    assert (folder / "bytes").read_bytes() == b"200"


def test_a_folder_that_cannot_be_used_is_one_warning(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    (folder / "bytes").mkdir()
    files = kept_in(folder, most=100)
    keep(files, "a.avi", b"content")
    keep(files, "b.avi", b"content")
    assert [record.message for record in caplog.records] == [
        f"the file cache {folder} cannot be used: Is a directory; other files are fetched"
    ]


def test_a_slow_disk_delays_nothing(folder: Path) -> None:
    """What comes meanwhile is not kept, and not held in memory."""
    files, data = kept_in(folder, most=10**9), bytes(9 << 20)
    with (folder / "bytes").open("wb") as count:
        fcntl.flock(count, fcntl.LOCK_EX)
        for number in range(9):
            files.add(f"{number}.avi", version_of(data)[1], data)
        assert files._waiting == 3 * len(data)
    wait_until(lambda: not files._waiting, 30 * SECOND)
    assert kept_bytes(folder) == 3 * len(data)


def test_what_a_killed_process_left_is_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = folder / "coming-1234"
    left.write_bytes(b"half")
    keep(kept_in(folder), "a.avi", b"content")
    assert left.exists(), "another process may be writing it"
    monkeypatch.setattr(file_cache, "_LEFT_S", -1.0)
    keep(kept_in(folder), "b.avi", b"content")
    assert not list(folder.glob("coming-*"))


def test_files_of_the_user_beside_what_is_kept_stay(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_cache, "_LEFT_S", -1.0)
    users = [folder.parent / name for name in ("bytes", "coming-soon.avi", f"{'0' * 32}.avi")]
    for file in users:
        file.write_bytes(b"months of work")
    for most in (None, 10_000):
        keep(kept_in(folder, most), f"{most}.avi", b"content")
    assert all(file.read_bytes() == b"months of work" for file in users)


def test_a_folder_in_the_place_of_a_file_is_not_read(folder: Path) -> None:
    files = kept_in(folder)
    Path(files.path("a.avi")).mkdir()
    assert not files.has_some("a.avi")


def test_no_link_is_read_or_written_through(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    outside = folder.parent / "outside"
    outside.write_bytes(b"content")
    files, told = kept_in(folder, most=100), version_of(b"content")
    os.utime(outside, ns=(0, _number(told[1])))
    Path(files.path("a.avi")).symlink_to(outside)
    assert not files.find("a.avi", *told)
    keep(files, "a.avi", b"content")
    assert files.find("a.avi", *told), "the file takes the place of the link"
    (folder / "bytes").unlink()
    (folder / "bytes").symlink_to(outside)
    keep(files, "b.avi", b"content")
    assert not files.has_some("b.avi")
    assert "Too many levels of symbolic links" in caplog.text
    assert outside.read_bytes() == b"content"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_nothing_of_another_user_is_read_or_written(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = kept_in(folder)
    keep(files, "a.avi", b"content")
    os.chown(files.path("a.avi"), 12345, 12345)
    assert not files.has_some("a.avi")
    os.chown(folder, 12345, 12345)
    keep(files, "b.avi", b"content")
    assert not files.has_some("b.avi")
    assert "cannot be used: it belongs to another user" in caplog.text


def test_only_the_owner_can_read_what_is_kept(folder: Path) -> None:
    folder.rmdir()
    keep(kept_in(folder, most=100), "a.avi", b"content")
    made = [folder, *folder.iterdir()]
    assert len(made) == 3
    assert not any(path.stat().st_mode & 0o077 for path in made)

"""Files of a bucket on a disk: one version each, up to a limit that holds for all processes."""

from __future__ import annotations

import fcntl
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import SECOND, wait_until
from videoload.storage import kept_files
from videoload.storage.keep import Keep
from videoload.storage.kept_files import KeptFiles
from videoload.storage.remote_file import RemoteStatus

ROOT = "s3://bucket/videos"


made: list[KeptFiles] = []


def kept_in(folder: Path, most: int | None = None, root: str = ROOT) -> KeptFiles:
    made.append(KeptFiles(Keep(str(folder), most), root))
    return made[-1]


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    while made:
        files = made.pop()
        files.stop()
        if files._thread is not None:
            files._thread.join(10 * SECOND)
            assert not files._thread.is_alive()


def status(data: bytes, version: str = "1") -> RemoteStatus:
    return RemoteStatus.of(len(data), version)


def keep(files: KeptFiles, name: str, data: bytes, version: str = "1") -> None:
    """And wait until that is done with, one way or the other."""
    files.keep(name, status(data, version), data)
    wait_until(lambda: not files._waiting, 10 * SECOND, name)


def kept_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("??/*"))


def test_what_is_kept_is_there_for_everybody_in_its_version_alone(tmp_path: Path) -> None:
    files = kept_in(tmp_path)
    assert files.find("a/b.avi") is None
    keep(files, "a/b.avi", b"content")
    assert Path(files.path("a/b.avi")).read_bytes() == b"content"
    assert files.path("a/b.avi").endswith(".avi"), "FFmpeg goes by it"
    other = kept_in(tmp_path)
    assert other.holds("a/b.avi", status(b"content"))
    assert not other.holds("a/b.avi", status(b"content", "2"))
    assert not other.holds("a/b.avi", status(b"content and more"))
    assert not other.holds("a/c.avi", status(b"content"))
    assert not kept_in(tmp_path, root="s3://bucket").holds("a/b.avi", status(b"content"))


def test_another_version_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    files = kept_in(tmp_path)
    keep(files, "a.avi", b"before")
    keep(files, "a.avi", b"and now", "2")
    assert files.holds("a.avi", status(b"and now", "2"))
    assert kept_bytes(tmp_path) == 7
    assert (tmp_path / "bytes").read_bytes() == b"7"


@pytest.mark.parametrize("name", ["no suffix", "a.", "a." + "x" * 300, "ü.ävi", "a.b/c"])
def test_any_name_may_be_kept(tmp_path: Path, name: str) -> None:
    files = kept_in(tmp_path)
    keep(files, name, b"content")
    assert files.holds(name, status(b"content"))


def test_a_limit_is_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    files = kept_in(tmp_path, most=250)
    for number in range(5):
        keep(files, f"{number}.avi", bytes(100))
    assert kept_bytes(tmp_path) == 200
    assert not files.has_room
    assert [record.message for record in caplog.records] == [
        f"the folder of kept files {tmp_path} is full; it stays as it is; other files are fetched"
    ]
    assert not list((tmp_path / "coming").iterdir())


@pytest.mark.slow
def test_a_limit_holds_for_all_processes_together(tmp_path: Path) -> None:
    """And is reached: nobody's count is lost."""
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.unit.storage.test_kept_files import keep, kept_in\n"
        "files = kept_in(Path(sys.argv[1]), most=99_999)\n"
        "for number in range(40):\n"
        "    keep(files, f'{sys.argv[2]}-{number % 30}.avi', bytes(1000))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    processes = [subprocess.Popen([*command, str(number)]) for number in range(4)]
    for process in processes:
        assert process.wait(30 * SECOND) == 0
    assert kept_bytes(tmp_path) == 99_000
    assert (tmp_path / "bytes").read_bytes() == b"99000"


def test_what_was_deleted_makes_room(tmp_path: Path) -> None:
    keep(kept_in(tmp_path, most=250), "a.avi", bytes(200))
    Path(made[-1].path("a.avi")).unlink()
    keep(kept_in(tmp_path, most=250), "b.avi", bytes(200))
    assert kept_bytes(tmp_path) == 200
    assert (tmp_path / "bytes").read_bytes() == b"200"


def test_a_fifth_of_the_disk_stays_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = os.statvfs(tmp_path)
    monkeypatch.setattr(kept_files, "_FREE", told.f_bavail / told.f_blocks + 0.1)
    files = kept_in(tmp_path)
    keep(files, "a.avi", b"content")
    assert files.find("a.avi") is None
    assert not files.has_room
    keep(limited := kept_in(tmp_path, most=100), "a.avi", b"content")
    assert limited.find("a.avi") is not None, "who gives a limit, means it"


def test_a_count_that_is_gone_is_taken_again(tmp_path: Path) -> None:
    keep(kept_in(tmp_path), "a.avi", bytes(100))
    (tmp_path / "bytes").unlink()
    keep(kept_in(tmp_path), "b.avi", bytes(50))
    assert (tmp_path / "bytes").read_bytes() == b"150"


def test_a_folder_that_cannot_be_used_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    (tmp_path / "coming").touch()
    files = kept_in(tmp_path)
    keep(files, "a.avi", b"content")
    keep(files, "b.avi", b"content")
    assert [record.message for record in caplog.records] == [
        f"the folder of kept files {tmp_path} cannot be used: File exists; other files are fetched"
    ]


def test_a_disk_that_does_not_keep_up_holds_nobody_up(tmp_path: Path) -> None:
    """What comes then is not kept, and not piled up in memory either."""
    files, data = kept_in(tmp_path), bytes(9 << 20)
    with (tmp_path / "bytes").open("wb") as count:
        fcntl.flock(count, fcntl.LOCK_EX)
        for number in range(9):
            files.keep(f"{number}.avi", status(data), data)
        assert files._waiting == 3 * len(data)
    wait_until(lambda: not files._waiting, 10 * SECOND)
    assert kept_bytes(tmp_path) == 3 * len(data)


def test_what_a_process_left_that_was_killed_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coming = tmp_path / "coming"
    coming.mkdir()
    (coming / "1234").write_bytes(b"half")
    keep(kept_in(tmp_path), "a.avi", b"content")
    assert (coming / "1234").exists(), "it may be being written"
    monkeypatch.setattr(kept_files, "_LEFT_S", -1.0)
    keep(kept_in(tmp_path), "b.avi", b"content")
    assert not list(coming.iterdir())


def test_what_cannot_be_read_is_not_kept(tmp_path: Path) -> None:
    files = kept_in(tmp_path)
    path = Path(files.path("a.avi"))
    path.mkdir(parents=True)
    assert files.find("a.avi") is None

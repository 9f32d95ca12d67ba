"""What is kept of videos: all of it comes back, and nothing else does."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from videoload.decoding import index_cache as indexes
from videoload.decoding.index_cache import IndexCache, cache_folder

patient = settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
PATHS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where they are kept in these tests."""
    monkeypatch.setenv("VIDEOLOAD_CACHE", str(tmp_path / "kept"))
    return tmp_path / "kept"


@pytest.fixture
def status(tmp_path: Path) -> os.stat_result:
    """Of a video."""
    (tmp_path / "video.avi").write_bytes(b"RIFF")
    return (tmp_path / "video.avi").stat()


def opened(root: str = "/videos", software: str = "av 18") -> IndexCache:
    folder = cache_folder(None)
    assert folder is not None
    return IndexCache(folder, root, software)


def the_file(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


@patient
@given(kept=st.dictionaries(PATHS, st.binary(max_size=300)))
def test_everything_comes_back(
    kept: dict[str, bytes], tmp_path: Path, status: os.stat_result, folder: Path
) -> None:
    for file in folder.glob("*"):
        file.unlink()
    writer = opened()
    for path, packed in kept.items():
        writer.add(path, status, packed)
    reader = opened()
    for path, packed in kept.items():
        # A name with a line's end in it is not kept.
        assert reader.get(path, status) == (None if "\n" in path else packed)
    assert reader.get("another.avi", status) is None or "another.avi" in kept


def test_an_index_is_that_of_a_file_that_has_not_changed(
    status: os.stat_result, tmp_path: Path
) -> None:
    opened().add("a.avi", status, b"old")
    later = tmp_path / "later.avi"
    later.write_bytes(b"RIFF")
    os.utime(later, ns=(0, status.st_mtime_ns + 1))
    assert opened().get("a.avi", later.stat()) is None
    opened().add("a.avi", later.stat(), b"new")
    assert opened().get("a.avi", later.stat()) == b"new"
    assert opened().get("a.avi", status) is None


def test_one_that_is_forgotten_comes_back_when_it_is_found_out_again(
    status: os.stat_result,
) -> None:
    opened().add("a.avi", status, b"x")
    kept = opened()
    assert kept.get("a.avi", status) == b"x"
    kept.forget("a.avi")
    assert kept.get("a.avi", status) is None
    kept.add("a.avi", status, b"y")
    assert opened().get("a.avi", status) == b"y"


def test_another_root_or_other_software_knows_nothing(status: os.stat_result) -> None:
    opened().add("a.avi", status, b"x")
    assert opened(root="/elsewhere").get("a.avi", status) is None
    assert opened(software="av 19").get("a.avi", status) is None


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_a_writer_that_was_killed_spoils_its_own_line_alone(
    cut: int, status: os.stat_result, folder: Path
) -> None:
    opened().add("a.avi", status, b"one")
    opened().add("b.avi", status, b"two")
    file = the_file(folder)
    file.write_bytes(file.read_bytes()[:-cut])
    opened().add("c.avi", status, b"three")
    reader = opened()
    assert reader.get("c.avi", status) == b"three"
    assert reader.get("b.avi", status) in (None, b"two")
    assert cut > 30 or reader.get("a.avi", status) == b"one"


@patient
@given(at=st.integers(0, 10_000), bit=st.integers(0, 7), junk=st.binary(max_size=50))
def test_damage_is_no_index(
    at: int, bit: int, junk: bytes, status: os.stat_result, folder: Path
) -> None:
    for old in folder.glob("*"):
        old.unlink()
    opened().add("a.avi", status, bytes(100))
    opened().add("b.avi", status, bytes(50))
    file = the_file(folder)
    lines = bytearray(file.read_bytes())
    lines[at % len(lines)] ^= 1 << bit
    file.write_bytes(junk + lines + junk)
    reader = opened()
    assert reader.get("a.avi", status) in (None, bytes(100))
    assert reader.get("b.avi", status) in (None, bytes(50))


def test_nothing_is_added_to_a_full_file(
    status: os.stat_result, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "_MAX_BYTES", 1000)
    for number in range(20):
        opened().add(f"{number}.avi", status, bytes(100))
    assert the_file(folder).stat().st_size <= 1000
    assert opened().get("0.avi", status) == bytes(100)
    assert opened().get("19.avi", status) is None


def test_what_nobody_reads_any_more_goes(status: os.stat_result, folder: Path) -> None:
    opened("/old").add("a.avi", status, b"x")
    opened("/read").add("a.avi", status, b"x")
    for file in folder.iterdir():
        os.utime(file, (time.time() - 100 * 86400,) * 2)
    assert opened("/read").get("a.avi", status) == b"x"
    opened("/new").add("a.avi", status, b"x")
    assert opened("/read").get("a.avi", status) == b"x"
    assert opened("/old").get("a.avi", status) is None


def test_a_caller_is_heeded_before_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache_folder(False) is None
    monkeypatch.setenv("VIDEOLOAD_CACHE", "")
    assert cache_folder(None) is None
    assert cache_folder(tmp_path) == str(tmp_path)


def test_the_users_cache_is_where_they_are_kept_unless_told_otherwise(
    status: os.stat_result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VIDEOLOAD_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    opened().add("a.avi", status, b"x")
    the_file(tmp_path / ".cache" / "videoload")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    opened().add("a.avi", status, b"x")
    the_file(tmp_path / "elsewhere" / "videoload")


def test_where_nothing_can_be_written_there_is_none(
    status: os.stat_result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("VIDEOLOAD_CACHE", str(tmp_path / "file" / "folder"))
    kept = opened()
    kept.add("a.avi", status, b"x")
    assert kept.get("a.avi", status) is None

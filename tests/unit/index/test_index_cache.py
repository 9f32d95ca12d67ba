"""Indexes at hand: in memory for files that stay as they are, on disk where a decode told them."""

from __future__ import annotations

import os
import sqlite3
import time
from array import array
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from videoload.clips.video_info import VideoInfo
from videoload.index.index import VideoIndex
from videoload.index.index_cache import IndexCache
from videoload.storage.files import LocalFile, VideoFile

PATHS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
patient = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture
def file(tmp_path: Path) -> VideoFile:
    (tmp_path / "video.avi").write_bytes(b"RIFF")
    return LocalFile(str(tmp_path / "video.avi"), (tmp_path / "video.avi").stat())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kept"


def decoded(frames: int = 3, first: int = 0) -> VideoIndex:
    """As a complete decode makes it."""
    info = VideoInfo(frames, Fraction(30000, 1001), 320, 240)
    keyframes = np.array([[0, 0, 5, 5686]])
    return VideoIndex(info, keyframes, sums=np.arange(first, first + frames))


def proven() -> VideoIndex:
    return VideoIndex(VideoInfo(3, Fraction(25), 320, 240), np.array([[0, 0, 0, 5686]]))


def opened(folder: Path | None, root: str = "/videos", software: str = "av 18") -> IndexCache:
    return IndexCache(None if folder is None else str(folder), root, software)


def same(one: VideoIndex | None, other: VideoIndex) -> bool:
    return one is not None and one.to_bytes() == other.to_bytes()


@patient
@given(
    frames=st.integers(1, 50), keyframes=st.integers(0, 5), size=st.integers(1, 10_000),
    fps=st.fractions(0, 1000, max_denominator=2**32), data=st.data(),
)  # fmt: skip
def test_an_index_survives_as_bytes(
    frames: int, keyframes: int, size: int, fps: Fraction, data: st.DataObject
) -> None:
    uneven = array("d", range(frames)) if data.draw(st.booleans()) else None
    rows = data.draw(st.lists(st.tuples(*[st.integers(0, 2**62)] * 4), max_size=keyframes))
    sums = data.draw(st.lists(st.integers(0, 2**32 - 1), min_size=frames, max_size=frames))
    index = VideoIndex(
        VideoInfo(frames, fps, size, 2 * size, 3, mirrored=data.draw(st.booleans()), times=uneven),
        np.array(rows, np.int64).reshape(-1, 4),
        sums=np.array(sums, np.int64),
    )  # fmt: skip
    again = VideoIndex.from_bytes(index.to_bytes())
    assert again.info == index.info
    assert again.sums is not None
    assert again.sums.tolist() == sums
    assert again.keyframes.tolist() == [list(row) for row in rows]


@patient
@given(st.binary(max_size=200))
def test_noise_is_no_index(noise: bytes) -> None:
    with pytest.raises(ValueError, match=r"not an index|no video's properties"):
        VideoIndex.from_bytes(noise)


def test_half_an_index_is_no_index() -> None:
    packed = decoded().to_bytes()
    for length in range(len(packed)):
        with pytest.raises(ValueError, match=r"not an index|no video's properties"):
            VideoIndex.from_bytes(packed[:length])


def test_a_proven_index_is_not_kept_on_disk() -> None:
    with pytest.raises(ValueError, match="made again"):
        proven().to_bytes()


def test_an_index_stays_in_memory_until_its_file_changes(
    file: VideoFile, caplog: pytest.LogCaptureFixture
) -> None:
    cache = opened(None)
    assert cache.get("a.avi", file) is None
    index = proven()
    cache.put("a.avi", file, index)
    assert cache.get("a.avi", file) is index
    os.utime(file.path, ns=(0, 0))
    changed = LocalFile(file.path, os.stat(file.path))
    assert cache.get("a.avi", changed) is None
    assert "a.avi has changed" in caplog.text


def test_memory_is_bounded(file: VideoFile) -> None:
    cache = opened(None)
    for number in range(20_000):
        cache.put(f"{number}.avi", file, proven())
    assert cache.get("0.avi", file) is None
    assert cache.get("19999.avi", file) is not None


@patient
@given(paths=st.lists(PATHS, unique=True, max_size=5))
def test_another_process_finds_what_was_kept(
    paths: list[str], file: VideoFile, folder: Path
) -> None:
    for old in folder.glob("*"):
        old.unlink()
    writer = opened(folder)
    for number, path in enumerate(paths):
        writer.remember(path, file, decoded(first=number))
    reader = opened(folder)
    for number, path in enumerate(paths):
        assert same(reader.recall(path, file), decoded(first=number))


def test_an_index_is_valid_only_for_the_file_it_was_made_from(
    file: VideoFile, folder: Path
) -> None:
    opened(folder).remember("a.avi", file, decoded())
    os.utime(file.path, ns=(0, file.mtime_ns + 1))
    changed = LocalFile(file.path, os.stat(file.path))
    assert opened(folder).recall("a.avi", changed) is None
    opened(folder).remember("a.avi", changed, decoded(4))
    assert same(opened(folder).recall("a.avi", changed), decoded(4))


def test_each_root_and_each_software_has_its_own_indexes(file: VideoFile, folder: Path) -> None:
    opened(folder).remember("a.avi", file, decoded())
    assert opened(folder, root="/others").recall("a.avi", file) is None
    assert opened(folder, software="av 19").recall("a.avi", file) is None


def test_without_a_folder_indexes_live_as_long_as_the_process(file: VideoFile) -> None:
    cache = opened(None)
    cache.remember("a.avi", file, decoded())
    assert same(cache.recall("a.avi", file), decoded())
    assert opened(None).recall("a.avi", file) is None


def test_a_wrong_index_is_forgotten(file: VideoFile, folder: Path) -> None:
    cache = opened(folder)
    cache.remember("a.avi", file, decoded())
    one, other = decoded(), decoded()
    cache.put("a.avi", file, one)
    assert cache.forget("a.avi", other), "it has been replaced since"
    assert not cache.forget("a.avi", one), "it was made here: another try gives the same"
    assert cache.get("a.avi", file) is None
    assert opened(folder).recall("a.avi", file) is None
    cache.put("a.avi", file, one, recalled=True)
    assert cache.forget("a.avi", one), "it was not made here"


def test_two_processes_write_at_the_same_time(file: VideoFile, folder: Path) -> None:
    one, two = opened(folder), opened(folder)
    for number in range(20):
        (one if number % 2 else two).remember(f"{number}.avi", file, decoded(first=number))
    third = opened(folder)
    assert all(same(third.recall(f"{n}.avi", file), decoded(first=n)) for n in range(20))


@pytest.mark.parametrize("noise", [b"", b"no database", b"SQLite format 3\0" + bytes(200)])
def test_a_damaged_cache_file_is_replaced(file: VideoFile, folder: Path, noise: bytes) -> None:
    opened(folder).remember("a.avi", file, decoded())
    [store] = folder.iterdir()
    store.write_bytes(noise)
    cache = opened(folder)
    assert cache.recall("a.avi", file) is None
    cache.remember("a.avi", file, decoded())
    assert same(cache.recall("a.avi", file), decoded())


def test_a_damaged_row_is_ignored(file: VideoFile, folder: Path) -> None:
    opened(folder).remember("a.avi", file, decoded())
    [store] = folder.iterdir()
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE indexes SET packed = ?", (b"half",))
    connection.close()
    assert opened(folder).recall("a.avi", file) is None


def test_if_nothing_can_be_written_indexes_live_as_long_as_the_process(
    file: VideoFile, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = opened(tmp_path / "file" / "folder")
    cache.remember("a.avi", file, decoded())
    assert same(cache.recall("a.avi", file), decoded())


def test_files_that_nobody_opens_go(file: VideoFile, folder: Path) -> None:
    for root in ("/old", "/read"):
        opened(folder, root).remember("a.avi", file, decoded())
    for store in folder.iterdir():
        os.utime(store, (time.time() - 100 * 86400,) * 2)
    assert same(opened(folder, "/read").recall("a.avi", file), decoded())
    assert opened(folder, "/old").recall("a.avi", file) is None

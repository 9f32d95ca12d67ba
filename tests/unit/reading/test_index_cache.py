"""Indexes that are found out once on a host: the last ones in memory, all of them on disk."""

import os
import random
import time
import weakref
from array import array
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from videoload import versions
from videoload.clips.video_info import VideoInfo
from videoload.reading.containers import NotedPackets
from videoload.reading.index import VideoIndex
from videoload.reading.index_cache import IndexCache
from videoload.reading.order import FrameTable
from videoload.reading.placed_video import PlacedPackets
from videoload.storage.files import LocalFile
from videoload.storage.kept_rows import KeptRows
from videoload.storage.video_file import VideoFile

PATHS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
patient = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture
def file(tmp_path: Path) -> LocalFile:
    (tmp_path / "video.avi").write_bytes(b"RIFF")
    return LocalFile(str(tmp_path / "video.avi"), (tmp_path / "video.avi").stat())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kept"


def decoded(frames: int = 3, first: int = 0) -> VideoIndex:
    """As a complete decode makes it."""
    info = VideoInfo(frames, Fraction(30000, 1001), 320, 240)
    sums = np.arange(first, first + frames)
    return VideoIndex(info, FrameTable(frames, np.array([[0, 0, 5, 5686]]), sums=sums))


def proven() -> VideoIndex:
    """As headers tell."""
    order = FrameTable(3, np.array([[0, 0, 0, 5686]]), np.array([0, 2, 1]))
    parameters = {"extradata": b"\1\2", "width": 320, "codec_tag": "XVID", "pix_fmt": None}
    positions, sizes = np.array([5686, 9999, 1 << 40]), np.array([7, 8, 70_000])
    packets = PlacedPackets("mpeg4", parameters, 0, positions, sizes)
    info = VideoInfo(3, Fraction(25), 320, 240)
    return VideoIndex(info, order, positions, packets, NotedPackets(np.arange(3)))


def opened(folder: Path | None, root: str = "/videos", software: str = "av 18") -> IndexCache:
    return IndexCache(KeptRows(None if folder is None else str(folder), root, software))


def written(folder: Path | None, path: str, file: VideoFile, index: VideoIndex) -> None:
    """A process finds an index, and ends."""
    opened(folder).put(path, file, index)


def same(one: VideoIndex | None, other: VideoIndex) -> bool:
    return one is not None and one.to_bytes() == other.to_bytes()


@patient
@given(
    frames=st.integers(1, 50), starts=st.integers(0, 5), size=st.integers(1, 10_000),
    fps=st.fractions(0, 1000, max_denominator=2**32), seed=st.integers(0, 2**32),
    is_uneven=st.booleans(), mirrored=st.booleans(), is_referenced=st.booleans(),
)  # fmt: skip
def test_an_index_survives_as_bytes(
    *, frames: int, starts: int, size: int, fps: Fraction, seed: int, is_uneven: bool,
    mirrored: bool, is_referenced: bool,
) -> None:  # fmt: skip
    draw = np.random.default_rng(seed)
    times = array("d", range(frames)) if is_uneven else None
    info = VideoInfo(frames, fps, size, 2 * size, 3, mirrored=mirrored, times=times)
    order = FrameTable(
        frames, draw.integers(0, 2**62, (starts, 4)), sums=draw.integers(0, 2**32, frames),
        non_reference=None if is_referenced else np.arange(frames, dtype=np.uint8) % 2,
    )  # fmt: skip
    again = VideoIndex.from_bytes(VideoIndex(info, order).to_bytes())
    assert again.info == info._replace(keys=order.keys)
    for name in ("starts", "sums", "non_reference"):
        assert np.array_equal(getattr(again.order, name), getattr(order, name))


def test_all_that_is_known_of_packets_survives() -> None:
    index = proven()
    again = VideoIndex.from_bytes(index.to_bytes())
    assert same(again, index)
    assert [again.order.packet(i) for i in range(3)] == [0, 2, 1]
    assert again.placed is not None
    assert index.placed is not None
    assert (again.placed.codec, again.placed.parameters, again.placed.stream) == index.placed[:3]
    assert again.placed.positions.tolist() == index.placed.positions.tolist()
    assert again.noted is not None
    assert again.noted.sums.tolist() == [0, 1, 2]


@patient
@given(st.binary(max_size=200))
def test_noise_is_no_index(noise: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        VideoIndex.from_bytes(noise)


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
    assert "a.avi" in caplog.text


def test_memory_is_bounded(file: VideoFile) -> None:
    cache, orders = opened(None), []
    for number in range(20_000):
        index = proven()
        orders.append(weakref.ref(index.order))
        cache.put(f"{number}.avi", file, index)
    assert 0 < sum(order() is not None for order in orders) < 16_000


def test_of_a_file_without_a_version_nothing_is_kept_for_others(
    file: LocalFile, folder: Path
) -> None:
    file.has_version = False
    cache = opened(folder)
    cache.put("a.avi", file, proven())
    assert same(cache.get("a.avi", file), proven())
    del cache
    assert opened(folder).get("a.avi", file) is None


@patient
@given(paths=st.lists(PATHS, unique=True, max_size=5))
def test_another_process_finds_what_was_kept(
    paths: list[str], file: VideoFile, folder: Path
) -> None:
    for old in folder.glob("*"):
        old.unlink()
    writer = opened(folder)
    for number, path in enumerate(paths):
        writer.put(path, file, decoded(first=number))
    del writer
    reader = opened(folder)
    for number, path in enumerate(paths):
        assert same(reader.get(path, file), decoded(first=number))


def test_many_indexes_are_written_together_before_the_process_ends(
    file: VideoFile, folder: Path
) -> None:
    cache = opened(folder)
    for number in range(200):
        cache.put(f"{number}.avi", file, decoded(first=number))
    other = opened(folder)
    found = [other.get(f"{number}.avi", file) is not None for number in range(200)]
    assert found == [True] * sum(found) + [False] * (200 - sum(found))
    assert sum(found) > 100
    del cache
    assert same(opened(folder).get("199.avi", file), decoded(first=199))


def test_another_file_of_the_same_size_and_time_has_another_index(
    file: VideoFile, folder: Path, tmp_path: Path
) -> None:
    written(folder, "a.avi", file, decoded())
    other = tmp_path / "other.avi"
    other.write_bytes(b"LIST")
    os.utime(other, ns=(0, os.stat(file.path).st_mtime_ns))
    other.rename(file.path)
    found = LocalFile(file.path, os.stat(file.path))
    assert found.size == file.size
    assert opened(folder).get("a.avi", found) is None


def test_each_root_and_each_software_has_its_own_indexes(file: VideoFile, folder: Path) -> None:
    written(folder, "a.avi", file, decoded())
    assert opened(folder, root="/others").get("a.avi", file) is None
    assert opened(folder, software="av 19").get("a.avi", file) is None


@pytest.mark.parametrize("module", ["index.py", "frames.py", "video_info.py", "planes.py"])
def test_code_that_makes_or_writes_other_indexes_has_its_own(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, read = versions.index_software(), Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(path) + b"\n" * (path.name == module))
    monkeypatch.setattr(versions, "code_digest", versions.code_digest.__wrapped__)
    assert (versions.index_software() == before) == (module == "planes.py")


def test_a_wrong_index_is_forgotten(file: VideoFile, folder: Path) -> None:
    cache = opened(folder)
    one, other = decoded(), decoded()
    cache.put("a.avi", file, one)
    assert cache.forget("a.avi", other), "it has been replaced since"
    assert not cache.forget("a.avi", one), "it was made here: another try gives the same"
    assert cache.get("a.avi", file) is None
    assert opened(folder).get("a.avi", file) is None
    written(folder, "a.avi", file, one)
    recalled = cache.get("a.avi", file)
    assert recalled is not None
    assert cache.forget("a.avi", recalled), "it was not made here"


@pytest.mark.parametrize("noise", [b"", b"no database", b"SQLite format 3\0" + bytes(200)])
def test_a_damaged_cache_file_is_replaced(file: VideoFile, folder: Path, noise: bytes) -> None:
    written(folder, "a.avi", file, decoded())
    [store] = folder.iterdir()
    store.write_bytes(noise)
    assert opened(folder).get("a.avi", file) is None
    written(folder, "a.avi", file, decoded())
    assert same(opened(folder).get("a.avi", file), decoded())


def test_a_flipped_bit_of_a_cache_file_is_noticed(file: VideoFile, folder: Path) -> None:
    for number in range(30):
        written(folder, f"{number}.avi", file, decoded(first=number))
    [store] = folder.iterdir()
    whole, draw = store.read_bytes(), random.Random(0)
    for _ in range(60):
        changed = bytearray(whole)
        changed[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        store.write_bytes(changed)
        cache = opened(folder)
        for number in range(30):
            found = cache.get(f"{number}.avi", file)
            assert found is None or same(found, decoded(first=number))


def test_files_that_nobody_opens_go(file: VideoFile, folder: Path) -> None:
    for root in ("/old", "/read"):
        cache = opened(folder, root)
        cache.put("a.avi", file, decoded())
        del cache
    users = [folder / name for name in ("labels.sqlite", "mine.indexes", f"{'0' * 32}.sqlite")]
    for user in users:
        user.write_text("months of work")
    for store in folder.iterdir():
        os.utime(store, (time.time() - 100 * 86400,) * 2)
    assert same(opened(folder, "/read").get("a.avi", file), decoded())
    assert opened(folder, "/old").get("a.avi", file) is None
    assert all(user.read_text() == "months of work" for user in users)


def test_hosts_with_copies_of_their_own_share_a_folder(file: VideoFile, folder: Path) -> None:
    times, files = range(70), []
    for n in times:
        os.utime(file.path, ns=(n, n))
        files.append(LocalFile(file.path, os.stat(file.path)))
        written(folder, "a.avi", files[n], decoded(first=n))
    kept = [same(opened(folder).get("a.avi", files[n]), decoded(first=n)) for n in times]
    assert kept == [False] * 6 + [True] * 64, "the oldest go"


@pytest.mark.parametrize("planted", ["link", "folder"])
def test_a_file_that_somebody_else_put_there_is_not_used(
    planted: str, file: VideoFile, folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(folder, "a.avi", file, decoded())
    [store] = folder.iterdir()
    if planted == "link":
        store.rename(tmp_path / "elsewhere")
        store.symlink_to(tmp_path / "elsewhere")
    else:
        folder.chmod(0o777)
    assert opened(folder).get("a.avi", file) is None
    assert str(folder) in caplog.text

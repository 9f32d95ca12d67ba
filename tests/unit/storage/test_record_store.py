"""Kept records: what is written is read again, and nothing else is."""

import errno
import fcntl
import json
import os
import shutil
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from videoload.storage.record_file import Head, RecordFile
from videoload.storage.record_store import RecordSet, RecordStore

FRAMES, FRAME_BYTES = 20, 5000
IDENTITY, OTHER = bytes(range(32)), bytes(32)
HEAD = Head(IDENTITY, FRAMES, FRAME_BYTES, b"about")


def set_of(root: str, scaling: str = "128", *, whole: bool = True) -> RecordSet:
    return RecordSet(json.dumps({"root": root, "scaling": scaling}), whole)


VIDEOS = set_of("/videos")


def store(folder: Path, max_bytes: int = 10**9) -> RecordStore:
    return RecordStore(folder, max_bytes, "store", "decoded")


def pixels(ordinal: int) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(ordinal).integers(0, 256, FRAME_BYTES, np.uint8)


def keep(video: RecordFile, *ordinals: int) -> None:
    for ordinal in ordinals:
        video.commit(video.write(ordinal, [pixels(ordinal).data]))


def made(
    place: RecordStore, path: str = "a/b.avi", *ordinals: int, of: RecordSet = VIDEOS
) -> RecordFile:
    video = place.create(path, HEAD, of, range(4))
    assert video is not None
    keep(video, *ordinals)
    return video


def read(video: RecordFile | None, *ordinals: int) -> npt.NDArray[np.uint8] | None:
    if video is None:
        return None
    out = np.empty((len(ordinals), FRAME_BYTES), np.uint8)
    return None if video.read(ordinals, out) else out


def assert_has(video: RecordFile | None, *ordinals: int) -> None:
    found = read(video, *ordinals)
    assert found is not None
    for ordinal, frame in zip(ordinals, found, strict=True):
        assert np.array_equal(frame, pixels(ordinal))


def file_of(folder: Path) -> Path:
    [file] = folder.glob("*/[0-9a-f]*")
    return file


def test_what_is_kept_is_read_again_in_another_process_s_store(tmp_path: Path) -> None:
    made(store(tmp_path), "a/b.avi", 3, 4, 5, 19, 0)
    again = store(tmp_path).open("a/b.avi", IDENTITY, VIDEOS)
    assert again is not None
    assert again.head == HEAD
    assert_has(again, 0, 3, 4, 5, 19)
    assert_has(again, 5, 5, 0)  # in any order, and twice
    assert read(again, 3, 6) is None


@pytest.mark.parametrize(
    ("path", "identity", "of"),
    [
        ("a/c.avi", IDENTITY, VIDEOS),
        ("a/b.avi", OTHER, VIDEOS),
        ("a/b.avi", IDENTITY, set_of("/videos", "256")),
        ("a/b.avi", IDENTITY, set_of("/other")),
        ("a/b.avi", IDENTITY, VIDEOS._replace(whole=False)),
    ],
)
def test_another_version_or_set_has_other_records(
    tmp_path: Path, path: str, identity: bytes, of: RecordSet
) -> None:
    made(store(tmp_path), "a/b.avi", 1)
    assert store(tmp_path).open(path, identity, of) is None


def test_a_file_that_is_gone_makes_place_for_the_new_one(tmp_path: Path) -> None:
    made(store(tmp_path), "a/b.avi", 1)
    place = store(tmp_path)
    assert place.open("a/b.avi", OTHER, VIDEOS) is None
    assert place.create("a/b.avi", HEAD._replace(identity=OTHER), VIDEOS, range(4)) is not None


def test_two_processes_fill_one_file(tmp_path: Path) -> None:
    one = made(store(tmp_path), "a/b.avi", 1)
    assert store(tmp_path).create("a/b.avi", HEAD, VIDEOS, range(4)) is None
    two = store(tmp_path).open("a/b.avi", IDENTITY, VIDEOS)
    assert two is not None
    keep(one, 2, 3)
    keep(two, 3, 4)
    assert_has(store(tmp_path).open("a/b.avi", IDENTITY, VIDEOS), 1, 2, 3, 4)


def test_every_flipped_bit_is_found_and_its_record_forgotten(tmp_path: Path) -> None:
    made(store(tmp_path), "a/b.avi", *range(FRAMES))
    file = file_of(tmp_path)
    sound = file.read_bytes()
    rng = np.random.default_rng(0)
    for at in [*range(0, 400, 7), *rng.integers(0, len(sound), 300).tolist()]:
        damaged = bytearray(sound)
        damaged[at] ^= 1 << int(rng.integers(8))
        file.write_bytes(damaged)
        place = store(tmp_path)
        for ordinal in range(FRAMES):
            found = read(place.open("a/b.avi", IDENTITY, VIDEOS), ordinal)
            assert found is None or np.array_equal(found[0], pixels(ordinal)), at


@pytest.mark.parametrize("length", [0, 10, 47, 60, 300, 4096, 5000, 60_000])
def test_a_file_that_is_cut_gives_what_is_left_of_it(tmp_path: Path, length: int) -> None:
    made(store(tmp_path), "a/b.avi", *range(FRAMES))
    os.truncate(file_of(tmp_path), length)
    video = store(tmp_path).open("a/b.avi", IDENTITY, VIDEOS)
    for ordinal in range(FRAMES):
        found = read(video, ordinal)
        assert found is None or np.array_equal(found[0], pixels(ordinal))


def test_a_record_counts_only_in_its_place_of_its_own_file(tmp_path: Path) -> None:
    """Also if a failing disk puts it and its checksum elsewhere."""
    for name, identity in (("a", IDENTITY), ("b", OTHER)):
        video = store(tmp_path).create(name, HEAD._replace(identity=identity), VIDEOS, range(4))
        assert video is not None
        keep(video, *range(FRAMES))
    files = [store(tmp_path).place(name, VIDEOS) for name in "ab"]
    own, other = (bytearray(file.read_bytes()) for file in files)
    parts = (HEAD.table_at, 8), (HEAD.records_at, FRAME_BYTES)
    for begin, size in parts:
        first, second = (slice(begin + n * size, begin + (n + 1) * size) for n in (0, 1))
        own[first], own[second] = own[second], own[first]
        third = slice(begin + 2 * size, begin + 3 * size)
        own[third] = other[third]
    files[0].write_bytes(own)
    video = store(tmp_path).open("a", IDENTITY, VIDEOS)
    assert [read(video, ordinal) is None for ordinal in range(4)] == [True, True, True, False]


def test_a_full_store_keeps_what_it_has_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    size = HEAD.file_bytes
    place = store(tmp_path, 2 * size)
    made(place, "1.avi", 1)
    made(place, "2.avi", 1)
    for name in ("3.avi", "4.avi"):
        assert place.create(name, HEAD, VIDEOS, range(4)) is None
    assert_has(place.open("1.avi", IDENTITY, VIDEOS), 1)
    [message] = caplog.messages
    assert f"{tmp_path} is full" in message
    assert place.is_full
    assert not store(tmp_path, 2 * size).is_full, "another process tries for itself"


@pytest.mark.parametrize(("whole", "videos"), [(True, [2]), (False, [7, 8])])
def test_room_is_reserved_for_the_frames_that_will_be_asked_for(
    tmp_path: Path, whole: bool, videos: list[int]
) -> None:
    place = store(tmp_path, 2 * FRAMES * FRAME_BYTES + 2 * 4096)
    kept = 0
    for i in range(20):
        video = place.create(f"{i}.avi", HEAD, VIDEOS._replace(whole=whole), range(4))
        if video is not None:
            keep(video, *range(4))
            kept += 1
    assert kept in videos


def test_room_is_taken_for_frames_that_come_later_in_all_processes(tmp_path: Path) -> None:
    """A limit counts what is on the disk."""
    few, max_bytes = VIDEOS._replace(whole=False), 300_000
    first = store(tmp_path, max_bytes)
    for name in "abc":
        assert first.create(name, HEAD, few, [7]) is not None
    places = [first, store(tmp_path, max_bytes), store(tmp_path, max_bytes)]
    written = 0
    for ordinal in range(FRAMES):
        for place, name in zip(places, "abc", strict=True):
            video = place.open(name, IDENTITY, few)
            assert video is not None
            if place.takes(video, few, [ordinal]):
                keep(video, ordinal)
                written += 1
            used = sum(512 * file.stat().st_blocks for file in tmp_path.glob("*/[0-9a-f]*"))
            assert used <= max_bytes
    assert 40 <= written < 57


def test_a_store_that_is_deleted_is_filled_again_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it was full."""
    place = store(tmp_path / "frames", HEAD.file_bytes)
    made(place, "1.avi", 1)
    assert place.create("2.avi", HEAD, VIDEOS, range(4)) is None
    shutil.rmtree(tmp_path / "frames")
    soon = time.monotonic() + 3
    monkeypatch.setattr(time, "monotonic", lambda: soon)
    made(place, "2.avi", 1)
    shutil.rmtree(tmp_path / "frames")
    made(place, "3.avi", 1)


def test_a_set_that_was_left_behind_makes_room_the_oldest_first(tmp_path: Path) -> None:
    size = HEAD.file_bytes
    for i, root in enumerate(("/old", "/older", "/busy")):
        made(store(tmp_path, 3 * size), "a.avi", 1, of=set_of(root))
        [about] = [
            file for file in tmp_path.glob("*/set.json")
            if json.loads(file.read_text())["root"] == root
        ]  # fmt: skip
        left = time.time() - (7200 + 60 * i if root != "/busy" else 0)
        os.utime(about, (left, left))
    place = store(tmp_path, 3 * size)
    made(place, "1.avi", 1)
    assert store(tmp_path).open("a.avi", IDENTITY, set_of("/older")) is None
    assert store(tmp_path).open("a.avi", IDENTITY, set_of("/old")) is not None


def left_behind(folder: Path, files: int, used: float = 1) -> Path:
    """A set that nobody uses."""
    folder.mkdir()
    (folder / "set.json").write_text("{}")
    os.utime(folder / "set.json", (used, used))
    for number in range(files):
        (folder / f"{number:032x}").write_bytes(bytes(HEAD.file_bytes))
    return folder


def test_a_set_that_cannot_be_deleted_leaves_the_next_one_to_make_room(tmp_path: Path) -> None:
    stuck = left_behind(tmp_path / "stuck.all", files=1)
    (stuck / "folder").mkdir()
    old = left_behind(tmp_path / "old.all", files=1, used=2)
    made(store(tmp_path, 2 * HEAD.file_bytes), "1.avi", 1)
    assert not old.exists()
    assert (stuck / "set.json").exists()


def test_a_deletion_that_takes_long_goes_on_with_other_videos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("videoload.storage.record_store._MAKE_ROOM_S", -1.0)
    old = left_behind(tmp_path / "old.all", files=3)
    assert store(tmp_path, 2 * HEAD.file_bytes).create("1.avi", HEAD, VIDEOS, range(4)) is None
    assert len(list(old.iterdir())) == 4
    monkeypatch.undo()
    made(store(tmp_path, 2 * HEAD.file_bytes), "1.avi", 1)
    assert not old.exists()


def test_a_set_that_is_used_for_long_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = store(tmp_path)
    made(place, "1.avi", 1)
    [about] = tmp_path.glob("*/set.json")
    os.utime(about, (0, 0))
    assert place.open("1.avi", IDENTITY, VIDEOS) is not None
    assert about.stat().st_mtime == 0, "it is not said at each clip"
    hour = time.monotonic() + 3600
    monkeypatch.setattr(time, "monotonic", lambda: hour)
    assert place.open("1.avi", IDENTITY, VIDEOS) is not None
    assert about.stat().st_mtime > 0


@pytest.mark.parametrize(
    ("code", "word"),
    [
        (errno.ENOSPC, "room"),
        (errno.EDQUOT, "room"),
        (errno.EROFS, "read"),
        (errno.EIO, os.strerror(errno.EIO)),
    ],
)
def test_after_a_failure_the_store_is_left_alone(
    tmp_path: Path, code: int, word: str, caplog: pytest.LogCaptureFixture
) -> None:
    place = store(tmp_path)
    made(place, "1.avi", 1)
    place.failed_to_read(OSError(code, os.strerror(code)))
    place.failed_to_read(OSError(code, os.strerror(code)))
    assert place.open("1.avi", IDENTITY, VIDEOS) is None
    assert place.create("2.avi", HEAD, VIDEOS, range(4)) is None
    [message] = caplog.messages
    assert word in message
    assert place.is_full is (word == "room")


def test_while_another_process_holds_the_lock_only_new_videos_are_not_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = store(tmp_path)
    made(place, "1.avi", 1)
    with (tmp_path / "bytes").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert place.create("2.avi", HEAD, VIDEOS, range(4)) is None
        assert_has(place.open("1.avi", IDENTITY, VIDEOS), 1)
    made(place, "2.avi", 1)
    [message] = caplog.messages
    assert str(tmp_path) in message


def test_a_count_that_is_broken_off_is_begun_anew_and_holds_no_lock(tmp_path: Path) -> None:
    first = store(tmp_path)
    for number in range(3):
        made(first, f"{number}.avi", 1)
    counted = int((tmp_path / "bytes").read_text())
    (tmp_path / "bytes").unlink()
    place = store(tmp_path)

    def stop() -> None:
        raise KeyboardInterrupt

    place.tick = stop
    with pytest.raises(KeyboardInterrupt):
        place.create("3.avi", HEAD, VIDEOS, range(4))
    made(store(tmp_path), "4.avi", 1)
    assert int((tmp_path / "bytes").read_text()) == counted * 4 // 3


def test_a_folder_that_cannot_be_written_to_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    place = store(tmp_path / "file")
    assert place.open("1.avi", IDENTITY, VIDEOS) is None
    assert place.create("1.avi", HEAD, VIDEOS, range(4)) is None


def test_nobody_else_can_read_it(tmp_path: Path) -> None:
    made(store(tmp_path / "frames"), "a/b.avi", 1)
    modes = {path.stat().st_mode & 0o777 for path in tmp_path.glob("frames/*")}
    assert file_of(tmp_path / "frames").stat().st_mode & 0o777 == 0o600
    assert 0o700 in modes

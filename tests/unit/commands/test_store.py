"""``videoload store``: which sets a frame store has, and which of them go."""

from __future__ import annotations

import json
import os
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.support.run_here import RunHere
from videoload.clips.clip_spec import ClipSpec
from videoload.commands.store import StoredSet, ago, choose, in_words, read_store, unused
from videoload.errors import VideoloadError
from videoload.frame_store.clip_frames import scaling_of
from videoload.frame_store.store import FrameStore
from videoload.frame_store.stored_video import Head

DAY_S = 86400
HEAD = Head(bytes(32), 4, 5000, b"layout", b"info")
RANDOM = ClipSpec(frames=4, resize=48, size=(40, 40), crop="random", sampling="random")
CENTER = ClipSpec(frames=4, size=(32, 40), pixels="gray", crop="stretch", square_pixels=True)
NATIVE = ClipSpec(frames=4, size=(32, 40), rotate=False, crop="random")


@pytest.fixture
def run(run_here: RunHere) -> RunHere:
    return partial(run_here, "store")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with a set of one video in /one, and one of two videos in /two."""
    keep(tmp_path, "/one", RANDOM, "a.avi")
    keep(tmp_path, "/two", CENTER, "a.avi", "b.avi")
    return tmp_path


def keep(folder: Path, root: str, spec: ClipSpec, *paths: str) -> FrameStore:
    found = FrameStore(str(folder), 10**9, root, "software 1")
    keep_in(found, spec, *paths)
    return found


def keep_in(found: FrameStore, spec: ClipSpec, *paths: str) -> None:
    for path in paths:
        video = found.create(path, scaling_of(spec), HEAD, range(4))
        assert video is not None
        video.write(0, [np.ones(5000, np.uint8)])


def age(folder: Path, root: str, days: float) -> None:
    (of,) = (each for each in read_store(folder) if each.root == root)
    then = time.time() - days * DAY_S
    os.utime(folder / of.name / "set.json", (then, then))


def roots(folder: Path) -> list[str]:
    return [each.root for each in read_store(folder)]


def test_a_set_has_its_root_its_videos_and_its_bytes(store: Path) -> None:
    one, two = read_store(store)
    assert (one.root, one.videos) == ("/one", 1)
    assert (two.root, two.videos) == ("/two", 2)
    on_disk = sum(512 * file.stat().st_blocks for file in (store / two.name).glob("??/*"))
    assert two.bytes == on_disk > 0
    assert abs(time.time() - one.last_used) < 60


def test_the_scaling_is_told_in_words(tmp_path: Path) -> None:
    for number, spec in enumerate((RANDOM, CENTER, NATIVE)):
        keep(tmp_path, f"/{number}", spec, "a.avi")
    assert [in_words(each) for each in read_store(tmp_path)] == [
        "short side 48",
        "native size, gray, square pixels, stretch crop, 32x40",
        "native size, not rotated",
    ]


def test_the_table_shows_all_sets(store: Path, run: RunHere) -> None:
    age(store, "/two", 9)
    status, out, err = run(str(store))
    assert (status, err) == (0, "")
    assert "2 sets" in out
    first, second = (line.split() for line in out.splitlines() if "/" in line)
    assert first[:1] + first[2:] == ["1", "/one", "short", "side", "48", "1", "0.00", "just", "now"]
    assert second[-5:] == ["2", "0.00", "9", "days", "ago"]


def test_a_program_gets_the_sets_as_json(store: Path, run: RunHere) -> None:
    status, out, _ = run(str(store), "--json")
    assert status == 0
    one, two = json.loads(out)
    assert (one["root"], two["root"]) == ("/one", "/two")
    assert two["videos"] == 2
    assert set(one) == {"name", "root", "scaling", "software", "videos", "bytes", "last_used"}


def test_a_set_is_deleted_by_its_number(store: Path, run: RunHere) -> None:
    status, out, err = run(str(store), "--delete", "2")
    assert status == 0
    assert err.startswith("deleted ")
    assert "/two" in err
    assert "/two" not in out
    assert roots(store) == ["/one"]


def test_a_set_is_deleted_by_the_beginning_of_its_name(store: Path, run: RunHere) -> None:
    one, _ = read_store(store)
    assert run(str(store), "--delete", one.name[:12])[0] == 0
    assert roots(store) == ["/two"]


def test_all_sets_can_be_deleted_and_the_store_is_then_empty(store: Path, run: RunHere) -> None:
    assert run(str(store), "--delete", "1", "--delete", "2")[:2] == (
        0,
        "no frames are kept\n",
    )
    assert run(str(store))[:2] == (0, "no frames are kept\n")


def test_sets_that_were_not_used_lately_are_deleted(store: Path, run: RunHere) -> None:
    age(store, "/one", 31)
    age(store, "/two", 29)
    assert run(str(store), "--delete-unused", "30")[0] == 0
    assert roots(store) == ["/two"]


def test_a_set_that_is_unknown_deletes_nothing(store: Path, run: RunHere) -> None:
    status, out, err = run(str(store), "--delete", "1", "--delete", "xyz")
    assert (status, out) == (1, "")
    assert err == "videoload: no set has the number xyz, or a name that begins with it\n"
    assert roots(store) == ["/one", "/two"]


def test_the_beginning_of_several_names_is_refused() -> None:
    sets = [StoredSet(f"a{i}{'0' * 30}", "/", "", "", 0, 0, 0.0) for i in "bcd"]
    assert choose(sets, "ac") is sets[1]
    assert choose(sets, "3") is sets[2]
    for wanted, why in (("a", "the names of 3 sets begin with a"), ("4", "no set"), ("", "no set")):
        with pytest.raises(VideoloadError, match=why):
            choose(sets, wanted)


def test_a_set_that_was_never_unused_for_so_long_stays() -> None:
    sets = [StoredSet("a" * 32, "/", "", "", 0, 0, last_used) for last_used in (0.0, 5 * DAY_S)]
    assert unused(sets, 3, 6 * DAY_S) == sets[:1]
    assert unused(sets, 7, 6 * DAY_S) == []


def test_a_folder_that_is_no_store_is_one_line_and_stays(tmp_path: Path, run: RunHere) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "set.json").write_text("{}")
    status, out, err = run(str(tmp_path), "--delete-unused", "0")
    assert (status, out) == (1, "")
    assert err == f"videoload: {tmp_path} is no frame store: no set of frames is in it\n"
    assert (tmp_path / "mine" / "set.json").exists()
    status, _, err = run(str(tmp_path / "missing"))
    assert (status, err) == (1, f"videoload: no such folder: {tmp_path / 'missing'}\n")
    assert not (tmp_path / "missing").exists()


def test_folders_of_others_are_never_deleted(store: Path, run: RunHere) -> None:
    (store / "mine").mkdir()
    (store / "mine" / "set.json").write_text("{}")
    (store / ("b" * 32)).symlink_to(store / read_store(store)[0].name)
    assert len(read_store(store)) == 2
    assert run(str(store), "--delete", "1", "--delete", "2")[0] == 0
    assert (store / "mine" / "set.json").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder to another user")
def test_a_store_of_another_user_is_one_line(store: Path, run: RunHere) -> None:
    os.chown(store, 12345, -1)
    status, out, err = run(str(store))
    assert (status, out) == (1, "")
    assert err == f"videoload: {store}: it belongs to another user\n"


def test_a_description_that_is_damaged_can_still_be_deleted(store: Path, run: RunHere) -> None:
    (store / read_store(store)[0].name / "set.json").write_text("{")
    assert sorted(roots(store)) == ["/two", "unknown"]
    assert run(str(store), "--delete", "2")[0] == 0
    assert roots(store) == ["/two"]


def test_a_set_that_is_deleted_while_it_is_used_is_listed_again(
    tmp_path: Path, run: RunHere
) -> None:
    found = keep(tmp_path, "/one", RANDOM, "a.avi")
    assert run(str(tmp_path), "--delete", "1")[0] == 0
    keep_in(found, RANDOM, "b.avi")
    (again,) = read_store(tmp_path)
    assert (again.root, again.videos) == ("/one", 1)


def test_times_are_told_in_days_hours_and_minutes() -> None:
    told = [ago(seconds) for seconds in (-5, 90, 130, 7300, 40 * DAY_S)]
    assert told == ["just now", "just now", "2 minutes ago", "2 hours ago", "40 days ago"]

"""The room in a folder that several processes fill."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from videoload.storage.disk_quota import DiskQuota


def take(room: DiskQuota, size: int) -> bool:
    with room.take(size) as has_room:
        return has_room


def test_room_is_given_until_the_limit_is_reached(tmp_path: Path) -> None:
    room = DiskQuota(tmp_path, 100, lambda: 100)
    (tmp_path / "bytes").write_bytes(b"0")
    assert take(room, 60)
    assert take(room, 40)
    assert not take(room, 1)
    assert (tmp_path / "bytes").read_bytes() == b"100"


def test_bytes_are_counted_before_they_take_their_place(tmp_path: Path) -> None:
    """So a process that is killed meanwhile leaves none that nobody counts."""
    with DiskQuota(tmp_path, 100, lambda: 20).take(30) as has_room:
        assert has_room
        assert (tmp_path / "bytes").read_bytes() == b"50"


def test_before_room_is_refused_what_is_there_is_counted_again(tmp_path: Path) -> None:
    there = [100]
    room = DiskQuota(tmp_path, 100, lambda: there[0])
    assert not take(room, 1)
    there[0] = 30  # somebody deletes some of it
    assert not take(room, 70), "it was counted just now"
    room.pause_s = 0.0
    assert take(room, 70)


def test_all_who_fill_it_at_once_take_no_more_than_there_is(tmp_path: Path) -> None:
    taken: list[int] = []

    def take_all() -> None:
        room = DiskQuota(tmp_path, 1000, lambda: 10 * len(taken))  # with a lock of its own
        while True:
            with room.take(10) as has_room:
                if not has_room:
                    return
                taken.append(10)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(take_all) for _ in range(4)]:
            done.result()
    assert sum(taken) == 1000


def test_a_process_that_is_stopped_while_it_holds_the_lock_stops_nobody(tmp_path: Path) -> None:
    other = DiskQuota(tmp_path, 100, lambda: 0)
    with other.take(10), pytest.raises(TimeoutError):
        take(DiskQuota(tmp_path, 100, lambda: 0, wait_s=0.01), 10)
    assert take(DiskQuota(tmp_path, 100, lambda: 0, wait_s=0.01), 90)

"""What a stream says of a frame store that is full."""

from __future__ import annotations

import pytest

from videoload.clips.clip_spec import ClipSpec
from videoload.clips.item_spec import ItemSpec
from videoload.stats.full_store import FullStore, StoreNeed
from videoload.stats.work import NO_WORK, Work

PATHS = ["a.avi", "b.avi", "b.avi", "c.avi"]  # two segments of a video
RANDOM = ClipSpec(4, 2, resize=128, size=(112, 112), sampling="random")
# Of ten clips, the videos of four have no room. Each would take 5 GB, and the store has 8.
WORK = Work(clips=10, no_room=4, needed_bytes=4 * 5 * 10**9, given_bytes=4 * 8 * 10**9)


def paths() -> list[str]:
    return PATHS


def test_random_windows_need_all_frames_of_each_video_once() -> None:
    full = StoreNeed(paths, RANDOM).lacking(WORK)
    assert full == FullStore(0.4, 15.0, 8.0, 128)
    assert str(full) == (
        "The frame store is full: these videos need about 15 GB at resize=128, 8.0 GB are given, "
        "so 40% of the clips are decoded each time."
    )


def test_other_windows_need_their_own_frames() -> None:
    spec = ClipSpec(4, 2, size=(112, 112), sampling="uniform", clips_per_video=3)
    full = StoreNeed(paths, spec).lacking(WORK)
    assert full == FullStore(0.4, 60.0, 8.0, None)
    assert "about 60 GB, 8.0 GB are given" in str(full)


@pytest.mark.parametrize("work", [NO_WORK, Work(clips=10), Work(clips=1000, no_room=10)])
def test_a_store_with_room_lacks_nothing(work: Work) -> None:
    assert StoreNeed(paths, RANDOM).lacking(work) is None


def test_nothing_is_said_of_items() -> None:
    assert (
        StoreNeed(paths, ItemSpec(load="json:loads", shape=(3,), dtype="uint8")).lacking(WORK)
        is None
    )


def test_what_is_not_known_is_left_out() -> None:
    assert str(FullStore(0.5, 0.0, 0.0, 128)) == (
        "The frame store is full: 50% of the clips are decoded each time."
    )
    assert str(FullStore(0.5, 0.0123, 0.0, None)) == (
        "The frame store is full: these videos need about 12 MB, so 50% of the clips are decoded "
        "each time."
    )

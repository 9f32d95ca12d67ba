"""Bad videos: named once, counted, replaced the same way in every run, and too many end it."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from videoload.errors import BadVideo, SpecError, TooManyBadVideos, VideoError
from videoload.spec.catalog import Catalog
from videoload.spec.plan import Plan, Sample, StreamOptions
from videoload.spec.quarantine import Quarantine

patient = settings(deadline=None, max_examples=100)


def options(**changes: Any) -> StreamOptions:
    default: dict[str, Any] = {
        "batch_size": 1,
        "shuffle": True,
        "seed": 0,
        "shard": (0, 1),
        "drop_remainder": False,
        "ordered": True,
        "on_error": "substitute",
        "max_bad": 0.01,
    }
    return StreamOptions(**default | changes)


def path(video: int) -> str:
    return f"v{video}.avi"


def make(videos: int, clips_per_video: int = 1, **changes: Any) -> tuple[Plan, Quarantine]:
    chosen = options(**changes)
    plan = Plan(videos, clips_per_video, chosen)
    catalog = Catalog([path(video) for video in range(videos)], [0] * videos, ["class"])
    return plan, Quarantine(catalog, plan, chosen)


# How many are too many


@pytest.mark.parametrize(
    ("videos", "max_bad", "limit"),
    [
        (10, 0.01, 3),
        (10, 0.0, 3),
        (399, 0.01, 3),
        (400, 0.01, 4),
        (1000, 0.01, 10),
        (1000, 0.0, 3),
        (20, 0.5, 10),
        (20, 0.99, 19),
    ],
)
def test_so_many_videos_may_be_bad_and_not_one_more(
    videos: int, max_bad: float, limit: int
) -> None:
    _, quarantine = make(videos, max_bad=max_bad)
    for video in range(limit):
        quarantine.add(video, "broken")
    assert len(quarantine.videos) == limit
    with pytest.raises(TooManyBadVideos) as caught:
        quarantine.add(limit, "broken as well")
    assert caught.value.limit == limit
    assert caught.value.videos == tuple(quarantine.videos)
    assert caught.value.videos[-1] == BadVideo(path(limit), "broken as well")
    assert f"{limit + 1} of {videos} videos" in str(caught.value)
    assert f"max_bad allows {limit}" in str(caught.value)


def test_a_video_counts_once_and_keeps_its_first_reason() -> None:
    _, quarantine = make(10)
    for reason in ("first", "second", "third", "fourth", "fifth"):
        quarantine.add(4, reason)
    assert quarantine.videos == [BadVideo("v4.avi", "first")]


def test_segments_of_one_file_count_once() -> None:
    chosen = options()
    plan = Plan(6, 1, chosen)
    catalog = Catalog(
        ["a.avi"] * 5 + ["b.avi"], [0] * 6, ["c"], starts=[0, 10, 20, 30, 40, 0],
        ends=[10, 20, 30, 40, 50, None],
    )  # fmt: skip
    quarantine = Quarantine(catalog, plan, chosen)
    for segment in range(5):
        quarantine.add(segment, "broken")
    assert quarantine.videos == [BadVideo("a.avi", "broken")]


def test_videos_are_listed_in_the_order_in_which_they_were_found() -> None:
    _, quarantine = make(10)
    for video in (7, 2, 5):
        quarantine.add(video, f"reason {video}")
    assert quarantine.videos == [BadVideo(path(v), f"reason {v}") for v in (7, 2, 5)]


def test_a_bad_video_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    _, quarantine = make(10)
    with caplog.at_level(logging.WARNING, "videoload.spec.quarantine"):
        quarantine.add(4, "no frame")
        quarantine.add(4, "no frame")
        quarantine.add(5, "short", dropped=True)
    assert [record.getMessage() for record in caplog.records] == [
        "bad video v4.avi: no frame; other clips stand in for it"
    ]


# The other modes


def test_on_error_raise_ends_at_the_first_bad_video() -> None:
    _, quarantine = make(1000, on_error="raise", max_bad=1.0)
    with pytest.raises(VideoError, match=r"v3\.avi: no frame") as caught:
        quarantine.add(3, "no frame")
    assert (caught.value.path, caught.value.reason) == ("v3.avi", "no frame")


@pytest.mark.parametrize("on_error", ["substitute", "raise"])
def test_dropped_videos_are_avoided_but_not_counted(on_error: str) -> None:
    plan, quarantine = make(20, on_error=on_error)
    for video in range(19):
        quarantine.add(video, "short", dropped=True)
    assert quarantine.videos == []
    stand_ins = {quarantine.replace(plan[step][0]).video for step in range(20)}
    assert stand_ins == {19}


def test_dropped_videos_leave_room_for_bad_ones() -> None:
    _, quarantine = make(20)
    for video in range(10):
        quarantine.add(video, "short", dropped=True)
    for video in range(10, 13):
        quarantine.add(video, "broken")
    assert [video.path for video in quarantine.videos] == ["v10.avi", "v11.avi", "v12.avi"]


# Nothing is left


def test_if_all_videos_are_dropped_the_spec_is_blamed() -> None:
    _, quarantine = make(3)
    quarantine.add(0, "has 2 frames", dropped=True)
    quarantine.add(2, "has 2 frames", dropped=True)
    with pytest.raises(SpecError, match='short="drop" leaves none of 3 videos: has 2 frames'):
        quarantine.add(1, "has 2 frames", dropped=True)


@pytest.mark.parametrize("last_dropped", [False, True])
def test_if_all_videos_are_bad_or_dropped_it_ends_whatever_is_allowed(last_dropped: bool) -> None:
    _, quarantine = make(3, max_bad=1.0)
    quarantine.add(0, "broken", dropped=last_dropped)
    quarantine.add(1, "broken")
    with pytest.raises(TooManyBadVideos):
        quarantine.add(2, "broken", dropped=last_dropped)


@patient
@given(
    videos=st.integers(1, 12),
    max_bad=st.sampled_from([0.0, 0.5, 1.0]),
    dropped=st.sets(st.integers(0, 11)),
    seed=st.integers(0, 1000),
)
def test_a_stream_whose_videos_are_all_bad_ends_instead_of_going_round(
    videos: int, max_bad: float, dropped: set[int], seed: int
) -> None:
    plan, quarantine = make(videos, max_bad=max_bad, seed=seed)
    tried: list[int] = []

    def read() -> None:
        sample = quarantine.replace(plan[0][0])
        while True:
            tried.append(sample.video)
            quarantine.add(sample.video, "no", dropped=sample.video in dropped)
            sample = quarantine.replace(sample)

    with pytest.raises((TooManyBadVideos, SpecError)):
        read()
    assert len(set(tried)) == len(tried) <= videos


def test_videos_without_clips_are_no_way_out() -> None:
    chosen = options(max_bad=1.0)
    plan = Plan(5, np.array([0, 1, 0, 2, 1]), chosen)
    catalog = Catalog([path(video) for video in range(5)], [0] * 5, ["class"])
    quarantine = Quarantine(catalog, plan, chosen)
    quarantine.add(1, "broken")
    quarantine.add(4, "broken")
    assert quarantine.replace(plan[0][0]).video == 3
    with pytest.raises(TooManyBadVideos, match="3 of 5 videos"):
        quarantine.add(3, "broken")


# Stand-ins


def test_a_good_sample_stands_for_itself() -> None:
    plan, quarantine = make(10)
    quarantine.add(plan[1][0].video, "broken")
    assert quarantine.replace(plan[0][0]) is not None
    assert quarantine.replace(plan[0][0]) == plan[0][0]


@patient
@given(
    videos=st.integers(2, 12),
    clips=st.integers(1, 3),
    bad=st.sets(st.integers(0, 11)),
    known=st.sets(st.integers(0, 11)),
    seed=st.integers(0, 1000),
)
def test_known_or_not_a_bad_video_leads_to_the_same_stand_in(
    videos: int, clips: int, bad: set[int], known: set[int], seed: int
) -> None:
    bad = {video for video in bad if video < videos} - {seed % videos}

    def by_trial(plan: Plan, quarantine: Quarantine, sample: Sample) -> Sample:
        sample = quarantine.replace(sample)
        while sample.video in bad:
            quarantine.add(sample.video, "broken")
            sample = quarantine.replace(sample)
        return sample

    def alone(plan: Plan, sample: Sample) -> Sample:
        while sample.video in bad:
            sample = plan.substitute(sample)
        return sample

    plan, fresh = make(videos, clips, max_bad=1.0, seed=seed)
    _, informed = make(videos, clips, max_bad=1.0, seed=seed)
    for video in known & bad:
        informed.add(video, "found by another sample")
    steps = range(2 * len(plan))
    wanted = [alone(plan, plan[step][0]) for step in steps]
    assert [by_trial(plan, fresh, plan[step][0]) for step in steps] == wanted
    assert [by_trial(plan, informed, plan[step][0]) for step in reversed(steps)] == wanted[::-1]

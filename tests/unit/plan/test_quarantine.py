"""Bad videos are named once and replaced the same way in every run. Too many end the stream."""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from videoload.catalog.catalog import Catalog
from videoload.errors import BadVideo, SpecError, TooManyBadVideos, VideoError, VideoloadError
from videoload.plan.options import StreamOptions
from videoload.plan.plan import Plan, Sample
from videoload.plan.quarantine import Quarantine

patient = settings(deadline=None, max_examples=100)


def options(**changes: Any) -> StreamOptions:
    default = {"batch_size": 1, "shuffle": True, "drop_remainder": False}
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
        (10, 0.0, 3),
        (399, 0.01, 3),
        (400, 0.01, 4),
        (1000, 0.0, 3),
        (21, 0.95, 19),
    ],
)
def test_the_stream_ends_with_the_first_bad_video_above_the_limit(
    videos: int, max_bad: float, limit: int
) -> None:
    plan, quarantine = make(videos, max_bad=max_bad, shuffle=False)
    for video in range(limit):
        quarantine.add(video, "broken")
        assert quarantine.due(video, [quarantine.replace(plan[video][0])]) is None
    assert len(quarantine.videos) == limit
    quarantine.add(limit, "broken as well")
    error = quarantine.due(limit, [quarantine.replace(plan[limit][0])])
    assert isinstance(error, TooManyBadVideos)
    assert error.limit == limit
    assert sorted(error.videos) == sorted(quarantine.videos)
    assert BadVideo(path(limit), "broken as well") in error.videos
    for words in (f"{limit + 1} of {videos} videos", f"max_bad allows {limit}"):
        assert words in str(error)


def test_bad_videos_of_later_batches_do_not_end_the_stream_before_them() -> None:
    plan, quarantine = make(100, shuffle=False)
    good = [i for i in range(100) if i not in (7, 20, 30, 40)]
    for video in (40, 30, 20, 7):  # They are found ahead, in any order.
        quarantine.add(video, "broken")
    for step in range(40):
        samples = [quarantine.replace(plan[step][0])]
        assert samples[0].video in good
        assert quarantine.due(step, samples) is None
    error = quarantine.due(40, [quarantine.replace(plan[40][0])])
    assert isinstance(error, TooManyBadVideos)
    assert [video.path for video in error.videos] == [path(v) for v in (7, 20, 30, 40)]
    # A second reading ends at the same batch. A reading from a later step ends at once.
    assert quarantine.due(39, [plan[39][0]]) is None
    assert quarantine.due(40, [quarantine.replace(plan[40][0])]) is not None
    assert quarantine.due(50, [plan[50][0]]) is not None


def test_files_are_counted_not_segments() -> None:
    chosen = options(shuffle=False)
    plan = Plan(3000, 1, chosen)  # 30 files with 100 segments each.
    starts = [10 * at for _ in range(30) for at in range(100)]
    catalog = Catalog(
        [path(row // 100) for row in range(3000)], starts=starts, ends=[at + 10 for at in starts]
    )
    quarantine = Quarantine(catalog, plan, chosen)

    def bad_file(file: int) -> VideoloadError | None:
        for entry in range(100 * file, 100 * file + 100):
            quarantine.add(entry, f"broken at {entry}")
        return quarantine.due(100 * file, [quarantine.replace(plan[100 * file][0])])

    assert [bad_file(file) for file in (2, 0, 1)] == [None] * 3
    assert quarantine.videos == [BadVideo(path(n), f"broken at {100 * n}") for n in (2, 0, 1)]
    error = bad_file(3)
    assert isinstance(error, TooManyBadVideos)
    assert "4 of 30 videos" in str(error)


def test_a_bad_video_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    _, quarantine = make(10)
    with caplog.at_level(logging.WARNING, "videoload.plan.quarantine"):
        quarantine.add(4, "no frame")
        quarantine.add(4, "no frame")
        quarantine.add(5, "short", dropped=True)
    [message] = caplog.messages
    assert "v4.avi: no frame" in message


# The other modes


def test_on_error_raise_ends_at_the_first_bad_video_in_the_order_of_the_batches() -> None:
    plan, quarantine = make(1000, on_error="raise", max_bad=1.0, shuffle=False)
    quarantine.add(5, "found ahead")
    quarantine.add(3, "no frame")
    for step in range(3):
        assert quarantine.due(step, plan[step]) is None
    error = quarantine.due(3, [quarantine.replace(plan[3][0])])
    assert isinstance(error, VideoError)
    assert (error.path, error.reason) == ("v3.avi", "no frame")


def test_a_skipped_video_is_listed_and_counted_and_nothing_replaces_it() -> None:
    plan, quarantine = make(100, batch_size=10, on_error="skip", shuffle=False)
    for video in (15, 3, 4, 55):
        quarantine.add(video, "broken")
    assert quarantine.replace(plan[0][3]) == plan[0][3]
    wrong = {0: None, 10: None, 50: TooManyBadVideos}
    for step in (0, 1, 5):
        kept = quarantine.kept(plan[step])
        assert {s.video for s in plan[step]} - {s.video for s in kept} == {
            video for video in (15, 3, 4, 55) if video // 10 == step
        }
        error = quarantine.due(step, kept)
        assert (None if error is None else type(error)) == wrong[10 * step]
    assert [video.path for video in quarantine.videos] == [path(v) for v in (15, 3, 4, 55)]


def test_the_stream_ends_if_all_videos_are_skipped() -> None:
    _, quarantine = make(2, on_error="skip", max_bad=1.0, shuffle=False)
    quarantine.add(0, "broken")
    assert quarantine.due(0, []) is None
    quarantine.add(1, "broken")
    assert isinstance(quarantine.due(1, []), TooManyBadVideos)


def test_the_list_can_be_read_while_it_grows() -> None:
    _, quarantine = make(30_000, max_bad=1.0)
    done = threading.Event()

    def grow() -> None:
        for video in range(29_999):
            quarantine.add(video, "broken")
        done.set()

    before = sys.getswitchinterval()
    logging.disable()
    sys.setswitchinterval(1e-6)
    try:
        thread = threading.Thread(target=grow)
        thread.start()
        lengths = [0]
        while not done.is_set():
            lengths.append(len(quarantine.videos))
        thread.join()
    finally:
        sys.setswitchinterval(before)
        logging.disable(logging.NOTSET)
    assert lengths == sorted(lengths)


@pytest.mark.parametrize("on_error", ["substitute", "raise"])
def test_dropped_videos_are_avoided_but_not_counted(on_error: str) -> None:
    plan, quarantine = make(20, on_error=on_error)
    for video in range(19):
        quarantine.add(video, "short", dropped=True)
    assert quarantine.videos == []
    assert {quarantine.replace(plan[step][0]).video for step in range(20)} == {19}


@pytest.mark.parametrize(
    ("dropped", "error", "words"),
    [
        ((True, True, True), SpecError, r'short="drop".* 3 videos.*broken'),
        ((True, False, True), TooManyBadVideos, "1 of 3 videos"),
        ((False, False, False), TooManyBadVideos, "3 of 3 videos"),
    ],
)
def test_if_all_videos_are_bad_or_dropped_the_stream_ends_whatever_max_bad_is(
    dropped: tuple[bool, ...], error: type[Exception], words: str
) -> None:
    _, quarantine = make(3, max_bad=1.0)
    for video in (0, 2):
        quarantine.add(video, "broken", dropped=dropped[video])
    with pytest.raises(error, match=words):
        quarantine.add(1, "broken", dropped=dropped[1])


@patient
@given(
    videos=st.integers(1, 12), max_bad=st.sampled_from([0.0, 0.5, 1.0]),
    dropped=st.sets(st.integers(0, 11)), seed=st.integers(0, 1000),
)  # fmt: skip
def test_a_stream_whose_videos_are_all_bad_ends(
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
            if error := quarantine.due(0, [sample]):
                raise error

    with pytest.raises((TooManyBadVideos, SpecError)):
        read()
    assert len(set(tried)) == len(tried) <= videos


def test_videos_without_clips_do_not_count_as_sound_ones() -> None:
    chosen = options(max_bad=1.0)
    plan = Plan(5, np.array([0, 1, 0, 2, 1]), chosen)
    catalog = Catalog([path(video) for video in range(5)], [0] * 5, ["class"])
    quarantine = Quarantine(catalog, plan, chosen)
    quarantine.add(1, "broken")
    quarantine.add(4, "broken")
    assert quarantine.replace(plan[0][0]).video == 3
    with pytest.raises(TooManyBadVideos, match="3 of 5 videos"):
        quarantine.add(3, "broken")


# Substitutes


@patient
@given(
    videos=st.integers(2, 12), clips=st.integers(1, 3), bad=st.sets(st.integers(0, 11)),
    known=st.sets(st.integers(0, 11)), seed=st.integers(0, 1000),
)  # fmt: skip
def test_the_substitute_does_not_depend_on_when_a_video_is_known_to_be_bad(
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


# Videos that also have sound clips


@pytest.mark.parametrize("on_error", ["substitute", "skip", "raise"])
def test_a_video_that_is_damaged_at_one_place_is_listed_but_not_avoided(on_error: str) -> None:
    plan, quarantine = make(10, clips_per_video=3, on_error=on_error)
    samples = [plan[step][0] for step in range(len(plan))]
    bad, instead = samples[4], plan.substitute(samples[4])
    quarantine.add(bad.video, "torn", here_only=True)
    assert quarantine.videos == [BadVideo(path(bad.video), "torn")]
    assert quarantine.kept(samples) == [quarantine.replace(sample) for sample in samples] == samples
    assert quarantine.instead_of(bad) == instead
    assert all(quarantine.due(step, [sample]) is None for step, sample in enumerate(samples))
    if on_error == "raise":  # it counts from the first clip of it that was replaced
        ended = quarantine.due(4, [quarantine.instead_of(bad)])
        assert isinstance(ended, VideoError)
        assert ended.reason == "torn"
    quarantine.add(instead.video, "no video")
    assert quarantine.skips or quarantine.instead_of(bad) == quarantine.replace(instead) != instead


def test_if_every_clip_fails_the_stream_ends_whatever_max_bad_is() -> None:
    plan, quarantine = make(4, max_bad=1.0)
    tried = [plan[0][0]]

    def try_them_all() -> None:
        while len(tried) < 1000:
            quarantine.add(tried[-1].video, "no luck", here_only=True)
            tried.append(quarantine.instead_of(tried[-1]))

    with pytest.raises(TooManyBadVideos):
        try_them_all()
    assert len(tried) > 100

"""Bad videos are named once and replaced the same way in every run. Too many end the stream."""

import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from videoload.catalog.catalog import Catalog
from videoload.errors import (
    BadVideo,
    Fault,
    SpecError,
    TooManyBadVideos,
    VideoError,
    VideoloadError,
)
from videoload.plan.batches import Sample
from videoload.plan.options import CheckedOptions, checked_options
from videoload.plan.plan import Plan
from videoload.plan.quarantine import Quarantine

patient = settings(deadline=None, max_examples=100)


def options(**changes: Any) -> CheckedOptions:
    default = {"batch_size": 1, "shuffle": True, "drop_remainder": False}
    return checked_options(**default | changes)


def path(video: int) -> str:
    return f"v{video}.avi"


def fault_if(dropped: bool) -> Fault:
    return Fault.SHORT if dropped else Fault.VIDEO


def make(videos: int, clips_per_video: int = 1, **changes: Any) -> tuple[Plan, Quarantine]:
    chosen = options(**changes)
    plan = Plan(videos, clips_per_video, chosen)
    catalog = Catalog([path(video) for video in range(videos)], [0] * videos, ["class"])
    return plan, Quarantine(catalog, plan, chosen)


# How many are too many


SOME = st.sets(st.integers(0, 39))


@patient
@given(
    videos=st.integers(2, 40), clips=st.integers(1, 3), size=st.integers(1, 6), bad=SOME,
    short=SOME, known=st.lists(st.integers(0, 39), unique=True), seed=st.integers(0, 1000),
    on_error=st.sampled_from(["substitute", "skip", "raise"]), shuffle=st.booleans(),
    max_bad=st.sampled_from([0.0, 0.1, 0.2, 0.5, 1.0]),
)  # fmt: skip
def test_clips_are_replaced_and_the_stream_ends_as_in_a_run_that_finds_each_bad_video_late(
    videos: int, clips: int, size: int, bad: set[int], short: set[int], known: list[int],
    seed: int, on_error: str, shuffle: bool, max_bad: float,
) -> None:  # fmt: skip
    bad = {video for video in bad | short if video < videos} - {seed % videos}
    how: dict[str, Any] = {"batch_size": size, "on_error": on_error, "shuffle": shuffle}
    plan, quarantine = make(videos, clips, seed=seed, max_bad=max_bad, **how)
    limit = 0 if on_error == "raise" else max(3, int(max_bad * videos))
    for video in filter(bad.__contains__, known):  # found ahead, in any order
        quarantine.add(video, "broken", fault_if(video in short))
    met: list[int] = []
    before: list[Sample] = []
    for step in range(2 * len(plan)):
        wanted: list[Sample] = []
        for planned in plan[step]:
            sample = planned
            while sample.video in bad:
                if sample.video not in short and sample.video not in met:
                    met.append(sample.video)
                if on_error == "skip":
                    break
                sample = plan.substitute(sample)
            else:
                wanted.append(sample)
        rows: list[Sample] = []
        for planned in quarantine.kept(plan[step]):
            sample = quarantine.replace(planned)
            while sample.video in bad:
                quarantine.add(sample.video, "broken", fault_if(sample.video in short))
                if on_error == "skip":
                    break
                sample = quarantine.replace(sample)
            else:
                rows.append(sample)
        assert rows == wanted
        error = quarantine.due(step, rows)
        if len(met) <= limit:
            assert error is None
            before = rows
            continue
        ended = [BadVideo(path(video), "broken") for video in met[: limit + 1]]
        if on_error == "raise":
            assert isinstance(error, VideoError)
            assert BadVideo(error.path, error.reason) == ended[0]
        else:
            assert isinstance(error, TooManyBadVideos)
            assert (error.videos, error.limit) == (tuple(ended), limit)
            for words in (f"{limit + 1} of {videos}", f" {limit}"):
                assert words in str(error)
        # A second reading ends at the same batch, and one from a later step on at once.
        assert not step or quarantine.due(step - 1, before) is None
        assert quarantine.due(step + 1, rows[:0], complete=False) is not None
        break
    assert {video.path for video in quarantine.videos} >= {path(video) for video in met}
    assert not {video.path for video in quarantine.videos} & {path(video) for video in short}


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
    assert "4 of 30" in str(error)
    assert quarantine.rows == [*range(400)]


def test_a_bad_video_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    _, quarantine = make(10)
    with caplog.at_level(logging.WARNING, "videoload.plan.quarantine"):
        quarantine.add(4, "no frame")
        quarantine.add(4, "no frame")
        quarantine.add(5, "short", Fault.SHORT)
    [message] = caplog.messages
    assert "v4.avi: no frame" in message


def test_further_bad_rows_of_a_file_are_logged_with_their_own_reasons(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Episodes of a robot share a file: one bad file may be most of the data."""
    chosen = options(shuffle=False)
    starts = [10 * at for at in range(20)]
    catalog = Catalog(["robot.mp4"] * 20, starts=starts, ends=[at + 10 for at in starts])
    quarantine = Quarantine(catalog, Plan(20, 1, chosen), chosen)
    with caplog.at_level(logging.WARNING, "videoload.plan.quarantine"):
        for row in reversed(range(18)):
            quarantine.add(row, f"episode {row}: no frame")
    for at, message in zip([*range(1, 9), 16], caplog.messages, strict=True):
        assert f" episode {18 - at}:" in message
        assert at == 1 or f" {at} rows" in message
    assert quarantine.videos == [BadVideo("robot.mp4", "episode 17: no frame")]
    assert quarantine.rows == [*range(18)]


# The other modes


@pytest.mark.parametrize(
    ("dropped", "error", "words"),
    [
        ((True, True, True), SpecError, r'short="drop".* 3 videos.*broken'),
        ((True, False, True), TooManyBadVideos, "1 of 3"),
        ((False, False, False), TooManyBadVideos, "3 of 3"),
    ],
)
def test_if_all_videos_are_bad_or_dropped_the_stream_ends_whatever_max_bad_is(
    dropped: tuple[bool, ...], error: type[Exception], words: str
) -> None:
    _, quarantine = make(3, max_bad=1.0)
    for video in (0, 2):
        quarantine.add(video, "broken", fault_if(dropped[video]))
    with pytest.raises(error, match=words):
        quarantine.add(1, "broken", fault_if(dropped[1]))


# Videos that also have sound clips


@pytest.mark.parametrize("on_error", ["substitute", "skip", "raise"])
def test_a_video_that_is_damaged_at_one_place_is_listed_but_not_avoided(on_error: str) -> None:
    plan, quarantine = make(10, clips_per_video=3, on_error=on_error)
    samples = [plan[step][0] for step in range(len(plan))]
    bad, instead = samples[4], plan.substitute(samples[4])
    quarantine.add(bad.video, "torn", Fault.CLIP)
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
            quarantine.add(tried[-1].video, "no luck", Fault.CLIP)
            tried.append(quarantine.instead_of(tried[-1]))

    with pytest.raises(TooManyBadVideos):
        try_them_all()
    assert len(tried) > 100

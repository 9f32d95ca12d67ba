"""Segments in seconds, the windows of dense sampling, and clips of any length, by frames and by
time."""

from array import array
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.thorough import either
from videoload.clips.choices import UnfitError
from videoload.clips.clip_params import clip_params
from videoload.clips.clip_spec import ClipSpec, dense_hop, hop_seconds
from videoload.clips.edges import pictures, reported
from videoload.clips.moments import first_from, shown_at
from videoload.clips.rows import Clip, Video
from videoload.clips.video_info import VideoInfo
from videoload.clips.windows import count_windows, frames_in

patient = settings(deadline=None, max_examples=either(25, 60))
RATES = st.sampled_from([Fraction(25), Fraction(15), Fraction(30000, 1001), Fraction(1000, 33)])


def dense(**changes: Any) -> ClipSpec:
    values: dict[str, Any] = {"frames": 4, "size": (16, 16), "sampling": "dense"}
    return ClipSpec(**values | changes)


def even(frames: int, fps: Fraction) -> VideoInfo:
    return VideoInfo(frames, fps, 64, 48)


def uneven(times: list[float]) -> VideoInfo:
    return VideoInfo(len(times), Fraction(25), 64, 48, times=array("d", times))


@st.composite
def videos(draw: st.DrawFn) -> VideoInfo:
    frames, fps = draw(st.integers(1, 300)), draw(RATES)
    if draw(st.booleans()):
        return even(frames, fps)
    steps = draw(st.lists(st.sampled_from([0.02, 0.04, 0.1, 1.0]), min_size=frames - 1))
    return uneven(np.cumsum([0.0, *steps[: frames - 1]]).tolist())


@patient
@given(videos(), st.none() | st.floats(0, 12), st.none() | st.floats(0.01, 12))
def test_a_segment_has_the_frames_that_begin_in_it(
    video: VideoInfo, start_s: float | None, length_s: float | None
) -> None:
    begin, end_s = start_s or 0.0, None if length_s is None else (start_s or 0.0) + length_s
    end = np.inf if end_s is None else end_s
    early = video.times_of(np.arange(video.num_frames)) + 1e-3
    inside = (early >= begin) & (early < end)
    try:
        first, last = frames_in(ClipSpec(1), Video("", start_s=start_s, end_s=end_s), video)
    except UnfitError:
        assert inside.sum() <= 1
        return
    near = np.abs(early[:, None] - [begin, end]).min(1) < 1e-9
    numbers = np.arange(video.num_frames)
    assert ((((first <= numbers) & (numbers < last)) == inside) | near).all()


@pytest.mark.parametrize("times", [None, np.arange(20) / 10])
def test_seconds_count_from_the_picture_or_from_the_beginning_of_the_file(times: Any) -> None:
    video = VideoInfo(20, Fraction(10), 64, 48, late=Fraction(2))
    if times is not None:
        video = video._replace(times=array("d", times))
    for late, picture in ((2.0, ClipSpec(4, seconds="file")), (0.0, ClipSpec(4))):
        for start_s, end_s, found in (
            (1.0, 1.5, (10, 15)),
            (None, 0.3, (0, 3)),
            (1, None, (10, 20)),
        ):
            row = Video("", start_s=_later(start_s, late), end_s=_later(end_s, late))
            assert frames_in(picture, row, video) == found
        at = replace(picture, frames=1, sampling="at", size=(16, 16))
        clip = Clip(1, row=Video("", at_s=0.55 + late))
        assert clip_params(at, video, clip).frame_indices.tolist() == [5]
        with pytest.raises(UnfitError, match=f"{late + 2.5:g} s.*{late + 1.9:g} s"):
            frames_in(picture, Video("", start_s=late + 2.5), video)
    early = ClipSpec(1, sampling="at", size=(16, 16), seconds="file")
    assert frames_in(early, Video("", start_s=0.5), video) == (0, 20), "the sound alone"
    for row in (Video("", end_s=1.5), Video("", at_s=1.5)):
        with pytest.raises(UnfitError, match=r"1\.5 s"):
            clip_params(early, video, Clip(1, row=row))


def _later(seconds: float | None, late_s: float) -> float | None:
    return None if seconds is None else seconds + late_s


@patient
@given(
    videos(),
    st.sampled_from([
        {}, {"hop": 3}, {"stride": 3}, {"stride": 2, "hop": 1}, {"stride": 2, "hop_s": 0.5},
        {"hop_s": 0.04}, {"fps": 5}, {"fps": 12.5, "hop_s": 0.1}, {"fps": 2, "hop_s": 3},
        {"frames": 1, "fps": 7}, {"frames": 1, "hop_s": 0.3},
    ]),
    st.integers(0, 20),
)  # fmt: skip
def test_dense_takes_every_window_that_fits_and_starts_them_where_it_says(
    video: VideoInfo, changes: dict[str, Any], start: int
) -> None:
    spec = dense(**changes)
    if start >= video.num_frames:
        return
    windows, left = count_windows(spec, video, (start, video.num_frames))
    times = video.times_of(np.arange(video.num_frames))
    shown = [
        clip_params(spec, video, Clip(0, k, row=Video("", start=start))).frame_indices
        for k in range(windows + 1)
    ]
    span = (
        clip_params(spec, video, Clip(0, 0, row=Video("", start=start))).frame_indices[-1] - start
    )
    if count_windows(replace(spec, short="drop"), video, (start, video.num_frames)) == (0, 0):
        return  # shorter than a clip
    begins = [int(frames[0]) for frames in shown]
    assert all(frames[-1] < video.num_frames for frames in shown)
    assert begins[0] == start
    hop_s = hop_seconds(spec)
    for k, frames in enumerate(shown[:-1]):
        if hop_s is None:
            assert frames[0] == start + k * dense_hop(spec)
            continue
        wanted = times[start] + k * hop_s + np.arange(spec.frames) / (spec.fps or np.inf)
        for number, at in zip(frames if spec.fps else frames[:1], wanted, strict=False):
            assert times[number] <= at + 1.001e-3
            assert number + 1 == video.num_frames or times[number + 1] > at + 0.999e-3
    # One more would not fit: it is moved back.
    assert shown[-1].tolist() == shown[-2].tolist() or hop_s is None or spec.fps is None
    assert begins[-1] >= begins[-2]
    if hop_s is None:
        assert start + windows * dense_hop(spec) + span >= video.num_frames
    elif spec.fps is not None:
        following = times[start] + windows * hop_s + (spec.frames - 1) / spec.fps
        assert following > times[-1] + 0.999e-3
    after = video.num_frames - 1 - int(shown[windows - 1][-1])
    assert 0 <= left <= max(0, after)
    assert spec.fps is not None or left == max(0, after - spec.stride + 1)


HOPS = st.integers(1, 1500).map(lambda hop: hop / 1000)
SAMPLES = st.sampled_from([2, 5, 12.5, 25, 30, 7.3])


@patient
@given(
    st.integers(2, 120), RATES, st.integers(0, 40), st.integers(1, 9),
    st.one_of(
        st.fixed_dictionaries({"hop_s": HOPS}, optional={"stride": st.integers(1, 4)}),
        st.fixed_dictionaries({"fps": SAMPLES}, optional={"hop_s": HOPS}),
        st.fixed_dictionaries(
            {"fps": SAMPLES, "sampling": st.just("center"), "max_frames": st.just(9)}
        ),
        st.fixed_dictionaries({"hop_s": HOPS, "edges": st.just("hold")}, optional={"fps": SAMPLES}),
        st.fixed_dictionaries({
            "fps": SAMPLES, "sampling": st.sampled_from(["random", "uniform"]),
            "clips_per_video": st.just(3), "short": st.sampled_from(["loop", "hold", "zero"]),
        }),
    ),
    st.integers(0, 2**64 - 1),
)  # fmt: skip
def test_a_rate_and_the_times_that_it_gives_are_the_same_windows(
    count: int, fps: Fraction, start: int, frames: int, changes: dict[str, Any], seed: int
) -> None:
    spec, whole = dense(**{"frames": frames} | changes), start + count
    times = array("d", [float(k / fps) for k in range(whole)])
    found = []
    for video in (even(whole, fps), VideoInfo(whole, fps, 64, 48, times=times)):
        is_dense = spec.sampling == "dense"
        windows, left = count_windows(spec, video, (start, whole)) if is_dense else (3, 0)
        clips = {0, 1, 2, windows // 2, windows - 1}
        shown = [
            clip_params(
                spec, video, Clip(seed, k, row=Video("", start=start))
            ).frame_indices.tolist()
            for k in clips
        ]
        found.append((windows, left, shown))
    assert found[0] == found[1]


# Moments and edges


def shown_then(video: VideoInfo, seconds: float, first: int, last: int) -> int | None:
    """The frame of [first, last) that a player shows then, by looking at each; None: none."""
    times = video.times_of(np.arange(video.num_frames))
    ends = [*times[1:], times[-1] + (times[-1] - times[first]) / max(1, last - 1 - first)]
    if video.times is None:
        ends[-1] = video.num_frames / float(video.fps)
    near = [min(1e-3, (b - a) / 4) for a, b in zip([times[0] - 1, *times], times, strict=False)]
    near[first] = 1e-3 if video.times is not None else near[first]
    shown = [i for i in range(first, last) if times[i] <= seconds + near[i]]
    if not shown or (shown[-1] == last - 1 and seconds > ends[last - 1]):
        return None
    return shown[-1]


BY_FRAMES: list[dict[str, Any]] = [
    {}, {"frames": 1}, {"frames": 5}, {"stride": 3}, {"frames": 5, "stride": 40},
    {"frames": 0, "offsets": (-2, -1, 0, 1, 2)}, {"frames": 0, "offsets": (-30, 0)},
    {"frames": 0, "offsets": (5, 90)},
]  # fmt: skip
BY_TIME: list[dict[str, Any]] = [{"fps": 5}, {"frames": 5, "fps": 12.5}, {"frames": 3, "fps": 7}]


@pytest.mark.parametrize("sampling", ["at", "dense"])
@pytest.mark.parametrize("specs", [BY_FRAMES, BY_TIME], ids=["by frames", "by time"])
@patient
@given(videos(), st.sampled_from(["hold", "zero"]), st.data())
def test_a_window_around_a_moment_has_it_in_the_middle_and_says_what_it_lacks(
    sampling: str, specs: list[dict[str, Any]], video: VideoInfo, edges: str, data: st.DataObject
) -> None:
    changes = data.draw(st.sampled_from(specs))
    first = data.draw(st.integers(0, video.num_frames - 1))
    last = data.draw(st.integers(first + 1, video.num_frames))
    hop = {} if sampling == "at" else {"hop_s": 0.3} if "fps" in changes else {"hop": 3}
    spec = dense(**{"sampling": sampling, "edges": edges} | changes | hop)
    if sampling == "at":
        moments = [moment := data.draw(st.integers(first, last - 1))]
        found = [
            clip_params(
                spec, video, Clip(0, row=Video("", start=first, end=last, at=moment))
            ).frame_indices
        ]
    else:
        windows, left = count_windows(spec, video, (first, last))
        found = [
            clip_params(spec, video, Clip(0, k, row=Video("", start=first, end=last))).frame_indices
            for k in range(windows)
        ]
        assert left == 0
        if "fps" not in changes:
            moments = list(range(first, last, 3))
            assert windows == len(moments)
    times = video.times_of(np.arange(video.num_frames))
    mean = (times[last - 1] - times[first]) / max(1, last - 1 - first)
    end = times[last - 1] + (mean if video.times is not None else float(1 / video.fps))
    for k, frames in enumerate(found):
        if spec.fps is not None:
            middle = times[first] + k * 0.3 if sampling == "dense" else times[moments[0]]
            wanted = middle + (np.arange(spec.frames) - spec.frames // 2) / spec.fps
            near_an_edge = np.abs(wanted[:, None] - np.append(times, end)) < 1.1e-3
            shown = [shown_then(video, t, first, last) for t in wanted]
            begun = [t >= times[first] - 5e-4 for t in wanted]
        else:
            counted = np.arange(spec.frames) - spec.frames // 2
            offsets = np.array(spec.offsets or counted * spec.stride)
            shown = [i if first <= i < last else None for i in (moments[k] + offsets).tolist()]
            begun = (moments[k] + offsets >= first).tolist()
            near_an_edge = np.zeros((spec.frames, 1), bool)
        for at, i in enumerate(shown):
            if near_an_edge[at].any() or (
                spec.fps and begun[at] and i in (None, video.num_frames - 1)
            ):
                continue  # the rounding of floats decides, or the mean time of the last frame
            assert reported(frames)[at] == (-1 if i is None else i)
            held = -1 if edges == "zero" else last - 1 if begun[at] else first
            assert pictures(frames)[at] == (held if i is None else i)
        if spec.offsets is None:
            assert first <= frames[spec.frames // 2] < last


AT: dict[str, Any] = {"frames": 5, "sampling": "at"}
GAP, BARE, VIDEO = uneven([0.0, 0.1, 4.0]), even(50, Fraction(0)), even(40, Fraction(25))


@pytest.mark.parametrize(
    ("changes", "video", "where", "words"),
    [
        ({}, GAP, {"start_s": 1, "end_s": 3}, "1 s.* 3 s"),
        ({}, GAP, {"start_s": 9, "end_s": 10}, "9 s.* 4 s"),
        ({}, BARE, {"start_s": 1}, "start"),
        ({"fps": 5}, BARE, {}, "stride"),
        ({"hop_s": 1.0}, BARE, {}, "hop_s"),
        ({"frames": 0, "max_frames": 4, "fps": 5, "sampling": None}, BARE, {}, "stride"),
        ({**AT, "edges": "zero"}, BARE, {"at_s": 0.1}, "at_s"),
        ({**AT, "edges": "zero"}, VIDEO, {"at": 40}, "40.* 39"),
        ({**AT, "edges": "zero"}, VIDEO, {"at_s": 1.65}, "1.65 s.* 39"),
        ({**AT, "edges": "zero"}, VIDEO, {"at": 3, "start": 5, "end": 9}, "3.* 5.* 8"),
        ({**AT, "edges": "zero"}, VIDEO, {"start": 5}, "at"),
        ({**AT, "edges": "zero"}, GAP, {"at_s": 9}, "9 s"),
        (AT, VIDEO, {"at": 1}, "1 .* 39.*edges="),
        (AT, VIDEO, {"at": 38}, "38 .* 39.*edges="),
        ({**AT, "short": "drop"}, VIDEO, {"at": 1}, "edges="),
    ],
)
def test_what_a_video_cannot_give_is_told(
    changes: dict[str, Any], video: VideoInfo, where: dict[str, Any], words: str
) -> None:
    with pytest.raises(UnfitError, match=words) as caught:
        clip_params(dense(**changes), video, Clip(0, row=Video("", **where)))
    assert caught.value.dropped is ("short" in changes)
    if not where:
        with pytest.raises(UnfitError, match=words):
            count_windows(dense(**changes), video, (0, video.num_frames))


# Clips of any length

RHYTHMS = st.sampled_from(
    [{"stride": 1}, {"stride": 3}, {"fps": 5.0}, {"fps": 29.97}, {"fps": 60.0}]
)


@patient
@given(
    videos(), RHYTHMS, st.sampled_from(["zero", "hold"]), st.integers(1, 40),
    st.sampled_from([0, 0, 1, 7]), st.integers(0, 40), st.integers(0, 2**64 - 1),
)  # fmt: skip
def test_a_clip_of_any_length_shows_all_of_its_segment_from_the_first_frame_on(
    video: VideoInfo, rhythm: Any, short: Any, most: int, more: int, start: int, seed: int
) -> None:
    start = min(start, video.num_frames - 1)
    first, last = window = start, video.num_frames
    made = ClipSpec("all", max_frames=most, size=(8, 8), short=short, sampling="random", **rhythm)
    length, left = count_windows(made, video, window)
    assert left == 0
    assert 1 <= length <= most

    def shown(spec: ClipSpec) -> Any:
        return clip_params(
            spec, video, Clip(seed, row=Video("", start=start, end=None))
        ).frame_indices

    def grid(frames: int) -> Any:
        """The frames of a clip of so many that begins with the first one; -1: beyond the end."""
        return shown(dense(frames=frames, short="zero", **rhythm))

    bucket = min(most, length + more)
    frames = shown(replace(made, frames=bucket))
    longer, _ = count_windows(replace(made, max_frames=most + 1), video, window)
    if longer > most:  # any window of it
        assert (frames == shown(ClipSpec(bucket, size=(8, 8), sampling="random", **rhythm))).all()
        assert (frames >= 0).all()
        return
    assert (frames[:length] == grid(length)).all()
    assert (frames[:length] >= first).all()
    assert (frames < last).all()
    assert (reported(frames[length:]) == -1).all(), "padding has no number"
    padding = -1 if short == "zero" else frames[length - 1]
    assert (pictures(frames[length:]) == padding).all()
    assert length == most or grid(length + 1)[-1] == -1


@pytest.mark.parametrize("of", [even(100, Fraction(25)), uneven([0.04 * at for at in range(100)])])
def test_a_long_video_is_thinned_and_a_short_one_is_cut_to_what_it_fills(of: VideoInfo) -> None:
    made = ClipSpec("all", max_frames=4, fps=5, size=8, long="thin", short="cut")
    assert clip_params(made, of, Clip(0)).frame_indices.tolist() == [0, 33, 66, 99]
    part = clip_params(made, of, Clip(0, row=Video("", start=10, end=41))).frame_indices
    assert part.tolist() == [10, 20, 30, 40]
    assert clip_params(replace(made, frames=1), of, Clip(0)).frame_indices.tolist() == [0]
    all_of_it = clip_params(made, of, Clip(0, row=Video("", start=3, end=21))).frame_indices
    assert all_of_it.tolist() == [3, 8, 13, 18], "4 frames are no more than its clips have"
    with pytest.raises(UnfitError) as caught:
        clip_params(made, of, Clip(0, row=Video("", start=3, end=18)))
    assert caught.value.dropped
    window = clip_params(replace(made, long="cut", sampling="center"), of, Clip(0)).frame_indices
    assert np.diff(window).tolist() == [5, 5, 5]


@pytest.mark.parametrize("short", ["zero", "hold"])
def test_a_segment_of_a_frame_that_is_shown_for_no_time_has_that_frame(short: Any) -> None:
    video = uneven([0.0, 0.1, 0.1, 0.3])
    made = ClipSpec("all", max_frames=3, fps=10, size=(8, 8), short=short)
    assert count_windows(made, video, (1, 2)) == (1, 0)
    frames = clip_params(made, video, Clip(0, row=Video("", start=1, end=2))).frame_indices
    assert reported(frames).tolist() == [1, -1, -1]
    for changes in ({"frames": 1, "fps": 10}, {"hop_s": 0.2, "edges": short}):
        for end in (2, 3):
            usual = {"short": None if "edges" in changes else "drop"}
            assert count_windows(dense(**usual | changes), video, (1, end))[0] >= 1


# Windows at key frames


@patient
@given(
    videos(), st.sets(st.integers(1, 299)), st.integers(0, 250), st.integers(0, 1 << 63),
    st.sampled_from([{"stride": 2}, {"fps": 12.5}, {"fps": 40}, {"max_frames": 4}]),
    st.sampled_from(["random", "center", "uniform"]),
)  # fmt: skip
def test_a_window_begins_at_the_key_frame_before_it_among_those_that_fit(
    video: VideoInfo, keys: set[int], start: int, seed: int, changes: dict[str, Any], sampling: Any
) -> None:
    found = np.array(sorted({0, *keys} & {*range(video.num_frames)}))
    video = video._replace(keys=found.tobytes())
    row = Video("", start=min(start, video.num_frames - 1))
    spec = ClipSpec(**{"frames": 4, "size": (8, 8), "sampling": sampling} | changes)
    ends = replace(spec, sampling="uniform", clips_per_video=2)

    def shown(spec: ClipSpec, number: int) -> list[int]:
        return [*map(int, clip_params(spec, video, Clip(seed, number, row=row)).frame_indices)]

    usual, aligned = shown(spec, 1), shown(replace(spec, align="keyframe"), 1)
    last = shown(ends, 1)[0]
    fitting = [key for key in found.tolist() if row.start <= key <= last]
    before = [key for key in fitting if key <= usual[0]]
    wanted = (before[-1:] or fitting[:1] or [row.start])[0]
    every = replace(spec, sampling="uniform", clips_per_video=last - row.start + 1)
    assert aligned == shown(every, wanted - row.start), "a window as there is without align"


# Times that were rounded

NTSC = [Fraction(24000, 1001), Fraction(60000, 1001)]
USUAL_RATES = [Fraction(24), Fraction(25), Fraction(30), *NTSC]


def video(rate: Fraction, *, uneven: bool = False) -> VideoInfo:
    times = array("d", [float(i / rate) for i in range(999)]) if uneven else None
    return VideoInfo(999, rate, 64, 48, times=times)


@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("rate", [*USUAL_RATES, Fraction(1, 2)])
@pytest.mark.parametrize("digits", [3, 4, 6, 17])
def test_seconds_that_a_table_rounds_keep_the_first_frame_and_the_last(
    digits: int, rate: Fraction, uneven: bool
) -> None:
    of = video(rate, uneven=uneven)
    for first in range(0, 900, 17):
        start_s, end_s = (round(float(n / rate), digits) for n in (first, first + 9))
        row = Video("", start_s=start_s, end_s=end_s)
        assert frames_in(ClipSpec(1), row, of) == (first, first + 9)


def test_a_millisecond_is_too_much_for_frames_that_come_faster() -> None:
    fast = Fraction(2000)  # a frame takes half a millisecond
    for each in (video(fast), video(fast, uneven=True)):
        assert first_from(10 / 2000 + 0.0001, each) == 10
        assert first_from(10 / 2000 + 0.0002, each) == 11
    times = np.array([0.0, 0.0005, 0.001, 1.0, 2.0])
    assert shown_at(times, [0.00039, 0.00035, 0.9991, 0.9989]).tolist() == [1, 0, 3, 2]


@pytest.mark.parametrize("rate", USUAL_RATES)
@pytest.mark.parametrize("sampling", ["center", "dense", "random"])
def test_a_clip_at_a_rate_that_is_nearly_the_file_s_shows_each_frame_once(
    sampling: str, rate: Fraction
) -> None:
    for wrong in (Fraction(9999, 10000), Fraction(10001, 10000)):
        spec = ClipSpec(16, fps=float(rate), size=(16, 16), sampling=sampling)  # type: ignore[arg-type]
        frames = clip_params(spec, video(rate * wrong), Clip(3)).frame_indices
        assert np.diff(frames).tolist() == [1] * 15

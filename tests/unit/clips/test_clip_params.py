"""Which frames of a video a clip shows, and which part of them."""

from array import array
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.chances import chi_square
from tests.support.thorough import either
from videoload.clips.affine import affine
from videoload.clips.choices import UnfitError
from videoload.clips.clip_params import ClipParams, clip_params
from videoload.clips.clip_spec import ClipSpec, at_native_size, crops_of
from videoload.clips.regions import scaled_size, shown_box
from videoload.clips.rows import Clip, Video
from videoload.clips.video_info import VideoInfo

patient = settings(deadline=None, max_examples=either(50, 150))

RATES = st.sampled_from([
    Fraction(25),
    Fraction(30000, 1001),
    Fraction(24000, 1001),
    Fraction(1000000, 33333),
    Fraction(214748359, 3579125),
    Fraction(1, 5),
    Fraction(170),
])  # fmt: skip
KEYS = st.integers(0, 2**64 - 1)


def spec(**changes: Any) -> ClipSpec:
    """Eight neighbouring frames, 16x16 pixels."""
    default: dict[str, Any] = {"frames": 8, "size": (16, 16)}
    return ClipSpec(**default | changes)


def video(
    frames: int = 100, fps: Fraction | int = 25, size: tuple[int, int] = (64, 48)
) -> VideoInfo:
    return VideoInfo(frames, Fraction(fps), *size)


def ordinals(
    made: ClipSpec, facts: VideoInfo, seed: int = 0, clip: int = 0, **segment: Any
) -> list[int]:
    return [
        *map(
            int, clip_params(made, facts, Clip(seed, clip, row=Video("", **segment))).frame_indices
        )
    ]


def shown_at(time_s: Fraction, fps: Fraction) -> int:
    """The frame that a player shows: the last one whose time has come, or nearly."""
    early = min(Fraction(1, 1000), 1 / fps / 4)
    frame = int(time_s * fps) + 3
    while Fraction(frame) / fps > time_s + early:
        frame -= 1
    return frame


# Which frames


@patient
@given(
    frames=st.integers(1, 20), stride=st.integers(1, 9), fps=st.none() | st.floats(0.5, 120),
    rate=RATES, length=st.integers(1, 400),
    sampling=st.sampled_from(["random", "center", "uniform"]), clips=st.integers(1, 6),
    short=st.sampled_from(["loop", "hold", "zero", "drop", "error"]),
    start=st.integers(0, 30), segment=st.none() | st.integers(1, 300), seed=KEYS, data=st.data(),
)  # fmt: skip
def test_the_frames_of_a_clip_lie_in_its_segment_and_keep_their_distances(
    frames: int, stride: int, fps: float | None, rate: Fraction, length: int, sampling: str,
    clips: int, short: str, start: int, segment: int | None, seed: int, data: st.DataObject,
) -> None:  # fmt: skip
    assume(start < length)
    made = spec(
        frames=frames, stride=1 if fps else stride, fps=fps, sampling=sampling,
        clips_per_video=clips, short=short,
    )  # fmt: skip
    end = None if segment is None else start + segment
    last = length if end is None else min(length, end)
    if fps is None:
        offsets = [i * stride for i in range(frames)]
    else:
        asked = Fraction(fps).limit_denominator(10**6)
        offsets = [shown_at(i / asked, rate) for i in range(frames)]
    clip, free = data.draw(st.integers(0, clips - 1)), last - start - offsets[-1] - 1
    if free < 0 and short in ("drop", "error"):
        with pytest.raises(UnfitError) as caught:
            ordinals(made, video(length, rate), seed, clip, start=start, end=end)
        assert caught.value.dropped is (short == "drop")
        return
    got = ordinals(made, video(length, rate), seed, clip=clip, start=start, end=end)
    if free >= 0:
        first = start + free // 2
        if sampling == "random":
            first = got[0]
        elif sampling == "uniform" and clips > 1:  # evenly, from the first to the last
            first = start + free * clip // (clips - 1)
        assert got == [first + offset for offset in offsets]
        assert start <= first <= start + free
    elif short == "loop":
        assert got == [start + offset % (last - start) for offset in offsets]
    elif short == "hold":
        assert got == [min(start + offset, last - 1) for offset in offsets]
    else:
        assert got == [start + each if each < last - start else -1 for each in offsets]


@pytest.mark.parametrize(
    ("changes", "facts", "start", "words"),
    [
        ({"fps": 10}, {"fps": 0}, 0, "stride"),
        ({"stride": 2, "short": "error"}, {"frames": 14}, 0, "14.* 15"),
        ({"span": "video", "short": "error"}, {"frames": 7}, 0, "7.* 8"),
        ({"short": "drop"}, {"frames": 30}, 30, "30.* 30"),
        ({"size": (100, 8)}, {"size": (64, 48)}, 0, "64x48.* 8x100"),
        ({"size": (8, 100), "crop": "random"}, {"size": (64, 48)}, 0, "64x48"),
    ],
)
def test_what_a_video_cannot_give_is_told(
    changes: dict[str, Any], facts: dict[str, Any], start: int, words: str
) -> None:
    with pytest.raises(UnfitError, match=words) as caught:
        clip_params(spec(**changes), video(**facts), Clip(0, row=Video("", start=start)))
    assert not caught.value.dropped


# Which part of them


@patient
@given(
    crop=st.sampled_from(["center", "random", "resized", "three", "five"]),
    pixels=st.sampled_from(["rgb24", "gray", "yuv420p"]),
    stored=st.tuples(*[st.integers(1, 700)] * 2), resize=st.none() | st.integers(1, 100),
    size=st.tuples(*[st.integers(1, 60)] * 2), turns=st.integers(0, 3), rotate=st.booleans(),
    seed=KEYS, number=st.integers(0, 4),
)  # fmt: skip
def test_the_crop_lies_inside_the_frame(
    crop: str, pixels: str, stored: tuple[int, int], resize: int | None, size: tuple[int, int],
    turns: int, rotate: bool, seed: int, number: int,
) -> None:  # fmt: skip
    size = (size[0] * 2, size[1] * 2)
    resize = None if resize is None else resize * 2
    assume(resize is None or crop == "resized" or max(size) <= resize)
    made = spec(crop=crop, pixels=pixels, resize=resize, size=size, rotate=rotate)
    facts, number = video(9, 25, stored)._replace(quarter_turns=turns), number % crops_of(made)
    lies = rotate and turns % 2 == 1
    shown, cut = (stored[::-1], size) if lies else (stored, size[::-1])
    if crop != "resized" and resize is None and (shown[0] < size[1] or shown[1] < size[0]):
        with pytest.raises(UnfitError):
            clip_params(made, facts, Clip(seed, crop=number))
        return
    params = clip_params(made, facts, Clip(seed, crop=number))
    (x, y, width, height), part = params.region, params.part
    assert 0 <= x < x + width <= stored[0]
    assert 0 <= y < y + height <= stored[1]
    assert x % 2 == y % 2 == 0  # or a chroma sample would be cut in two
    assert 0 <= part[0] <= params.scaled[0] - part[2]
    assert 0 <= part[1] <= params.scaled[1] - part[3]
    assert (params.size, params.turns) == (cut, turns if rotate else 0)
    if crop == "resized" and resize is None:
        assert (params.scaled, part) == (params.size, (0, 0, *params.size))
    else:
        scaled = scaled_size(*shown, resize)
        assert params.region == (0, 0, *stored)
        assert params.scaled == (scaled[::-1] if lies else scaled)
    assert crop == "resized" or part[2:] == params.size
    step = 2 if pixels == "yuv420p" or part[2:] != params.size else 1
    assert part[0] % step == part[1] % step == 0
    if crop == "center" and not params.turns:
        middle = [(a - b) // 2 for a, b in zip(params.scaled, cut, strict=True)]
        assert [at // step * step for at in middle] == list(part[:2])


@patient
@given(
    width=st.integers(1, 700), height=st.integers(1, 700),
    resize=st.none() | st.integers(1, 100).map(lambda n: 2 * n),
    pixels=st.sampled_from(["rgb24", "gray"]),
)  # fmt: skip
def test_at_native_size_a_clip_is_the_whole_frame(
    width: int, height: int, resize: int | None, pixels: str
) -> None:
    made = spec(size=None, resize=resize, pixels=pixels, flip=True)
    native = at_native_size(made, width, height)
    scaled = scaled_size(width, height, resize)
    assert native.size == scaled[::-1]
    assert native.shape[1:3] == (scaled[1], scaled[0])
    assert replace(native, size=None, crop="center") == made
    params = clip_params(native, video(100, 25, (width, height)), Clip(7))
    assert (params.region, params.scaled) == ((0, 0, width, height), scaled)
    assert params.part[:2] == (0, 0)


@pytest.mark.parametrize("size", [(64, 50), (66, 48), (32, 24), (48, 64)])
def test_at_native_size_other_sizes_are_bad_videos(size: tuple[int, int]) -> None:
    with pytest.raises(UnfitError, match="64x48"):
        clip_params(at_native_size(spec(size=None), 64, 48), video(size=size), Clip(0))


def regions(width: int, height: int, keys: int) -> list[tuple[int, int, int, int]]:
    made = spec(crop="resized")
    return [
        clip_params(made, video(size=(width, height)), Clip(seed)).region for seed in range(keys)
    ]


def test_a_resized_crop_has_an_area_and_a_shape_in_the_usual_ranges() -> None:
    found = regions(2000, 1500, 1000)
    areas = np.array([w * h / (2000 * 1500) for _, _, w, h in found])
    ratios = np.array([w / h for _, _, w, h in found])
    assert 0.079 < areas.min() < 0.1
    assert 0.9 < areas.max() <= 1
    assert 0.74 < ratios.min() < 0.78
    assert 1.28 < ratios.max() < 1.34
    assert min(x for x, _, _, _ in found) == min(y for _, y, _, _ in found) == 0
    assert max(x + w for x, _, w, _ in found) == 2000
    assert max(y + h for _, y, _, h in found) == 1500
    assert abs(np.mean([x + w / 2 for x, _, w, _ in found]) - 1000) < 50
    # as many wide regions as tall ones: the shape is drawn on a logarithmic scale
    small = ratios[areas < 0.5]
    assert 0.42 < (small > 1).mean() < 0.58
    assert 0.40 < (small > (4 / 3) ** 0.5).mean() / (small > 1).mean() < 0.60
    # areas that fit in every shape are equally likely
    assert 0.42 < (areas[areas < 0.7] < 0.39).mean() < 0.58


# Draws


def drawn(seed: int, **changes: Any) -> ClipParams:
    random: dict[str, Any] = {"sampling": "random", "crop": "random", "flip": True}
    return clip_params(spec(**random | changes), video(), Clip(seed))


@pytest.mark.parametrize("seed", range(20))
def test_one_choice_does_not_move_another(seed: int) -> None:
    base, region = drawn(seed), drawn(seed, crop="resized").region
    center: dict[str, Any] = {"crop": "center"}
    resized: dict[str, Any] = {"crop": "resized"}
    for changes in ({"flip": False}, center, resized, {"pixels": "gray"}, {"size": (8, 8)}):
        assert np.array_equal(drawn(seed, **changes).frame_indices, base.frame_indices), changes
    for changes in ({"flip": False}, {"sampling": "center"}, {"frames": 3, "stride": 2}):
        assert drawn(seed, **changes).part == base.part, changes
        assert drawn(seed, **changes | resized).region == region, changes
    for changes in ({"sampling": "center"}, center, resized):
        assert drawn(seed, **changes).flip == base.flip, changes
    assert not drawn(seed, flip=False).flip


CUTS = st.sampled_from([0, 2, 3])


@given(
    st.sampled_from(["box", "resized"]), st.sampled_from([None, 40]), st.integers(0, 2**64 - 1),
    st.tuples(*[st.floats(0, 30)] * 2), st.tuples(*[st.floats(5, 30)] * 2), st.integers(0, 3),
    st.tuples(*[CUTS] * 4),
)  # fmt: skip
def test_what_is_scaled_of_a_frame_has_whole_chroma_samples(
    crop: Any, resize: int | None, seed: int, begin: Any, size: Any, turns: int, cut: Any
) -> None:
    """Else colors would be stretched otherwise than brightness: by 6 of 112 pixels, once."""
    box = np.array([[*begin, begin[0] + size[0], begin[1] + size[1]]], "<f4").tobytes()
    facts = video(size=(64, 48))._replace(quarter_turns=turns, cut=cut)
    made = spec(crop=crop, size=(30, 32), resize=resize)
    shown = clip_params(made, facts, Clip(seed, row=Video("", boxes=box)))
    x, y, *sides = shown.region if resize is None else shown.part
    assert not any(side % 2 for side in sides)
    if tuple(sides) == shown.size and resize is not None:
        return  # it is scaled no further
    assert not x % 2 or x == cut[0]  # an edge may lie between the two pixels of a sample
    assert not y % 2 or y == cut[1]


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize(
    "box", [(500, 300, 700, 500), (64, 0, 70, 48), (0, 48, 64, 50), (-9, 4, 0, 9), (4, -9, 9, 0)]
)
def test_a_box_beside_the_picture_is_no_clip(box: Any, turns: int) -> None:
    made, facts = spec(crop="box"), video(size=(64, 48))._replace(quarter_turns=turns)
    one = np.array([box], "<f4")
    with pytest.raises(UnfitError, match="64x48") as refused:
        clip_params(made, facts, Clip(0, row=Video("", boxes=one.tobytes())))
    assert not refused.value.here_only
    both = Video("", boxes=np.concatenate([one] * 99).tobytes())
    with pytest.raises(UnfitError) as refused:
        clip_params(made, facts, Clip(0, row=both))
    assert refused.value.here_only, "other frames may have other boxes"
    at_the_edge = (one + np.array([[-1, -1, 1, 1]], "<f4")).tobytes()
    if box[0] < 99:
        clip_params(made, facts, Clip(0, row=Video("", boxes=at_the_edge)))


def test_a_box_at_the_edge_is_mirrored_with_what_is_black_beside_it() -> None:
    made, facts = spec(crop="box", size=(40, 64), flip=True), video(size=(64, 48))
    boxed = Video("", boxes=np.array([[-40, 4, 50, 44]], "<f4").tobytes())
    seen = {clip_params(made, facts, Clip(seed, row=boxed)).flip: seed for seed in range(20)}
    plain, mirrored = (
        clip_params(made, facts, Clip(seen[flip], row=boxed)) for flip in (False, True)
    )
    assert plain.part == mirrored.part
    assert plain.size == mirrored.size
    assert plain.place is not None
    assert mirrored.place == (64 - plain.size[0] - plain.place[0], plain.place[1])
    assert plain.place != mirrored.place


@pytest.mark.parametrize(
    ("seed", "start", "corner", "flip", "region"),
    [
        (0, 78, (20, 8), False, (18, 2, 40, 42)),
        (1, 12, (37, 8), False, (16, 6, 40, 40)),
        (1055144352801279116, 36, (37, 17), True, (24, 12, 26, 22)),
        (18446744073709551615, 2, (10, 20), True, (6, 2, 52, 44)),
    ],
)
def test_choices_are_what_they_were_when_this_was_written(
    seed: int, start: int, corner: tuple[int, int], flip: bool, region: tuple[int, int, int, int]
) -> None:
    params = drawn(seed)
    assert (params.frame_indices[0], params.part[:2], params.flip) == (start, corner, flip)
    assert drawn(seed, crop="resized").region == region


# The rules of papers, and of public configurations that cite them, computed here again

LENGTHS = [*range(1, 140), 250, 300, 1001]


@pytest.mark.parametrize("parts", [1, 3, 8, 16])
def test_the_middle_frame_of_each_part_is_that_of_temporal_segment_networks(parts: int) -> None:
    # Wang et al. 2016: the video in equal parts; SampleFrames(clip_len=1, num_clips=parts,
    # test_mode=True) takes the frame that is shown in the middle of each.
    made = spec(frames=parts, span="video")
    for length in LENGTHS:
        middles = [Fraction(length, parts) * (i + Fraction(1, 2)) for i in range(parts)]
        found = ordinals(made, video(length + 9), start=3, end=3 + length)
        assert found == [3 + int(middle) for middle in middles], length


@pytest.mark.parametrize("length", [40, 43])  # five frames to a part, and 5 3/8
def test_a_random_frame_of_each_part_is_uniform_over_the_part(length: int) -> None:
    # SampleFrames(clip_len=1, num_clips=8), which leaves out what is beyond eight times five
    # frames unless it is told keep_tail_frames=True; the paper knows no such rest.
    made, keys = spec(frames=8, span="video", sampling="random"), 4000
    drawn_parts = np.array([ordinals(made, video(length), seed) for seed in range(keys)])
    part = Fraction(length, 8)
    for i in range(8):
        begin, end = i * part, (i + 1) * part
        seen = Counter(drawn_parts[:, i].tolist())
        shares = {
            frame: (min(end, Fraction(frame + 1)) - max(begin, Fraction(frame))) / part
            for frame in range(int(begin), -int(-end // 1))
        }
        assert set(seen) <= set(shares)
        distance = sum((seen[f] - keys * p) ** 2 / (keys * p) for f, p in shares.items())
        assert distance < 24.3  # six degrees of freedom at most, eight times: p = 0.004
    # Each part is drawn separately.
    pairs = Counter((a - 5, b - 10) for a, b in drawn_parts[:, 1:3].tolist())
    if length == 40:
        assert chi_square(pairs, 25) < 51.2  # 24 degrees of freedom: p = 0.001


@pytest.mark.parametrize(("parts", "clips"), [(8, 1), (8, 4), (16, 3)])
def test_uniform_frames_of_each_part_are_those_of_uniformer(parts: int, clips: int) -> None:
    # Li et al. 2022, UniFormerV2, whose rule is mmaction2's UniformSample(test_mode=True): parts of
    # (length - 1) / parts begin at the nearest frame, and clip k lies k + 1 of clips + 1 within.
    made = spec(frames=parts, span="video", sampling="uniform", clips_per_video=clips)
    for length in LENGTHS:
        begins = np.linspace(0, length - 1, parts, endpoint=False).round().astype(int)
        within = [int((length - 1) / parts / (clips + 1) * (k + 1)) for k in range(clips)]
        for k in range(clips):
            got = ordinals(made, video(length), clip=k)
            assert got == [begin + within[k] for begin in begins], length
            assert got[-1] < length


# Several crops and views


@pytest.mark.parametrize(("crop", "crops"), [("three", 3), ("five", 5)])
def test_crops_of_a_clip_differ_in_their_corner_and_in_nothing_else(crop: str, crops: int) -> None:
    made = spec(crop=crop, sampling="random", flip=True)
    facts = video(size=(40, 30))
    first, *others = (clip_params(made, facts, Clip(7, crop=number)) for number in range(crops))
    for other in others:
        assert np.array_equal(other.frame_indices, first.frame_indices)
        assert other._replace(frame_indices=first.frame_indices, part=first.part) == first
    assert len({clip_params(made, facts, Clip(7, crop=n)).part[:2] for n in range(crops)}) == crops


def test_views_are_drawn_separately_and_the_first_equals_a_single_view() -> None:
    made = spec(sampling="random", crop="random", flip=True, views=3)
    one = replace(made, views=1)
    for seed in range(20):
        views = [clip_params(made, video(), Clip(seed), view=view) for view in range(3)]
        assert repr(views[0]) == repr(clip_params(one, video(), Clip(seed)))
        assert len({view.seed for view in views}) == 3, "so a transform does other things"
    many = [
        [clip_params(made, video(9), Clip(seed), view=view) for view in range(2)]
        for seed in range(4000)
    ]
    together = Counter(
        (int(a.frame_indices[0]), int(b.frame_indices[0]), a.flip, b.flip) for a, b in many
    )
    assert chi_square(together, 16) < 37.7  # 15 degrees of freedom: p = 0.001


# Frames that are shown differently than they are stored


@patient
@given(
    turns=st.integers(0, 3), seed=KEYS, number=st.integers(0, 4),
    crop=st.sampled_from(["center", "random", "resized", "three", "five"]),
)  # fmt: skip
def test_the_crop_of_a_mirrored_frame_is_cut_as_shown(
    turns: int, crop: str, seed: int, number: int
) -> None:
    made = spec(resize=None if crop == "resized" else 24, size=(20, 16), crop=crop)
    whole = (48, 64)
    stored = whole[::-1] if turns % 2 else whole
    corners = np.array([[0, 15], [0, 19], [1, 1]])
    seen = []
    for mirrored in (False, True):
        facts = VideoInfo(9, Fraction(25), *stored, turns, mirrored)
        params = clip_params(made, facts, Clip(seed, crop=number % crops_of(made)))
        at = np.linalg.solve(np.array([*affine(params), (0, 0, 1)]), corners)[:2].T + 0.5
        seen.append([shown_box((*xy, *xy), stored, turns, mirrored, whole)[:2] for xy in at])
    assert np.abs(np.diff(seen, axis=0)).max() <= 4, "rounded to even pixels, before and after"


# Times


UNEVEN = VideoInfo(
    8, Fraction(4), 64, 48, times=array("d", [0.0, 0.1, 0.2, 0.3, 1.0, 1.1, 1.2, 2.0])
)


@pytest.mark.parametrize(
    ("frames", "fps", "short", "expected"),
    [
        (5, 10.0, "loop", [0, 1, 2, 3, 3]),
        (3, 1.0, "loop", [0, 4, 7]),
        (4, 1.0, "hold", [0, 4, 7, 7]),
        (4, 1.0, "loop", [0, 4, 7, 3]),  # it begins again after 2.29 s
        (4, 1.0, "zero", [0, 4, 7, -1]),
        (6, 4.0, "zero", [0, 2, 3, 3, 4, 6]),
        (5, 4.0, "loop", [0, 2, 3, 3, 4]),
    ],
)
def test_frames_at_uneven_distances_are_taken_by_their_times(
    frames: int, fps: float, short: str, expected: list[int]
) -> None:
    made = spec(frames=frames, fps=fps, short=short, sampling="uniform", clips_per_video=2)
    assert clip_params(made, UNEVEN, Clip(0)).frame_indices.tolist() == expected


def test_a_clip_starts_only_where_its_time_fits() -> None:
    made = spec(frames=2, fps=1.0, sampling="random")
    starts = {clip_params(made, UNEVEN, Clip(seed)).frame_indices[0] for seed in range(200)}
    assert starts == {*range(7)}, "the last frame is shown until 2.29 s"
    made = spec(frames=3, fps=1.0, short="error")
    assert ordinals(made, UNEVEN, start=0) == [1, 5, 7]
    with pytest.raises(UnfitError, match=r"\b1 s.* 2 s"):
        ordinals(made, UNEVEN, start=4)
    assert ordinals(spec(frames=3, fps=1.0), UNEVEN, start=2, end=3) == [2, 2, 2]


def test_the_time_of_a_frame_is_its_own_or_follows_from_the_rate() -> None:
    frames = np.array([[0, 4], [7, 7]])
    assert UNEVEN.times_of(frames).tolist() == [[0.0, 1.0], [2.0, 2.0]]
    assert UNEVEN._replace(times=None).times_of(frames).tolist() == [[0.0, 1.0], [1.75, 1.75]]
    assert np.isnan(VideoInfo(9, Fraction(0), 64, 48).times_of(frames)).all()
    for info in (UNEVEN, UNEVEN._replace(times=None)):
        assert np.isnan(info.times_of(np.array([0, -1]))).tolist() == [False, True]

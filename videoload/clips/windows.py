"""Choose the source frames of a clip, and count the windows, or frames of a clip, in a video.

Time means the time at which a player shows a frame. With constant intervals, it follows from the
rate; otherwise each frame has its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np

from videoload.clips.choices import UnfitError
from videoload.clips.clip_spec import ClipSpec, dense_hop, hop_seconds
from videoload.clips.edges import held
from videoload.clips.moments import (
    Ints,
    Times,
    end_of,
    exactly,
    first_from,
    near,
    shown_at,
    shown_in,
    until,
)
from videoload.clips.regions import generator
from videoload.clips.rows import Video
from videoload.clips.step_times import StepTimes
from videoload.clips.video_info import VideoInfo

Start = Callable[[int], int]  # of a window, by the last frame that it may begin with

_PARTS = 1 << 128  # the bits of a seed above 64 select a generator


def frames_in(spec: ClipSpec, row: Video, video: VideoInfo) -> tuple[int, int]:
    """Return the first frame of a row's segment, and the one after its last; of a row with the
    times of its steps, steps. Raises UnfitError."""
    if row.steps is not None:
        return 0, row.steps.count
    if row.start_s is None and row.end_s is None:
        start, end = row.start, row.end
        last = video.num_frames if end is None else min(end, video.num_frames)
        if start >= last:
            raise UnfitError(f"segment starts at frame {start}, the video has {video.num_frames}")
        return start, last
    late_s = video.late_s(spec)
    first = 0 if row.start_s is None else first_from(row.start_s - late_s, video)
    last = video.num_frames if row.end_s is None else first_from(row.end_s - late_s, video)
    if first >= video.num_frames:
        lasts = late_s + video.times_of(np.array([video.num_frames - 1])).item()
        raise UnfitError(
            f"segment starts at {row.start_s:g} s, the video's last frame is at {lasts:.3g} s"
        )
    if first >= last:
        raise UnfitError(
            f"no frame begins in the segment from {row.start_s or 0:g} s to {row.end_s:g} s"
        )
    return first, last


def moment_in(spec: ClipSpec, row: Video, video: VideoInfo, within: tuple[int, int]) -> int:
    """Return the frame of a row's moment, which lies in the frames [first, last) of the video.
    Raises UnfitError."""
    if row.at is not None:
        moment, found = f"frame {row.at}", row.at
    elif row.at_s is not None:
        moment, found = f"{row.at_s:g} s", shown_in(row.at_s - video.late_s(spec), video)
    else:
        raise UnfitError('has no moment (at, at_s), and sampling="at" needs one')
    first, last = within
    if not first <= found < last:
        of = "the video" if within == (0, video.num_frames) else "its segment"
        reason = f"its moment is {moment}, and {of} has frames {first} to {last - 1}"
        raise UnfitError(reason, here_only=True)  # the next clip of it may have another moment
    return found


def frames_of(
    spec: ClipSpec,
    video: VideoInfo,
    segment: tuple[int, int],
    clip: int,
    seed: int,
    at: float,
    moment: int = 0,
) -> Ints:
    """Return the source frames of clip number ``clip`` of a segment [first, last), as `edges`
    numbers them. ``at`` in [0, 1) is random, ``seed`` for further draws, and ``moment`` is the
    frame that ``sampling="at"`` shows in the middle. Raises UnfitError."""
    first, last = segment
    times = _times(video, first, last)
    if spec.max_frames is not None:
        length = _fitting(spec, last - first, video.fps, times)
        if length < spec.frames and spec.short == "cut":
            raise UnfitError(f"gives {length} frames, and clips have {spec.frames}", dropped=True)
        if length > spec.frames and spec.long == "thin":
            return first + _evenly(spec.frames, last - first, times)
        if length <= spec.frames:
            return _padded(spec, first + _from_first(spec, length, video.fps, times))
    if spec.sampling == "at" or spec.edges is not None:
        found = _around(spec, last - first, video.fps, times, clip, moment - first)
        return with_edges(spec, found, first, last, moment)
    start = partial(_start, spec, video, first, times, clip, at)
    if spec.span == "video":
        found = _of_parts(spec, last - first, clip, seed)
    elif spec.fps is not None and times is not None:
        found = _at_times(spec, times, clip, start)
    else:
        found = _at_steps(spec, last - first, video.fps, times, clip, start)
    return first + found if spec.short != "zero" else np.where(found < 0, -1, first + found)


def count_windows(spec: ClipSpec, video: VideoInfo, segment: tuple[int, int]) -> tuple[int, int]:
    """Return how many windows ``"dense"`` takes from a segment [first, last), and how many frames
    follow the last one, which are in none. For clips of any length: the number of frames in this
    segment's clip, and 0. Raises UnfitError."""
    first, last = segment
    times, frames = _times(video, first, last), last - first
    if spec.max_frames is not None:
        return min(_fitting(spec, frames, video.fps, times), spec.max_frames), 0
    if spec.edges is not None:
        return _places(spec, frames, video.fps, times), 0
    windows = _windows(spec, frames, video.fps, times)
    if not windows:
        return (0 if spec.short == "drop" else 1), 0
    shown = frames_of(spec, video, segment, windows - 1, 0, 0.0)[-1:]
    if spec.fps is None:
        following = int(shown[0]) + spec.stride
    else:
        following = first_from(video.times_of(shown).item() + 1 / spec.fps, video)
    return windows, max(0, last - following)


def _fitting(spec: ClipSpec, frames: int, fps: Fraction, times: Times | None) -> int:
    """Return how many frames a clip has that begins with the first one, until the video ends."""
    if spec.fps is None or times is None:
        return math.ceil((frames - near(fps)) / _step_of(spec, fps))
    return math.ceil((until(times, frames) - float(times[0])) * spec.fps)


def _from_first(spec: ClipSpec, length: int, fps: Fraction, times: Times | None) -> Ints:
    """Return the first ``length`` frames of the clip that begins with the first one."""
    if spec.fps is None or times is None:
        return _offsets(spec.frames, _step_of(spec, fps), near(fps))[0][:length]
    return shown_at(times[:-1], times[0] + np.arange(length) / spec.fps)


def _evenly(frames: int, of: int, times: Times | None) -> Ints:
    """Return so many frames from the first of a video to its last, as a player shows them at even
    times."""
    parts = max(1, frames - 1)
    if times is None:
        return np.arange(frames) * (of - 1) // parts
    return shown_at(times[:-1], times[0] + np.arange(frames) * (times[-2] - times[0]) / parts)


def _padded(spec: ClipSpec, frames: Ints) -> Ints:
    """Return the frames, and behind them what fills the clip."""
    padding = -1 if spec.short == "zero" else held(frames[-1:])
    return np.append(frames, np.broadcast_to(padding, spec.frames - len(frames)))


def _windows(spec: ClipSpec, frames: int, fps: Fraction, times: Times | None) -> int:
    """Return how many windows ``"dense"`` takes from a video of ``frames`` frames."""
    if spec.fps is None:
        places = frames - _offsets(spec.frames, spec.stride, near(fps))[1] + 1
        return _places(spec, places, fps, times) if places > 0 else 0
    return max(0, _places(spec, frames, fps, times, spec.frames - 1))


def _places(
    spec: ClipSpec, frames: int, fps: Fraction, times: Times | None, intervals: int = 0
) -> int:
    """Return how many windows of ``"dense"`` have their place, or a frame so many ``intervals``
    after it, among the first ``frames`` frames."""
    if (hop_s := hop_seconds(spec)) is None:
        return -(-frames // dense_hop(spec))
    if times is None:
        return math.ceil((frames - near(fps) - intervals * _step_of(spec, fps)) / _hop(spec, fps))
    lasts = intervals / (spec.fps or 1)
    return math.ceil((until(times, frames) - float(times[0]) - lasts) / hop_s)


def _place(spec: ClipSpec, fps: Fraction, times: Times | None, clip: int) -> int:
    """Return the frame that window number ``clip`` of ``"dense"`` begins with; with ``edges``, the
    one in its middle."""
    if (hop_s := hop_seconds(spec)) is None:
        return clip * dense_hop(spec)
    if times is None:
        return int(clip * _hop(spec, fps) + near(fps))
    return int(shown_at(times, times[0] + clip * hop_s))


def step_of(spec: ClipSpec, steps: StepTimes, clip: int) -> int:
    """Return the step in the middle of window number ``clip`` of ``"dense"``, with ``edges``."""
    return _place(
        spec, steps.rate, None, min(clip, _places(spec, steps.count, steps.rate, None) - 1)
    )


def _times(video: VideoInfo, first: int, last: int) -> Times | None:
    """Return when the frames of a segment [first, last) begin, and at last when its last one
    ends."""
    if video.times is None:
        return None
    times = np.frombuffer(video.times)
    return times[first : last + 1] if last < len(times) else np.append(times[first:], end_of(times))


def _at_steps(
    spec: ClipSpec, frames: int, fps: Fraction, times: Times | None, clip: int, start: Start
) -> Ints:
    """Return the clip's frames in a video of ``frames`` frames, by their numbers."""
    step = _step_of(spec, fps)
    offsets, span = _offsets(spec.frames, step, near(fps))
    if frames >= span:
        if spec.sampling == "dense" and isinstance(step, Fraction):
            windows = _windows(spec, frames, fps, times)
            begin = min(clip, windows - 1) * _hop(spec, fps) + near(fps)
            return _grid(spec.frames, step, begin)
        return offsets + start(frames - span)
    _check_length(spec, frames, span)
    if spec.short == "zero":
        return np.where(offsets < frames, offsets, -1)
    return offsets % frames if spec.short == "loop" else np.minimum(offsets, frames - 1)


def _at_times(spec: ClipSpec, times: Times, clip: int, start: Start) -> Ints:
    """Return the frames that a player shows every ``1 / fps`` seconds, in a video with uneven
    intervals: at ``times`` in seconds."""
    assert spec.fps is not None
    wanted = np.arange(spec.frames) / spec.fps
    frames = len(times) - 1
    lasts, end = times[-2] - times[0], until(times, frames)
    fitting = int(np.searchsorted(times[:-1], end - wanted[-1]))
    begin = times[0]
    if spec.sampling == "dense" and (hop_s := hop_seconds(spec)) is not None:
        begin += min(clip, max(0, _windows(spec, frames, Fraction(), times) - 1)) * hop_s
    else:
        begin = times[start(max(0, fitting - 1))]
    if not fitting:
        if spec.short in ("drop", "error"):
            reason = f"lasts {lasts:.3g} s, a clip {wanted[-1]:.3g} s"
            raise UnfitError(reason, dropped=spec.short == "drop")
        if spec.short == "loop" and lasts:
            early = times[-1] - end
            wanted = (wanted + early) % (times[-1] - times[0]) - early
    wanted += begin
    shown = shown_at(times[:-1], wanted)
    if spec.short == "zero":
        shown[wanted >= end] = -1
    return shown


def _around(
    spec: ClipSpec, frames: int, fps: Fraction, times: Times | None, clip: int, moment: int
) -> Ints:
    """Return the frames around ``moment``, or of window number ``clip`` of ``"dense"``; those
    beyond the ends are below 0, or from ``frames`` on."""
    middle, is_dense = spec.frames // 2, spec.sampling == "dense"
    if is_dense:
        clip = min(clip, _places(spec, frames, fps, times) - 1)
    if spec.fps is None:
        at = _place(spec, fps, times, clip) if is_dense else moment
        return at + _around_middle(spec.frames, spec.stride, spec.offsets)
    if times is None:
        step = Fraction(_step_of(spec, fps))
        exactly = clip * _hop(spec, fps) if is_dense else moment
        return _grid(spec.frames, step, exactly + near(fps) - middle * step)
    seconds = times[0] + clip * (hop_seconds(spec) or 0.0) if is_dense else times[moment]
    wanted = seconds + (np.arange(spec.frames) - middle) / spec.fps
    return np.where(wanted >= until(times, frames), frames, shown_at(times[:-1], wanted))


@lru_cache(256)
def _around_middle(frames: int, stride: int, offsets: tuple[int, ...] | None) -> Ints:
    """Return a clip's frame numbers, counted from its middle one, or as ``offsets`` count them."""
    found = np.array(offsets or (np.arange(frames) - frames // 2) * stride, np.int64)
    found.flags.writeable = False
    return found


def with_edges(spec: ClipSpec, found: Ints, first: int, last: int, moment: int) -> Ints:
    """Return the frames ``found``, counted from ``first``, with what is shown beyond the ends.
    Raises UnfitError."""
    frames = first + found
    if found[0] >= 0 and found[-1] < last - first:  # they rise
        return frames
    if spec.edges is None:
        raise UnfitError(
            f"the window around frame {moment} reaches beyond frames {first} to {last - 1}; give "
            'edges="hold" or "zero"',
            dropped=spec.short == "drop",
        )
    shown = -1 if spec.edges == "zero" else held(np.clip(frames, first, last - 1))
    return np.where((frames < first) | (frames >= last), shown, frames)


def _check_length(spec: ClipSpec, frames: int, span: int) -> None:
    """Raise UnfitError if the spec refuses videos that are shorter than a clip."""
    if spec.short in ("drop", "error"):
        reason = f"has {frames} frames, a clip spans {span}"
        raise UnfitError(reason, dropped=spec.short == "drop")


def _step_of(spec: ClipSpec, fps: Fraction) -> int | Fraction:
    """Return source frames from one frame of a clip to the next."""
    if spec.fps is None:
        return spec.stride
    if fps <= 0:
        raise UnfitError("has no frame rate; give stride instead of fps")
    return _step(spec.fps, fps)


@lru_cache(256)
def _step(wanted: float, fps: Fraction) -> Fraction:
    return fps / exactly(wanted)


@lru_cache(256)
def _offsets(frames: int, step: int | Fraction, begin: Fraction) -> tuple[Ints, int]:
    """Return a clip's frame numbers, counted from its first, and the source frames that it
    spans."""
    offsets = np.array([int(begin + t * step) for t in range(frames)], dtype=np.int64)
    offsets.flags.writeable = False
    return offsets, int(offsets[-1]) + 1


def _grid(frames: int, step: Fraction, begin: Fraction) -> Ints:
    """Return the frames that a player shows from ``begin`` on, in source frames, ``step`` apart."""
    by = begin.denominator * step.denominator
    first, each = begin.numerator * step.denominator, step.numerator * begin.denominator
    return np.array([(first + t * each) // by for t in range(frames)], np.int64)


def _start(
    spec: ClipSpec,
    video: VideoInfo,
    first: int,
    times: Times | None,
    clip: int,
    at: float,
    free: int,
) -> int:
    """Return the first frame of the window, from 0 to ``free``, counted from the ``first`` of its
    segment."""
    match spec.sampling:
        case "random":
            start = int(at * (free + 1))
        case "uniform" if spec.clips_per_video > 1:
            start = free * clip // (spec.clips_per_video - 1)
        case "dense":
            start = min(_place(spec, video.fps, times, clip), free)
        case _:
            start = free // 2
    if spec.align is None or video.keys is None:
        return start
    keys = video.key_frames - first
    keys = keys[(keys >= 0) & (keys <= free)]
    before = int(np.searchsorted(keys, start, "right")) - 1
    return keys.item(max(0, before)) if len(keys) else 0


def _hop(spec: ClipSpec, fps: Fraction) -> Fraction:
    """Return source frames from one window of ``"dense"`` to the next, in a video with this
    rate."""
    if fps <= 0:
        raise UnfitError("has no frame rate; give hop instead of hop_s")
    if spec.hop_s is None:
        assert spec.fps is not None
        return spec.frames * _step(spec.fps, fps)
    return exactly(spec.hop_s) * fps


def _of_parts(spec: ClipSpec, frames: int, clip: int, seed: int) -> Ints:
    """Return a frame of each of ``spec.frames`` equal parts of the video. If it has fewer frames,
    some repeat."""
    if frames < spec.frames:
        _check_length(spec, frames, spec.frames)
    parts = range(spec.frames)
    match spec.sampling:
        case "random":
            draw = generator(seed + _PARTS)
            found = [min(int((i + draw()) * frames / spec.frames), frames - 1) for i in parts]
        case "uniform":  # in float64, rounded to even, as in UniFormerV2's code
            part = (frames - 1) / spec.frames
            within = int(part / (spec.clips_per_video + 1) * (clip + 1))
            found = [round(part * i) + within for i in parts]
        case _:
            found = [(2 * i + 1) * frames // (2 * spec.frames) for i in parts]
    return np.array(found, np.int64)

"""Which frames of a video a clip shows, and which part of them.

A clip must be the same on every worker. So each choice is a pure function of the spec, the video
(frame count, rate, size) and one integer seed, which the plan derives from (seed, epoch, clip). The
draws have one fixed order, even if the spec does not use them all: switching the flip on does not
move the windows. Further views, and the frames of ``span="video"``, have their own generators.
"""

from __future__ import annotations

import math
import random
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.clips.choices import FROM_SCALED, WHOLE_FRAME, UnfitError
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.regions import (
    Draw,
    Rectangle,
    Size,
    corner,
    letterbox,
    mirrored_back,
    multiscale_region,
    resized_region,
    scaled_size,
    turned_back,
)
from videoload.clips.video_info import VideoInfo

# Seeds have 64 bits. The bits above them select a generator.
_VIEW, _PARTS = 1 << 64, 1 << 128
_ROUNDING_S = 1e-6  # times this close are the same


class ClipParams(NamedTuple):
    """What a clip shows.

    ``frames`` are the numbers of its source frames, int64 [T]. ``region`` (x, y, width, height) of
    each is scaled to ``scaled`` (width, height). ``part`` (x, y, width, height) of the scaled frame
    is cut out, scaled to ``size`` (width, height) if it has another size, turned clockwise
    ``turns`` times by 90 degrees, and mirrored if ``flip``. ``seed`` is for the transform. The
    result begins at ``place`` (x, y) in a black frame of the clip; None: it is that frame.

    A frame with the number -1 is missing: it is black.

    With ``resize``, the whole frame is scaled, so what is scaled does not depend on what was drawn.
    """

    frames: npt.NDArray[np.int64]
    region: Rectangle
    scaled: Size
    part: Rectangle
    size: Size
    turns: int
    flip: bool
    seed: int
    place: Size | None = None


def clip_params(
    spec: ClipSpec,
    video: VideoInfo,
    seed: int,
    clip: int = 0,
    start: int = 0,
    end: int | None = None,
    crop: int = 0,
    *,
    view: int = 0,
) -> ClipParams:
    """Decide clip number ``clip`` of the segment [start, end) of a video. ``crop`` is the number of
    the crop if there are several, ``view`` the number of the view in its sample.

    Raises UnfitError if the video cannot give this clip.
    """
    last = video.frames if end is None else min(end, video.frames)
    if start >= last:
        raise UnfitError(f"segment starts at frame {start}, the video has {video.frames}")
    own = seed + view * _VIEW
    draw = _generator(own, draws=spec.draws)
    at, mirror, across, down = draw(), draw(), draw(), draw()
    shared = own
    if view and spec.views_share == "window":
        shared = seed
        at = _generator(seed, draws=spec.draws)()
    if spec.fps is not None and video.times is not None:
        times = np.frombuffer(video.times)[start:last]
        frames = _at_times(spec, times, clip, at)
    else:
        frames = _frames(spec, last - start, video.fps, clip, shared, at)
    frames = start + frames if spec.short != "zero" else np.where(frames < 0, -1, start + frames)
    whole, size = video.shown_size(spec), (spec.width, spec.height)
    region, scaled, part = (0, 0, *whole), scaled_size(*whole, spec.resize), (0, 0, *size)
    place = None
    if spec.crop in WHOLE_FRAME:
        if spec.crop == "pad":
            size, place = letterbox(whole, size, even=spec.pixels == "yuv420p")
        scaled, part = size, (0, 0, *size)
    elif spec.crop in FROM_SCALED:
        part = _drawn_region(spec, scaled, draw)
        if spec.resize is None:  # then the region is scaled once, from the source frame
            region, scaled, part = part, size, (0, 0, *size)
    else:
        part = (*_corner(spec, scaled, size, crop, across, down), *size)
    turns = video.turns if spec.rotate else 0
    mirrored = video.mirrored and spec.rotate
    if mirrored:
        region, part = mirrored_back(region, whole), mirrored_back(part, scaled)
    x, y, width, height = turned_back(part, scaled, turns)
    if turns % 2:
        scaled, size = scaled[::-1], size[::-1]
    if spec.pixels == "yuv420p" or (width, height) != size:  # a chroma sample spans two pixels
        x, y = x & ~1, y & ~1
    stored = _stored(turned_back(region, whole, turns), video, spec)
    flip = (spec.flip and mirror < 0.5) != mirrored
    part = x, y, width, height
    return ClipParams(frames, stored, scaled, part, size, turns, flip, own, place)


def _drawn_region(spec: ClipSpec, frame: Size, draw: Draw) -> Rectangle:
    if spec.crop == "resized":
        return resized_region(frame, spec.area, spec.ratio, draw)
    return multiscale_region(frame, draw)


def _generator(seed: int, *, draws: bool = True) -> Draw:
    # Only Random.random() gives the same numbers in every version of Python.
    return random.Random(seed).random if draws else float  # float() is 0.0


def _stored(region: Rectangle, video: VideoInfo, spec: ClipSpec) -> Rectangle:
    """A region of the shown frame, which may have square pixels, as a region of the stored one. It
    begins at even pixels, because a chroma sample spans two each way."""
    x, y, width, height = region
    if spec.square_pixels:
        shown = video.shown_size(spec)[video.turns % 2 if spec.rotate else 0]
        x, right = x * video.width // shown, -(-(x + width) * video.width // shown)
        width = right - x
    return x & ~1, y & ~1, width, height


def _corner(
    spec: ClipSpec, scaled: Size, size: Size, number: int, across: float, down: float
) -> Size:
    """Where the crop begins in a scaled frame. Raises UnfitError if it does not fit."""
    free_x, free_y = scaled[0] - size[0], scaled[1] - size[1]
    if spec.crop == "none" and (free_x or free_y):
        raise UnfitError(
            f"frames are {scaled[0]}x{scaled[1]} pixels, the stream's are "
            f"{size[0]}x{size[1]}; give resize and size"
        )
    if free_x < 0 or free_y < 0:
        raise UnfitError(
            f"frames of {scaled[0]}x{scaled[1]} pixels are smaller than the crop "
            f"{size[0]}x{size[1]}; give resize"
        )
    if spec.crop == "random":
        return int(across * (free_x + 1)), int(down * (free_y + 1))
    return corner(spec.crop, scaled, size, number)


def _frames(
    spec: ClipSpec, frames: int, fps: Fraction, clip: int, seed: int, at: float
) -> npt.NDArray[np.int64]:
    """The clip's frame numbers in a video of ``frames`` frames; ``at`` in [0, 1) is random."""
    if spec.span == "video":
        return _of_parts(spec, frames, clip, seed)
    if spec.fps is not None and fps <= 0:
        raise UnfitError("has no frame rate; give stride instead of fps")
    offsets, span = _offsets(spec.frames, spec.stride if spec.fps is None else _step(spec.fps, fps))
    if frames >= span:
        counted = spec.frames * spec.stride if spec.span == "strides" else span
        return offsets + _start(spec, max(0, frames - counted), clip, at)
    _check_length(spec, frames, span)
    if spec.short == "zero":
        return np.where(offsets < frames, offsets, -1)
    return offsets % frames if spec.short == "loop" else np.minimum(offsets, frames - 1)


def _at_times(
    spec: ClipSpec, times: npt.NDArray[np.float64], clip: int, at: float
) -> npt.NDArray[np.int64]:
    """Ordinals of the frames that a player shows every ``1 / fps`` seconds, in a video whose frames
    come at uneven distances: at ``times`` in seconds."""
    assert spec.fps is not None
    wanted = np.arange(spec.frames) / spec.fps
    lasts = times[-1] - times[0]
    fitting = int(np.searchsorted(times, times[-1] - wanted[-1] + _ROUNDING_S, "right"))
    first = _start(spec, max(0, fitting - 1), clip, at)
    if not fitting:
        if spec.short in ("drop", "error"):
            reason = f"lasts {lasts:.3g} s, a clip {wanted[-1]:.3g} s"
            raise UnfitError(reason, dropped=spec.short == "drop")
        if spec.short == "loop" and lasts:
            wanted %= _end(times) - times[0]
    wanted += times[first] + _ROUNDING_S
    shown = np.searchsorted(times, wanted, "right").astype(np.int64) - 1
    if spec.short == "zero":
        shown[wanted > _end(times)] = -1
    return shown


def _end(times: npt.NDArray[np.float64]) -> float:
    """When the last frame is no longer shown: it is shown for the mean time of the others."""
    last = len(times) - 1
    return float(times[-1] + (times[-1] - times[0]) / last) if last else math.inf


def _check_length(spec: ClipSpec, frames: int, span: int) -> None:
    """Raises UnfitError if the spec refuses videos that are shorter than a clip."""
    if spec.short in ("drop", "error"):
        reason = f"has {frames} frames, a clip spans {span}"
        raise UnfitError(reason, dropped=spec.short == "drop")


@lru_cache(256)
def _step(wanted: float, fps: Fraction) -> Fraction:
    """Source frames from one frame of a clip to the next."""
    return fps / Fraction(wanted).limit_denominator(1_000_000)


@lru_cache(256)
def _offsets(frames: int, step: int | Fraction) -> tuple[npt.NDArray[np.int64], int]:
    """A clip's frame numbers, counted from its first, and the source frames that it spans."""
    offsets = np.array([int(t * step) for t in range(frames)], dtype=np.int64)
    offsets.flags.writeable = False
    return offsets, int(offsets[-1]) + 1


def _start(spec: ClipSpec, free: int, clip: int, at: float) -> int:
    """First frame of the window, from 0 to ``free``."""
    match spec.sampling:
        case "random":
            return int(at * (free + 1))
        case "uniform" if spec.clips_per_video > 1:
            if spec.span == "strides":
                return round(clip * (free / (spec.clips_per_video - 1)))
            return free * clip // (spec.clips_per_video - 1)
        case "dense":
            return min(clip * spec.dense_hop, free)
        case _:
            return free // 2


def _of_parts(spec: ClipSpec, frames: int, clip: int, seed: int) -> npt.NDArray[np.int64]:
    """A frame of each of ``spec.frames`` equal parts of the video. If it has fewer frames, some
    repeat."""
    if frames < spec.frames:
        _check_length(spec, frames, spec.frames)
    parts = range(spec.frames)
    match spec.sampling:
        case "random":
            draw = _generator(seed + _PARTS)
            found = [min(int((i + draw()) * frames / spec.frames), frames - 1) for i in parts]
        case "uniform":  # in float64, rounded to even, as in UniFormerV2's code
            part = (frames - 1) / spec.frames
            within = int(part / (spec.clips_per_video + 1) * (clip + 1))
            found = [round(part * i) + within for i in parts]
        case _:
            found = [(2 * i + 1) * frames // (2 * spec.frames) for i in parts]
    return np.array(found, np.int64)

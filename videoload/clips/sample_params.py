"""What the parts of a sample show: all of them what was drawn for the one that leads.

By time, a part shows the frame nearest to each moment that the leader shows, at its own rate: so
two parts differ by half a frame of the slower one at most. A part with another number of frames
divides the same stretch of time evenly. A window is drawn only where all parts have frames.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from videoload.clips.choices import UnfitError
from videoload.clips.clip_params import ClipParams, draw_params, shown
from videoload.clips.clip_spec import is_padded
from videoload.clips.edges import held, pictures
from videoload.clips.moments import SAME_S, Ints, Times, nearest
from videoload.clips.rows import Clip, Video
from videoload.clips.sample_spec import SampleSpec, moment_at, reported_shape
from videoload.clips.step_times import frames_at, timeline
from videoload.clips.video_info import VideoInfo
from videoload.clips.windows import frames_in, with_edges


class SampleParams(NamedTuple):
    """What a sample shows.

    Attributes:
        clips: For each part, the parameters of its clip for each view.
        frames: The frames of the leader, or of all parts, int64 [*reported_shape], as `edges` has
            them.
        times: When a player shows them, in seconds as the spec counts those of rows.
    """

    clips: dict[str, list[ClipParams]]
    frames: Ints
    times: Times


def sample_params(spec: SampleSpec, videos: Mapping[str, VideoInfo], clip: Clip) -> SampleParams:
    """Decide a sample of ``videos``: those of the parts. Raises UnfitError."""
    leading, leader, steps = videos[spec.leading], spec.leader, clip.row.steps
    counted = {name: timeline(steps, video) for name, video in videos.items()}
    window = common_frames(spec, videos, clip.row)
    views = [draw_params(leader, leading, window, clip, view) for view in range(leader.views)]
    params: dict[str, list[ClipParams]] = {}
    for part, (name, own) in enumerate(spec.clips.items()):
        params[name] = []
        for draws in views:
            try:
                frames = draws.frame_indices
                if name != spec.leading and own.offsets is not None:
                    frames = _around_moment(spec, name, counted, frames, window)
                elif name != spec.leading:
                    frames = _following(spec, name, counted, frames)
                frames = frames_at(steps, part, videos[name], frames)
                params[name].append(shown(own, videos[name], draws._replace(frame_indices=frames)))
            except UnfitError as error:
                raise UnfitError(f"part {name!r}: {error}", dropped=error.dropped) from None
    reported = [*spec.clips] if spec.has_offsets else [spec.leading]
    by_name = {name: np.array([each.frame_indices for each in params[name]]) for name in reported}
    frames = np.concatenate([*by_name.values()], axis=1)
    times = np.concatenate(
        [
            videos[name].late_s(leader) + videos[name].times_of(frames)
            for name, frames in by_name.items()
        ],
        axis=1,
    )
    shape = reported_shape(spec)
    return SampleParams(params, frames.reshape(shape), times.reshape(shape))


def common_frames(spec: SampleSpec, videos: Mapping[str, VideoInfo], row: Video) -> tuple[int, int]:
    """Return the frames of the leader, within its segment, at which all parts have frames: the
    first one, and the one after the last. Raises UnfitError."""
    first, last = frames_in(spec.leader, row, videos[spec.leading])
    if row.steps is not None:  # each of them has a frame in every part
        return first, last
    others = [name for name in spec.clips if name != spec.leading]
    if spec.by == "frames":
        last = min(last, *(videos[name].num_frames for name in spec.clips))
    elif others:
        begins, ends = zip(*(_lasts(spec, name, videos[name]) for name in others), strict=True)
        times = _times(spec, spec.leading, videos)[first:last]
        fitting = np.flatnonzero((times >= max(begins)) & (times <= min(ends)))
        found = fitting if len(fitting) else np.array([0, -1])
        first, last = first + int(found[0]), first + int(found[-1]) + 1
    if first >= last:
        raise UnfitError(f"its parts {', '.join(spec.clips)} have no frames at the same time")
    return first, last


def _times(spec: SampleSpec, name: str, videos: Mapping[str, VideoInfo]) -> Times:
    times = videos[name].times_of(np.arange(videos[name].num_frames))
    if np.isnan(times).any():
        raise UnfitError(
            f'part {name!r} has no frame rate: give by="frames" to Catalog.side_by_side'
        )
    return times


def _lasts(spec: SampleSpec, name: str, video: VideoInfo) -> tuple[float, float]:
    """Return when a part has frames, half a frame before the first and after the last one included,
    in seconds from the beginning of the leader's file."""
    times, offset_s = _times(spec, name, {name: video}), spec.offset_s(name)
    half_s = (times[-1] - times[0]) / (len(times) - 1) / 2 if len(times) > 1 else 0.0
    return times[0] - half_s + offset_s - SAME_S, times[-1] + half_s + offset_s + SAME_S


def _around_moment(
    spec: SampleSpec,
    name: str,
    videos: Mapping[str, VideoInfo],
    frames: Ints,
    window: tuple[int, int],
) -> Ints:
    """Return the frames of a part at its offsets around the moment of the leader's clip, within
    what the part shows of the leader's window [first, last). Raises UnfitError."""
    own, at = spec.clips[name], moment_at(spec.leader)
    assert at is not None
    ends = np.array([window[0], pictures(frames)[at], window[1] - 1])
    moments = _moments(spec, videos, ends)
    first, moment, last = _shown_then(spec, name, videos, moments).tolist()
    found = moment - first + np.array(own.offsets)
    return with_edges(own, found, first, last + 1, moment)


def _moments(spec: SampleSpec, videos: Mapping[str, VideoInfo], frames: Ints) -> Times:
    """Return what parts share with these frames of the leader: their times, or their numbers."""
    by_time = spec.by == "time"
    return videos[spec.leading].times_of(frames) if by_time else frames.astype(np.float64)


def _shown_then(
    spec: SampleSpec, name: str, videos: Mapping[str, VideoInfo], moments: Times
) -> Ints:
    """Return the frames of a part at these `_moments`: the nearest ones, of two the first."""
    if spec.by == "frames":
        numbers = np.clip(np.floor(moments + 0.5), 0, videos[name].num_frames - 1)
        return numbers.astype(np.int64)
    times, moments = _times(spec, name, videos), moments - spec.offset_s(name)
    return nearest(times, moments)


def _following(spec: SampleSpec, name: str, videos: Mapping[str, VideoInfo], frames: Ints) -> Ints:
    """Return the frames of a part, for those of the leader. One that is missing, or repeats, does
    so here as well."""
    wanted = spec.clips[name].frames
    if is_padded(spec.leader) and not is_padded(spec.clips[name]):
        frames = frames[frames >= 0]  # one length beside any: nothing of it is padding
    repeats, frames = frames < -1, pictures(frames)
    moments, missing = _moments(spec, videos, frames), frames < 0
    if wanted != len(frames):
        # Divide the stretch of each of the leader's frames, up to the next one, evenly.
        at = np.arange(wanted) * len(frames) / wanted
        before = at.astype(np.int64)
        still = missing | repeats
        steps = np.diff(np.where(still, np.nan, moments))
        steps = steps[np.isfinite(steps)]
        step = np.where(still, 0.0, np.median(steps) if len(steps) else 0.0)
        moments = moments[before] + (at - before) * step[before]
        missing, repeats = missing[before], repeats[before]
    found = _shown_then(spec, name, videos, np.where(missing, 0.0, moments))
    found = np.where(missing, -1, found)
    return np.where(repeats, held(found), found)

"""Rows whose table contains the time of each step, as in robot datasets. Pure.

Windows, hops and offsets of such a row count its steps. Each camera then shows the frame nearest to
the time of a step, by the file's own times. If a single step of the row has no frame within the
tolerance, the whole row is refused: its labels would stand beside other pictures.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

import msgspec
import numpy as np

from videoload.clips.choices import UnfitError
from videoload.clips.edges import held, pictures
from videoload.clips.moments import Ints, Times, exactly, nearest
from videoload.clips.video_info import VideoInfo

_MAX_RUNS_BYTES = 1 << 19
MAX_RUNS = _MAX_RUNS_BYTES // 16
MAX_STEPS = 1 << 22  # of a row: a day at 48 a second
_ROUNDING_S = 1e-9
# Where frames are not missing, the nearest one is at most half a step away.
_IN_STEP = 0.5

_Second = Annotated[float, msgspec.Meta(ge=-1e9, le=1e9)]


class StepTimes(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """When each step of a row is shown.

    Attributes:
        count: The number of steps.
        fps: Steps a second.
        begins_s: When the row begins in the file of each part, in seconds.
        tolerance_s: How far from the time of a step its frame may be.
        runs: float64 [r, 2]: the number of a step, and its time from the beginning of the row. Up
            to the next run, steps are 1 / ``fps`` apart.
        episode: The number by which errors name the row.
    """

    count: Annotated[int, msgspec.Meta(ge=1, le=MAX_STEPS)]
    fps: Annotated[float, msgspec.Meta(gt=0, le=1e6)]
    begins_s: Annotated[tuple[_Second, ...], msgspec.Meta(min_length=1, max_length=256)]
    tolerance_s: Annotated[float, msgspec.Meta(ge=0, le=1e9)]
    runs: Annotated[bytes, msgspec.Meta(min_length=16, max_length=_MAX_RUNS_BYTES)]
    episode: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)] = 0

    def __post_init__(self) -> None:
        if len(self.runs) % 16:
            raise ValueError("a run of steps is two numbers")

    @property
    def rate(self) -> Fraction:
        """Steps a second."""
        return exactly(self.fps)

    @property
    def times(self) -> Times:
        """The time of each step from the beginning of the row, in seconds."""
        numbers, seconds = np.frombuffer(self.runs, "<f8").reshape(-1, 2).T
        steps = np.arange(self.count)
        if len(numbers) == 1:
            return np.asarray(seconds[0] + (steps - numbers[0]) / self.fps)
        run = np.maximum(np.searchsorted(numbers, steps, "right") - 1, 0)
        found: Times = seconds[run] + (steps - numbers[run]) / self.fps
        return found


def runs_of(times: Times, fps: float, rounding: Times) -> bytes:
    """Return the ``runs`` of steps at these times, of which each was rounded by so much at most."""
    grid = np.rint(times * fps) / fps
    times = np.where(np.abs(times - grid) <= rounding, grid, times)
    begins = np.abs(np.diff(times) - 1 / fps) > rounding[1:] + rounding[:-1] + _ROUNDING_S
    first = np.concatenate([[0], np.flatnonzero(begins) + 1])
    return np.stack([first, times[first]], 1).astype("<f8").tobytes()


def timeline(steps: StepTimes | None, video: VideoInfo, *, with_keys: bool = False) -> VideoInfo:
    """Return the video as if its frames were the steps; without steps, the video itself.
    ``with_keys``: its keyframes are steps as well, for the first part. Raises UnfitError."""
    if steps is None:
        return video
    keys = None
    if with_keys and video.keys is not None:
        keys = np.searchsorted(_frames_of(steps, 0, video), video.key_frames).tobytes()
    return video._replace(num_frames=steps.count, fps=steps.rate, times=None, keys=keys)


def frames_at(steps: StepTimes | None, part: int, video: VideoInfo, numbers: Ints) -> Ints:
    """Return the frames of the file of a part that show these steps, as `edges` has them; without
    steps, the numbers are frames already. Raises UnfitError if a step of the row has no frame."""
    if steps is None:
        return numbers
    shown = _frames_of(steps, part, video)[np.maximum(pictures(numbers), 0)]
    return np.where(numbers == -1, -1, np.where(numbers < -1, held(shown), shown))


def _frames_of(steps: StepTimes, part: int, video: VideoInfo) -> Ints:
    """Return the frame of each step. Raises UnfitError."""
    wanted = steps.times + (steps.begins_s[part] - float(video.begin_stream_s or 0))
    if video.times is None and video.fps <= 0:
        raise UnfitError("has no frame rate, and its table gives times")
    if video.times is None:  # of two that are as near, the first
        found = np.ceil(wanted * float(video.fps) - 0.5 - 1e-6).astype(np.int64)
        found = np.clip(found, 0, video.num_frames - 1)
    else:
        found = nearest(np.frombuffer(video.times), wanted)
    away = np.abs(video.times_of(found) - wanted)
    if (wrong := np.flatnonzero(away > steps.tolerance_s + _ROUNDING_S)).size:
        first, most = int(wrong[0]), float(away.max())
        lacks = fix = ""
        if most * steps.fps > _IN_STEP + _ROUNDING_S:  # a larger tolerance takes other pictures
            lacks = f"{wrong.size} of {steps.count} steps have no frame, as in a damaged file: "
        else:
            fix = f"; {most:.3g} s would take all its steps"
        raise UnfitError(
            f"episode {steps.episode}: {lacks}step {first} is at {wanted[first]:.6g} s of the file,"
            f" and its nearest frame, {found[first]} of {video.num_frames}, is {away[first]:.3g} s "
            f"away (tolerance_s={steps.tolerance_s:g}{fix})"
        )
    return found

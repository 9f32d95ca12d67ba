"""What is prepared of clips before they are made."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from videoload.clips.affine import Matrices
from videoload.clips.choices import UnfitError
from videoload.clips.clip_params import ClipParams, clip_params
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.rows import Clip
from videoload.clips.video_info import VideoInfo
from videoload.errors import OneClipError, VideoError
from videoload.storage.files import Tick

T = TypeVar("T")
Ordinals = npt.NDArray[np.int64]
Times = npt.NDArray[np.float64]


def no_times(frames: Ordinals) -> Times:
    """The times of what has no frames."""
    return np.empty(frames.shape)


class Prepared(NamedTuple):
    """Clips of a video that only have to be made.

    Attributes:
        decode: Makes them. Returns and raises what `Decoder.decode` does. All that follows is to be
            asked for afterwards: the file may have been replaced, and they are made of the new one.
        times_of: When a player shows these frames, in seconds; NaN if the file does not say.
        begins: As `VideoInfo.begins`.
        length: As `VideoInfo.length`, of the video; of the leader's if they are samples.
        affine: The matrices (see `clips.affine`) of each sample's clips, [n, matrices, 2, 3].
        are_kept: Whether all their frames are in the frame store.
        lacks_room: Whether the frame store had no room for the video.
        version: As `Decoder.version`, of the file that they were made of. None: there are several.
    """

    decode: Callable[[Tick], Ordinals]
    times_of: Callable[[Ordinals], Times] = no_times
    length: Callable[[], tuple[int, float, float]] = lambda: (-1, math.nan, math.nan)
    begins: Callable[[], Fraction | None] = lambda: None
    affine: Callable[[], Matrices] = lambda: np.empty((1, 0, 2, 3), np.float32)
    are_kept: bool = False
    lacks_room: Callable[[], bool] = bool
    version: Callable[[], int] | None = None


def draw(spec: ClipSpec, info: VideoInfo, requests: Sequence[Clip]) -> list[ClipParams]:
    """What is drawn for each view of each clip. Raises UnfitError."""
    return [
        clip_params(spec, info, request.seed, request.clip, request.row, request.crop, view)
        for request in requests
        for view in range(spec.views)
    ]


class OtherFileError(Exception):
    """A file is not the one that clips were drawn for."""


def renewing(
    path: str, prepare: Callable[[], None], decode: Callable[[Tick], Ordinals]
) -> Callable[[Tick], Ordinals]:
    """Prepare what is drawn for several files together, and return ``decode``. If one of the files
    is replaced before that has ended, both are done once more."""

    def again(work: Callable[[], T]) -> T:
        try:
            with fitting(path):
                return work()
        except OtherFileError:
            raise VideoError(path, "changes while it is read") from None

    try:
        prepare()
    except OtherFileError:
        again(prepare)

    def decode_it(tick: Tick) -> Ordinals:
        try:
            return decode(tick)
        except OtherFileError:
            again(prepare)
        return again(partial(decode, tick))

    return decode_it


@contextmanager
def fitting(path: str) -> Iterator[None]:
    """Raises VideoError for an UnfitError."""
    try:
        yield
    except UnfitError as error:
        found = OneClipError if error.here_only else VideoError
        raise (ShortVideoError if error.dropped else found)(path, str(error)) from None


class ShortVideoError(VideoError):
    """The video is shorter than a clip, and the spec says ``short="drop"``."""

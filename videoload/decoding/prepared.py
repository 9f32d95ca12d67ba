"""Clips that are prepared, and what is known of them once they are made."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from videoload.clips.affine import Matrices, affines
from videoload.clips.choices import UnfitError
from videoload.clips.clip_params import ClipParams, clip_params
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.rows import Clip
from videoload.clips.sample_info import SampleInfo
from videoload.clips.video_info import VideoInfo
from videoload.errors import OneClipError, VideoError
from videoload.storage.files import Tick

T = TypeVar("T")
Ordinals = npt.NDArray[np.int64]
Times = npt.NDArray[np.float64]


class Made(NamedTuple):
    """Clips that were made, or facts that were told, of the file that was there then.

    Attributes:
        frames: The ordinals of their frames, int64 [n, T] (with k views [n, k * T]).
        info: The video, or that of the leader if they are samples. None: nothing is known of it.
        params: What each view of each clip shows; of samples, those of all parts in turn.
        own_times: Of samples: when a player shows their frames, [n, T].
        are_kept: Whether all their frames were in the frame store.
        lacks_room: Whether the frame store had no room for the video.
        version: As `Decoder.version`, of the file. None: there are several.
    """

    frames: Ordinals
    info: VideoInfo | None = None
    params: Sequence[ClipParams] = ()
    own_times: Times | None = None
    are_kept: bool = False
    lacks_room: bool = False
    version: int | None = None

    def tell(self, info: SampleInfo) -> None:
        """Note in ``info`` [n] what is known of the clips."""
        shape = info["frames"].shape
        info["frames"], info["times"] = self.frames.reshape(shape), self.times.reshape(shape)
        info["of"], info["lasts"], info["wide"] = self.length
        info["affine"] = self.affine

    @property
    def times(self) -> Times:
        """When a player shows the frames, in seconds; NaN if the file does not say."""
        if self.own_times is not None:
            return self.own_times
        return np.empty(self.frames.shape) if self.info is None else self.info.times_of(self.frames)

    @property
    def length(self) -> tuple[int, float, float]:
        """As `VideoInfo.length`."""
        return (-1, math.nan, math.nan) if self.info is None else self.info.length

    @property
    def affine(self) -> Matrices:
        """The matrices (see `clips.affine`) of each sample's clips, [n, matrices, 2, 3]."""
        return affines(self.params).reshape(len(self.frames), -1, 2, 3)


Make = Callable[[Tick], Made]  # makes what was prepared; raises what `Decoder.decode` does


def draw(spec: ClipSpec, info: VideoInfo, requests: Sequence[Clip]) -> list[ClipParams]:
    """What is drawn for each view of each clip. Raises UnfitError."""
    return [
        clip_params(spec, info, request, view) for request in requests for view in range(spec.views)
    ]


class OtherFileError(Exception):
    """A file is not the one that clips were drawn for."""


def renewing(path: str, prepare: Callable[[], None], make: Make) -> Make:
    """Prepare what is drawn for several files together, and return ``make``. If one of the files is
    replaced before that has ended, both are done once more."""

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

    def make_it(tick: Tick) -> Made:
        try:
            return make(tick)
        except OtherFileError:
            again(prepare)
        return again(partial(make, tick))

    return make_it


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

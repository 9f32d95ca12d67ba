"""What is prepared of clips before their frames are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.clips.clip_params import ClipParams, clip_params
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.video_info import VideoInfo
from videoload.clips.windows import Segment
from videoload.errors import VideoError
from videoload.frame_store.clip_frames import ClipFrames
from videoload.index.index import VideoIndex
from videoload.pixels.clip_pixels import ClipPixels, SourceFrame
from videoload.pixels.planes import Buffer
from videoload.reading.containers import Video
from videoload.storage.files import VideoFile
from videoload.user_code.functions import UserFunction


class Request(NamedTuple):
    """Clip number ``clip`` of a segment of a video (see `clips.windows.Segment`), and of several
    crops of it that number ``crop``, its parameters from ``seed``."""

    seed: int
    clip: int = 0
    start: int = 0
    end: int | None = None
    crop: int = 0
    start_s: float | None = None
    end_s: float | None = None

    @property
    def segment(self) -> Segment:
        """Which part of the video."""
        return Segment(self.start, self.end, self.start_s, self.end_s)


# For each ordinal, what writes it to its places in the clips.
Places = dict[int, list[Callable[[SourceFrame], None]]]


class PreparedClips(NamedTuple):
    """What is to be done at one video: the arguments of `Decoder.decode`, and what follows."""

    path: str
    spec: ClipSpec
    requests: Sequence[Request]
    out: Buffer
    transform: UserFunction | None
    file: VideoFile
    opened: Video | None  # by now, to find out what is in it
    known: VideoIndex
    clips: Buffer  # all views: in ``out``, or where the transform will find them
    params: list[ClipParams]
    places: Places
    made: list[ClipPixels]  # to be finished when all frames are there
    keeping: ClipFrames | None  # takes the frames instead, if they are kept
    given: list[ClipParams] | None = None  # as a part of samples: what it shows was decided

    def times_of(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """When a player shows these frames, in seconds; NaN if the file does not say."""
        return self.known.info.rated(self.spec).times_of(frames)

    @property
    def length(self) -> tuple[int, float]:
        """As `VideoInfo.length`."""
        return self.known.info.rated(self.spec).length


class KeptClips(NamedTuple):
    """Clips whose frames are all kept: the arguments of `Decoder.decode`, and what follows."""

    path: str
    spec: ClipSpec
    requests: Sequence[Request]
    out: Buffer
    transform: UserFunction | None
    keeping: ClipFrames
    info: VideoInfo
    clips: Buffer
    params: list[ClipParams]

    def times_of(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """When a player shows these frames, in seconds; NaN if the file does not say."""
        return self.info.rated(self.spec).times_of(frames)

    @property
    def length(self) -> tuple[int, float]:
        """As `VideoInfo.length`."""
        return self.info.rated(self.spec).length


class CountedItems(NamedTuple):
    """The windows of some segments of a video, which are counted by now."""

    path: str
    out: Buffer

    def times_of(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """They have no frames, and so no times."""
        return np.empty(frames.shape)

    @property
    def length(self) -> tuple[int, float]:
        """They have no length either."""
        return -1, np.nan


def draw(spec: ClipSpec, info: VideoInfo, requests: Sequence[Request]) -> list[ClipParams]:
    """What is drawn for each view of each clip. Raises UnfitError."""
    info = info.rated(spec)
    return [
        clip_params(spec, info, *request, view=view)
        for request in requests
        for view in range(spec.views)
    ]


class ShortVideoError(VideoError):
    """The video is shorter than a clip, and the spec says ``short="drop"``."""

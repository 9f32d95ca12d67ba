"""What the clips of a row show, and the metadata of clips that are decoded. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.clips.affine import affines
from videoload.clips.choices import UnfitError
from videoload.clips.clip_params import ClipParams, clip_params
from videoload.clips.rows import Clip
from videoload.clips.sample_info import SampleInfo
from videoload.clips.sample_params import sample_params
from videoload.clips.sample_spec import SampleSpec
from videoload.clips.video_info import VideoInfo
from videoload.errors import OneClipError, ShortVideoError, VideoError, errors_in, named
from videoload.storage.paths import offsets_of, parts_of

Ordinals = npt.NDArray[np.int64]
Times = npt.NDArray[np.float64]


class Drawn(NamedTuple):
    """What the clips of a row show.

    Attributes:
        params: Of each part, what each view of each clip shows.
        frames: The frames that are reported, int64 [n, T] (with k views [n, k * T]).
        times: When a player shows them, in seconds as the spec counts those of rows.
    """

    params: dict[str, list[ClipParams]]
    frames: Ordinals
    times: Times


def draw(spec: SampleSpec, infos: Mapping[str, VideoInfo], clips: Sequence[Clip]) -> Drawn:
    """Decide clips of a row whose parts are ``infos``. Raises UnfitError."""
    if "" in spec.clips:
        own, info = spec.leader, infos[""]
        params = [clip_params(own, info, clip, view) for clip in clips for view in range(own.views)]
        frames = np.concatenate([each.frame_indices for each in params]).reshape(len(clips), -1)
        return Drawn({"": params}, frames, info.late_s(own) + info.times_of(frames))
    samples = [sample_params(spec, infos, clip) for clip in clips]
    return Drawn(
        {name: [each for sample in samples for each in sample.clips[name]] for name in spec.clips},
        np.array([sample.frames.ravel() for sample in samples]),
        np.array([sample.times.ravel() for sample in samples]),
    )


class DecodedClips(NamedTuple):
    """Clips that were decoded, of the files that were there then.

    Attributes:
        frames: As in `Drawn`.
        info: The video, or that of the leader.
        params: What each view of each clip shows; of samples, those of all parts in turn.
        times: As in `Drawn`.
        from_frame_store: Whether all their frames were in the frame store.
        frame_store_full: Whether the frame store had no room for the video.
        version: As `Videos.version`, of the file. None: there are several.
    """

    frames: Ordinals
    info: VideoInfo
    params: Sequence[ClipParams]
    times: Times
    from_frame_store: bool = False
    frame_store_full: bool = False
    version: int | None = None

    def write_metadata(self, info: SampleInfo) -> None:
        """Note in ``info`` [n] what is known of the clips."""
        shape = info["frames"].shape
        info["frames"], info["times"] = self.frames.reshape(shape), self.times.reshape(shape)
        info["num_frames"], info["duration_s"], info["display_aspect_ratio"] = (
            self.info.file_summary
        )
        info["affine"] = affines(self.params).reshape(len(self.frames), -1, 2, 3)


def parts_in(path: str, spec: SampleSpec) -> tuple[dict[str, str], SampleSpec]:
    """Return the path of each part of a row, and the spec with the offsets of its files. Raises
    VideoError."""
    if "" in spec.clips:
        return {"": path}, spec
    if len(paths := parts_of(path)) != len(spec.clips):
        raise VideoError(path, f"needs one file for each of {', '.join(spec.clips)}")
    try:
        return dict(zip(spec.clips, paths, strict=True)), spec.shifted(offsets_of(path))
    except ValueError:
        raise VideoError(path, "has no start offset for each file") from None


def in_part(path: str, name: str, part: str) -> AbstractContextManager[None]:
    """Errors of a part are the sample's, with the part named."""
    return errors_in(path, f"part {name!r} ({named(part)})") if name else nullcontext()


@contextmanager
def fitting(path: str) -> Iterator[None]:
    """Raises VideoError for an UnfitError."""
    try:
        yield
    except UnfitError as error:
        found = OneClipError if error.here_only else VideoError
        raise (ShortVideoError if error.dropped else found)(path, str(error)) from None

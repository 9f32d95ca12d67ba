"""Several files as one sample: each part is prepared and decoded by itself, into its bytes.

What the sample shows is decided before, from what is known of all its clips. A part that fails
makes the sample bad, and is named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

import numpy as np

from videoload.clips.clip_params import ClipParams
from videoload.clips.rows import Clip
from videoload.clips.sample_params import SampleParams, common_frames, sample_params
from videoload.clips.sample_spec import SampleSpec, arrays_of
from videoload.clips.step_times import timeline
from videoload.clips.video_info import VideoInfo
from videoload.clips.windows import count_windows
from videoload.decoding.prepared import Made, Make, renewing
from videoload.errors import VideoError, errors_in, named
from videoload.pixels.planes import Buffer
from videoload.storage.files import Tick
from videoload.storage.paths import offsets_of, parts_of


def prepare_samples(
    path: str,
    spec: SampleSpec,
    requests: Sequence[Clip],
    out: Buffer,
    info_of: Callable[[str], VideoInfo],
    prepare: Callable[[str, str, list[ClipParams], VideoInfo, Buffer], Make],
) -> Make:
    """Prepare samples into ``out`` [n, spec.clip_bytes]. ``prepare`` is called for each part with
    its name, path, the parameters of its clips, the video for which they were drawn, and its
    bytes. Raises VideoError, UnfitError, TransformError."""
    paths = paths_of(path, spec)
    shown: list[SampleParams] = []
    parts: list[tuple[str, Make, Buffer, Buffer]] = []

    def prepare_all() -> None:
        videos = _videos(path, spec, info_of)
        shown[:] = shown_of(spec, videos, requests)
        parts.clear()
        for name, place in spec.places.items():
            params = [drawn for each in shown for drawn in each.clips[name]]
            to = out[:, place]
            made = to if len(requests) == 1 else np.empty(to.shape, np.uint8)  # one block of memory
            with _named(path, name, paths):
                work = prepare(name, paths[name], params, videos[name], made)
            parts.append((name, work, to, made))

    def make_all(tick: Tick) -> Made:
        made = []
        for name, make, to, written in parts:
            with _named(path, name, paths):
                made.append(make(tick))
            if written is not to:
                to[...] = written
        return Made(
            np.array([each.frames.ravel() for each in shown]), made[0].info,
            [params for each in shown for views in each.clips.values() for params in views],
            np.array([each.times.ravel() for each in shown]),
            are_kept=all(part.are_kept for part in made),
            lacks_room=any(part.lacks_room for part in made),
        )  # fmt: skip

    return renewing(path, prepare_all, make_all)


def prepare_counts(
    path: str,
    spec: SampleSpec,
    requests: Sequence[Clip],
    out: Buffer,
    info_of: Callable[[str], VideoInfo],
) -> Make:
    """Count the windows of segments of a file, or of a sample, into ``out``: see `SampleSpec`.
    Raises VideoError, UnfitError."""
    if "" in spec.clips:
        videos = {"": info_of(path)}
    else:
        spec = of_recording(path, spec)
        videos = _videos(path, spec, info_of)
    leader, info = spec.leader, videos[spec.leading]
    displayed = [side for name in videos for side in videos[name].displayed_size(spec.clips[name])]
    for request, row in zip(requests, out, strict=True):
        seen = timeline(request.row.steps, info)
        counts = count_windows(leader, seen, common_frames(spec, videos, request.row))
        arrays_of(spec, row)[:] = *counts, *info.shown_size(leader), *displayed
    return lambda tick: Made(np.empty((len(out), 0), np.int64))


def _videos(
    path: str, spec: SampleSpec, info_of: Callable[[str], VideoInfo]
) -> dict[str, VideoInfo]:
    """What is known of the files of a sample. Raises VideoError."""
    paths = paths_of(path, spec)
    videos: dict[str, VideoInfo] = {}
    for name in spec.clips:
        with _named(path, name, paths):
            videos[name] = info_of(paths[name])
    return videos


def paths_of(path: str, spec: SampleSpec) -> dict[str, str]:
    """The path of each part of a sample. Raises VideoError."""
    if len(files := parts_of(path)) != len(spec.clips):
        raise VideoError(path, f"needs one file for each of {', '.join(spec.clips)}")
    return dict(zip(spec.clips, files, strict=True))


def of_recording(path: str, spec: SampleSpec) -> SampleSpec:
    """The spec with the offsets of these files. Raises VideoError."""
    try:
        return spec.shifted(offsets_of(path))
    except ValueError:
        raise VideoError(path, "lacks the time at which each of its files begins") from None


def shown_of(
    spec: SampleSpec, videos: Mapping[str, VideoInfo], requests: Sequence[Clip]
) -> list[SampleParams]:
    """What samples of ``videos``, those of the parts, show. Raises UnfitError."""
    return [sample_params(spec, videos, request) for request in requests]


def _named(path: str, name: str, paths: Mapping[str, str]) -> AbstractContextManager[None]:
    """Errors of a part are the sample's, with the part named."""
    return errors_in(path, f"part {name!r} ({named(paths[name])})")

"""Collates samples into batches: arrays, the origin of each clip, and their digest."""

from __future__ import annotations

import typing
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64

from videoload.catalog.catalog import Catalog
from videoload.catalog.joining import moments_of, targets_of
from videoload.catalog.table import Ints
from videoload.clips.affine import Matrices
from videoload.clips.edges import reported
from videoload.clips.sample_info import SampleInfo, affine_of
from videoload.clips.sample_spec import (
    SampleSpec,
    arrays_of,
    by_part,
    has_audio_in,
    unnamed,
)
from videoload.errors import VideoloadError
from videoload.plan.windows import Lengths


class Sample(NamedTuple):
    """One row of a batch: crop number ``crop`` of clip number ``clip`` of ``video``. Its parameters
    are drawn from ``seed``.

    ``origin`` is the clip's number in the epoch, ``substitution`` how often it was substituted. The
    crops of a clip share both, and therefore the seed.
    """

    epoch: int
    origin: int
    substitution: int
    video: int
    clip: int
    seed: int
    crop: int = 0


class BatchInfo(NamedTuple):
    """The origin of a batch.

    Attributes:
        step: Number of the batch in the stream, counted over all epochs from 0.
        video: Index in the catalog of the video that each clip was decoded from, int64 [B].
        frames: Source frame that each frame of each clip shows, int64 [B, T], with several views
            [B, k, T]: its ordinal in the whole file, counted from 0 in display order. -1: a frame
            that the video does not have (``short="zero"``, ``edges``, padding to ``max_frames`` or
            to a bucket). If parts have ``offsets`` of their own, a dict of each part's; else those
            of the first part.
        path: Path of each clip's video, relative to the root: array of str [B].
        clip: Number of each clip among those of its video, from 0, int64 [B].
        crop: Number of each clip's crop among those of its frames, from 0, int64 [B].
        times: When a player shows each of ``frames``, in seconds from the video's first frame
            (or from the beginning of its file: ``seconds`` of `ClipSpec`): float64, as ``frames``.
            NaN if the file does not say, and where ``frames`` has -1.
        has_audio: Whether each clip's file has audio, bool [B]. Default None: the spec requests
            none.
        affine: From (x, y, 1) of a decoded frame to the pixels of each clip, through every crop,
            scale, rotation and flip: float32 [B, 2, 3], with several views [B, k, 2, 3]. Centres of
            pixels are whole numbers. Of several parts, a dict. Default None.
        digest_of: Makes the `digest`. Default ``str``: "".

    `lengths` and `mask` follow from ``frames``.
    """

    step: int
    video: Ints
    frames: Any
    path: npt.NDArray[np.object_]
    clip: Ints
    crop: Ints
    times: Any
    has_audio: npt.NDArray[np.bool_] | None = None
    affine: Matrices | dict[str, Matrices] | None = None
    digest_of: Callable[[], str] = str

    @property
    def lengths(self) -> Ints:
        """The number of real frames of each clip, or of its first view: int64 [B]. In clips of any
        length (``max_frames``), all others are padding after them."""
        return np.asarray(np.count_nonzero(self.mask, axis=1), np.int64)

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """True for real frames of each clip, or of its first view: bool [B, T]."""
        one = next(iter(self.frames.values())) if isinstance(self.frames, dict) else self.frames
        return np.asarray((one if one.ndim == 2 else one[:, 0]) >= 0)

    @property
    def digest(self) -> str:
        """64 bits of XXH3 over clips and labels, in hex: the same in every run. It is computed on
        request, so the clips must still be referenced. "": there are no clips.

        Raises:
            VideoloadError: The clips are no longer referenced.
        """
        return self.digest_of()


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    C = TypeVar("C", default=Any)
else:
    C = typing.TypeVar("C")

# [B, *clip.shape], of the type that the clip's pixels or its transform have. A stream of a dict of
# specs, or with audio, has dicts.
Clips = npt.NDArray[Any]
Labels = Any  # int64 [B]; or the targets of the catalog, which may be a dict of arrays
Batch = tuple[C, Labels]
BatchWithInfo = tuple[C, Labels, BatchInfo]


def collate(
    step: int,
    samples: Sequence[Sample],
    catalog: Catalog,
    spec: SampleSpec,
    rows: npt.NDArray[np.uint8],
    sample_info: SampleInfo,
    lengths: Lengths,
    *,
    info: bool,
) -> Batch | BatchWithInfo:
    """Collate samples whose bytes are ``rows`` [B, clip_bytes]: return clips and targets, and with
    ``info`` their origin. Raises SpecError if targets do not fit."""
    video, clip, crop = np.array([(s.video, s.clip, s.crop) for s in samples], np.int64).T.copy()
    lengths.note(
        video,
        sample_info["num_frames"],
        sample_info["duration_s"],
        sample_info["display_aspect_ratio"],
    )
    frames = by_part(spec, np.ascontiguousarray(sample_info["frames"]))
    affine = affine_of(sample_info, spec)
    leading = next(iter(frames.values()))
    moments = moments_of(catalog, spec.leader, video, clip, leading)
    seeds = np.array([sample.seed for sample in samples], np.uint64)
    clips = arrays_of(spec, rows)
    targets = targets_of(catalog, video, leading, affine, moments, seeds)
    if not info:
        return clips, targets
    path = np.array([catalog.paths[sample.video] for sample in samples], object)
    shown = {name: reported(each) for name, each in frames.items()}
    times, heard = (
        by_part(spec, np.ascontiguousarray(sample_info["times"])),
        has_audio_in(spec, rows),
    )
    come_from = BatchInfo(
        step, video, unnamed(shown), path, clip, crop, unnamed(times), heard, affine
    )
    return clips, targets, come_from


def with_digest(batch: BatchWithInfo) -> BatchWithInfo:
    """Return the batch, with an info that can compute its digest: 64 bits of XXH3 over names,
    types, shapes and bytes. (SHA-256 took ten times as long, 55 ms for 77 MB.) The info does not
    hold the clips, and so not their slot."""
    clips, labels, info = batch
    held = [(name, weakref.ref(array)) for name, array in _arrays("clips", clips)]

    def digest() -> str:
        arrays = [(name, array()) for name, array in held]
        if any(array is None for _, array in arrays):
            raise VideoloadError(
                f"the clips of batch {info.step} were released: read info.digest while you hold "
                "them"
            )
        found = xxh3_64()
        for name, array in (*arrays, *_arrays("labels", labels)):
            assert array is not None
            found.update(f"{name}{array.dtype.str}{array.shape}".encode())
            text = str(array.tolist()).encode() if array.dtype.hasobject else None
            found.update(np.ascontiguousarray(array).data if text is None else text)
        return found.hexdigest()

    return clips, labels, info._replace(digest_of=digest)


def _arrays(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key in sorted(value):
            yield from _arrays(f"{name}.{key}", value[key])
    else:
        yield name, np.asarray(value)

"""The metadata of each sample, which a worker sends beside its pixels, as one record of numbers.
Pure."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from videoload.clips.affine import Matrices
from videoload.clips.clip_spec import may_lack_frames
from videoload.clips.sample_spec import SampleSpec, reported_shape, unnamed

_MOST = 1 << 48  # a frame's number, and that of one in its place: see `edges`
SampleInfo = npt.NDArray[Any]  # [n] of `info_type`


@lru_cache(64)
def info_type(spec: SampleSpec) -> np.dtype[Any]:
    """Return the frames that a sample shows and their times in seconds, `VideoInfo.file_summary` of
    its file, and the matrices of its clips."""
    shape = reported_shape(spec)
    return np.dtype([
        ("frames", "<i8", shape), ("times", "<f8", shape),
        ("num_frames", "<i8"), ("duration_s", "<f8"),
        ("display_aspect_ratio", "<f8"),
        ("affine", "<f4", (matrices(spec), 2, 3)),
    ])  # fmt: skip


def matrices(spec: SampleSpec) -> int:
    """Return how many matrices a sample has: one for each view of each of its clips."""
    return sum(clip.views for clip in spec.clips.values())


def info_in(told: bytes, samples: int, spec: SampleSpec) -> SampleInfo:
    """Return the metadata of samples, from a worker's bytes. Raises ValueError if they cannot be of
    so many samples of this spec."""
    kind = info_type(spec)
    if len(told) != samples * kind.itemsize:
        raise ValueError(
            f"{len(told)} bytes describe {samples} samples, of which each takes {kind.itemsize}"
        )
    info = np.frombuffer(told, kind)
    _check(info["frames"], -_MOST if may_lack_frames(spec.leader) else 0, "a frame")
    _check(info["num_frames"], -1, "a length")
    return info


def _check(numbers: npt.NDArray[np.int64], least: int, what: str) -> None:
    if numbers.size and not least <= numbers.min() <= numbers.max() < _MOST:
        raise ValueError(f"{what} has a number below {least}, or above {_MOST}")


def affine_of(info: SampleInfo, spec: SampleSpec) -> Matrices | dict[str, Matrices]:
    """Return the matrices float32 [n, 2, 3] of samples, with k views [n, k, 2, 3]; of several
    parts, a dict."""
    every, ends = info["affine"], accumulate(clip.views for clip in spec.clips.values())
    found: Matrices | dict[str, Matrices] = unnamed(
        {
            name: np.array(
                every[:, end - 1] if clip.views == 1 else every[:, end - clip.views : end]
            )
            for (name, clip), end in zip(spec.clips.items(), ends, strict=True)
        }
    )
    return found

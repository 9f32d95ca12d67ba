"""What a worker tells of each sample beside its pixels, as one record of numbers. Pure."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from videoload.clips.affine import Matrices
from videoload.clips.sample_spec import SampleSpec, reported_shape, unnamed

SampleInfo = npt.NDArray[Any]  # [n] of `info_type`


@lru_cache(64)
def info_type(spec: SampleSpec) -> np.dtype[Any]:
    """The frames that a sample shows and their times in seconds, `VideoInfo.length` of its file,
    and the matrices of its clips."""
    shape = reported_shape(spec)
    return np.dtype([
        ("frames", "<i8", shape), ("times", "<f8", shape), ("of", "<i8"), ("lasts", "<f8"),
        ("wide", "<f8"),
        ("affine", "<f4", (matrices(spec), 2, 3)),
    ])  # fmt: skip


def matrices(spec: SampleSpec) -> int:
    """How many matrices a sample has: one for each view of each of its clips."""
    return sum(clip.views for clip in spec.clips.values()) if spec.asks == "clips" else 0


def in_words(info: SampleInfo) -> npt.NDArray[np.int64]:
    """The same as int64 [n, words], as the lease table carries them."""
    return info.view(np.int64).reshape(len(info), -1)


def info_of(words: npt.NDArray[np.int64], spec: SampleSpec) -> SampleInfo:
    """The reverse of `in_words`."""
    return np.ascontiguousarray(words).view(info_type(spec)).reshape(-1)


def affine_of(info: SampleInfo, spec: SampleSpec) -> Matrices | dict[str, Matrices] | None:
    """The matrices float32 [n, 2, 3] of samples, with k views [n, k, 2, 3]; of several parts, a
    dict; None where no clips are asked for."""
    if spec.asks != "clips":
        return None
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

"""What decides the clips besides the videos: FFmpeg, the processor, and our own code. Workers
report it when they connect, so that different workers are noticed.

Versions identify FFmpeg. The name of a processor is not enough: swscale has code for many kinds,
and some of it rounds differently (on x86-64, RGB without SSSE3). So every process scales and
converts the same frame, and the result identifies the processor.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from hashlib import blake2b
from typing import Any, get_args

import numpy as np
from av.video.frame import VideoFrame

from videoload.clips.choices import Pixels
from videoload.clips.clip_params import ClipParams
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.video_info import VideoInfo
from videoload.decoding.clip_pixels import ClipPixels
from videoload.decoding.filter_graphs import FilterGraphs
from videoload.versions import code_digest, ffmpeg_versions, own_version

_WIDTH, _HEIGHT = 320, 240
_SCALED, _CORNER, _CROP = (170, 128), (28, 8), (112, 112)
_SPREAD = 2654435761  # gives neighbours unrelated bytes


@cache
def software_and_code() -> str:
    """Return a text that is the same for processes that make the same clips. Takes 10 ms, once."""
    return f"{ffmpeg_versions()}, pixels {_scaled()}, code {code_digest()}"


def software_and_version() -> str:
    """Return the same after the version of videoload, for people."""
    return f"videoload {own_version()}: {software_and_code()}"


def _scaled() -> str:
    """Return a digest of a scaled frame of noise in all kinds of pixels."""
    noise = np.arange(_WIDTH * _HEIGHT * 3 // 2, dtype=np.uint64) * _SPREAD >> 13 & 255
    frame = VideoFrame.from_ndarray(
        noise.astype(np.uint8).reshape(_HEIGHT * 3 // 2, _WIDTH), format="yuv420p"
    )
    params = ClipParams(
        np.zeros(1, np.int64), (0, 0, _WIDTH, _HEIGHT), _SCALED, (*_CORNER, *_CROP), _CROP,
        turns=0, flip=False, seed=0,
    )  # fmt: skip
    info, digest = VideoInfo(1, Fraction(25), _WIDTH, _HEIGHT), blake2b(digest_size=4)
    for pixels in get_args(Pixels):
        spec = ClipSpec(frames=1, resize=_SCALED[1], size=_CROP, pixels=pixels)
        out: Any = np.empty(spec.shape, spec.dtype)
        clip = ClipPixels(spec, info, params, FilterGraphs(), out)
        clip.take(frame, 0)
        clip.finish()
        digest.update(out.tobytes())
    return digest.hexdigest()

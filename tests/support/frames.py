"""Frames in every pixel format."""

from collections.abc import Sequence

import numpy as np
from av.video.frame import VideoFrame

from videoload.clips.clip_params import ClipParams
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.video_info import VideoInfo
from videoload.decoding.clip_pixels import ClipPixels
from videoload.decoding.filter_graphs import FilterGraphs
from videoload.decoding.planes import Buffer

# The formats that AVI files decode to.
FORMATS = (
    "yuv420p", "yuvj420p", "yuv422p", "yuvj422p", "yuv444p", "yuv410p", "yuv411p", "yuv420p10le",
    "yuv422p10le", "yuva420p", "gray", "gray10le", "rgb24", "bgr24", "bgra", "bgr0", "gbrp",
    "rgb555le", "rgb565le", "uyvy422", "yuyv422", "nv12",
)  # fmt: skip


def picture(width: int, height: int) -> Buffer:
    """Waves in all colors, uint8 [height, width, 3]."""
    y, x = np.mgrid[0:height, 0:width] * (200 / height)
    waves = (np.sin(x / 9 + y / 23), np.cos(y / 11 - x / 31), np.sin((x + y) / 17))
    pixels: Buffer = np.rint(128 + 90 * np.stack(waves, -1)).astype(np.uint8)
    return pixels


def frame_of(pixels: Buffer, name: str, matrix: int = 2, range_: int = 0) -> VideoFrame:
    """A frame in the format ``name``, with this matrix (AVCOL_SPC_*) and range."""
    full = name.startswith("yuvj") or range_ == 2
    frame = VideoFrame.from_ndarray(pixels, "rgb24").reformat(
        format=name, dst_colorspace=1 if matrix == 1 else 5, dst_color_range=2 if full else 1
    )
    frame.colorspace, frame.color_range = matrix, range_
    return frame


def clip_of(
    frames: Sequence[VideoFrame], spec: ClipSpec, info: VideoInfo, params: ClipParams,
    graphs: FilterGraphs | None = None,
) -> Buffer:  # fmt: skip
    """The pixels of a clip that shows these frames."""
    out: Buffer = np.empty((len(frames), *spec.shape[1:]), spec.dtype)
    made = ClipPixels(spec, info, params, FilterGraphs() if graphs is None else graphs, out)
    for at, frame in enumerate(frames):
        made.take(frame, at)
    made.finish()
    return out

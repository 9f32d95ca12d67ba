"""Videos that say in their pixels where things are: a red, a green and a blue spot move about.

So a test needs no arithmetic of its own: the mean of a channel is where its spot is shown. No file
has less chroma than luma, because players differ in where they take chroma to lie.
"""

from pathlib import Path
from typing import Any, cast

import av
import numpy as np
import numpy.typing as npt
from av.video.stream import VideoStream

from videoload import Catalog

Floats = npt.NDArray[np.float32]

FRAMES = 24
_SIZE = 176, 144  # width, height
_NEAR = 9.0  # how far a spot reaches, in pixels of the file
KINDS: dict[str, dict[str, Any]] = {
    "spots/coded.avi": {"codec": "mjpeg", "pixels": "yuvj444p"},
    "spots/exact.avi": {"codec": "ffv1", "pixels": "bgr0"},
    "spots/turned.mov": {"codec": "png", "pixels": "rgb24", "degrees": 90},
}


def points_of(number: int) -> Floats:
    """Where the spots of a file are, [frames, 3, 2]."""
    turn = 2 * np.pi * np.arange(FRAMES)[:, None] / FRAMES + np.array([0.4, 2.2, 4.5]) + number
    return np.stack([88 + 34 * np.cos(turn), 72 + 26 * np.sin(2 * turn)], -1).astype(np.float32)


def boxes_of(points: Floats) -> Floats:
    """A box around each spot, [..., 4]."""
    return np.concatenate([points + 0.5 - _NEAR, points + 0.5 + _NEAR], -1)


def make(root: Path) -> list[Floats]:
    """Write the files; returns the points of each, in the order of `catalog_of`."""
    for number, (path, how) in enumerate(KINDS.items()):
        _write(root / path, points_of(number), **how)
    return [points_of(number) for number in range(len(KINDS))]


def catalog_of(root: Path) -> Catalog:
    return Catalog.from_folder(root)


def _write(path: Path, points: Floats, *, codec: str, pixels: str, degrees: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    (width, height), (y, x) = _SIZE, np.mgrid[0 : _SIZE[1], 0 : _SIZE[0]]
    with av.open(str(path), "w") as container:
        stream = cast(VideoStream, container.add_stream(codec, rate=25))
        stream.width, stream.height, stream.pix_fmt = width, height, pixels
        stream.codec_context.bit_rate = 4_000_000
        if degrees:
            stream.set_display_rotation(-degrees)
        for spots in points:
            far = [(x - left) ** 2 + (y - top) ** 2 for left, top in spots.tolist()]
            picture = np.rint(220 * np.exp(-np.stack(far, -1) / 24)).astype(np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
        container.mux(stream.encode(None))


def seen(pictures: npt.NDArray[np.uint8]) -> Floats:
    """Where pictures [..., H, W, 3] show each spot, [..., 3, 2]; NaN if not well inside."""
    bright = np.where(pictures > 70, pictures, 0).astype(np.float32)
    edges = bright[..., [0, -1], :, :].sum((-3, -2)) + bright[..., :, [0, -1], :].sum((-3, -2))
    total = np.where((edges == 0) & (bright.max((-3, -2)) > 150), bright.sum((-3, -2)), np.nan)
    height, width = pictures.shape[-3:-1]
    across = (bright * np.arange(width)[:, None]).sum((-3, -2)) / total
    down = (bright * np.arange(height)[:, None, None]).sum((-3, -2)) / total
    return np.stack([across, down], -1).astype(np.float32)


def check(pictures: Any, points: Any, mirrored: Any) -> int:
    """How many ``points`` [..., 3, 2] are where ``pictures`` [..., H, W, 3] show them. The green
    and the blue spot have changed their names where a clip is ``mirrored`` [...]."""
    shown = seen(pictures)
    shown = np.where(mirrored[..., None, None], shown[..., [0, 2, 1], :], shown)
    off = np.hypot(*np.moveaxis(shown - points, -1, 0))
    there = np.isfinite(off)
    assert (off[there] < 0.6).all(), off[there].max()
    return int(there.sum())

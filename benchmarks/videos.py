"""The AVI files: textured, everything in them moves, and no two frames are alike.

A background pans and a foreground drifts across it, both with the 1/f spectrum of natural pictures,
under sensor noise. At the quantisers below a 320x240 MPEG-4 frame takes about 3 KB, as in UCF-101.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, cast

import av
import numpy as np
import numpy.typing as npt
from av.video.stream import VideoStream

Plane = npt.NDArray[np.int16]

_FPS = 25
_NOISE = 3.0  # grey levels; what of it is above the quantiser costs bits, as in a real camera's
_QUANTISER = 5
_FALL = 1.5  # amplitude over frequency: a little smoother than nature, as what was scaled up is


class Recipe(NamedTuple):
    """How a file is made."""

    codec: str
    width: int = 320
    height: int = 240
    frames: int = 180
    key_every: int = 12
    b_frames: int = 0


def make_video(path: Path, recipe: Recipe, seed: int) -> None:
    """Write one AVI file; the same arguments give the same pictures."""
    rng = np.random.default_rng(seed)
    width, height = recipe.width, recipe.height
    # Luma and the two chroma planes, each a picture without edges: it is rolled, not extended.
    back = [_texture(rng, height // s, width // s, spread) for s, spread in _PLANES]
    front = [_texture(rng, height // s, width // s, spread) for s, spread in _PLANES]
    disc = _disc(height, width, height // 5)
    noise = rng.normal(0, _NOISE, (height, width)).astype(np.int16)
    pan, drift = rng.uniform(1, 3, 2) * rng.choice((-1, 1), 2), rng.uniform(-5, 5, 2)
    with av.open(path, "w", format="avi") as container:
        stream = _stream(container, recipe)
        for i in range(recipe.frames):
            pan_by, drift_by = (np.rint(i * speed / 2).astype(int) * 2 for speed in (pan, drift))
            planes = []
            for (step, _), behind, before in zip(_PLANES, back, front, strict=True):
                mask = np.roll(disc[::step, ::step], drift_by // step, (0, 1))
                moved = np.roll(behind, pan_by // step, (0, 1))
                planes.append(np.where(mask, np.roll(before, drift_by // step, (0, 1)), moved))
            planes[0] += np.roll(noise, rng.integers((height, width)), (0, 1))
            packed = np.concatenate([plane.clip(16, 235).reshape(-1) for plane in planes])
            picture = packed.astype(np.uint8).reshape(height * 3 // 2, width)
            frame = av.VideoFrame.from_ndarray(picture, "yuv420p")
            frame.pts = i
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


_PLANES = ((1, 40), (2, 12), (2, 12))  # subsampling, contrast


def _texture(rng: np.random.Generator, height: int, width: int, contrast: float) -> Plane:
    """A random picture around 128 with a 1/f amplitude spectrum, [height, width]."""
    down, across = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)
    frequency = np.hypot(down, across)
    frequency[0, 0] = np.inf
    picture = np.fft.irfft2(
        np.fft.rfft2(rng.normal(size=(height, width))) / frequency**_FALL, (height, width)
    )
    return cast(Plane, (128 + contrast * picture / picture.std()).astype(np.int16))


def _disc(height: int, width: int, radius: int) -> npt.NDArray[np.bool_]:
    y, x = np.ogrid[:height, :width]
    return np.hypot(y - height / 2, x - width / 2) < radius


def _stream(container: av.container.OutputContainer, recipe: Recipe) -> VideoStream:
    stream = cast(VideoStream, container.add_stream(recipe.codec, rate=_FPS))
    stream.width, stream.height = recipe.width, recipe.height
    stream.pix_fmt = "yuvj420p" if recipe.codec == "mjpeg" else "yuv420p"
    codec = stream.codec_context
    codec.gop_size, codec.max_b_frames = recipe.key_every, recipe.b_frames
    if recipe.codec == "mpeg4":
        codec.codec_tag = "xvid"
    if recipe.codec == "libx264":
        codec.options = {"crf": "23", "preset": "fast", "sc_threshold": "0"}
    else:
        # No key frame of its own choice, so that they stand where the recipe says.
        fixed = {"qmin": str(_QUANTISER), "qmax": str(_QUANTISER)}
        codec.options = {**fixed, "sc_threshold": "1000000000"}
    return stream

"""Folders of numbered images."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt

Picture = npt.NDArray[Any]

_CODECS = {".jpg": ("mjpeg", "yuvj420p"), ".png": ("png", "rgb24")}


def image(picture: Picture, suffix: str = ".png") -> bytes:
    """A file of a picture: uint8 [H, W, 3], uint8 [H, W] or uint16 [H, W] (these two as PNG)."""
    codec, pixels = _CODECS[suffix]
    name = "rgb24"
    if picture.ndim == 2:
        name, pixels = ("gray", "gray") if picture.itemsize == 1 else ("gray16le", "gray16be")
    frame = av.VideoFrame.from_ndarray(picture, name).reformat(format=pixels)
    encoder: Any = av.CodecContext.create(codec, "w")
    encoder.height, encoder.width = picture.shape[:2]
    encoder.pix_fmt, encoder.time_base = pixels, Fraction(1, 25)
    packets = [*encoder.encode(frame), *encoder.encode(None)]
    return b"".join(map(bytes, packets))


def scene(number: int, size: tuple[int, int] = (48, 64)) -> Picture:
    """Colours that move from frame to frame, uint8 [H, W, 3]."""
    y, x = np.mgrid[: size[0], : size[1]]
    waves = (2 * x + 5 * number, 3 * y + number, x + y + 9 * number)
    made: Picture = np.abs(np.stack(waves, -1) % 510 - 255).astype(np.uint8)
    return made


def depth(number: int, size: tuple[int, int] = (48, 64)) -> Picture:
    """A ramp in 16 bits, uint16 [H, W]."""
    y, x = np.mgrid[: size[0], : size[1]]
    made: Picture = (1000 * number + 50 * x + y).astype(np.uint16)
    return made


def write_images(folder: Path, names: list[str], picture: Callable[[int], Picture] = scene) -> Path:
    """Write picture ``i`` to the i-th name."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        (folder / name).write_bytes(image(picture(number), Path(name).suffix))
    return folder

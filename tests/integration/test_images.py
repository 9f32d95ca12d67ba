"""Images that were packed into a video without coding them anew are its frames, pixel for pixel."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pytest

from tests.support.frames import clip_of
from videoload import Catalog, ClipSpec, decode_serially
from videoload.clips.clip_params import clip_params
from videoload.decoding.decoder import Decoder

FRAMES = 20
# The codec of the images and its pixels, those of a picture, and what a clip asks for.
KINDS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "jpeg": ("mjpeg", "yuvj420p", "rgb24", {}),
    "png": ("png", "rgb24", "rgb24", {"pixels": "yuv420p"}),
    "gray": ("png", "gray", "gray", {"pixels": "gray"}),
    "depth": ("png", "gray16be", "gray16le", {"pixels": "gray16", "scaling": "nearest"}),
    "smooth": ("png", "gray16be", "gray16le", {"pixels": "gray16"}),
}


def picture(number: int, kind: str) -> npt.NDArray[Any]:
    """Picture ``number``: colours, levels, or a ramp in 16 bits."""
    made: npt.NDArray[Any]
    y, x = np.mgrid[:48, :64]
    if kind == "gray16le":
        made = (1000 * number + 50 * x + y).astype(np.uint16)
        return made
    waves = np.stack((2 * x + 5 * number, 3 * y + number, x + y + 9 * number), -1)
    made = np.abs(waves % 510 - 255).astype(np.uint8)
    return made if kind == "rgb24" else made[..., 0].copy()


def pack(folder: Path, kind: str) -> Path:
    """What ``ffmpeg -i %05d.png -c:v copy x.avi`` makes of a folder of images."""
    codec, pixels, own, _ = KINDS[kind]
    for number in range(FRAMES):
        encoder: Any = av.CodecContext.create(codec, "w")
        encoder.height, encoder.width = 48, 64
        encoder.pix_fmt, encoder.time_base = pixels, Fraction(1, 25)
        frame = av.VideoFrame.from_ndarray(picture(number, own), own).reformat(format=pixels)
        coded = b"".join(map(bytes, [*encoder.encode(frame), *encoder.encode(None)]))
        (folder / f"{number:05}.{codec}").write_bytes(coded)
    images = folder / f"%05d.{codec}"
    with (
        av.open(str(images), format="image2") as container,
        av.open(str(folder / "x.avi"), "w") as out,
    ):
        stream = out.add_stream_from_template(container.streams.video[0])
        for packet in container.demux(video=0):
            if packet.size:
                packet.stream = stream
                out.mux(packet)
    return images


@pytest.mark.parametrize("kind", KINDS)
def test_a_video_of_images_shows_them_pixel_for_pixel(kind: str, tmp_path: Path) -> None:
    images = pack(tmp_path, kind)
    with av.open(str(images), format="image2") as container:
        frames = list(container.decode(video=0))
    spec = ClipSpec(4, stride=2, resize=32, size=(24, 28), sampling="random", **KINDS[kind][3])
    info = Decoder(tmp_path).info("x.avi")
    assert (info.frames, info.fps) == (FRAMES, Fraction(25))
    params = clip_params(spec, info, 0)
    catalog = Catalog(["x.avi"], root=tmp_path)
    for clips, _, told in decode_serially(catalog, spec, 1, epochs=5, info=True):
        assert clips.dtype == spec.dtype
        shown = [frames[ordinal] for ordinal in told.frames[0].tolist()]
        np.testing.assert_array_equal(clips[0], clip_of(shown, spec, info, params))

"""Images that were packed into a video without coding them anew are its frames, pixel for pixel."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from tests.support.digests import digest
from tests.support.frames import clip_of
from tests.support.image_files import depth, scene, write_images
from videoload import Catalog, Client, ClipSpec, decode_serially
from videoload.clips.clip_params import clip_params
from videoload.decoding.decoder import Decoder

FRAMES = 20
KINDS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "jpeg": (".jpg", scene, {}),
    "png": (".png", scene, {"pixels": "yuv420p"}),
    "gray": (".png", lambda n: scene(n)[..., 0].copy(), {"pixels": "gray"}),
    "depth": (".png", depth, {"pixels": "gray16", "scaling": "nearest"}),
    "smooth": (".png", depth, {"pixels": "gray16"}),
}
HOW: dict[str, Any] = {"batch_size": 3, "shuffle": True, "seed": 1, "drop_remainder": False}


def pack(images: Path, suffix: str, video: Path, rate: int = 25) -> None:
    """What ``ffmpeg -framerate RATE -i %05d.jpg -c:v copy x.avi`` does."""
    video.parent.mkdir(parents=True, exist_ok=True)
    options = {"framerate": str(rate)}
    with (
        av.open(str(images / f"%05d{suffix}"), format="image2", options=options) as container,
        av.open(str(video), "w") as out,
    ):
        stream = out.add_stream_from_template(container.streams.video[0])
        for packet in container.demux(video=0):
            if packet.size:
                packet.stream = stream
                out.mux(packet)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For each kind, a folder of images, and three videos of them."""
    root = tmp_path_factory.mktemp("images")
    for kind, (suffix, picture, _) in KINDS.items():
        images = root / "images" / kind
        write_images(images, [f"{number:05}{suffix}" for number in range(FRAMES)], picture)
        for number in range(3):
            pack(images, suffix, root / kind / "a" / f"{number}.avi")
    return root


@pytest.mark.parametrize("kind", KINDS)
def test_a_video_of_images_shows_them_pixel_for_pixel(
    kind: str, root: Path, client: Client, tmp_path: Path
) -> None:
    suffix, _, how = KINDS[kind]
    with av.open(str(root / "images" / kind / f"%05d{suffix}"), format="image2") as container:
        frames = list(container.decode(video=0))
    catalog = Catalog.from_folder(root / kind)
    spec = ClipSpec(4, stride=2, resize=32, size=(24, 28), sampling="random", **how)
    info = Decoder(root).info(f"{kind}/a/0.avi")
    assert (info.frames, info.fps) == (FRAMES, Fraction(25))
    params, batches = clip_params(spec, info, 0), []
    for clips, labels, told in decode_serially(catalog, spec, **HOW, epochs=3, info=True):
        batches.append((clips, labels, told))
        assert clips.dtype == spec.dtype
        for clip, ordinals in zip(clips, told.frames.tolist(), strict=True):
            wanted = clip_of([frames[ordinal] for ordinal in ordinals], spec, info, params)
            np.testing.assert_array_equal(clip, wanted)
    expected = digest(batches)
    stream = client.stream(catalog, spec, **HOW)
    assert digest(stream.batches(epochs=3, info=True)) == expected
    for _ in range(2):  # the second time, most frames come from the store
        kept = decode_serially(catalog, spec, **HOW, epochs=3, info=True, frame_store=tmp_path)
        assert digest(kept) == expected

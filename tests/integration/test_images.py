"""Images that were packed into a video without coding them anew are its frames, pixel for pixel."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import av
import numpy as np
import pytest

from tests.support.digests import digest
from tests.support.frames import clip_of
from tests.support.image_files import depth, scene, write_images
from videoload import Catalog, Client, ClipSpec, SpecError, decode_serially
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


def test_rgb_and_depth_of_16_bits_stay_in_step(tmp_path: Path, client: Client) -> None:
    """A video of 30 frames a second, depth images at 15 which begin late in some."""
    table = ["rgb,depth,label,depth_offset_s"]
    for number, late_s in enumerate((0.2, 0.0, 0.4, 0.1)):
        name = f"S{number:03}"
        levels = [np.full((48, 64), 2 * frame, np.uint8) for frame in range(60)]
        moments = [round(1000 * (late_s + n / 15)) for n in range(24)]
        shown = [np.full((24, 32), moment, np.uint16) for moment in moments]
        for part, pictures, rate in (("rgb", levels, 30), ("depth", shown, 15)):
            names = [f"{i:05}.png" for i in range(len(pictures))]
            images = write_images(tmp_path / "images" / part / name, names, pictures.__getitem__)
            pack(images, ".png", tmp_path / f"{part}/a/{name}.avi", rate)
        table.append(f"rgb/a/{name}.avi,depth/a/{name}.avi,a,{late_s}")
    (tmp_path / "samples.csv").write_text("\n".join(table))
    catalog = Catalog.from_table(tmp_path / "samples.csv", tmp_path, parts=("rgb", "depth"))
    spec = {
        "rgb": ClipSpec(
            6, stride=2, resize=32, size=(24, 24), crop="random", flip=True, sampling="random",
            pixels="gray",
        ),
        "depth": ClipSpec(6, resize=16, size=(12, 12), pixels="gray16", scaling="nearest"),
    }  # fmt: skip
    expected = []
    for batch, _, info in decode_serially(catalog, spec, **HOW, epochs=5, info=True):
        parts = cast(dict[str, Any], batch)
        assert (parts["depth"].dtype, parts["depth"].shape[1:]) == (np.uint16, (6, 12, 12, 1))
        rgb_s = parts["rgb"].mean((2, 3, 4)) / 2 / 30
        depth_s = parts["depth"].mean((2, 3, 4)) / 1000
        np.testing.assert_allclose(rgb_s, info.times, atol=0.01)
        assert np.abs(depth_s - rgb_s).max() <= 0.5 / 15 + 0.001
        expected.append((batch, _, info))
    stream = client.stream(catalog, spec, **HOW)
    assert digest(stream.batches(epochs=5, info=True)) == digest(expected)


def test_parts_have_the_size_of_their_files_if_no_size_is_given(root: Path, client: Client) -> None:
    parts: Any = {name: Catalog.from_folder(root / name, root=root) for name in ("jpeg", "depth")}
    catalog = Catalog.side_by_side(by="frames", **parts)
    native = {"jpeg": ClipSpec(4, resize=36), "depth": ClipSpec(4, pixels="gray16")}
    given = {
        "jpeg": ClipSpec(4, resize=36, size=(36, 48)),
        "depth": ClipSpec(4, size=(48, 64), pixels="gray16"),
    }
    expected = digest(decode_serially(catalog, given, 3, info=True))
    assert digest(decode_serially(catalog, native, 3, info=True)) == expected
    assert digest(client.stream(catalog, native, 3).batches(info=True)) == expected
    with pytest.raises(SpecError, match="have a size: give size= to 'depth'"):
        decode_serially(catalog, {**native, "jpeg": given["jpeg"]}, 3)

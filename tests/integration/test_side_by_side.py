"""Several files as one sample: all parts show the same moment and the same part of the picture."""

import re
from pathlib import Path
from typing import Any, cast

import av
import numpy as np
import numpy.typing as npt
import pytest

from tests.support.thorough import either
from videoload import Catalog, Client, ClipSpec, PerFrame, VideoError, decode_serially

Floats = npt.NDArray[np.float64]

TICKS = 30  # a second: luma says in which tick of the scene a frame was taken
LATE_S = 0.2
MATCH = r"(S\d+)_"
PARTS = ("rgb", "ir", "depth")


def make_recordings(root: Path, samples: int) -> Path:
    """Frames a second 30, 30 and 15; the infrared camera starts 0.2 s late."""
    for number in range(samples):
        name = f"S{number:03}"
        _make(root / f"rgb/a/{name}_rgb.avi", frames=_frames(number), rate=30, size=(96, 128))
        _make(root / f"ir/a/{name}_ir.avi", frames=66, rate=30, size=(96, 128), begins_s=LATE_S)
        _make(root / f"depth/a/{name}_depth.avi", frames=36, rate=15, size=(48, 64))
    return root


def _make(
    path: Path, *, frames: int, rate: int, size: tuple[int, int], begins_s: float = 0.0
) -> None:
    """Luma tells the time, and chroma the place in the picture. No byte is lost."""
    path.parent.mkdir(parents=True, exist_ok=True)
    height, width = size
    across = np.linspace(106, 150, width // 2)[None].repeat(height // 2, 0)
    down = np.linspace(106, 150, height // 2)[:, None].repeat(width // 2, 1)
    with av.open(str(path), "w", format="avi") as container:
        stream = container.add_stream("ffv1", rate=rate)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number in range(frames):
            tick = round((number / rate + begins_s) * TICKS)
            planes = [np.full((height, width), 50 + 2 * tick), across, down]
            flat = np.concatenate([np.rint(plane).ravel() for plane in planes])
            pixels = flat.astype(np.uint8).reshape(height * 3 // 2, width)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, "yuv420p")))
        container.mux(stream.encode(None))


def catalog_of(root: Path) -> Catalog:
    """Its samples: all parts of each. The rows of a skeleton tell the number of their frame."""
    parts: dict[str, Any] = {name: Catalog.from_folder(root / name) for name in PARTS}
    late: dict[str, Any] = {"ir": LATE_S, "depth": [0.0] * len(parts["rgb"])}  # as one, for each
    samples = Catalog.side_by_side(match=MATCH, offset_s=late, **parts)
    numbers = [int(re.findall(MATCH, path)[0][1:]) for path in samples.paths]
    return samples.with_targets(PerFrame([np.arange(_frames(number)) * 2 for number in numbers]))


def _frames(number: int) -> int:
    return 70 + 3 * (number % 6)


# What the leader's spec says of windows, crops and views.
WAYS: dict[str, dict[str, Any]] = {
    "random": {"sampling": "random", "crop": "random", "stride": 2},
    "regions": {"sampling": "random", "crop": "resized", "flip": True, "fps": 15},
    "uniform": {"sampling": "uniform", "clips_per_video": 3, "crop": "three", "stride": 4},
    "dense": {"sampling": "dense", "hop": 30, "crop": "five", "stride": 3},
    "segments": {"span": "video", "sampling": "random", "flip": True},
    "views": {"sampling": "random", "crop": "resized", "views": 2, "stride": 3},
    "crops": {"sampling": "center", "crop": "random", "views": 2, "flip": True},
    "padded": {"crop": "pad", "stride": 2},
    "stretched": {"crop": "stretch", "stride": 2, "flip": True},
}  # fmt: skip


def specs(**drawn: Any) -> dict[str, ClipSpec]:
    """A spec for each part. ``draw_params``: one of `WAYS`."""
    size: dict[str, Any] = {"resize": 64, "size": (48, 56)}
    half: dict[str, Any] = {"resize": 32, "size": (24, 28)}
    if drawn.get("crop") in ("pad", "stretch"):
        size, half = {"size": (48, 64)}, {"size": (24, 32)}
    return {
        "rgb": ClipSpec(frames=6, **size, **drawn),
        "ir": ClipSpec(frames=6, **size),
        "depth": ClipSpec(frames=3, **half),
    }


def seen(clips: npt.NDArray[np.uint8]) -> tuple[Floats, Floats]:
    """When each frame [..., T, H, W, 3] was taken, in seconds of the scene; and the place in the
    picture, from 0 to 1, of the corners at the top left and at the bottom right."""
    r, g, b = np.moveaxis(clips.astype(np.float64), -1, 0)
    y = 0.299 * r + 0.587 * g + 0.114 * b
    level = np.median(y, (-2, -1)) * 219 / 255 + 16  # rounding in RGB takes a level off
    ticks = np.rint((level + 1 - 50) / 2)
    u, v = (b - y) / 1.772, (r - y) / 1.402
    corners = [plane[..., i, i] for i in (1, -2) for plane in (u, v)]
    places = (np.stack(corners, -1) * 224 / 255 + 128 - 106) / 44
    return ticks / TICKS, places


def check(batch: Any) -> int:
    """All parts of each sample show the same moment, within half a frame of the slower one, and the
    same place in the picture, within a pixel or two of the smaller one. Returns the samples."""
    arrays, bones, info = batch
    parts = cast(dict[str, Any], arrays)
    assert list(parts) == list(PARTS)
    half_s = 0.5 / 15 + 1e-6
    times, places = seen(parts["rgb"])
    np.testing.assert_allclose(times, info.times, atol=0.5 / TICKS)
    for name, every in (("ir", 1), ("depth", 2)):
        own, own_places = seen(parts[name])
        assert np.abs(own - times[..., ::every]).max() <= half_s
        assert np.abs(own_places - places[..., ::every, :]).max() < 0.1
    np.testing.assert_array_equal(bones, info.frames * 2)
    return len(bones)


SAMPLES = 6


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_recordings(tmp_path_factory.mktemp("ntu"), SAMPLES)


@pytest.fixture(scope="module")
def catalog(root: Path) -> Catalog:
    return catalog_of(root)


@pytest.mark.parametrize("way", WAYS)
def test_all_parts_show_the_same_moment_and_the_same_place(catalog: Catalog, way: str) -> None:
    spec = specs(**WAYS[way])
    batches = decode_serially(
        catalog, spec, 3, shuffle=True, seed=5, epochs=either(1, 2), info=True
    )
    assert sum(check(batch) for batch in batches) >= SAMPLES


def test_each_window_that_all_parts_have_is_shown_once(root: Path, client: Client) -> None:
    rgb, depth = (Catalog.from_folder(root / name) for name in ("rgb", "depth"))
    catalog = Catalog.side_by_side(rgb=rgb, depth=depth, offset_s={"depth": -0.5})
    spec = {
        "rgb": ClipSpec(4, size=(32, 32), sampling="dense", hop=2),
        "depth": ClipSpec(4, size=(32, 32)),
    }
    stream = client.stream(catalog, spec, batch_size=3, drop_remainder=False)
    shown = [
        (int(video), int(frame))
        for _, _, info in stream.batches(info=True)
        for video, frame in zip(info.video, info.frames[:, 0], strict=True)
    ]
    lengths = [max(f for v, f in shown if v == video) for video in range(SAMPLES)]
    assert shown == [(v, f) for v, last in enumerate(lengths) for f in range(0, last + 1, 2)]
    assert max(lengths) <= 56  # the leader goes on for longer


def test_a_part_that_fails_is_named(catalog: Catalog, root: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.avi").write_bytes(b"no video")
    good = Catalog(["rgb/a/S000_rgb.avi"], [0], ["a"], root)
    bad = Catalog(["broken.avi"], [0], ["a"], tmp_path)
    sample = Catalog.side_by_side(rgb=good, depth=bad)
    spec = {name: ClipSpec(2, resize=32, size=(32, 32)) for name in ("rgb", "depth")}
    with pytest.raises(VideoError, match=r"part 'depth' \(.*broken\.avi\): "):
        list(decode_serially(sample, spec, 1, on_error="raise"))

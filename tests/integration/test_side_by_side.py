"""Several files as one sample: all parts show the same moment and the same part of the picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import av
import numpy as np
import numpy.typing as npt
import pytest

from tests.support.digests import digest
from tests.support.waiting import SECOND
from videoload import (
    Catalog,
    CatalogError,
    Client,
    ClipSpec,
    ItemSpec,
    SpecError,
    VideoError,
    decode_serially,
)
from videoload.clips.sample_spec import SampleSpec
from videoload.trainer import contact_sheet
from videoload.trainer.receipts import read

pytestmark = pytest.mark.timeout(60 * SECOND)

Floats = npt.NDArray[np.float64]

TICKS = 30  # a second: luma says in which tick of the scene a frame was taken
SAMPLES = 6
LATE_S = 0.2
MATCH = r"(S\d+)_"
PARTS = ("rgb", "ir", "depth", "skeleton")


def make_part(
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


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As NTU RGB+D: frames a second 30, 30 and 15; the infrared camera starts 0.2 s late."""
    root = tmp_path_factory.mktemp("ntu")
    for number in range(SAMPLES):
        name, more = f"S{number:03}", 3 * number
        make_part(root / f"rgb/a/{name}_rgb.avi", frames=70 + more, rate=30, size=(96, 128))
        make_part(root / f"ir/a/{name}_ir.avi", frames=66, rate=30, size=(96, 128), begins_s=LATE_S)
        make_part(root / f"depth/a/{name}_depth.avi", frames=36, rate=15, size=(48, 64))
        (root / "skeleton").mkdir(exist_ok=True)
        np.save(root / f"skeleton/{name}_bones.npy", np.arange(70 + more) * 2)
    return root


@pytest.fixture(scope="module")
def catalog(root: Path) -> Catalog:
    parts: dict[str, Any] = {name: Catalog.from_folder(root / name) for name in PARTS[:3]}
    names = [f"S{number:03}_bones.npy" for number in reversed(range(SAMPLES))]
    bones = Catalog(names, [0] * SAMPLES, ["a"], root / "skeleton")
    return Catalog.side_by_side(match=MATCH, offset_s={"ir": LATE_S}, **parts, skeleton=bones)


def specs(**drawn: Any) -> dict[str, ClipSpec | ItemSpec]:
    size: dict[str, Any] = {"resize": 64, "size": (48, 56)}
    half: dict[str, Any] = {"resize": 32, "size": (24, 28)}
    if drawn.get("crop") == "pad":
        size, half = {"size": (48, 64)}, {"size": (24, 32)}
    views = (2,) if "views" in drawn else ()
    shape = (*views, 6, 2)
    return {
        "rgb": ClipSpec(frames=6, **size, **drawn),
        "ir": ClipSpec(frames=6, **size),
        "depth": ClipSpec(frames=3, **half),
        "skeleton": ItemSpec("tests.support.items:rows_of", shape, "float32"),
    }


def seen(clips: npt.NDArray[np.uint8]) -> tuple[Floats, Floats]:
    """When each frame [..., T, H, W, 3] was taken, in seconds of the scene; and the place in the
    picture, from 0 to 1, of the corners at the top left and at the bottom right."""
    r, g, b = np.moveaxis(clips.astype(np.float64), -1, 0)
    y = 0.299 * r + 0.587 * g + 0.114 * b
    level = np.median(y, (-2, -1)) * 219 / 255 + 16  # rounding in RGB takes half a level off
    ticks = np.rint((level + 0.5 - 50) / 2)
    u, v = (b - y) / 1.772, (r - y) / 1.402
    corners = [plane[..., i, i] for i in (1, -2) for plane in (u, v)]
    places = (np.stack(corners, -1) * 224 / 255 + 128 - 106) / 44
    return ticks / TICKS, places


WAYS: dict[str, dict[str, Any]] = {
    "random": {"sampling": "random", "crop": "random", "stride": 2},
    "regions": {"sampling": "random", "crop": "resized", "flip": True, "fps": 15},
    "uniform": {"sampling": "uniform", "clips_per_video": 3, "crop": "three", "stride": 4},
    "segments": {"span": "video", "sampling": "random", "flip": True},
    "views": {"sampling": "random", "crop": "multiscale", "views": 2, "stride": 3},
    "padded": {"crop": "pad", "stride": 2},
}


@pytest.mark.parametrize("way", WAYS)
def test_all_parts_show_the_same_moment_and_the_same_place(catalog: Catalog, way: str) -> None:
    spec = specs(**WAYS[way])
    batches = decode_serially(catalog, spec, 3, shuffle=True, seed=5, epochs=2, info=True)
    half_s, count = 0.5 / 15 + 1e-6, 0
    for batch, labels, info in batches:
        parts = cast(dict[str, Any], batch)
        assert list(parts) == list(PARTS)
        assert (labels == 0).all()
        times, places = seen(parts["rgb"])
        np.testing.assert_allclose(times, info.times, atol=0.5 / TICKS)
        for name, every in (("ir", 1), ("depth", 2)):
            own, own_places = seen(parts[name])
            assert np.abs(own - times[..., ::every]).max() <= half_s
            # Within a pixel or two of the smaller picture, each way.
            assert np.abs(own_places - places[..., ::every, :]).max() < 0.1
        bones, when = np.moveaxis(parts["skeleton"], -1, 0)
        np.testing.assert_array_equal(bones, info.frames * 2)
        np.testing.assert_allclose(when, info.times, atol=1e-5)
        count += len(labels)
    assert count >= 2 * SAMPLES


def test_frames_of_the_same_number_need_no_rates(root: Path) -> None:
    rgb, depth = (Catalog.from_folder(root / name) for name in ("rgb", "depth"))
    catalog = Catalog.side_by_side(by="frames", rgb=rgb, depth=depth)
    spec = {
        "rgb": ClipSpec(4, resize=32, size=(32, 32), sampling="random"),
        "depth": ClipSpec(4, size=(32, 32)),
    }
    for batch, _, info in decode_serially(catalog, spec, 3, epochs=3, info=True):
        parts = cast(dict[str, Any], batch)
        assert info.frames.max() < 36  # the shorter file
        np.testing.assert_allclose(seen(parts["depth"])[0], info.frames / 15, atol=0.5 / 15)


def test_a_stream_of_workers_is_the_serial_one_and_can_be_resumed_and_made_again(
    catalog: Catalog, root: Path, client: Client, tmp_path: Path
) -> None:
    spec = specs(**WAYS["regions"], jitter=(0.2, 0.2, 0.2, 0.0))
    how: dict[str, Any] = {"batch_size": 4, "shuffle": True, "seed": 3, "drop_remainder": False}
    expected = list(decode_serially(catalog, spec, **how, epochs=2, info=True))
    stream = client.stream(catalog, spec, **how)
    stream.keep_receipts(tmp_path / "receipts")
    assert digest(stream.batches(epochs=2, info=True)) == digest(expected)
    assert digest(stream.batches(3, epochs=2, info=True)) == digest(expected[3:])
    again = read(tmp_path / "receipts", root, allow=["tests.support.items"])
    assert again.catalog.sides == catalog.sides
    made = decode_serially(
        again.catalog, again.spec, 4, epochs=2, info=True, shuffle=True, seed=3,
        drop_remainder=False,
    )  # fmt: skip
    assert [again.digest(batch) for batch in made] == list(again.digests.values())[: len(expected)]
    other = client.stream(catalog, specs(**WAYS["random"]), **how)
    assert len({stream.fingerprint, other.fingerprint}) == 2


def test_a_frame_store_changes_no_byte_of_a_sample(catalog: Catalog, tmp_path: Path) -> None:
    spec = specs(**WAYS["random"])
    expected = digest(decode_serially(catalog, spec, 3, epochs=3))
    for _ in range(2):
        assert digest(decode_serially(catalog, spec, 3, epochs=3, frame_store=tmp_path)) == expected


def test_a_part_that_fails_is_named(catalog: Catalog, root: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.avi").write_bytes(b"no video")
    good = Catalog(["rgb/a/S000_rgb.avi"], [0], ["a"], root)
    bad = Catalog(["broken.avi"], [0], ["a"], tmp_path)
    sample = Catalog.side_by_side(rgb=good, depth=bad)
    spec = {name: ClipSpec(2, resize=32, size=(32, 32)) for name in ("rgb", "depth")}
    with pytest.raises(VideoError, match=r"part 'depth' \(.*broken\.avi\): "):
        list(decode_serially(sample, spec, 1, on_error="raise"))


def test_a_preview_has_a_row_for_each_part_that_is_a_clip(
    catalog: Catalog, client: Client, tmp_path: Path
) -> None:
    image = pytest.importorskip("PIL.Image")
    stream = client.stream(catalog, specs(**WAYS["views"]), 2, seed=1)
    (batch,) = decode_serially(catalog[:2], specs(**WAYS["views"]), 2, seed=1, info=True)
    rows = [*contact_sheet.rows_of(batch, catalog, cast(SampleSpec, stream.clip))]
    assert [row.place.rpartition(", ")[2] for row in rows] == [*PARTS[:3]] * 4  # 2 samples, 2 views
    assert rows[2].path == "depth/a/S000_depth.avi"
    assert rows[3].frames == tuple(batch[2].frames[0, 1])
    assert not rows[4].frames
    for name, frames in (("a.png", 1), ("a.webp", 6)):
        stream.preview(tmp_path / name)
        with image.open(tmp_path / name) as made:
            assert getattr(made, "n_frames", 1) == frames


def test_partners_that_are_missing_are_named(root: Path) -> None:
    rgb, depth = (Catalog.from_folder(root / name) for name in ("rgb", "depth"))
    with pytest.raises(
        CatalogError, match=r"'depth' has no partner of rgb/a/S005_rgb\.avi of part"
    ):
        Catalog.side_by_side(rgb=rgb, depth=depth[:5], match=MATCH)
    with pytest.raises(
        CatalogError, match=r"'rgb' has no partner of depth/a/S000_depth\.avi of part"
    ):
        Catalog.side_by_side(rgb=rgb[1:], depth=depth, match=MATCH)
    with pytest.raises(CatalogError, match="rgb has 6, depth has 5"):
        Catalog.side_by_side(rgb=rgb, depth=depth[:5])


def test_what_is_drawn_is_said_once(catalog: Catalog) -> None:
    spec = specs(sampling="random")
    spec["depth"] = ClipSpec(3, resize=32, size=(24, 28), flip=True)
    with pytest.raises(SpecError, match="flip is drawn for part 'rgb': leave flip=True out of"):
        decode_serially(catalog, spec, 2)
    with pytest.raises(SpecError, match="the parts rgb, ir, depth, skeleton: give a dict"):
        decode_serially(catalog, ClipSpec(3, size=(24, 28)), 2)

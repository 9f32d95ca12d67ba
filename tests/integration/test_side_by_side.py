"""Several files as one sample: all parts show the same moment and the same part of the picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.recordings import (
    MATCH,
    WAYS,
    catalog_of,
    check,
    make_recordings,
    specs,
)
from tests.support.thorough import either
from tests.support.waiting import SECOND
from videoload import (
    Catalog,
    CatalogError,
    Client,
    ClipSpec,
    SpecError,
    VideoError,
    decode_serially,
)

pytestmark = pytest.mark.timeout(120 * SECOND)

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


def test_held_batches_keep_their_slots_even_if_only_a_slice_is_held(
    catalog: Catalog, client: Client
) -> None:
    stream = client.stream(catalog, specs(), 3, slots=4)
    batches = cast(Any, stream.batches(epochs=5))
    held = [(parts["rgb"][1:], parts["depth"]) for parts, _ in batches]
    serial = cast(Any, decode_serially(catalog, specs(), 3, epochs=5))
    for (rgb, depth), (parts, _) in zip(held, serial, strict=True):
        assert (rgb == parts["rgb"][1:]).all()
        assert (depth == parts["depth"]).all()
    assert stream.stats().copied > 0, "and most of them were copied, since all were kept"


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
    with pytest.raises(SpecError, match="the parts rgb, ir, depth: give a dict"):
        decode_serially(catalog, ClipSpec(3, size=(24, 28)), 2)
    spec = specs()
    spec["dept"] = spec.pop("depth")
    with pytest.raises(SpecError, match="rgb, ir, depth: 'dept' is none of them"):
        decode_serially(catalog, spec, 2)
    del spec["dept"]
    with pytest.raises(SpecError, match="rgb, ir, depth: give a spec for 'depth' as"):
        decode_serially(catalog, spec, 2)

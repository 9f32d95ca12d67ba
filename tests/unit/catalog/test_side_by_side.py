"""Which files are partners."""

import time
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.catalogs import refused
from videoload import Catalog, ClipSpec, mix
from videoload.client.planning import given_as
from videoload.clips.sample_spec import SampleSpec
from videoload.storage.paths import files_of, offsets_of

MATCH = r"(S\d+)"


def catalog_of(*names: str, root: Path | None = None, **more: list[int]) -> Catalog:
    return Catalog(list(names), [0] * len(names), ["a"], root, **more)  # type: ignore[arg-type]


def spec_of(catalog: Catalog) -> SampleSpec:
    clip = ClipSpec(1, size=8)
    return given_as(catalog, {"rgb": clip, "depth": clip}, shuffle=False)


def test_partners_are_found_by_name_or_stand_at_the_same_place() -> None:
    rgb, depth = catalog_of("S1.avi", "S2.avi"), catalog_of("d/S2.avi", "d/S1.avi")
    found = Catalog.side_by_side(rgb=rgb, depth=depth, match=MATCH)
    assert [video.path for video in found] == ["S1.avi\nd/S1.avi", "S2.avi\nd/S2.avi"]
    assert list(spec_of(found).clips) == ["rgb", "depth"]
    in_order = Catalog.side_by_side(rgb=rgb, depth=depth)
    assert in_order[0].path == "S1.avi\nd/S2.avi"
    assert in_order != found


def test_segments_labels_and_targets_are_those_of_the_first_part() -> None:
    rgb = catalog_of("S1.avi", "S1.avi", starts=[0, 9], ends=[9, 20]).with_targets([1.5, 2.5])
    found = Catalog.side_by_side(rgb=rgb, depth=catalog_of("d/S1.avi"), match=MATCH)
    assert [(video.start, video.end) for video in found] == [(0, 9), (9, 20)]
    assert found[1:].targets is not None
    assert spec_of(found[1:]) == spec_of(found)
    with refused():
        Catalog.side_by_side(depth=catalog_of("d/S1.avi"), rgb=rgb[:1])


def test_several_roots_become_the_folder_above(tmp_path: Path) -> None:
    roots = [tmp_path / "rgb", tmp_path / "depth"]
    for root in roots:
        root.mkdir()
    parts = [catalog_of("S1.avi", root=root) for root in roots]
    found = Catalog.side_by_side(rgb=parts[0], depth=parts[1])
    assert found.root == tmp_path
    assert found[0].path == "rgb/S1.avi\ndepth/S1.avi"


def test_what_cannot_be_a_part_is_said() -> None:
    one, two = catalog_of("S1.avi"), catalog_of("d/S1.avi")
    both = Catalog.side_by_side(a=one, b=two)
    twice = catalog_of("d/S1.avi", "e/S1.avi")
    # A worker refuses a lease with these paths, so it would get the lease again and again.
    long: dict[str, Any] = {name: Catalog([f"{name}/{'x' * 4000}.avi"]) for name in "abcde"}
    how: Any
    for how, words in (
        ({"a": one}, ["side_by_side"]), ({"a": one, "b": both}, []),
        ({"a": one, "b": mix({"x": (two, 1)})}, []),
        ({"a": one, "b": two, "by": "order"}, ["by"]),
        ({"a": one, "b": twice, "match": MATCH}, ["'S1'"]),
        ({"a": one, "b": two, "match": r"_(\d+)_"}, ["'S1.avi'"]), (long, ["20034", "16384"]),
    ):  # fmt: skip
        with refused(*words):
            Catalog.side_by_side(**how)
    with refused("parts"):
        Catalog.concat([both, one])


def test_offsets_of_each_sample_are_checked() -> None:
    one, two = catalog_of("S1.avi", "S2.avi"), catalog_of("d/S2.avi", "d/S1.avi")
    late: dict[str, Any] = {"depth": np.array([0.5, 0.25]), "rgb": 1}
    found = Catalog.side_by_side(rgb=one, depth=two, match=MATCH, offset_s=late)
    assert [offsets_of(video.path) for video in found] == [[0, 0.5], [0, 0.25]]
    assert spec_of(found).offsets_s == {"rgb": 1}
    assert files_of(found[::-1][0].path) == ["S2.avi", "d/S2.avi"]
    wrong: Any
    for wrong in ([0.5], [0.5, float("nan")], [[0.5, 0.5]]):
        with refused("2"):
            Catalog.side_by_side(rgb=one, depth=two, offset_s={"depth": wrong})
    with refused("offset_s", "'ir'"):
        Catalog.side_by_side(rgb=one, depth=two, offset_s={"ir": [0.5, 0.5]})
    with refused('by="frames"'):
        Catalog.side_by_side(rgb=one, depth=two, offset_s=late, by="frames")


def test_files_are_matched_in_a_time_that_grows_with_their_number_and_not_with_its_square() -> None:
    names = [f"S{number}.avi" for number in range(20_000)]
    began = time.thread_time()
    found = Catalog.side_by_side(
        rgb=catalog_of(*names), depth=catalog_of(*names[::-1]), match=MATCH
    )
    assert time.thread_time() - began < 3
    assert len(found) == len(names)

"""Targets, balance, mixtures, and the origin of a batch: the same by every way."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.videos import Videos, make_avi
from videoload import Catalog, Client, ClipSpec, PerFrame, decode_serially

CLIP = ClipSpec(
    frames=4, stride=2, resize=36, size=(32, 32), crop="random", sampling="random",
    clips_per_video=2,
)  # fmt: skip
OWN = ClipSpec(
    frames=4, stride=3, size=(32, 32), resize=48, sampling="uniform", clips_per_video=2
)  # of one part
HOW: dict[str, Any] = {"batch_size": 5, "shuffle": True, "seed": 3}
AROUND = replace(CLIP, sampling="at", edges="hold")


def targets(videos: Videos) -> dict[str, Any]:
    catalog = videos.catalog
    return {
        "vector": np.arange(2 * len(catalog), dtype=np.float32).reshape(-1, 2),
        "text": [f"film {i} ä" for i in range(len(catalog))],
        "phase": PerFrame(
            [np.arange(videos.frames[path]) + 1000 * i for i, path in enumerate(catalog.paths)]
        ),
    }


def test_a_moment_that_a_part_does_not_have_costs_its_clip_and_not_its_video(
    tmp_path: Path,
) -> None:
    """A resumed stream has not met the moments before."""
    for name, frames in (("a", 20), ("b", 16)):
        make_avi(tmp_path / f"{name}.avi", frames=frames)
    long, short = (
        Catalog([path for path in ("a.avi", name) for _ in range(20)], root=tmp_path,
                at=[*range(20)] * 2 if name == "a.avi" else None, duplicates=True)
        for name in ("a.avi", "b.avi")
    )  # fmt: skip
    doing = Catalog.side_by_side(x=long, y=short, by="frames")
    spec = {"x": replace(AROUND, clips_per_video=1), "y": ClipSpec(4, size=(32, 32), resize=36)}
    how: dict[str, Any] = {**HOW, "max_bad": 1.0, "info": True}
    whole = [info for *_, info in decode_serially(doing, spec, **how)]
    assert {*range(36)} == {*np.concatenate([info.video for info in whole]).tolist()}
    for step, info in enumerate(whole):
        *_, resumed = next(iter(decode_serially(doing, spec, start_step=step, epochs=1, **how)))
        np.testing.assert_array_equal(resumed.frames, info.frames)


def test_info_says_where_a_clip_comes_from(videos: Videos) -> None:
    for clips, _, info in decode_serially(videos.catalog, OWN, 3, info=True, drop_remainder=True):
        assert info.path.tolist() == [videos.catalog[i].path for i in info.video.tolist()]
        assert info.clip.tolist() == [(3 * info.step + row) % 2 for row in range(3)]
        assert info.crop.tolist() == [0, 0, 0]
        rates = [30000 / 1001 if path == "run/wide.avi" else 25 for path in info.path]
        np.testing.assert_allclose(info.times, info.frames / np.array(rates)[:, None])
        assert len(clips) == 3


TOLD = ("video", "clip", "crop", "frames", "times", "lengths", "mask")


def test_datasets_have_targets_and_info(tf: Any, videos: Videos, client: Client) -> None:
    catalog = videos.catalog.with_targets(targets(videos))
    stream = client.stream(catalog, CLIP, **HOW)
    dataset = stream.dataset(info=True)
    clips, told, info = dataset.element_spec
    assert {name: (spec.shape.as_list(), spec.dtype) for name, spec in told.items()} == {
        "vector": ([5, 2], tf.float32), "text": ([5], tf.string), "phase": ([5, 4], tf.int64),
    }  # fmt: skip
    assert {name: (spec.shape.as_list(), spec.dtype) for name, spec in info.items()} == {
        "video": ([5], tf.int64), "path": ([5], tf.string), "clip": ([5], tf.int64),
        "crop": ([5], tf.int64), "frames": ([5, 4], tf.int64), "times": ([5, 4], tf.float64),
        "affine": ([5, 2, 3], tf.float32), "lengths": ([5], tf.int64), "mask": ([5, 4], tf.bool),
    }  # fmt: skip
    assert clips.shape == (5, *CLIP.shape)
    reference = decode_serially(catalog, CLIP, info=True, **HOW)
    for ours, expected in zip(dataset.as_numpy_iterator(), reference, strict=True):
        np.testing.assert_array_equal(ours[0], expected[0])
        for name, rows in expected[1].items():
            wanted = [text.encode() for text in rows] if name == "text" else rows
            np.testing.assert_array_equal(ours[1][name], wanted)
        assert ours[2]["path"].tolist() == [path.encode() for path in expected[2].path]
        for name in TOLD:
            np.testing.assert_array_equal(ours[2][name], getattr(expected[2], name))

"""What a stream is, and which setting differs."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from videoload import Catalog, ClipSpec, mix
from videoload.clips.sample_spec import one_clip
from videoload.plan.identity import Identity
from videoload.plan.options import checked_options

PATHS = [f"a/{i}.avi" for i in range(10)]
CATALOG = Catalog(PATHS, [0] * 10, ["a", "b"])
CLIP = ClipSpec(frames=4, size=(8, 8))
OPTIONS = checked_options(2, shuffle=True)


def identity(catalog: Catalog = CATALOG, spec: Any = CLIP, **options: Any) -> Identity:
    return Identity.of(catalog, one_clip(spec), checked_options(**{**OPTIONS, **options}))


MIXED = mix({"a": (CATALOG, 0.5), "b": (Catalog(["b/0.avi"], [0], ["a", "b"]), 0.5)})


def catalog(classes: str = "ab", label: int = 0, **columns: Any) -> Catalog:
    return Catalog(PATHS, [label] * 10, [*classes], **columns)


NONE = "none before, 10 .* now"


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (identity(batch_size=3), "batch_size: 2 before, 3 now"),
        (identity(seed=7), "seed: 0 before, 7 now"),
        (identity(shuffle=False), "shuffle: True before, False now"),
        (identity(shard=(1, 2)), r"shard: \(0, 1\) before, \(1, 2\) now"),
        (identity(balance="class"), "balance: None before, 'class' now"),
        (identity(balance=[1] * 9 + [2]), r"balance: None before, 10 \(\w{16}\) now"),
        (identity(catalog(at=[3] * 10)), f"at: {NONE}"),
        (identity(catalog(at_s=[3.5] * 10)), f"at_s: {NONE}"),
        (identity(spec=replace(CLIP, stride=2), seed=7), "stride: 1 before, 2 now; seed: "),
        (identity(buckets=(2, 4)), rf"buckets: None before, \(2, 4\) now; lengths: {NONE}"),
        (identity(batch_size=None, batch_frames=8), "batch_size: .*; batch_frames: None before, 8"),
        (identity(spec=ClipSpec(4, max_frames=4, size=(8, 8))), "max_frames: None before, 4 now"),
        (identity(CATALOG[:9]), r"videos: 10 \(\w{16}\) before, 9 \(\w{16}\) now"),
        (identity(catalog(label=1)), "labels: 10 .* before, 10 .* now"),
        (identity(catalog("ac")), "classes: 2 .* before, 2 .* now"),
        (identity(catalog(starts=[1] * 10)), f"starts: {NONE}"),
        (identity(CATALOG.with_targets(np.arange(10.0))), f"targets: {NONE}"),
        (identity(MIXED), "videos: .*; mixture: none before, 2 .* now"),
    ],
)
def test_what_differs_is_named_with_both_values(other: Identity, words: str) -> None:
    difference = other.difference(identity().settings)
    assert re.fullmatch(words + ".*", difference), difference
    assert other != identity()


@pytest.mark.parametrize(
    "other",
    [
        identity(max_bad=0.5),
        identity(catalog(frames=[40] * 10)),
        identity(catalog(root="/")),
    ],
    ids=["more bad videos allowed", "lengths are known", "another root"],
)
def test_what_decides_on_no_batch_is_no_part_of_it(other: Identity) -> None:
    assert other == identity()
    assert other.difference(identity().settings) == ""


def test_ranks_that_agree_have_one_fingerprint() -> None:
    ranks = {identity(shard=(rank, 4)).fingerprint for rank in range(4)}
    assert ranks == {identity().fingerprint}
    assert identity(CATALOG[:9]).fingerprint not in ranks, "one file is missing on one rank"
    assert identity(seed=1).fingerprint not in ranks


@pytest.mark.parametrize(
    ("now", "ranks", "words"),
    [
        (identity(shard=(1, 2)), 2, ""),
        (identity(shard=(1, 2), seed=7), 2, "seed: 0 before, 7 now"),
        (identity(shard=(1, 2), batch_size=1), 1, ""),
        (identity(shard=(1, 4)), 2, "batch_size 2 .* 2 ranks before, 2 .* 4 now.*product.*"),
        (identity(shard=(1, 4), seed=7), 2, "seed: .*; batch_size .*"),
        (identity(MIXED), 2, "videos: .* 2 ranks before, 1 now, and a mixture .*"),
        (identity(balance="class"), 2, "balance: .*; 2 ranks before, 1 now, and balance=.*"),
        (identity(drop_remainder=False), 2, "drop_remainder: .*, and drop_remainder=False .*"),
    ],
)
def test_the_condition_that_a_resumed_stream_does_not_meet_is_named(
    now: Identity, ranks: int, words: str
) -> None:
    found = now.obstacle(identity(shard=(0, ranks)).settings, ranks)
    assert re.fullmatch(words, found), found

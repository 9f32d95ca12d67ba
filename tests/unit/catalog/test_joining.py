"""Catalogs put together: one after the other, or mixed by shares."""

from collections import Counter
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.catalogs import pairs, refused, tree
from tests.support.thorough import either
from videoload.catalog.catalog import Catalog
from videoload.catalog.joining import check_numbers, check_shapes, file_rows, mix
from videoload.catalog.targets import PerFrame, Points
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.sample_spec import one_clip
from videoload.errors import SpecError
from videoload.plan.options import checked_options
from videoload.plan.plan import Plan

CLIP = ClipSpec(frames=4, size=(8, 8))


def catalog(name: str, videos: int, *classes: str) -> Catalog:
    classes = classes or ("jump",)
    labels = [i % len(classes) for i in range(videos)]
    return Catalog([f"{name}{i}.avi" for i in range(videos)], labels, classes)


def stream(mixed: Catalog, steps: range, clip: Any = CLIP, **changes: Any) -> list[int]:
    """The videos of these batches of 10."""
    default: dict[str, Any] = {"batch_size": 10, "shuffle": True}
    plan = Plan.of(mixed, one_clip(clip), checked_options(**default | changes))
    return [sample.video for step in steps for sample in plan[step]]


# One after the other


def test_classes_are_those_of_the_first_and_then_the_new_ones() -> None:
    joined = Catalog.concat([catalog("a", 2, "run", "jump"), catalog("b", 3, "sit", "jump", "fly")])
    assert joined.classes == ("run", "jump", "sit", "fly")
    assert [name for _, name in pairs(joined)] == ["run", "jump", "sit", "jump", "fly"]


def test_roots_become_the_nearest_folder_above_them(tmp_path: Path) -> None:
    tree(tmp_path, "data/ucf/jump/a.avi", "data/web/clips/jump/b.avi")
    ucf = Catalog.from_folder(tmp_path / "data/ucf")
    web = Catalog.from_folder(tmp_path / "data/web/clips")
    joined = Catalog.concat([ucf, web])
    assert joined.root == tmp_path / "data"
    assert [video.path for video in joined] == ["ucf/jump/a.avi", "web/clips/jump/b.avi"]
    assert all((tmp_path / "data" / video.path).is_file() for video in joined)
    above = Catalog(["web/clips/jump/b.avi"], [0], ["jump"], root=tmp_path / "data")
    assert [video.path for video in Catalog.concat([ucf, above])] == [
        video.path for video in joined
    ]
    assert Catalog.concat([ucf, ucf.subset([0])]).root == ucf.root


def test_catalogs_with_the_same_url_are_joined_and_no_others(tmp_path: Path) -> None:
    one, two, other = (
        Catalog([f"{i}.avi"], [0], ["jump"], root)
        for i, root in enumerate(("s3://clips/a", "s3://clips/a/", "s3://clips/b"))
    )
    here = Catalog(["b.avi"], [0], ["jump"], tmp_path)
    assert Catalog.concat([one, two]).root == "s3://clips/a"
    assert mix({"one": (one, 1), "two": (two, 1)}).root == "s3://clips/a"
    for wrong in (other, here, catalog("a", 1)):
        with refused("root", "s3://clips/a", str(wrong.root)):
            Catalog.concat([one, wrong])
    with refused("root"):
        Catalog.concat([catalog("a", 1), here])
    nothing: list[Any] = [[], [catalog("a", 1), None]]
    for parts in nothing:
        with refused():
            Catalog.concat(parts)


def test_the_error_names_the_catalogs_and_what_differs() -> None:
    plain, labelled = catalog("a", 2), catalog("b", 2, "run")
    actions = plain.with_targets({"action": np.zeros((2, 7)), "text": ["a", "b"]})
    longer = plain.with_targets({"action": np.zeros((2, 14)), "text": ["a", "b"]})
    top, wrist = (Catalog([f"{name}.avi"]) for name in ("top", "wrist"))
    both = Catalog.side_by_side(top=top, wrist=wrist)
    frames = Catalog.side_by_side(top=top, wrist=wrist, by="frames")
    moments = Catalog(["a.avi"], at=[3])
    ran = labelled.with_targets({"action": np.zeros((2, 7))})
    for one, other, words in (
        (actions, longer, ["'aloha'", "'more'", "action", "(7,)", "(14,)"]),
        (actions, plain, ["'aloha'", "'more'", "targets"]),
        (actions, ran, ["'more'", "classes", "run"]),
        (both, top, ["'aloha'", "wrist", "'more'", "one file"]),
        (both, frames, ["by='time'", "by='frames'"]),
        (plain, moments, ["'aloha'", "'more'", "moments"]),
        (plain, mix({"x": (plain, 1)}), ["'more'", "mixture"]),
    ):
        with refused(*words):
            mix({"aloha": (one, 1), "more": (other, 1)})
        named = [word for word in words if word not in ("'aloha'", "'more'")]
        with refused("catalogs[1]", *named):
            Catalog.concat([one, other])
    with refused("'more'", "share"):
        mix({"more": (cast(Any, None), 1)})
    segments = Catalog(["b.avi"], starts=[1], ends=[9])
    with refused("'wrist'", "segments"):
        Catalog.side_by_side(top=top, wrist=segments)
    with refused("'wrist'", "match="):
        Catalog.side_by_side(top=top, wrist=wrist, match="t(o)p")
    with refused("'wrist'", "mixture"):
        Catalog.side_by_side(top=top, wrist=mix({"x": (wrist, 1)}))


# Mixed


@settings(deadline=None, max_examples=either(15, 40))
@given(
    st.integers(1, 40), st.integers(1, 40), st.integers(1, 9), st.integers(1, 4), st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_ranks_of_a_mixture_share_a_pass_and_have_the_same_shares(
    a: int, b: int, share: int, world: int, shuffle: bool, drop: bool
) -> None:
    mixed = mix({"a": (catalog("a", a), share), "b": (catalog("b", b), 10 - share)})
    every: list[int] = []
    for rank in range(world):
        videos = stream(
            mixed, range(30), shuffle=shuffle, shard=(rank, world), batch_size=1,
            drop_remainder=drop,
        ) if a + b >= world else []  # fmt: skip
        every += videos
        for first in range(0, len(videos) - 10):
            mine = sum(video < a for video in videos[first : first + 10])
            assert abs(mine - share) <= 2 + 2 * 2 * share / 10
    seen = Counter(every)
    # Ranks differ by a place or two in a part's passes, and so do the counts of its videos.
    for part in (range(a), range(a, a + b)):
        counts = [seen[video] for video in part]
        assert not every or max(counts) - min(counts) <= 2 + 4 * world / len(part) + 1


def test_a_substitute_is_of_the_same_part_while_there_is_one() -> None:
    mixed = mix({"a": (catalog("a", 30), 0.5), "b": (catalog("b", 3), 0.5)})
    plan = Plan.of(mixed, one_clip(CLIP), checked_options(10, shuffle=True))
    for sample in plan[0] + plan[7]:
        part, found = sample.video >= 30, sample
        for _ in range(8):
            found = plan.substitute(found)
            assert (found.video >= 30) == part
        others = [(found := plan.substitute(found)).video >= 30 for _ in range(8)]
        assert (not part) in others, "of another one once all of its own may be bad"


def test_targets_are_of_frames_and_pictures_that_samples_have() -> None:
    check_shapes(catalog("a", 2).with_targets(PerFrame([[1], [2]])), one_clip(CLIP))
    marks = catalog("a", 2).with_targets({"nose": Points(np.zeros((2, 1, 2)), part="rgb")})
    with pytest.raises(SpecError, match=r"nose.*'rgb'"):
        check_shapes(marks, one_clip(CLIP))


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({}, "."), ([catalog("a", 1)], "."), ({"a": catalog("a", 1)}, "a"),
        ({"a": (catalog("a", 1),)}, "a"), ({"a": (catalog("a", 1), 0)}, "'a'"),
        ({"a": (catalog("a", 1), "much")}, "'a'"), ({"a": (catalog("a", 1), 1, CLIP)}, "a"),
        ({"a": (catalog("a", 3), 1), "b": (catalog("b", 3), 1e-6)}, "10000"),
    ],
)  # fmt: skip
def test_invalid_parts_are_refused(parts: Any, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        mix(parts)


def test_a_mixture_is_no_part_and_has_no_subsets() -> None:
    mixed = mix({"a": (catalog("a", 2), 1)})
    acts: list[Any] = [lambda: mix({"b": (mixed, 1)}), lambda: mixed[:1], lambda: mixed.split(0.5)]
    for act in acts:
        with refused():
            act()
    with pytest.raises(SpecError, match="balance="):
        Plan.of(mixed, one_clip(CLIP), checked_options(1, balance="class"))


def test_classes_of_two_streams_have_the_same_numbers(caplog: pytest.LogCaptureFixture) -> None:
    train = Catalog(["a.avi", "b.avi", "c.avi"], [0, 1, 2], ["jump", "run", "walk"])
    lacking = Catalog(["a.avi", "c.avi"], [0, 1], ["jump", "walk"])
    turned = Catalog(["a.avi"], [0], ["walk", "run", "jump"])
    for one, other in ((train, lacking), (lacking, train), (turned, train)):
        with pytest.raises(SpecError, match=r"'(run|walk)'"):
            check_numbers(one, [other])
    others = Catalog(["a.avi"], [0], ["swim", "ride"])
    first = Catalog(["a.avi"], [0], ["jump", "run"])
    learnt = lacking.with_targets([0.5, 0.7])
    check_numbers(train, [train.subset([0]), others, first, learnt])
    check_numbers(learnt, [train])
    check_numbers(file_rows(learnt), [train])  # only windows of the files are counted
    assert not caplog.messages
    check_numbers(train, [Catalog(["a.avi"], [0], ["walk", "swim"])])  # perhaps another data set
    assert "'walk'" in caplog.text

"""Numbers of windows come from frame counts where they suffice, and from one pass where not."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from videoload.catalog.catalog import Catalog
from videoload.catalog.targets import Points
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.sample_spec import Shape, one_clip
from videoload.clips.tasks import Count, WindowCount
from videoload.errors import CatalogError, SpecError, VideoError
from videoload.plan.identity import Identity
from videoload.plan.options import checked_options
from videoload.plan.plan import Plan
from videoload.plan.windows import counted, warnings_of, windows_of

BY_TIME = ClipSpec(4, fps=5, size=(8, 8), sampling="dense")
BY_FRAMES = ClipSpec(4, stride=2, size=(8, 8), sampling="dense", hop=5, flip=True)
OPTIONS = checked_options(2, drop_remainder=False)


def catalog(*lengths: int | None, **columns: Any) -> Catalog:
    names = [f"v{i}.avi" for i in range(len(lengths))]
    return Catalog(names, [0] * len(names), ["class"], frames=lengths, **columns)


class Reader:
    """Finds as many windows in v3.avi as its name says, and v0.avi is bad."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[str], Any]] = []

    def __call__(
        self, task: Count, rows: Catalog
    ) -> Iterator[tuple[int, WindowCount | VideoError]]:
        self.asked.append(([video.path for video in rows], task))
        for i, video in enumerate(rows):
            number = int(video.path[1])
            if number:
                yield i, WindowCount(number, number - 1, (0, 0), [(0, 0)] * len(task.spec.clips))
            else:
                yield i, VideoError(video.path, "is bad")


def test_frame_counts_suffice_for_windows_by_frames() -> None:
    read, videos = Reader(), catalog(7, 11, 12)
    assert counted(videos, one_clip(BY_FRAMES), read) is videos
    assert counted(videos, one_clip(ClipSpec(4, size=(8, 8))), read) is videos
    assert counted(videos, one_clip(BY_TIME), read) is not videos
    assert counted(catalog(7, None), one_clip(BY_FRAMES), read) is not None
    assert [len(paths) for paths, _ in read.asked] == [3, 2]
    windows, left = windows_of(videos, BY_FRAMES, range(3))
    assert (windows.tolist(), left.tolist()) == ([1, 1, 2], [0, 3, 0])


def test_frames_of_clips_of_any_length_are_counted_where_the_catalog_does_not_tell() -> None:
    read, videos = Reader(), catalog(7, 11, 60)
    by_frames = ClipSpec("all", max_frames=8, stride=2, size=(8, 8))
    by_time, buckets = replace(by_frames, stride=1, fps=5), (4, 8)
    for spec in (by_frames, by_time):
        assert counted(videos, one_clip(spec), read) is videos, "no buckets"
    assert counted(videos, one_clip(by_frames), read, buckets) is videos
    assert windows_of(videos, by_frames, range(3))[0].tolist() == [4, 6, 8]
    assert read.asked == []
    known = counted(videos, one_clip(by_time), read, buckets)
    assert windows_of(known, by_time, range(3))[0].tolist() == [1, 1, 2], "v0.avi cannot be read"
    some = counted(catalog(7, None), one_clip(by_frames), read, buckets)
    assert windows_of(some, by_frames, range(2))[0].tolist() == [1, 1]
    (_, asked), _ = read.asked
    assert asked == Count(by_time)
    cut = replace(by_time, short="cut")
    known_cut = counted(videos, one_clip(cut), read, (2, 8))
    assert windows_of(known_cut, cut, range(3))[0].tolist() == [2, 1, 2], "the stream names v0.avi"
    options = checked_options(2, buckets=buckets)
    mine, other = (Identity.of(each, one_clip(by_time), options) for each in (known, videos))
    assert mine.difference(other.settings).startswith("lengths: ")


def test_one_pass_counts_what_the_catalog_does_not_tell() -> None:
    read, videos = Reader(), catalog(None, None, None, None)
    known = counted(videos, one_clip(BY_TIME), read)
    plan = Plan.of(known, one_clip(BY_TIME), OPTIONS)
    assert [(s.video, s.clip) for step in range(len(plan)) for s in plan[step]] == [
        (0, 0), (1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2),
    ]  # fmt: skip
    ((_, asked),) = read.asked
    assert asked == Count(BY_TIME)
    with pytest.raises(SpecError):
        Plan.of(videos, one_clip(BY_TIME), OPTIONS)
    assert known == videos
    mine, other = (Identity.of(each, one_clip(BY_TIME), OPTIONS) for each in (known, videos))
    assert mine.fingerprint != other.fingerprint


@pytest.mark.parametrize(("told", "taken"), [(-5, 0), (2**62, 8)])
def test_a_count_is_one_that_a_video_can_have(told: int, taken: int) -> None:
    def read(_: Count, rows: Catalog) -> Iterator[tuple[int, WindowCount | VideoError]]:
        for row in range(len(rows)):
            yield row, WindowCount(told, told, (told, told), [(told, told)])

    spec = ClipSpec("all", max_frames=8, size=(8, 8))
    known = counted(catalog(None, None), one_clip(spec), read, (4, 8))
    assert windows_of(known, spec, range(2))[0].tolist() == [taken, taken]


def test_sizes_of_frames_are_counted_where_the_catalog_does_not_tell() -> None:
    read, spec = Reader(), ClipSpec(4, size=[(4, 8), (8, 4)])
    sizes = {"path": ["v1.avi", "v2.avi"], "width": [20, 10], "height": [10, 20]}
    told = Catalog.from_table(sizes, None)
    assert counted(told, one_clip(spec), read) is told
    assert {*Plan.of(told, one_clip(spec), OPTIONS).sizes} == {
        Shape(4, ((4, 8),)),
        Shape(4, ((8, 4),)),
    }
    some = Catalog.from_table(sizes | {"height": [10, None]}, None)
    known = counted(some, one_clip(spec), read)
    assert [paths for paths, _ in read.asked] == [["v1.avi", "v2.avi"]]
    assert {*Plan.of(known, one_clip(spec), OPTIONS).sizes} == {Shape(4, ((4, 8),))}, "squares"
    mine, other = (Identity.of(each, one_clip(spec), OPTIONS) for each in (told, known))
    assert mine.difference(other.settings).startswith("lengths: ")
    boxes = Catalog.from_table(sizes | {"height": [1.5, 2]}, None)
    assert (boxes[0].width, boxes[0].height) == (20, None)
    with pytest.raises(CatalogError, match="height"):
        Catalog.from_table(sizes | {"h": [1.5, 2]}, None, height="h")


def test_what_was_counted_for_another_stream_does_not_count() -> None:
    videos = counted(catalog(12, 12, 12), one_clip(BY_TIME), Reader())
    by_frames = counted(videos, one_clip(BY_FRAMES), Reader())
    assert windows_of(by_frames, BY_FRAMES, range(3))[0].tolist() == [2, 2, 2]


def test_frames_in_no_window_are_told() -> None:
    assert warnings_of(catalog(7, 12, 17), one_clip(BY_FRAMES)) == []
    (text,) = warnings_of(catalog(7, 11, 12), one_clip(BY_FRAMES))
    assert all(word in text for word in ("1 of 3", " 3 "))


@pytest.mark.parametrize(
    ("ends", "spec", "warns"),
    [
        ([5, 6], ClipSpec(4, stride=2), True),
        ([5, 7], ClipSpec(4, stride=2), False),
        ([5, None], ClipSpec(4, stride=2), False),
        ([3, 3], ClipSpec(4, fps=5), True),
        ([4, 3], ClipSpec(4, fps=5), False),
        ([1, 1], ClipSpec(1), False),
        ([3, 3], ClipSpec(4, span="video"), True),
    ],
)
def test_segments_that_are_all_shorter_than_a_clip_may_be_in_seconds(
    ends: list[int | None], spec: ClipSpec, warns: bool
) -> None:
    texts = warnings_of(catalog(None, None, ends=ends), one_clip(spec))
    assert ["start_s" in text for text in texts] == [True] * warns


@pytest.mark.parametrize("moves", [{"flip": True}, {"crop": "random"}, {"crop": "resized"}, {}])
def test_plain_points_beside_a_flip_or_a_drawn_crop_earn_a_warning(moves: Any) -> None:
    spec = ClipSpec(4, size=(8, 8), **moves)
    for told, warns in (
        ({"pose": np.zeros((2, 3, 2)), "joints": np.zeros((2, 3, 2))}, bool(moves)),
        ({"pose": Points(np.zeros((2, 3, 2))), "speed": np.zeros(2)}, False),
    ):
        texts = warnings_of(catalog(9, 9).with_targets(told), one_clip(spec))
        assert ["pose" in text and "vl.Points" in text for text in texts] == [True] * warns

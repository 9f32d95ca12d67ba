"""What the true length of a file contradicts is told: an error for labels, a sentence for rows."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from videoload.catalog.catalog import Catalog
from videoload.catalog.targets import PerFrame
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.sample_spec import one_clip
from videoload.errors import SpecError
from videoload.plan.windows import Lengths, with_windows

CLIP = ClipSpec(frames=8, stride=2, size=(4, 4))
ONE = np.ones(1)


def told(catalog: Catalog, frames: list[int], clip: ClipSpec = CLIP, fps: float = 10) -> list[str]:
    lengths = Lengths(catalog, one_clip(clip))
    counts = np.array(frames)
    lengths.note(np.arange(len(catalog)), counts, counts / fps, 0.0 * counts + 2)
    found = lengths.warnings()
    assert not found or not lengths.warnings(), "told twice"
    return found


@pytest.mark.parametrize("seconds", ["picture", "file"])
def test_an_end_is_beyond_its_file_where_the_seconds_are_the_pictures(seconds: Any) -> None:
    """Where they are the file's, nobody has told when the picture begins."""
    found = told(Catalog(["a.avi"], ends_s=[5.0]), [40], replace(CLIP, seconds=seconds))
    assert bool(found) == (seconds == "picture")


@pytest.mark.parametrize("rows", [95, 97, 98])
def test_targets_per_frame_need_a_row_for_each_frame(rows: int) -> None:
    catalog = Catalog(["a.avi", "b.avi"]).with_targets(
        {"other": [1, 2], "pose": PerFrame([np.zeros(7), np.zeros(rows)])}
    )
    with pytest.raises(SpecError, match=rf"b\.avi.*pose.*{rows}.*96"):
        told(catalog, [7, 96])
    assert not Lengths(catalog, one_clip(CLIP)).warnings()
    lengths = Lengths(catalog, one_clip(CLIP))
    lengths.note(
        np.array([0]), np.array([7]), np.array([0.7]), ONE
    )  # nothing is known of the other
    lengths.note(np.array([1]), np.array([-1]), np.array([np.nan]), ONE)


def test_another_frame_count_is_told_when_the_file_was_opened(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lengths = Lengths(Catalog(["a.avi", "b.avi"], frames=[40, 24000]), one_clip(CLIP))
    lengths.note(np.array([0]), np.array([40]), np.array([4.0]), ONE)
    assert not caplog.messages
    for _ in range(2):
        lengths.note(np.array([1]), np.array([379]), np.array([37.9]), ONE)
    [told] = caplog.messages
    assert all(word in told for word in ("b.avi", "24000", "379"))


def test_another_shape_is_told_where_it_says_the_size_of_clips(
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = {"path": ["a.avi", "b.avi"], "width": [320, 640], "height": [240, 300]}
    for size in ((4, 4), [(4, 4)]):
        lengths = Lengths(Catalog.from_table(table, None), one_clip(replace(CLIP, size=size)))
        for video, wide in ((0, 1.334), (1, np.nan), (1, 0.5), (1, 0.5)):
            lengths.note(np.array([video]), np.array([40]), np.array([4.0]), np.array([wide]))
        assert len(caplog.messages) == (size != (4, 4))
    assert all(word in caplog.text for word in ("b.avi", "0.5", "2.13"))


@pytest.mark.parametrize(
    ("columns", "frames", "words"),
    [
        ({"ends": [40, 41]}, [40, 40], ["1 of 2 rows", "b.avi", "41", "40 frames"]),
        ({"ends_s": [4.0, 4.2]}, [40, 40], ["1 of 2 rows", "b.avi"]),
        ({"frames": [40, 24000]}, [40, 379], ["b.avi", "24000", "379"]),
        ({}, [14, 40], ["1 of 2", "a.avi", "14", "15"]),
        ({}, [14, -1], ["1 of 1"]),
        ({}, [15, 40], []),
        ({"ends": [40, 40], "frames": [40, 40]}, [40, 40], []),
        ({"ends_s": [4.0, 4.1]}, [40, 40], []),
    ],
)
def test_rows_that_do_not_fit_their_files_are_told_with_their_number(
    columns: Any, frames: list[int], words: list[str]
) -> None:
    found = told(Catalog(["a.avi", "b.avi"], **columns), frames)
    assert bool(found) == bool(words)
    assert all(word in text for text in found for word in words)


@pytest.mark.parametrize(("fps", "is_short"), [(10.0, True), (5.0, False)])
def test_the_rate_decides_how_many_frames_a_clip_takes(fps: float, is_short: bool) -> None:
    clip = ClipSpec(frames=8, fps=5, size=(4, 4))  # 1.4 s: 15 frames at 10 a second, 8 at 5
    assert bool(told(Catalog(["a.avi"]), [14], clip, fps)) is is_short
    assert not told(Catalog(["a.avi"]), [3], ClipSpec(frames=8, short="zero", size=(4, 4)))


@pytest.mark.parametrize(("counted", "is_told"), [(4, False), (5, True), (10**12, True)])
def test_what_was_counted_is_compared_when_clips_come(counted: int, *, is_told: bool) -> None:
    clip = replace(CLIP, sampling="dense", hop=8)
    catalog = with_windows(Catalog(["a.avi", "b.avi"]), np.array([[4, counted], [0, 0]]))
    found = told(catalog, [40, 40], clip)
    assert [("b.avi" in text, f"{counted}" in text) for text in found] == [(True, True)] * is_told

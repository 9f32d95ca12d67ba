"""Windows become files, however they are batched."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from videoload.plan.plan import BatchInfo
from videoload.predictions.stitching import Stitcher, Windows, curve


def infos(counts: list[int], batch: int) -> Iterator[tuple[BatchInfo, np.ndarray]]:
    """Batches of windows of 4 frames, 2 apart, of so many windows a video; the score of a window
    is its number."""
    rows = [(video, window) for video, count in enumerate(counts) for window in range(count)]
    for step, first in enumerate(range(0, len(rows), batch)):
        video, window = np.array(rows[first : first + batch]).T
        frames = 2 * window[:, None] + np.arange(4)
        nothing = np.zeros(len(video), np.int64)
        paths = np.array(["p"] * len(video), object)
        info = BatchInfo(step, video, frames, paths, nothing, nothing, frames / 10)
        yield info, (100 * video + window)[:, None]


def stitched(counts: list[int], batch: int, next_video: int = 0) -> list[Windows]:
    stitcher = Stitcher(next_video)
    done = [w for info, scores in infos(counts, batch) for w in stitcher.add(info, scores)]
    return done + list(stitcher.end(len(counts)))


@given(st.lists(st.integers(0, 7), min_size=1, max_size=6), st.integers(1, 5), st.integers(0, 6))
@settings(max_examples=60)
def test_each_file_gets_its_windows_however_they_are_batched(
    counts: list[int], batch: int, next_video: int
) -> None:
    done = stitched(counts, batch, next_video)
    expected = [v for v, count in enumerate(counts) if count and v >= next_video]
    assert [windows.video for windows in done] == expected
    assert [windows.next_video for windows in done] == [*expected[1:], len(counts)][: len(done)]
    for windows in done:
        numbers = np.arange(counts[windows.video])
        assert windows.scores[:, 0].tolist() == (100 * windows.video + numbers).tolist()
        assert windows.first.tolist() == (2 * numbers).tolist()
        assert windows.last.tolist() == (2 * numbers + 3).tolist()
        np.testing.assert_allclose(windows.start_s, numbers / 5)
        np.testing.assert_allclose(windows.end_s, numbers / 5 + 0.3)


@given(st.integers(1, 12), st.integers(1, 5), st.integers(1, 12))
@settings(max_examples=60)
def test_a_curve_is_the_mean_of_all_windows_that_show_a_frame(
    count: int, hop: int, span: int
) -> None:
    first = hop * np.arange(count)
    last = first + span - 1
    scores = np.random.default_rng(count).normal(size=(count, 2)).astype(np.float32)
    found = curve(scores, first, last)
    for row, frame in zip(found, first, strict=True):
        shown = (first <= frame) & (frame <= last)
        np.testing.assert_allclose(row, scores[shown].mean(axis=0), rtol=1e-5)


def test_a_point_of_a_curve_holds_until_the_next_one_begins() -> None:
    [windows] = stitched([3], 2)
    file = windows.file("a.avi", averaged=True)
    assert file.scores[:, 0].tolist() == [0, 0.5, 1.5]
    np.testing.assert_allclose(file.start_s, [0, 0.2, 0.4])
    np.testing.assert_allclose(file.end_s, [0.2, 0.4, 0.7])
    plain = windows.file("a.avi", averaged=False)
    assert plain.scores[:, 0].tolist() == [0, 1, 2]
    np.testing.assert_allclose(plain.end_s, [0.3, 0.5, 0.7])

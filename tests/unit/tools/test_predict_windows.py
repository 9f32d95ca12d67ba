"""Windows become rows, however they are batched and whatever cannot be decoded."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from videoload.plan.batches import BatchInfo
from videoload.tools.predict_windows import Layout, Stitcher, Windows, curve

Counts = st.lists(st.integers(0, 7), min_size=1, max_size=6)
Lost = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 6)), max_size=4)


def infos(layout: Layout, lost: set[tuple[int, int]]) -> Iterator[BatchInfo]:
    """Batches of windows of 4 frames, 2 apart, without those that are lost."""
    rows = [(v, w) for v, count in enumerate(layout.counts.tolist()) for w in range(count)]
    for step, first in enumerate(range(0, len(rows), layout.size)):
        there = [row for row in rows[first : first + layout.size] if row not in lost]
        if there:
            video, window = np.array(there).T
            frames = 2 * window[:, None] + np.arange(4)
            nothing = np.zeros(len(video), np.int64)
            paths = np.array(["p"] * len(video), object)
            yield BatchInfo(step, video, frames, paths, window, nothing, frames / 10)


def stitched(
    counts: list[int], batch: int, rows: list[int], lost: set[tuple[int, int]] | None = None
) -> list[tuple[int, Windows | None]]:
    layout = Layout(np.array(counts), batch)
    found: list[tuple[int, Windows | None]] = []
    stitcher = Stitcher(layout, rows)
    for steps in layout.runs(rows):
        for info in infos(layout, lost or set()):
            if info.step in steps:
                which = np.flatnonzero(np.isin(info.video, rows))
                scores = 100 * info.video[which] + info.clip[which]
                stitcher.add(info, which, scores[:, None])
                found += stitcher.complete(info.step + 1)
        found += stitcher.complete(steps.stop)
    return found


@given(Counts, st.integers(1, 5), st.sets(st.integers(0, 5)), Lost)
@settings(max_examples=80)
def test_each_row_gets_its_windows_or_is_named_as_incomplete(
    counts: list[int], batch: int, chosen: set[int], lost: set[tuple[int, int]]
) -> None:
    rows = [row for row, count in enumerate(counts) if count and row in chosen]
    done = stitched(counts, batch, rows, lost)
    assert [row for row, _ in done] == rows
    for row, windows in done:
        numbers = np.arange(counts[row])
        if any((row, number) in lost for number in numbers.tolist()):
            assert windows is None
            continue
        assert windows is not None
        assert windows.scores[:, 0].tolist() == (100 * row + numbers).tolist()
        assert windows.first.tolist() == (2 * numbers).tolist()
        assert windows.last.tolist() == (2 * numbers + 3).tolist()
        np.testing.assert_allclose(windows.start_s, numbers / 5)
        np.testing.assert_allclose(windows.end_s, numbers / 5 + 0.3)


@given(Counts, st.integers(1, 5), st.sets(st.integers(0, 5)), Lost)
@settings(max_examples=80)
def test_a_window_has_its_batch_and_its_place_whatever_is_missing(
    counts: list[int], size: int, chosen: set[int], lost: set[tuple[int, int]]
) -> None:
    layout = Layout(np.array(counts), size)
    whole = [(row, window) for row, count in enumerate(counts) for window in range(count)]
    for info in infos(layout, lost):
        for row, window, place in zip(info.video, info.clip, layout.places(info), strict=True):
            assert whole.index((row, window)) == info.step * size + place
    assert sum(layout.length(step) for step in range(-(-len(whole) // size))) == len(whole)
    rows = [row for row, count in enumerate(counts) if count and row in chosen]
    runs = layout.runs(rows)
    steps = {at // size for at, (row, _) in enumerate(whole) if row in rows}
    assert sorted(step for run in runs for step in run) == sorted(steps)
    assert all(one.stop < other.start for one, other in pairwise(runs))


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
    [(_, windows)] = stitched([3], 2, [0])
    assert windows is not None
    file = windows.file("a.avi", averaged=True)
    assert file.scores[:, 0].tolist() == [0, 0.5, 1.5]
    np.testing.assert_allclose(file.start_s, [0, 0.2, 0.4])
    np.testing.assert_allclose(file.end_s, [0.2, 0.4, 0.7])
    plain = windows.file("a.avi", averaged=False)
    assert plain.scores[:, 0].tolist() == [0, 1, 2]
    np.testing.assert_allclose(plain.end_s, [0.3, 0.5, 0.7])

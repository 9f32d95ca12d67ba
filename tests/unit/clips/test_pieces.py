"""Frames, times and samples of a recording in pieces are each given by one piece. Pure."""

from array import array
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoload.clips.pieces import Pieces
from videoload.clips.video_info import VideoInfo

rates = st.sampled_from([Fraction(25), Fraction(30000, 1001), Fraction(20), Fraction(1, 2)])


@st.composite
def infos(draw: st.DrawFn) -> VideoInfo:
    frames = draw(st.integers(1, 40))
    if draw(st.booleans()):
        return VideoInfo(frames, draw(rates), 64, 48)
    steps = draw(st.lists(st.floats(0.01, 2), min_size=frames - 1, max_size=frames - 1))
    times = [0.0, *np.cumsum(steps).tolist()]
    fps = Fraction(frames - 1) / Fraction(times[-1]) if times[-1] else Fraction(25)
    return VideoInfo(frames, fps, 64, 48, times=array("d", times) if frames > 1 else None)


@given(st.lists(infos(), min_size=1, max_size=6), st.data())
def test_each_frame_is_of_one_piece(videos: list[VideoInfo], data: st.DataObject) -> None:
    pieces = Pieces(videos)
    assert pieces.info.num_frames == sum(video.num_frames for video in videos)
    some = st.integers(-1, pieces.info.num_frames - 1)
    frames = np.array(data.draw(st.lists(some, min_size=1, max_size=20)), np.int64)
    runs = pieces.runs(frames)
    assert [number for run in runs for number in range(*run.place.indices(len(frames)))] == [
        *range(len(frames))
    ]
    for run in runs:
        of_all = frames[run.place]
        assert ((run.frames == -1) == (of_all == -1)).all()
        shown = run.frames >= 0
        assert (run.frames[shown] + pieces.firsts[run.piece] == of_all[shown]).all()
        assert (run.frames < videos[run.piece].num_frames).all()
        assert shown.any() or (frames == -1).all()  # no piece is read for nothing
    assert all(a.piece != b.piece for a, b in pairwise(runs))


@given(st.lists(infos(), min_size=1, max_size=6))
def test_times_go_on_where_a_piece_ends(videos: list[VideoInfo]) -> None:
    pieces, ends = Pieces(videos), 0.0
    times = pieces.info.times_of(np.arange(pieces.info.num_frames))
    for video, first in zip(videos, pieces.firsts, strict=False):
        own = times[first : first + video.num_frames]
        expected = ends + video.times_of(np.arange(video.num_frames))
        np.testing.assert_allclose(own, expected, atol=1e-6)
        ends += video.file_summary[1]
    assert (np.diff(times) > 0).all()
    assert pieces.info.file_summary[0] == len(times)


@given(st.lists(st.tuples(st.integers(1, 40), rates), min_size=1, max_size=5), st.data())
def test_each_sample_is_of_one_piece(
    videos: list[tuple[int, Fraction]], data: st.DataObject
) -> None:
    pieces = Pieces([VideoInfo(frames, fps, 64, 48) for frames, fps in videos])
    rate = data.draw(st.sampled_from([8000, 44_100]))
    begin = data.draw(st.fractions(-1, 100, max_denominator=1000))
    found = pieces.stretches(begin, 5000, rate)
    assert sum(each.samples for each in found) == 5000
    assert [each.piece for each in found] == sorted({each.piece for each in found})
    at = 0
    for piece, own, samples in found:
        assert own + pieces.begins_s[piece] == begin + Fraction(at, rate)
        if piece:
            assert own >= -Fraction(1, 2 * rate)
        if piece < len(videos) - 1:
            length = pieces.begins_s[piece + 1] - pieces.begins_s[piece]
            assert own + Fraction(samples, rate) <= length + Fraction(1, 2 * rate) + Fraction(
                1, rate
            )
        at += samples


def test_what_all_pieces_tell_is_told_of_the_recording() -> None:
    exact = Pieces([VideoInfo(100, Fraction(30000, 1001), 64, 48)] * 3).info
    assert (exact.num_frames, exact.fps, exact.times) == (300, Fraction(30000, 1001), None)
    first = VideoInfo(10, Fraction(25), 64, 48)
    mixed = Pieces([first, VideoInfo(5, Fraction(), 64, 48)]).info
    assert (mixed.fps, mixed.times) == (Fraction(), None)
    assert Pieces([first, first._replace(begin_stream_s=None)]).info.begin_stream_s is None
    assert Pieces([first, first]).info.keys is None
    some = first._replace(keys=np.array([0, 7]).tobytes())
    found = Pieces([some, mixed._replace(num_frames=2), some]).info
    assert found.key_frames.tolist() == [0, 7, 10, 11, 12, 19]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"width": 32}, ["32x48", "64x48"]),
        ({"quarter_turns": 3}, ["64x48", "270"]),
        ({"mirrored": True}, ["64x48", "mirrored"]),
        ({"fps": Fraction(30), "cut": (0, 0, 0, 2)}, []),
    ],
)
def test_pieces_have_frames_of_one_size(other: dict[str, Any], words: list[str]) -> None:
    first = VideoInfo(10, Fraction(25), 64, 48)
    found = Pieces([first, first, first._replace(**other)]).misfit()
    assert bool(found) == bool(words)
    number, told = found or (2, "")
    assert number == 2
    assert all(word in told for word in words)

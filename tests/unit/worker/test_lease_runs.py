"""The clips of a lease, by their videos."""

from __future__ import annotations

from videoload.decoding.decoder import Request
from videoload.transport.messages import Clip
from videoload.worker.lease_runs import requests, runs


def test_neighbours_of_the_same_video_are_one_run() -> None:
    clips = [Clip(path, seed) for seed, path in enumerate("aabaccc")]
    assert list(runs(clips)) == [(0, 2), (2, 3), (3, 4), (4, 7)]
    assert list(runs([])) == []


def test_a_request_says_all_that_a_clip_does() -> None:
    assert requests([Clip("a", 7, 2, 10, 20), Clip("a", 8)]) == [
        Request(7, 2, 10, 20), Request(8, 0, 0, None),
    ]  # fmt: skip

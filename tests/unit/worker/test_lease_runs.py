"""A lease's clips, by their videos."""

from __future__ import annotations

from videoload.decoding.decoder import Request
from videoload.spec.clips import ClipSpec
from videoload.transport.messages import Clip, Lease
from videoload.worker.lease_runs import requests, runs

SPEC, OTHER = (ClipSpec(frames=4, size=(8, 8), stride=stride) for stride in (1, 2))


def lease(paths: str, which: list[int] | None = None) -> Lease:
    clips = [Clip(path, seed) for seed, path in enumerate(paths)]
    return Lease.of(1, SPEC, clips, None, [OTHER] if which else [], which or [])


def test_clips_in_a_row_of_one_video_are_one_run() -> None:
    assert list(runs(lease("aabcca"))) == [(0, 2), (2, 3), (3, 5), (5, 6)]


def test_clips_that_are_cut_by_other_specs_are_another_run() -> None:
    assert list(runs(lease("aaaa", [0, 0, 1, 0]))) == [(0, 2), (2, 3), (3, 4)]


def test_a_request_has_all_that_a_clip_says_but_its_path() -> None:
    assert requests([Clip("a.avi", 5, 1, 10, 40, 2)]) == [Request(5, 1, 10, 40, 2)]

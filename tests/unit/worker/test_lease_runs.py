"""The clips of a lease are grouped by their videos, and failures are named."""

import resource
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.limits import limited
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.rows import Clip, Video
from videoload.clips.sample_spec import one_clip
from videoload.errors import (
    Fault,
    ShortVideoError,
    TransformError,
    UnreadableError,
    VideoError,
    WorkerError,
)
from videoload.wire.messages import Failed, Lease
from videoload.worker.lease_runs import failure, look_ahead, runs

SPEC = ClipSpec(frames=4, size=(8, 8))


def lease(paths: str) -> Lease:
    return Lease(
        1, one_clip(SPEC), [Clip(seed, row=Video(path)) for seed, path in enumerate(paths)]
    )


def test_consecutive_clips_of_one_video_are_one_run() -> None:
    assert list(runs(lease("aabcca"))) == [(0, 2), (2, 3), (3, 5), (5, 6)]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (VideoError("a", "is cut off"), Failed(1, 0, "is cut off")),
        (ShortVideoError("a", "is short"), Failed(1, 0, "is short", Fault.SHORT)),
        (TransformError("no such function"), Failed(1, 0, "no such function", Fault.FUNCTION)),
        (UnreadableError("a", "is away"), Failed(1, 0, "is away", Fault.UNREAD)),
        (KeyError("x"), Failed(1, 0, "KeyError: 'x'")),
    ],
)
def test_a_failure_says_why_the_clip_cannot_be_decoded(error: Exception, said: Failed) -> None:
    assert failure(lease("a"), 0, error) == said


def test_no_clip_is_blamed_while_no_descriptor_is_left() -> None:
    with socket.socket() as last:
        most = last.fileno() + 4
    with limited(resource.RLIMIT_NOFILE, most):
        with pytest.raises(WorkerError, match="open files"):
            failure(lease("a"), 0, VideoError("a", "Too many open files"))
        assert failure(lease("a"), 0, TransformError("it leaks")).fault is Fault.FUNCTION
    assert failure(lease("a"), 0, VideoError("a", "is cut off")).reason == "is cut off"


class Expecting:
    """Stands for a decoder of remote files, and notes what it is told to prefetch."""

    def __init__(self, *, fetches: bool = True) -> None:
        self.storage = SimpleNamespace(fetches=fetches)
        self.asked: list[tuple[Any, ...]] = []

    def prefetch(self, *asked: Any) -> None:
        self.asked.append(asked)


def test_a_waiting_lease_is_expected_once() -> None:
    decoder: Any = Expecting()
    waiting = lease("aab")
    trainer: Any = SimpleNamespace(leases=[waiting], expected=-1)
    look_ahead([trainer], lambda _: decoder)
    look_ahead([trainer], lambda _: decoder)
    assert decoder.asked == [
        ("a", waiting.task, waiting.clips[:2]), ("b", waiting.task, waiting.clips[2:]),
    ]  # fmt: skip


def test_nothing_is_expected_of_local_files() -> None:
    decoder: Any = Expecting(fetches=False)
    trainer: Any = SimpleNamespace(leases=[lease("a")], expected=-1)
    look_ahead([trainer], lambda _: decoder)
    assert decoder.asked == []

"""A worker process that notes when it did what: `python -m benchmarks.stamped FD`.

It is the real worker. When it ends, it writes a JSON file into the folder that VIDEOLOAD_STAMPS
names: name -> CLOCK_MONOTONIC of the first time (the same clock in all processes of a host), and
lists of [from, to] for what happens more than once, up to its first answer.
"""

import time

BEGAN = time.monotonic()  # before any other import

import json  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import ParamSpec, TypeVar  # noqa: E402
from unittest import mock  # noqa: E402

from videoload.decoding.video_clips import VideoClips  # noqa: E402
from videoload.index import index  # noqa: E402
from videoload.transport.messages import Hello, Lease, Result  # noqa: E402
from videoload.worker import worker  # noqa: E402
from videoload.worker.trainer_connection import TrainerConnection  # noqa: E402

_P = ParamSpec("_P")
_T = TypeVar("_T")

FIRST = {"began": BEGAN, "imported": time.monotonic()}
SPANS: dict[str, list[tuple[float, float]]] = {"indexes": [], "clips": []}


def _timed(name: str, call: Callable[_P, _T]) -> Callable[_P, _T]:
    """Wrap a function: until the first answer, each call of it is noted."""

    def timed(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        began = time.monotonic()
        try:
            return call(*args, **kwargs)
        finally:
            if "answered" not in FIRST:
                SPANS[name].append((began, time.monotonic()))

    return timed


def _noted(which: dict[type, str], call: Callable[_P, _T]) -> Callable[_P, _T]:
    """Wrap a function: its first call with such a message is noted."""

    def noted(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        for message in args:
            if (name := which.get(type(message))) is not None:
                FIRST.setdefault(name, time.monotonic())
        return call(*args, **kwargs)

    return noted


def main() -> int:
    """The worker's own entry, watched."""
    say = _noted({Hello: "hello", Result: "answered"}, TrainerConnection.say)
    take = _noted({Lease: "lease"}, TrainerConnection._take)
    with (
        mock.patch.object(TrainerConnection, "say", say),
        mock.patch.object(TrainerConnection, "_take", take),
        mock.patch("videoload.index.indexes.find_index", _timed("indexes", index.find_index)),
        mock.patch.object(VideoClips, "_decode", _timed("clips", VideoClips._decode)),
    ):
        status = worker.main()
    note = Path(os.environ["VIDEOLOAD_STAMPS"], f"{os.getpid()}.json")
    note.write_text(json.dumps(FIRST | SPANS))
    return status


if __name__ == "__main__":
    sys.exit(main())

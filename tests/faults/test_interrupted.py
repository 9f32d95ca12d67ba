"""A Ctrl-C that strikes a reader between any two of its steps: its slot comes back, and the stream
is read as if nothing had happened."""

import gc
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Self

import pytest

from tests.support.digests import digests
from tests.support.processes import arena_maps
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until
from videoload import Client, ClipSpec, Count, Stream, decode_serially
from videoload.engine import open_streams, readers
from videoload.wire import slots

CLIP = ClipSpec(frames=4, resize=36, size=(32, 32), sampling="random", clips_per_video=4)
BATCH = 4
STRUCK = {module.__file__ for module in (readers, open_streams, slots)}


class Strike:
    """Raises Ctrl-C at the ``at``-th place in the code of readers where the interpreter checks for
    it: at the beginning of a function, and at the end of a call of a function that is not in
    Python, when its work is done and its result is lost."""

    def __init__(self, at: int) -> None:
        self._left = at

    def __enter__(self) -> Self:
        sys.setprofile(self._see)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, arg: object) -> None:
        if event in ("call", "c_return") and frame.f_code.co_filename in STRUCK:
            self._left -= 1
            if not self._left:
                sys.setprofile(None)
                raise KeyboardInterrupt


def interrupted(source: Stream, at: int) -> bool:
    """Read two batches and raise Ctrl-C meanwhile; returns False if they were read before that."""
    try:
        with Strike(at):
            reader: Iterator[object] = source.batches()
            for _ in range(2):
                next(reader)
    except KeyboardInterrupt:
        return True
    return False


def test_ctrl_c_between_any_two_steps_of_a_run_leaves_no_memory(
    videos: Videos, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)
    task = Count(CLIP)
    with Client(workers=1, cache=False) as client:
        client.wait_for_workers(1, timeout_s=60 * SECOND)

        def is_interrupted(at: int) -> bool:
            results = client.run(task, videos.catalog)
            try:
                with Strike(at):
                    assert len(list(results)) == len(videos.catalog)
            except KeyboardInterrupt:
                return True
            return False

        before, at = len(arena_maps()), 0
        while is_interrupted(at := at + 1):
            pass
        assert at > 30, "places were seen"
        gc.collect()
        wait_until(lambda: len(arena_maps()) == before, 60 * SECOND, "no run has memory any more")
        assert len(list(client.run(task, videos.catalog))) == len(videos.catalog)


def test_ctrl_c_between_any_two_steps_of_a_reader_loses_no_slot(
    videos: Videos, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An exception in a finalizer is printed. pytest would keep it, and with its frames the reader.
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)
    expected = digests(decode_serially(videos.catalog, CLIP, BATCH, info=True))
    with Client(workers=1) as client:
        client.wait_for_workers(1, timeout_s=60 * SECOND)
        source = client.stream(videos.catalog, CLIP, BATCH, slots=3)
        at = 0
        while interrupted(source, at := at + 1):
            pass
        gc.collect()
        assert at > 30, "places were seen"
        loans = source.source.loans  # a tick finds those whose end was interrupted
        wait_until(lambda: not loans, 60 * SECOND, "no slot is lent any more")
        copied = source.stats().copied
        got: list[str] = []

        def read() -> None:
            got.extend(digests(source.batches(info=True)))

        reader = threading.Thread(target=read, daemon=True)  # with no slot left, it never ends
        reader.start()
        wait_until(lambda: not reader.is_alive(), 60 * SECOND, "all slots came back")
        assert got == expected
        assert source.stats().copied == copied, "one slot is lost"

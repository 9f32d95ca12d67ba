"""A Ctrl-C that strikes a reader between any two of its steps: its slot comes back, and the stream
is read as if nothing had been."""

from __future__ import annotations

import dis
import gc
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from tests.digests import digests
from tests.videos import Videos
from tests.waiting import SECOND, wait_until
from videoload import Client, ClipSpec, Stream, decode_serially
from videoload.trainer import open_streams, stream
from videoload.transport import slots

CLIP = ClipSpec(frames=4, resize=36, size=(32, 32), sampling="random", clips_per_video=4)
BATCH = 4
STRUCK = {module.__file__ for module in (stream, open_streams, slots)}


# After these instructions the interpreter looks for signals.
LOOKS = ("CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD", "RESUME")


class Strike:
    """A KeyboardInterrupt at the ``at``-th place that this thread comes to, in the code of readers,
    where the interpreter would raise one."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __enter__(self) -> Strike:
        sys.settrace(self._enter)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code.co_filename not in STRUCK:
            return None
        frame.f_trace_opcodes = True
        names = {i.offset: i.opname for i in dis.get_instructions(frame.f_code)}
        before = ""

        def step(frame: FrameType, event: str, arg: object) -> Any:
            nonlocal before
            if event == "opcode":
                self.left -= before in LOOKS
                before = names[frame.f_lasti]
                if self.left == 0:
                    self.left = -1
                    sys.settrace(None)
                    raise KeyboardInterrupt
            return step

        return step


def interrupted(source: Stream, at: int) -> bool:
    """Read two batches, and be struck meanwhile; False if that was over before."""
    try:
        with Strike(at):
            reader: Iterator[object] = source.batches()
            for _ in range(2):
                next(reader)
    except KeyboardInterrupt:
        return True
    return False


@pytest.mark.slow
@pytest.mark.timeout(100 * SECOND)
def test_ctrl_c_between_any_two_steps_of_a_reader_loses_no_slot(videos: Videos) -> None:
    expected = digests(decode_serially(videos.catalog, CLIP, BATCH, info=True))
    with Client(workers=1) as client:
        client.wait_for_workers(1, timeout_s=20 * SECOND)
        source = client.stream(videos.catalog, CLIP, BATCH, slots=2)
        at = 0
        while interrupted(source, at := at + 1):
            pass
        gc.collect()
        assert at > 50, "places were seen"
        got: list[str] = []

        def read() -> None:
            got.extend(digests(source.batches(info=True)))

        reader = threading.Thread(target=read, daemon=True)  # with no slot left, it never ends
        reader.start()
        wait_until(lambda: not reader.is_alive(), 20 * SECOND, "both slots came back")
        assert got == expected
        assert source.stats().copied == 0, "one slot is lost"

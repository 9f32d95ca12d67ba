"""Waiting for conditions, in one unit of time, or while something else runs."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# All waiting in these tests uses this unit. A slow machine scales it: 2 waits twice as long.
SECOND = float(os.environ.get("VIDEOLOAD_TEST_SECOND", "1"))

_LOOK_S = 0.01


def wait_until(condition: Callable[[], object], timeout_s: float, what: str = "") -> None:
    """Check again and again until ``condition()`` is true. Raises TimeoutError if it takes longer
    than ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s:g} s: {what or condition}")
        time.sleep(_LOOK_S)


@contextmanager
def in_background(job: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run ``job`` in a thread until the block is left."""
    over = threading.Event()
    thread = threading.Thread(target=job, args=(over,))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()

"""Waiting: in one unit, and for conditions."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

# All waiting in these tests is in this unit; a slow machine scales it (2 is twice as patient).
SECOND = float(os.environ.get("VIDEOLOAD_TEST_SECOND", "1"))

_LOOK_S = 0.01


def wait_until(condition: Callable[[], object], timeout_s: float, what: str = "") -> None:
    """Look again and again until ``condition()`` is true. Raises TimeoutError if it takes longer
    than ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s:g} s: {what or condition}")
        time.sleep(_LOOK_S)

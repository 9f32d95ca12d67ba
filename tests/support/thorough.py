"""How much of what could be tried for hours is tried."""

from __future__ import annotations

import os

_THOROUGH = bool(os.environ.get("VIDEOLOAD_TEST_THOROUGH"))


def either(usual: int, thorough: int) -> int:
    """A count: ``usual``, or ``thorough`` where VIDEOLOAD_TEST_THOROUGH is set, as every night. The
    usual one still meets every case; the thorough one meets them more often."""
    return thorough if _THOROUGH else usual

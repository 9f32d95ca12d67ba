"""How often tests repeat what could be tried for hours."""

from __future__ import annotations

import os

_THOROUGH = bool(os.environ.get("VIDEOLOAD_TEST_THOROUGH"))


def either(usual: int, thorough: int) -> int:
    """A count: ``usual``, or ``thorough`` if VIDEOLOAD_TEST_THOROUGH is set, as every night. The
    usual count still covers every case; the thorough one repeats them more often."""
    return thorough if _THOROUGH else usual

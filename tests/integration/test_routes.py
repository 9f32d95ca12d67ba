"""What comes out of a broken file depends on its bytes alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.routes import compare


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_broken_files_come_out_the_same_by_all_ways(tell: Callable[[str], None]) -> None:
    counts, differing = compare(700)
    tell(f"{dict(counts)}, {len(differing)} differ")
    assert not differing
    assert min(counts["proven"], counts["decoded"], counts["refused"]) > 50, "hardly looked at"

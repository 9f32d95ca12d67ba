"""Complaints that may come by the thousand fill no log."""

from __future__ import annotations

import logging

import pytest

from videoload.engine.rate_limited_log import RateLimitedLog


def test_complaints_are_told_once_a_second_with_their_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    complaints = RateLimitedLog(logging.getLogger("videoload.test"))
    for now in (0.0, 0.1, 0.2, 0.9):
        complaints.add(f"noise at {now}", now)
    complaints.tell(0.95)
    assert caplog.messages == ["noise at 0.0"]
    complaints.tell(1.0)
    complaints.tell(5.0)
    complaints.add("noise at 6", 6.0)
    assert caplog.messages[1:] == ["noise at 0.9 (and 2 more since the last line)", "noise at 6"]

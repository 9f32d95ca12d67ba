"""Thousands of warnings fill no log."""

from __future__ import annotations

import logging

import pytest

from videoload.engine.rate_limited_log import RateLimitedLog


def test_warnings_are_logged_once_a_second_with_their_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    warnings = RateLimitedLog(logging.getLogger("videoload.test"))
    for now in (0.0, 0.1, 0.2, 0.9):
        warnings.add(f"noise at {now}", now)
    warnings.tell(0.95)
    assert caplog.messages == ["noise at 0.0"]
    warnings.tell(1.0)
    warnings.tell(5.0)
    warnings.add("noise at 6", 6.0)
    assert caplog.messages[1:] == ["noise at 0.9 (and 2 more since the last line)", "noise at 6"]


def test_the_same_warning_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    warnings = RateLimitedLog(logging.getLogger("videoload.test"))
    for now in range(0, 121, 5):  # two workers that are refused again and again
        warnings.add("a is refused", now)
        warnings.add("b is refused", now + 2)
    lines = [line.partition(" (")[0] for line in caplog.messages]
    assert lines == ["a is refused", "b is refused"] * 3

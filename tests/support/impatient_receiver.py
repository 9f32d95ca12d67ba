"""A receiver that gives up sooner than usual, for tests that wait for it: ``python -m
tests.support.impatient_receiver``, instead of `videoload.receivers.process`."""

from __future__ import annotations

from unittest import mock

from tests.support.waiting import SECOND
from videoload.receivers import process

if __name__ == "__main__":
    with mock.patch.multiple(process, _SILENCE_S=1.0 * SECOND, _ANSWER_S=1.5 * SECOND):
        process.main()

"""Receivers are killed if they hang, and not if this process stood still."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.support.waiting import SECOND, wait_until
from videoload.receivers.pool import Receivers


@pytest.fixture
def receivers() -> Iterator[Receivers]:
    made = Receivers()
    made.open(1, {}, has_keys=False)
    try:
        yield made
    finally:
        made.close()


def works(receivers: Receivers) -> bool:
    """Whether the receiver has said that it works."""
    list(receivers.read({end.fileno() for end in receivers.watched()}))
    return bool(receivers._working)


def test_a_receiver_does_not_count_as_hung_because_this_process_was_stopped(
    receivers: Receivers,
) -> None:
    wait_until(lambda: works(receivers), 30 * SECOND)
    [receiver] = receivers._receivers
    began = time.monotonic()
    list(receivers.keep(began))
    list(
        receivers.keep(began + 60)
    )  # as if this process had been stopped, or a thread held the GIL
    assert receiver.process.status is None
    for number in range(1, 20):  # it says nothing for ten seconds more, in which this one works
        list(receivers.keep(began + 60 + 0.5 * number))
    assert receiver.process.wait(30 * SECOND) is not None
    list(receivers.keep(began + 70))
    assert receivers._receivers != [receiver], "another one takes its place"

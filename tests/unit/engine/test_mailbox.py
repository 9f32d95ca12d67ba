"""Calls for another thread."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator

import pytest

from videoload.engine.mailbox import Mailbox


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    made = Mailbox()
    yield made
    made.close()


def is_woken(mailbox: Mailbox) -> bool:
    return bool(select.select([mailbox.socket], [], [], 0)[0])


def test_calls_are_made_in_their_order(mailbox: Mailbox) -> None:
    made: list[int] = []
    for i in range(3):
        mailbox.post(lambda i=i: made.append(i))  # type: ignore[misc]
    assert len(mailbox) == 3
    mailbox.make_calls()
    assert made == [0, 1, 2]
    assert not mailbox


def test_it_wakes_who_polls_once(mailbox: Mailbox) -> None:
    assert not is_woken(mailbox)
    for _ in range(3):
        mailbox.post(list)
    assert is_woken(mailbox)
    mailbox.woken()
    assert not is_woken(mailbox)


def test_what_can_wait_wakes_nobody(mailbox: Mailbox) -> None:
    made: list[int] = []
    mailbox.post(lambda: made.append(1), wake=False)
    assert not is_woken(mailbox)
    mailbox.make_calls()
    assert made == [1]


def test_a_call_that_a_call_leaves_has_its_turn_next_time(mailbox: Mailbox) -> None:
    made: list[int] = []

    def again() -> None:
        made.append(len(made))
        mailbox.post(again)

    mailbox.post(again)
    mailbox.make_calls()
    assert made == [0]
    assert len(mailbox) == 1


def test_a_flood_that_nobody_reads_blocks_nobody(mailbox: Mailbox) -> None:
    for _ in range(100_000):
        mailbox.post(list)
    assert len(mailbox) == 100_000


def test_once_closed_it_keeps_nothing(mailbox: Mailbox) -> None:
    mailbox.post(list)
    mailbox.close()
    assert not mailbox
    mailbox.post(list)
    assert not mailbox


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forks_copy_leaves_it_alone(mailbox: Mailbox) -> None:
    child = os.fork()
    if not child:
        mailbox.post(list)
        os._exit(len(mailbox))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not is_woken(mailbox)

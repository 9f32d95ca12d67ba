"""Limits of connections: bytes between two messages, time until HELLO, and their number."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.thorough import either
from videoload.wire.limits import Limits

KB, MB = 1 << 10, 1 << 20


def limits(*connected: int, most: int = 100) -> Limits:
    made = Limits(most)
    for number in connected:
        made.connected(number, 0.0)
    return made


NOTHING = {1: 0, 2: 0}  # came on two connections


def test_a_worker_may_send_the_answers_to_its_leases() -> None:
    workers = limits(1, 2)
    workers.admitted(1)
    workers.granted(1, 40 * MB, leases=2)
    workers.granted(1, 1)  # one of another stream: the larger one may be on its way
    assert workers.judge({1: 121 * MB, 2: 0}, 1.0) == {}
    workers.left(1, 1.0)
    assert workers.judge({1: 121 * MB, 2: 0}, 1.0) == {}, "its last answer is on its way"
    assert workers.judge({1: 121 * MB + 1, 2: 0}, 1.0).keys() == {1}


def test_a_part_of_an_answer_is_a_sign_of_life() -> None:
    workers = limits(1, 2)
    workers.judge({1: 0, 2: 100}, 1.0)
    assert workers.growing() == [2]
    assert workers.growing() == [], "it was reported before"
    workers.judge({1: 1, 2: 100}, 1.1)
    workers.judge({1: 1, 2: 100}, 1.2)
    assert workers.growing() == [1], "since the last call, not since the last look"


def test_a_connection_without_hello_is_closed_and_a_worker_says_it_once() -> None:
    connected = limits(1, 2)
    connected.admitted(1)
    assert connected.judge(NOTHING, 15.0) == {}
    assert connected.judge(NOTHING, 15.1).keys() == {2}
    connected.left(1, 20.0)
    assert connected.judge(NOTHING, 35.0) == {}
    assert connected.judge(NOTHING, 35.1).keys() == {1}


def test_the_oldest_strangers_make_room() -> None:
    crowd = Limits(3)
    for number in range(5):
        crowd.connected(number, float(number))
    crowd.admitted(0)
    assert crowd.judge({}, 5.0).keys() == {1, 2}
    assert crowd.judge({}, 5.0) == {}, "closed connections do not count"


def test_connections_that_were_not_looked_at_keep_their_counts() -> None:
    workers = limits(1, 2)
    workers.judge({1: 100, 2: 100}, 1.0)
    assert workers.growing() == [1, 2]
    workers.completed(1)
    assert workers.judge({2: 200}, 1.1) == {}
    assert workers.growing() == [2]
    assert workers.judge({1: 100 + 64 * KB, 2: 200}, 1.2) == {}, "its message counts at its look"


@pytest.mark.parametrize("what", ["completed", "admitted", "disconnected"])
def test_an_unknown_connection_is_ignored(what: str) -> None:
    nobody = limits()
    getattr(nobody, what)(7)
    nobody.left(7, 1.0)
    nobody.granted(7, MB)
    assert len(nobody) == 0
    assert 7 not in nobody
    assert nobody.judge({7: 10 * MB}, 1.0) == {}


@settings(max_examples=either(30, 100))
@given(st.lists(st.tuples(st.integers(0, 200 * KB), st.booleans())))
def test_a_stranger_never_holds_more_than_its_share_of_memory(
    turns: list[tuple[int, bool]],
) -> None:
    # Bytes that came between two looks are kept only if they were there at the first look.
    stranger, received, unfinished = limits(1), 0, 0
    for more, completed in turns:
        received += more
        unfinished += more
        if completed:
            stranger.completed(1)
            unfinished = 0
        assert (1 in stranger.judge({1: received}, 0.0)) == (unfinished > 64 * KB)
        if unfinished > 64 * KB:
            break

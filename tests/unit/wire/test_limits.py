"""Limits of connections: bytes between two messages, time until HELLO, and their number."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.thorough import either
from videoload.wire.limits import Connection, judge

KB, MB = 1 << 10, 1 << 20


class Connected:
    """Connections from a time on, known by their numbers."""

    def __init__(self, *since: float, most: int = 100) -> None:
        self.all, self.most = [Connection(each) for each in since], most

    def judged(self, received: dict[int, int], now: float) -> set[int]:
        """The connections to close, after so many bytes on those that were looked at."""
        looked_at = {self.all[number]: count for number, count in received.items()}
        found = judge(self.all, looked_at, self.most, now)
        assert all(found.values())
        return {self.all.index(each) for each in found}

    def growing(self) -> list[int]:
        return [number for number, each in enumerate(self.all) if each.take_growth()]


NOTHING = {0: 0, 1: 0}  # came on two connections


def test_a_worker_may_send_the_answers_to_its_leases() -> None:
    workers = Connected(0.0, 0.0)
    worker = workers.all[0]
    worker.admitted()
    worker.granted(40 * MB, leases=2)
    worker.granted(1)  # one of another stream: the larger one may be on its way
    assert workers.judged({0: 121 * MB, 1: 0}, 1.0) == set()
    worker.left(1.0)
    assert workers.judged({0: 121 * MB, 1: 0}, 1.0) == set(), "its last answer is on its way"
    assert workers.judged({0: 121 * MB + 1, 1: 0}, 1.0) == {0}


def test_a_part_of_an_answer_is_a_sign_of_life() -> None:
    workers = Connected(0.0, 0.0)
    workers.judged({0: 0, 1: 100}, 1.0)
    assert workers.growing() == [1]
    assert workers.growing() == [], "it was reported before"
    workers.judged({0: 1, 1: 100}, 1.1)
    workers.judged({0: 1, 1: 100}, 1.2)
    assert workers.growing() == [0], "since the last call, not since the last look"


def test_a_connection_without_hello_is_closed_and_a_worker_says_it_once() -> None:
    connected = Connected(0.0, 0.0)
    connected.all[0].admitted()
    assert connected.judged(NOTHING, 15.0) == set()
    assert connected.judged(NOTHING, 15.1) == {1}
    connected.all[0].left(20.0)
    assert connected.judged(NOTHING, 35.0) == set()
    assert connected.judged(NOTHING, 35.1) == {0}


def test_the_oldest_strangers_make_room() -> None:
    crowd = Connected(*map(float, range(5)), most=3)
    crowd.all[0].admitted()
    assert crowd.judged({}, 5.0) == {1, 2}
    assert crowd.judged({}, 5.0) == set(), "closed connections do not count"


def test_connections_that_were_not_looked_at_keep_their_counts() -> None:
    workers = Connected(0.0, 0.0)
    workers.judged({0: 100, 1: 100}, 1.0)
    assert workers.growing() == [0, 1]
    workers.all[0].completed = True
    assert workers.judged({1: 200}, 1.1) == set()
    assert workers.growing() == [1]
    received = {0: 100 + 64 * KB, 1: 200}
    assert workers.judged(received, 1.2) == set(), "its message counts at its look"


@settings(max_examples=either(30, 100))
@given(st.lists(st.tuples(st.integers(0, 200 * KB), st.booleans())))
def test_a_stranger_never_holds_more_than_its_share_of_memory(
    turns: list[tuple[int, bool]],
) -> None:
    # Bytes that came between two looks are kept only if they were there at the first look.
    strangers, received, unfinished = Connected(0.0), 0, 0
    for more, completed in turns:
        received += more
        unfinished += more
        if completed:
            strangers.all[0].completed = True
            unfinished = 0
        assert bool(strangers.judged({0: received}, 0.0)) == (unfinished > 64 * KB)
        if unfinished > 64 * KB:
            break

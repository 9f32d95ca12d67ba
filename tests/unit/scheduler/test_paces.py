"""How quick a worker is taken to be, and how much the workers are asked for at once."""

import math

import pytest

from tests.support.desk import Desk, PlayedWorker, local
from videoload.scheduler import events


class Measured:
    """A worker beside another one, "quick", which says that a clip takes 0.1 s."""

    def __init__(
        self,
        *took_s: float,
        is_local: bool = True,
        trip_s: float = 0.0,
        came_s: float = 0.0,
        credit: int = 1,
    ) -> None:
        """It says that its clips took so long. The answers come after that, and a round trip, or
        even later."""
        workers = local("quick"), PlayedWorker("measured", is_local)
        desk = Desk(*workers, credit=credit, batch=1, slots=999, videos=999, frame_s=math.inf)
        desk.start(steps=999)
        for seconds in took_s:
            for _ in range(40):
                desk.answer("quick", clip_s=0.1)
            desk.now += max(seconds + trip_s, came_s)
            desk.heard("quick", "measured")
            desk.tell(events.Tick())
            desk.answer("measured", clip_s=seconds)
        desk.wait(0.25, "quick", "measured")
        self.pace = desk.workers["measured"].pace.value
        self.holds = len(desk.leases["measured"])


def test_a_pace_is_known_after_three_leases_and_guessed_before() -> None:
    assert Measured(0.2, 0.2).pace == 10
    assert Measured(0.2, 0.2, 0.2).pace == pytest.approx(2, rel=0.01)
    assert Measured(0.0, 0.0, 0.0).pace == 10, "that measures nothing"


@pytest.mark.parametrize(
    ("took_s", "pace"),
    [
        ([*[0.1] * 5, 3.0], 1.75),  # it counts as four times what is known, which is not slow
        ([*[0.1] * 5, 3.0, 3.0], 1.75 * 1.75),
        ([*[0.1] * 5, 0.3], 1.5),  # no leap
        ([3.0, 3.0, 3.0], 30),  # nothing is known of it before
        ([0.1] * 3, 1),
    ],
)
def test_one_long_lease_makes_no_worker_slow_and_two_in_a_row_do(
    took_s: list[float], pace: float
) -> None:
    assert Measured(*took_s).pace == pytest.approx(pace, rel=0.02)


def test_a_worker_is_no_quicker_than_its_answers_come() -> None:
    assert Measured(*[0.01] * 4, came_s=1.0).pace == pytest.approx(10, rel=0.02)


@pytest.mark.parametrize(("took_s", "holds"), [(0.1, 2), (0.19, 2), (0.21, 1)])
def test_a_worker_that_takes_twice_as_long_as_the_quick_ones_has_one_lease_at_a_time(
    took_s: float, holds: int
) -> None:
    assert Measured(*[took_s] * 5, credit=2).holds == holds


@pytest.mark.parametrize(
    ("trip_ms", "lease_ms", "more"),
    [
        *[(0.3, 50, 0), (10, 50, 0), (20, 50, 1), (50, 50, 2), (100, 50, 4), (100, 400, 0)],
        *[(1, 2, 1), (1000, 100, 20), (10_000, 1e-6, 32), (10_000, 0, 0)],
    ],
)
def test_a_worker_holds_twice_what_fills_a_round_trip(
    trip_ms: float, lease_ms: float, more: int
) -> None:
    """It holds no more than a socket has room for, and no more before it is measured."""
    far = Measured(*[lease_ms / 1000] * 8, is_local=False, trip_s=trip_ms / 1000)
    assert far.holds == 1 + more

"""Every pass is the next epoch, unless it was only a look."""

import pytest

from videoload.plan.epoch_cursor import EpochCursor


@pytest.mark.parametrize(
    ("taken", "then"),
    [(0, 0), (1, 0), (2, 0), (3, 10), (9, 10), (10, 10)],
)
def test_a_pass_counts_from_its_third_batch_on(taken: int, then: int) -> None:
    cursor = EpochCursor(10)
    own = cursor.begin()
    assert own.steps == range(10)
    for step in range(taken):
        own.taken(step)
    assert cursor.begin().steps == range(then, then + 10)
    assert cursor.step == taken


@pytest.mark.parametrize("size", [1, 2])
def test_a_short_pass_counts_when_it_is_complete(size: int) -> None:
    cursor = EpochCursor(size)
    for epoch in range(3):
        for step in range(size):
            own = cursor.begin()
            assert own.steps.start == epoch * size, "the pass before was only a look"
            for each in own.steps[: step + 1]:
                own.taken(each)


def test_a_state_is_followed_by_the_rest_of_its_epoch_and_whole_ones() -> None:
    cursor = EpochCursor(10)
    cursor.go_to(13)
    for expected in (range(13, 20), range(20, 30)):
        own = cursor.begin()
        assert own.steps == expected
        for step in own.steps:
            own.taken(step)


def test_two_passes_at_the_same_time_are_one_epoch() -> None:
    cursor = EpochCursor(4)
    one, other = cursor.begin(), cursor.begin()
    for step in range(4):
        one.taken(step)
        other.taken(step)
    assert cursor.begin().steps == range(4, 8)
    late = cursor.begin()
    for step in cursor.begin().steps:
        late.taken(step)
    one.taken(3)  # a slow consumer of an old pass
    assert cursor.begin().steps == range(8, 12)


def test_passes_of_a_length_follow_each_other() -> None:
    cursor = EpochCursor(10, 5, 15)
    own = cursor.begin()
    assert own.steps == range(5, 20)
    for step in range(5, 8):
        own.taken(step)
    assert cursor.begin().steps == range(20, 35)


@pytest.mark.parametrize(
    ("ranks", "taken", "is_told"), [(2, 3, True), (1, 3, False), (2, 2, False), (2, 10, False)]
)
def test_one_of_several_ranks_is_told_once_that_it_left_a_pass_early(
    ranks: int, taken: int, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    cursor = EpochCursor(10, ranks=ranks)
    for _ in range(2):
        own = cursor.begin()
        for step in own.steps[:taken]:
            own.taken(step)
    cursor.begin()
    assert len(caplog.records) == is_told
    assert all("ranks" in record.getMessage() for record in caplog.records)

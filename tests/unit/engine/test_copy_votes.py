"""Which copy of a video a stream uses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from videoload.engine.copy_votes import MISSING, CopyVotes

GOOD, BAD, WORSE = 11, 12, 13


def test_the_trainers_own_copy_decides() -> None:
    copies = CopyVotes(3)
    assert copies.judge(1, GOOD) is None
    assert copies.to_ask_own([1, 1, 2]) == [1, 2]
    assert copies.to_ask_own([1]) == [], "it was asked already"
    assert copies.vote(1, "a", BAD, ["a", "b"]) == [], "nobody votes before it has answered"
    assert not copies.own(1, GOOD)
    assert copies.judge(1, GOOD) is True
    assert copies.judge(1, BAD) is False
    assert copies.judge(2, GOOD) is None


def without_own(video: int = 0) -> CopyVotes:
    copies = CopyVotes(1)
    copies.to_ask_own([video])
    copies.own(video, MISSING)
    return copies


def test_a_single_copy_is_used() -> None:
    copies = without_own()
    assert copies.vote(0, "a", GOOD, ["a"]) == []
    assert copies.judge(0, GOOD) is True


def test_two_other_copies_are_asked_and_the_majority_wins() -> None:
    copies = without_own()
    assert copies.vote(0, "a", BAD, ["a", "b", "c", "d"]) == ["b", "c"]
    assert copies.judge(0, BAD) is None
    assert copies.vote(0, "b", GOOD, ()) == []
    assert copies.judge(0, BAD) is None
    copies.vote(0, "c", GOOD, ())
    assert copies.judge(0, BAD) is False
    assert copies.judge(0, GOOD) is True


def test_without_a_majority_the_first_copy_wins() -> None:
    copies = without_own()
    assert copies.vote(0, "a", GOOD, ["a", "b"]) == ["b"]
    copies.vote(0, "b", BAD, ())
    assert copies.judge(0, GOOD) is True
    assert copies.judge(0, BAD) is False


def test_a_copy_without_the_file_has_no_vote() -> None:
    copies = without_own()
    copies.vote(0, "a", BAD, ["a", "b", "c"])
    copies.vote(0, "b", MISSING, ())
    copies.vote(0, "c", MISSING, ())
    assert copies.judge(0, BAD) is True


def test_a_copy_that_left_is_not_waited_for() -> None:
    copies = without_own()
    assert copies.vote(0, "a", GOOD, ["a", "b"]) == ["b"]
    copies.left("b")
    assert copies.judge(0, GOOD) is True


def test_an_own_file_that_may_have_changed_is_asked_once_more() -> None:
    copies = CopyVotes(2)
    copies.to_ask_own([0])
    copies.own(0, GOOD)
    assert copies.judge(0, BAD) is False
    assert copies.to_ask_again([0]) == [0]
    assert copies.own(0, BAD), "it has changed"
    assert copies.judge(0, BAD) is True
    assert copies.to_ask_again([0]) == []


def test_an_own_file_that_vanishes_changes_nothing() -> None:
    copies = CopyVotes(1)
    copies.own(0, GOOD)
    assert not copies.own(0, MISSING)
    assert copies.judge(0, GOOD) is True


@given(
    files=st.dictionaries(
        st.sampled_from("abcde"), st.sampled_from([GOOD, BAD, WORSE]), min_size=1
    ),
    order=st.randoms(use_true_random=False),
)
def test_in_any_order_of_answers_exactly_one_copy_is_used(
    files: dict[str, int], order: object
) -> None:
    copies = without_own()
    first = next(iter(files))
    pending = copies.vote(0, first, files[first], list(files))
    assert len(pending) == min(2, len(files) - 1)
    while pending:
        order.shuffle(pending)  # type: ignore[attr-defined]
        name = str(pending.pop())
        assert copies.vote(0, name, files[name], list(files)) == []
    assert sum(bool(copies.judge(0, file)) for file in (GOOD, BAD, WORSE)) == 1
    used = next(file for file in (GOOD, BAD, WORSE) if copies.judge(0, file))
    assert used in files.values()

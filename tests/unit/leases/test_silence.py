"""Whether a silent worker is killed, and whether what it is at is to blame."""

from __future__ import annotations

from videoload.leases.silence import Look, Silence

STALL_S = 10.0


def looked_at(*looks: Look) -> Silence:
    silence = Silence()
    for look in looks:
        silence.look(look)
    return silence


def is_over(
    silence: Silence, silent_s: float = STALL_S + 1, *, has_work: bool = True, alone: bool = False
) -> bool:
    """Whether it is at the second time that it is asked: once is not enough."""
    one, two = (
        silence.is_over(silent_s, STALL_S, has_work=has_work, is_alone=alone) for _ in range(2)
    )
    assert two or not one
    return two


def test_one_that_burns_is_killed_at_the_second_look_and_its_clip_is_to_blame() -> None:
    silence = looked_at(Look(5.0, blocked=False), Look(7.0, blocked=False))
    assert not silence.is_over(11, STALL_S, has_work=True, is_alone=True)
    assert silence.is_over(11, STALL_S, has_work=True, is_alone=True)
    assert not silence.blameless


def test_one_that_rests_is_killed_where_others_get_on_and_blames_nothing() -> None:
    asleep = Look(5.0, blocked=False), Look(5.0, blocked=False)
    assert not is_over(looked_at(*asleep), alone=True), "it is the storage, or the host"
    silence = looked_at(*asleep)
    assert is_over(silence)
    assert silence.blameless


def test_one_that_does_neither_is_waited_for_but_not_for_ever() -> None:
    slow = Look(5.0, blocked=False), Look(5.5, blocked=False)
    assert not is_over(looked_at(*slow))
    assert is_over(looked_at(*slow), STALL_S + 61)


def test_one_that_sleeps_though_its_storage_answers_hangs() -> None:
    silence = looked_at(Look(5.0, blocked=False))
    silence.storage_answered()
    assert not is_over(silence, alone=True), "nobody had asked"
    assert silence.asks_storage()
    assert not silence.asks_storage(), "once is enough"
    silence.storage_answered()
    assert is_over(silence, alone=True)
    assert not silence.blameless


def test_who_is_blocked_may_wait_for_its_disk() -> None:
    silence = looked_at(Look(5.0, blocked=True), Look(5.0, blocked=True))
    assert not silence.asks_storage()
    assert not is_over(silence, alone=True)


def test_who_has_nothing_to_do_or_cannot_be_looked_at_is_over_at_once() -> None:
    assert Silence().is_over(11, STALL_S, has_work=True, is_alone=True)
    idle = looked_at(Look(5.0, blocked=False))
    assert idle.is_over(11, STALL_S, has_work=False, is_alone=True)


def test_an_import_has_a_minute_more_and_blames_nothing() -> None:
    silence = Silence()
    silence.broken(importing=True)
    assert not is_over(silence, STALL_S + 59)
    assert is_over(silence, STALL_S + 61)
    assert silence.blameless


def test_what_is_heard_or_excused_begins_anew() -> None:
    silence = looked_at(Look(5.0, blocked=False), Look(7.0, blocked=False))
    silence.excuse()
    assert not is_over(silence, alone=True), "what it burnt before says nothing"
    silence = looked_at(Look(5.0, blocked=False), Look(7.0, blocked=False))
    silence.broken()
    silence.look(Look(7.0, blocked=False))
    assert not is_over(silence, alone=True)

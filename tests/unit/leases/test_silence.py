"""When a silent local worker is killed, and whether its clip is to blame."""

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
    """Whether the worker is killed at the second look. One look is not enough."""
    one, two = (
        silence.is_over(silent_s, STALL_S, has_work=has_work, is_alone=alone) for _ in range(2)
    )
    assert two or not one
    return two


def test_a_worker_that_burns_cpu_is_killed_at_the_second_look_and_its_clip_is_to_blame() -> None:
    silence = looked_at(Look(5.0, blocked=False), Look(7.0, blocked=False))
    assert not silence.is_over(11, STALL_S, has_work=True, is_alone=True)
    assert silence.is_over(11, STALL_S, has_work=True, is_alone=True)
    assert not silence.blameless


def test_a_worker_that_rests_is_killed_if_others_are_heard_of_and_blames_nothing() -> None:
    asleep = Look(5.0, blocked=False), Look(5.0, blocked=False)
    assert not is_over(looked_at(*asleep), alone=True), "it is the storage, or the host"
    silence = looked_at(*asleep)
    assert is_over(silence)
    assert silence.blameless


def test_a_worker_that_does_neither_is_waited_for_but_not_for_ever() -> None:
    slow = Look(5.0, blocked=False), Look(5.5, blocked=False)
    assert not is_over(looked_at(*slow))
    assert is_over(looked_at(*slow), STALL_S + 61)


def test_a_worker_that_sleeps_although_its_storage_answers_hangs() -> None:
    silence = looked_at(Look(5.0, blocked=False))
    silence.storage_answered()
    assert not is_over(silence, alone=True), "nobody had asked"
    assert silence.asks_storage()
    assert not silence.asks_storage(), "once is enough"
    silence.storage_answered()
    assert is_over(silence, alone=True)
    assert not silence.blameless


def test_a_blocked_worker_may_wait_for_its_disk_while_that_does_not_answer() -> None:
    silence = looked_at(Look(5.0, blocked=True), Look(5.0, blocked=True))
    assert silence.asks_storage()
    assert not is_over(silence, alone=True)
    silence.storage_answered()
    assert is_over(silence, alone=True), "a read of this one file does not return"
    assert not silence.blameless


def test_a_stopped_worker_tells_nothing_of_its_storage_or_its_clip() -> None:
    stopped = Look(5.0, blocked=True, stopped=True)
    silence = looked_at(stopped, stopped)
    assert not silence.asks_storage()
    assert not is_over(silence, alone=True)
    assert is_over(silence)
    assert silence.blameless


def test_a_worker_without_work_or_without_a_look_is_killed_at_once() -> None:
    assert Silence().is_over(11, STALL_S, has_work=True, is_alone=True)
    idle = looked_at(Look(5.0, blocked=False))
    assert idle.is_over(11, STALL_S, has_work=False, is_alone=True)


def test_an_import_may_take_a_minute_more_and_blames_nothing() -> None:
    silence = Silence()
    silence.heard("import")
    assert not is_over(silence, STALL_S + 59)
    assert is_over(silence, STALL_S + 61)
    assert silence.blameless


def test_a_message_begins_a_silence_anew() -> None:
    silence = looked_at(Look(5.0, blocked=False), Look(7.0, blocked=False))
    silence.heard()
    silence.look(Look(7.0, blocked=False))
    assert not is_over(silence, alone=True)

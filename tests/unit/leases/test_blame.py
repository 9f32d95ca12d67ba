"""Clips that cannot be decoded or take their workers down, and which worker is believed."""

from __future__ import annotations

import pytest

from tests.support.desk import STALL_S, Desk, Given, Seen, given, grants, passed_over
from videoload.errors import Fault, SpecError, TooManyBadVideos, TransformError, VideoError
from videoload.leases.commands import Grant, Pause, Stop

# Clips that cannot be decoded


def test_a_failed_clip_is_replaced_and_its_chunk_granted_again() -> None:
    desk = Desk("A")
    [first] = grants(desk.start(steps=range(1)))
    planned = desk.plans[0][0]
    other = desk.plans[0].substitute(planned[2])
    [again] = grants(desk.fail(first, at=2))
    assert again == Grant("A", 2, 0, 0, range(4), (planned[0], planned[1], other, planned[3]))
    assert desk.answer(again) == [Given(10, 0, 0)]
    assert desk.ready[10, 0].samples == again.samples
    assert desk.quarantines[0].videos == [("v2.avi", "broken")]


def test_a_failed_chunk_may_go_to_another_worker() -> None:
    desk = Desk("A", credit=1)
    [first] = grants(desk.start(steps=range(1)))
    desk.leave("A")
    [first] = grants(desk.join("B"))
    desk.join("C")
    [again] = grants(desk.fail(first))
    assert again.worker == "C"
    assert desk.leave("C") == [Grant("B", 4, 0, 0, range(4), again.samples)]


def test_known_bad_videos_are_replaced_before_they_are_granted() -> None:
    desk = Desk("A", credit=1)
    [first] = grants(desk.start(steps=range(2)))
    desk.quarantines[0].add(5, "found elsewhere")
    [second] = grants(desk.answer(first))
    planned = desk.plans[0][1]
    other = desk.plans[0].substitute(planned[1])
    assert second.samples == (planned[0], other, planned[2], planned[3])


def test_all_known_bad_videos_of_a_failed_chunk_are_replaced_at_once() -> None:
    desk = Desk("A")
    [first] = grants(desk.start(steps=range(1)))
    desk.quarantines[0].add(1, "found elsewhere")
    [again] = grants(desk.fail(first, at=3))
    assert [sample.attempt for sample in again.samples] == [0, 1, 0, 1]


def test_known_bad_videos_are_replaced_before_their_chunk_is_granted_again() -> None:
    desk = Desk("A")
    desk.start(steps=range(1))
    desk.leave("A")
    desk.quarantines[0].add(1, "found elsewhere")
    [again] = grants(desk.join("B"))
    assert [sample.attempt for sample in again.samples] == [0, 1, 0, 0]


def test_the_clips_that_a_silent_worker_decodes_are_not_changed() -> None:
    desk = Desk("a")
    [first] = grants(desk.start(steps=range(1)))
    desk.wait(3)
    desk.quarantines[0].add(1, "found elsewhere")
    [again] = grants(desk.join("b"))
    assert again.samples == first.samples
    assert desk.answer(first) == [Given(10, 0, 0)]
    assert desk.ready[10, 0].samples == first.samples


def test_a_dropped_video_is_replaced_but_not_counted() -> None:
    desk = Desk("A")
    [first] = grants(desk.start(steps=range(1)))
    [again] = grants(desk.fail(first, at=0, fault=Fault.SHORT))
    assert again.samples[0] == desk.plans[0].substitute(first.samples[0])
    assert desk.quarantines[0].videos == []


@pytest.mark.parametrize("at", [4, -1, 99])
def test_if_a_failure_names_no_clip_of_the_lease_its_first_clip_failed(at: int) -> None:
    desk = Desk("A")
    [first] = grants(desk.start(steps=range(1)))
    [again] = grants(desk.fail(first, at=at))
    assert [sample.attempt for sample in again.samples] == [1, 0, 0, 0]
    assert desk.quarantines[0].videos == [("v0.avi", f"worker named clip {at} of 4: broken")]


def test_a_failure_makes_other_leases_of_the_chunk_void() -> None:
    desk = Desk()
    desk.start(steps=range(1))
    first, again = passed_over(desk)
    [third] = grants(desk.fail(first))
    assert third.samples != again.samples
    assert desk.is_void(again)
    assert desk.answer(again) == []
    assert desk.answer(third) == [Given(10, 0, 0)]


def stop_of(commands: list[Seen]) -> Stop:
    [stop] = [command for command in commands if isinstance(command, Stop)]
    return stop


def test_too_many_bad_videos_stop_the_stream() -> None:
    desk = Desk("A", videos=100)
    lease, other = grants(desk.start())
    desk.start(11)
    for _ in range(3):
        lease = grants(desk.fail(lease))[0]
    commands = desk.fail(lease)
    stop = stop_of(commands)
    assert commands == [stop]
    assert stop.stream == 0
    assert isinstance(stop.error, TooManyBadVideos)
    assert len(stop.error.videos) == 4
    assert desk.is_void(other)
    assert desk.answer(other) == desk.want() == desk.wait(1, "A") == []


def test_a_stopped_stream_passes_no_turns() -> None:
    desk = Desk("a", credit=9, on_error="raise")
    first = grants(desk.start(10, steps=range(3)))
    desk.answer(first[0])
    other, last = grants(desk.start(11, steps=range(2)))
    desk.want(10)
    desk.answer(other)  # so reader 10 would have its turn
    stop_of(desk.fail(last))
    assert desk.wait(1, "a") == []


def test_a_fatal_failure_stops_the_stream_and_blames_no_video() -> None:
    desk = Desk("A", "b")
    desk.stream(1)
    leases = grants(desk.start())
    assert desk.start(20, stream=1) == []
    failure = "m:f: division by zero"
    desk.fail(leases[0], 0, failure, Fault.FUNCTION)
    commands = desk.answer(*(lease for lease in leases if (lease.slot, lease.rows[0]) == (0, 2)))
    error = stop_of(commands).error
    assert isinstance(error, TransformError)
    assert str(error) == failure
    assert {lease.stream for lease in grants(commands)} == {1}
    assert all(map(desk.is_void, leases))
    assert desk.quarantines[0].videos == []


@pytest.mark.parametrize("what", ["bad, raise", "too many bad", "fatal"])
def test_a_failure_ahead_ends_the_stream_at_its_own_batch_and_no_earlier(what: str) -> None:
    on_error = "raise" if what == "bad, raise" else "substitute"
    desk = Desk("A", credit=4, on_error=on_error, videos=100)
    first, second, third, fourth = grants(desk.start(steps=range(4)))
    commands: list[Seen] = []
    if what == "fatal":
        commands += desk.fail(third, 0, "1 / 0", Fault.FUNCTION)
    failing = third
    for _ in range(0 if what == "fatal" else 4):  # 3 may be bad
        commands += (seen := desk.fail(failing))
        failing = grants(seen)[0]
    assert not given(commands)
    assert not any(isinstance(command, Stop) for command in commands)
    commands = desk.decode_and_see(first, second, failing, fourth)
    assert given(commands) == [Given(10, 0, first.slot), Given(10, 1, second.slot)]
    error = stop_of(commands).error
    expected = {"bad, raise": VideoError, "too many bad": TooManyBadVideos, "fatal": TransformError}
    assert type(error) is expected[what]
    if isinstance(error, VideoError):
        assert error.path == "v8.avi"


def test_of_two_bad_clips_of_a_batch_the_first_one_is_named() -> None:
    desk = Desk("A", "B", "C", "D", credit=1, on_error="raise")
    leases = {lease.rows[0]: lease for lease in grants(desk.start(steps=range(1)))}
    commands = desk.fail(leases[3])
    commands += desk.fail(leases[1])
    assert not any(isinstance(command, Stop) for command in commands)
    error = stop_of(desk.answer(leases[0]) + desk.answer(*grants(commands), leases[2])).error
    assert isinstance(error, VideoError)
    assert error.path == "v1.avi"


# Clips that are left out


def test_a_skipped_clip_leaves_its_row_empty() -> None:
    desk = Desk("A", on_error="skip")
    [first] = grants(desk.start(steps=range(1)))
    again = grants(desk.fail(first, at=1))
    planned = desk.plans[0][0]
    assert [(lease.rows[0], lease.samples) for lease in again] == [
        (0, (planned[0],)), (2, (planned[2], planned[3])),
    ]  # fmt: skip
    assert desk.answer(*again) == [Given(10, 0, 0)]
    ready = desk.ready[10, 0]
    assert ready.samples == (planned[0], planned[2], planned[3])
    assert ready.rows == (0, 2, 3)


def test_a_known_bad_video_is_left_out_from_the_start() -> None:
    desk = Desk("A", on_error="skip")
    desk.quarantines[0].add(2, "broken")
    [lease] = grants(desk.start(steps=range(1)))
    planned = desk.plans[0][0]
    assert lease.samples == (planned[0], planned[1], planned[3])
    assert desk.answer(lease) == [Given(10, 0, 0)]
    assert desk.ready[10, 0].rows is None


@pytest.mark.parametrize("known", [False, True])
def test_an_empty_batch_is_handed_over_in_its_turn(known: bool) -> None:
    desk = Desk("A", on_error="skip", batch=1, credit=3)
    if known:
        desk.quarantines[0].add(1, "broken")
    leases = grants(desk.start(steps=range(3)))
    if not known:
        assert desk.fail(leases.pop(1)) == []
    first, third = leases
    assert [lease.samples[0].video for lease in leases] == [0, 2]
    assert desk.answer(third) == []
    assert [ready.step for ready in given(desk.answer(first))] == [0, 1, 2]
    assert desk.ready[10, 1].samples == ()


def test_a_stream_that_only_skips_hands_over_empty_batches_and_idles() -> None:
    desk = Desk("A", on_error="skip", videos=8, batch=4)
    for video in range(3):
        desk.quarantines[0].add(video, "broken")
    desk.quarantines[0].add(3, "short", dropped=True)
    [lease] = grants(seen := desk.start(steps=range(1, 3)))
    assert lease.samples == tuple(desk.plans[0][1])
    assert given(seen) == []
    assert [ready.step for ready in given(desk.answer(lease))] == [1, 2]


def test_a_fatal_failure_of_a_void_lease_stops_nothing() -> None:
    desk = Desk()
    desk.start(steps=range(1))
    first, again = passed_over(desk)
    desk.answer(again)
    assert desk.fail(first, 0, "no", Fault.FUNCTION) == []


def test_on_error_raise_stops_the_stream_at_the_first_bad_video() -> None:
    desk = Desk("A", on_error="raise")
    lease, _ = grants(desk.start())
    [again] = grants(desk.fail(lease, at=1))  # it is not known yet whether clip 0 is good
    error = stop_of(desk.answer(again)).error
    assert isinstance(error, VideoError)
    assert (error.path, error.reason) == ("v1.avi", "broken")


def test_a_stream_of_only_short_videos_stops() -> None:
    desk = Desk("A", videos=1, batch=1)
    [lease] = grants(desk.start())[:1]
    assert isinstance(stop_of(desk.fail(lease, fault=Fault.SHORT)).error, SpecError)


def test_a_stopped_stream_leaves_the_others_alone() -> None:
    desk = Desk("A", credit=1, on_error="raise")
    desk.stream(1)
    [lease] = grants(desk.start(10))
    assert desk.start(20, stream=1) == []
    commands = desk.fail(lease)
    assert grants(commands) == [desk.lease("A", 2, stream=1, slot=0, step=0)]
    assert stop_of(commands).stream == 0


def test_a_stopped_stream_gets_its_slots_back() -> None:
    desk = Desk("A", "B", on_error="raise", slots=4)
    first, second, third, fourth = grants(desk.start())
    desk.fail(first)
    free = desk.table._streams[0].free
    assert len(free) == 2  # those of batches that no worker had begun
    desk.answer(third)
    assert len(free) == 2
    desk.answer(fourth)
    assert len(free) == 3
    desk.die("B")  # was at the second
    assert second.slot in free
    assert sorted(free) == [0, 1, 2, 3]


# Clips that are never answered


def kill(desk: Desk, *workers: str) -> list[Seen]:
    """One after the other, these workers come, begin with the chunk that is first in line, and
    die."""
    commands: list[Seen] = []
    for worker in workers:
        desk.join(worker)
        commands = desk.die(worker)
    return commands


def named(desk: Desk) -> list[str]:
    return [video.path for video in desk.quarantines[0].videos]


def test_the_chunk_that_a_worker_died_over_is_granted_again_clip_by_clip() -> None:
    desk = Desk("A")
    desk.start(steps=range(2))
    desk.die("A")
    leases = desk.decode_all(*desk.join("B"))
    assert [(g.slot, g.rows[0], len(g.samples)) for g in leases] == [
        (1, 0, 4),  # it was waiting, not at work; and a new worker begins with it
        (0, 0, 1), (0, 1, 1), (0, 2, 1), (0, 3, 1),
    ]  # fmt: skip
    assert [desk.ready[10, step].samples for step in range(2)] == [
        tuple(desk.plans[0][step]) for step in range(2)
    ]


@pytest.mark.parametrize("workers", ["ABC", "abc", "AbC"])
def test_a_clip_that_three_workers_died_over_is_bad(workers: str) -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    kill(desk, *workers[:2])
    assert named(desk) == []
    kill(desk, workers[2])
    assert desk.quarantines[0].videos == [("v0.avi", "3 workers died or hung while decoding it")]
    [again] = grants(desk.join("D"))
    assert again.samples == (desk.plans[0].substitute(desk.plans[0][0][0]),)


def test_of_a_chunk_only_the_clip_that_kills_is_bad() -> None:
    desk = Desk()
    desk.start(steps=range(1))
    for turn in range(20):
        worker = f"W{turn}"
        queue = grants(desk.join(worker))
        while queue and not any(s.video == 2 for s in queue[0].samples):
            queue += grants(desk.answer(queue.pop(0)))
        if not queue:
            break
        desk.die(worker)
    assert turn == 3  # one died over the whole chunk, and two over the clip alone
    assert named(desk) == ["v2.avi"]
    assert [s.attempt for s in desk.ready[10, 0].samples] == [0, 0, 1, 0]


def test_a_remote_worker_that_is_silent_for_long_counts_though_others_hold_the_clip() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    desk.join("a", "b", "c", "d", "e", "f", "g", "h")
    desk.wait(3 * STALL_S + 1)
    assert named(desk) == []
    desk = Desk("idle", batch=1, credit=1)
    desk.start(steps=range(2))  # one that is at work on the other batch is heard
    names = [f"w{number}" for number in range(9)]
    desk.join(*names)
    silent: list[str] = []
    for _ in range(4 * 40):
        held = {w for w in names if desk.table.pool.held(w)}
        silent += held - set(silent)
        desk.wait(0.25, "idle", *(w for w in names if w not in silent))
        if named(desk):
            break
    assert named(desk) == ["v1.avi"]
    assert desk.now <= 3 * STALL_S + 3
    assert len(silent) < 9, "while it is tried, it is passed on to nobody"


def test_a_clip_is_passed_on_to_no_more_than_three_silent_workers_before_one_is_noted() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    for worker in "abcd":
        desk.join(worker)
        desk.wait(2.25)
    assert [desk.table.pool.held(worker) for worker in "abcd"] == [1, 1, 1, 0]
    assert [lease.worker for lease in grants(desk.wait(2, "d"))] == ["d"]
    assert desk.now == pytest.approx(STALL_S + 1, abs=1)


def test_the_death_of_a_silent_worker_adds_nothing_to_its_silence() -> None:
    desk = Desk("a", batch=1)
    desk.start(steps=range(1))
    desk.wait(STALL_S + 1)
    desk.die("a")
    kill(desk, "b")
    assert named(desk) == []
    kill(desk, "c")
    assert named(desk) == ["v0.avi"]


def test_workers_that_had_a_clip_before_the_last_one_was_noted_add_nothing() -> None:
    """A clip that takes 14 s: the first worker that had it answers after all."""
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    [first] = grants(desk.join("a"))
    desk.wait(2.5)
    desk.join("b")
    desk.wait(2.5)
    desk.join("c")
    desk.wait(9)
    assert named(desk) == []
    desk.table.heard("a", desk.now)
    assert given(desk.answer(first)) == [Given(10, 0, 0)]


def test_a_remote_worker_that_imports_a_module_may_be_silent_for_a_minute_more() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    for worker in "abc":
        desk.join(worker)
        desk.table.heard(worker, desk.now, 0, busy="import")
        desk.wait(STALL_S + 59)
        assert named(desk) == []
    desk.wait(2 * STALL_S + 63)
    assert named(desk) == []
    kill(desk, "d", "e")
    assert named(desk) == ["v0.avi"]


# Workers that lack a function


def lack(desk: Desk, lease: Grant) -> list[Seen]:
    """The worker of this lease says that it has other code."""
    return desk.fail(lease, 0, "other code", Fault.CODE)


def test_workers_that_lack_a_function_end_no_stream_that_another_can_go_on_with() -> None:
    desk = Desk("a:1", "b:2", "c:3", credit=1, batch=1)
    leases = grants(desk.start(steps=range(3)))
    desk.wait(1, "a:1", "b:2")  # c imports the module
    again = grants(lack(desk, leases[0]))
    again += grants(lack(desk, leases[1]))
    while again:
        commands = lack(desk, again.pop())
        assert not [command for command in commands if isinstance(command, Stop)]
        again += grants(commands)
    desk.wait(9, "a:1", "b:2")
    desk.table.heard("c:3", desk.now)
    assert given(desk.answer(leases[2])) == []
    assert named(desk) == []


@pytest.mark.parametrize("worker", ["a:1", "A"])
def test_a_stream_ends_if_nobody_has_its_function(worker: str) -> None:
    desk = Desk(worker, credit=1, batch=1)
    again = grants(desk.start(steps=range(1)))
    commands: list[Seen] = []
    while again:
        commands = lack(desk, again.pop())
        again += grants(commands)
    if not worker.isupper():
        assert commands == [], "another one may be on its way; the same one is not asked again"
        commands = desk.wait(4, worker)
    [stop] = [command for command in commands if isinstance(command, Stop)]
    assert isinstance(stop.error, TransformError)
    assert str(stop.error) == "other code"


FUNCTION = "augment:bright"


def call(desk: Desk, *workers: str) -> None:
    """These workers say that they call the function, and are silent from then on."""
    for worker in workers:
        desk.table.heard(worker, desk.now, 0, busy="function")


@pytest.mark.parametrize("clip_s", [None, 8.0], ids=["no clip was done", "clips take nearly that"])
@pytest.mark.parametrize("workers", ["ab", "Ab"])
def test_a_function_that_takes_too_long_ends_the_stream_and_condemns_no_clip(
    workers: str, clip_s: float | None
) -> None:
    desk = Desk(batch=1, function=FUNCTION)
    desk.start()
    desk.join(*workers)
    if clip_s is not None:
        desk.answer(*grants(desk.join("c")), clip_s=clip_s)
        desk.leave("c")
    call(desk, *workers)
    assert desk.wait(STALL_S) == [], "no other worker calls it as well"
    commands = desk.wait(2)
    for worker in filter(str.isupper, workers):
        commands += desk.die(worker)
    [stop] = [command for command in commands if isinstance(command, Stop)]
    assert isinstance(stop.error, TransformError)
    assert str(stop.error).startswith(
        "no sign of life for 10 s in transform augment:bright, at several clips: it takes longer "
    )
    assert named(desk) == []


def test_a_clip_at_which_a_quick_function_hangs_is_bad_and_the_function_is_named() -> None:
    desk = Desk(batch=1, function=FUNCTION, videos=2)
    desk.start(steps=range(2))
    first, second = grants(desk.join("a"))
    desk.answer(second, clip_s=0.1)
    for worker in "abc":
        desk.join(worker)
        call(desk, worker)
        desk.wait(STALL_S + 1)
        assert not desk.is_void(first) or worker == "c"
    assert desk.quarantines[0].videos == [
        ("v0.avi", "no sign of life for 10 s in transform augment:bright; see stall_s=")
    ]


def test_a_worker_that_ends_by_itself_in_a_function_did_not_stand_still() -> None:
    desk = Desk(batch=1, function=FUNCTION)
    desk.start(steps=range(1))
    for worker in "abc":
        desk.join(worker)
        call(desk, worker)
        desk.die(worker)
    why = "3 workers died or hung while decoding it, or in transform augment:bright"
    assert desk.quarantines[0].videos == [("v0.avi", why)]


def test_a_worker_that_is_heard_again_takes_its_silence_back() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    for worker in "abcdefgh":
        desk.join(worker)
        desk.wait(STALL_S + 1)
        desk.table.heard(worker, desk.now)
        desk.leave(worker)
    assert named(desk) == []


def test_a_worker_that_is_heard_again_takes_its_silence_back_from_each_clip_of_its_chunk() -> None:
    desk = Desk("a", batch=2)
    desk.start(steps=range(1))
    desk.wait(STALL_S + 1)
    desk.table.heard("a", desk.now)
    desk.leave("a")
    kill(desk, *"BCDE")  # two over each of the two clips
    assert named(desk) == []
    kill(desk, "F")
    assert len(named(desk)) == 1


def test_a_connection_that_ends_takes_no_silence_back() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    for worker in "abc":
        assert named(desk) == []
        desk.join(worker)
        desk.wait(STALL_S + 1)
        desk.table.pool.sends(worker, desk.now)
        desk.die(worker)
    assert named(desk) == ["v0.avi"]


def test_a_stand_in_is_not_blamed_for_the_deaths_before_it() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    kill(desk, *"ABC", *"DE")
    assert len(named(desk)) == 1
    kill(desk, "F")
    assert len(named(desk)) == 2


def test_a_stand_in_for_a_video_found_bad_elsewhere_is_not_blamed_either() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    kill(desk, "A", "B")
    desk.quarantines[0].add(0, "found elsewhere")
    kill(desk, "C", "D")
    assert desk.quarantines[0].videos == [("v0.avi", "found elsewhere")]
    kill(desk, "E")
    assert len(named(desk)) == 2


def test_workers_that_say_bye_blame_nothing() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    for i in range(9):
        desk.join(f"W{i}")
        desk.leave(f"W{i}")
    assert named(desk) == []


def test_a_worker_that_says_what_it_was_at_may_have_lost_the_answer_before_that() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(2))
    _, second = grants(desk.join("A"))
    desk.die("A", at_work=second.lease)
    [first] = grants(desk.join("B"))
    assert first.samples[0].video == 0, "it is not to blame, and goes first"
    [second] = grants(desk.answer(first))
    desk.die("B", at_work=second.lease)
    kill(desk, "C")
    assert named(desk) == ["v1.avi"]


def test_a_death_between_two_leases_blames_neither() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(2))
    for number in range(4):
        assert len(grants(desk.join(f"W{number}"))) == 2
        desk.die(f"W{number}", at_work=0)
    assert named(desk) == []


def test_a_death_over_a_void_lease_blames_nothing() -> None:
    desk = Desk("W", batch=1)
    desk.start(10)
    desk.end(10)
    desk.start(11)
    kill(desk, "A", "B")
    desk.die("W")  # it was at work for reader 10
    assert named(desk) == []


def test_a_death_over_a_void_lease_does_not_blame_the_next_one_either() -> None:
    desk = Desk("W")
    desk.start(10, steps=range(1))
    desk.end(10)
    assert len(grants(desk.start(11))) == 1
    desk.die("W")
    assert [len(lease.samples) for lease in grants(desk.join("A"))] == [4, 4]


# Workers that die for a reason of their own


def test_a_worker_that_has_answered_nothing_begins_with_other_clips() -> None:
    desk = Desk("A", batch=1)
    desk.start(steps=range(4))
    desk.die("A")
    first, second = grants(desk.join("B"))
    assert [lease.samples[0].video for lease in (first, second)] == [1, 2]
    assert grants(desk.answer(first)) == []
    [third] = grants(desk.answer(second))
    assert third.samples[0].video == 0, "it has answered by now"


def test_a_stand_in_for_a_clip_over_which_one_died_is_granted_beside_other_clips() -> None:
    desk = Desk("A", batch=1)
    desk.start(steps=range(4))
    desk.die("A")
    first, _ = grants(desk.join("B"))
    desk.quarantines[0].add(0, "found elsewhere")
    [third] = grants(desk.answer(first))
    assert third.samples == (desk.plans[0].substitute(desk.plans[0][0][0]),)


def test_a_worker_has_nothing_else_while_it_has_a_clip_over_which_one_died() -> None:
    """If it dies as well, it was this clip, and not one whose answer was lost."""
    desk = Desk("a", batch=1, credit=3)
    desk.start(steps=range(9))
    desk.die("a")
    held = grants(desk.join("b"))
    seen = []
    while held:
        seen.append([lease.samples[0].video for lease in held])
        held += grants(desk.answer(held.pop(0)))
    assert seen[0] == [1, 2, 3]
    assert [0] in seen
    assert all(videos == [0] for videos in seen if 0 in videos)


def test_a_clip_over_which_one_died_goes_to_a_worker_that_is_here_for_long() -> None:
    desk = Desk("good", batch=1, credit=1)
    desk.wait(1, "good")
    held = grants(desk.start(steps=range(8)))
    for _ in range(3):
        held = grants(desk.answer(*held))
    for number in range(20):
        kill(desk, f"W{number}")
    assert desk.join("new") == [], "the others died over all that was left"
    assert [lease.worker for lease in desk.decode_all(*held)][1:] == ["good"] * 4
    assert named(desk) == []


def test_a_clip_over_which_one_died_goes_to_another_copy_if_there_is_one() -> None:
    desk = Desk("a:1", "b:1", "c:2", batch=1, credit=1)
    first, second, third = grants(desk.start(steps=range(5)))
    fourth, fifth = grants(desk.answer(second, third))
    desk.die("a:1")
    assert grants(desk.answer(fourth)) == [], "b:1 reads the same copy"
    assert [lease.samples for lease in grants(desk.answer(fifth))] == [first.samples]


def test_a_clip_is_not_blamed_for_a_line_that_broke() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    for i in range(10):
        kill(desk, f"w{i}")
        desk.table.worker_returned(f"w{i}")
    assert named(desk) == []
    kill(desk, "x", "y")
    assert named(desk) == []
    kill(desk, "z")
    assert len(named(desk)) == 1


def test_a_worker_that_returns_takes_no_more_than_its_own_death_back() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    kill(desk, "a", "b")
    for worker in "aaz":
        desk.table.worker_returned(worker)
    kill(desk, "c")
    assert named(desk) == []
    desk.table.worker_returned("a")
    kill(desk, "d")
    assert len(named(desk)) == 1


def test_a_worker_that_returns_too_late_blames_the_stand_in_no_less() -> None:
    desk = Desk(batch=1)
    desk.start(steps=range(1))
    kill(desk, "a", "b", "c")
    assert len(named(desk)) == 1
    desk.table.worker_returned("a")  # there is nothing to take back any more
    kill(desk, "d", "e")
    assert len(named(desk)) == 1
    kill(desk, "f")
    assert len(named(desk)) == 2


def test_remote_workers_that_die_over_all_that_is_open_blame_nothing() -> None:
    desk = Desk(batch=1, slots=4)
    desk.start(steps=range(4))
    for number in range(50):
        desk.now += 1
        desk.table.pool.clock(desk.now)
        kill(desk, f"w{number}")
    assert named(desk) == []


def test_if_most_of_what_is_open_was_decoded_what_is_missing_is_to_blame() -> None:
    desk = Desk("good", batch=1, slots=4)
    first, second = grants(desk.start(steps=range(4)))
    assert first.samples[0].video == 0
    left = grants(desk.answer(second))
    while left:
        left += grants(desk.answer(left.pop()))
    desk.die("good")
    for worker in "bc":
        desk.now += 1
        desk.table.pool.clock(desk.now)
        kill(desk, worker)
    assert named(desk) == ["v0.avi"]


def test_too_many_clips_that_are_never_answered_stop_the_stream() -> None:
    desk = Desk(batch=1, slots=1, on_error="raise")
    desk.start()
    commands = kill(desk, "A", "B", "C")
    assert isinstance(stop_of(commands).error, VideoError)
    assert desk.table._streams[0].free == [0]


# One worker's word


def test_if_one_worker_cannot_decode_a_clip_another_is_asked() -> None:
    desk = Desk("a:1", "b:2", credit=1, batch=4, lease_clips=4, slots=2)
    first, _ = grants(desk.start())
    asked = grants(desk.fail(first, 1))
    assert not desk.quarantines[0].videos
    # The rest of the lease may go to any worker, the doubted clip only to others.
    doubted = first.samples[1]
    assert all(doubted not in lease.samples for lease in asked if lease.worker == "a:1")
    leases = desk.decode_all(*asked)
    assert not desk.quarantines[0].videos
    assert all(lease.worker == "b:2" for lease in leases if doubted in lease.samples) or not leases


def test_two_copies_that_say_the_same_have_the_last_word() -> None:
    desk = Desk("a:1", "b:2", credit=1, batch=1, slots=2)
    one, two = grants(desk.start())
    desk.fail(one)
    commands = desk.answer(two)
    again = next(lease for lease in grants(commands) if lease.samples == one.samples)
    assert again.worker == "b:2"
    desk.fail(again)
    assert [video.path for video in desk.quarantines[0].videos] == ["v0.avi"]


def test_a_worker_of_the_same_copy_is_asked_only_if_there_is_no_other() -> None:
    desk = Desk("a:1", "b:1", "c:2", credit=1, batch=1, slots=3)
    one, two, three = grants(desk.start())
    assert [lease.worker for lease in (one, two, three)] == ["a:1", "b:1", "c:2"]
    desk.fail(one)
    assert all(lease.samples != one.samples for lease in grants(desk.answer(two)))
    again = grants(desk.answer(three))
    assert [lease.worker for lease in again if lease.samples == one.samples] == ["c:2"]

    desk = Desk("a:1", "b:1", credit=1, batch=1, slots=2)
    one, two = grants(desk.start())
    desk.fail(one)
    again = [lease for lease in grants(desk.answer(two)) if lease.samples == one.samples]
    assert [lease.worker for lease in again] == ["b:1"]
    desk.fail(again[0])
    desk.wait(3.0, "a:1", "b:1")
    assert desk.quarantines[0].videos, "no worker is left to ask"


def test_a_worker_is_believed_if_it_is_the_only_one() -> None:
    desk = Desk("a:1", credit=1, batch=1, slots=2)
    desk.wait(3.0, "a:1")
    [one] = grants(desk.start())
    desk.fail(one)
    assert [video.path for video in desk.quarantines[0].videos] == ["v0.avi"]


def test_a_worker_that_has_just_dialled_in_is_not_believed_at_once() -> None:
    desk = Desk("a:1", credit=1, batch=1, slots=2)
    [one] = grants(desk.start())
    desk.fail(one)
    desk.wait(2.75, "a:1")
    assert not desk.quarantines[0].videos
    [again] = [lease for lease in grants(desk.join("b:2")) if lease.samples == one.samples]
    desk.answer(again)
    desk.wait(3.0, "a:1", "b:2")
    assert not desk.quarantines[0].videos

    desk = Desk("a:1", credit=1, batch=1, slots=2)
    [one] = grants(desk.start())
    desk.fail(one)
    desk.wait(3.0, "a:1")
    assert desk.quarantines[0].videos, "no other worker came"


def test_the_trainers_own_copy_has_the_last_word_at_once() -> None:
    desk = Desk("A", "b:2", credit=1, batch=1, slots=2)
    one, _ = grants(desk.start())
    assert one.worker == "A"
    desk.fail(one)
    assert [video.path for video in desk.quarantines[0].videos] == ["v0.avi"]


def test_a_doubted_clip_is_bad_when_no_worker_is_left_to_ask() -> None:
    desk = Desk("a:1", "b:2", credit=1, batch=1, slots=2)
    one, _ = grants(desk.start())
    desk.fail(one)
    desk.leave("b:2")
    assert not desk.quarantines[0].videos
    desk.wait(3.0, "a:1")
    assert [video.path for video in desk.quarantines[0].videos] == ["v0.avi"]


def test_a_doubted_clip_waits_while_no_worker_is_there() -> None:
    desk = Desk("a:1", "b:2", credit=1, batch=1, slots=2)
    one, _ = grants(desk.start())
    desk.fail(one)
    desk.leave("a:1")
    desk.leave("b:2")
    desk.wait(1)
    assert not desk.quarantines[0].videos
    assert any(lease.samples == one.samples for lease in grants(desk.join("c:3")))


def fails_at_everything(desk: Desk, worker: str, seconds: float) -> list[Seen]:
    """A worker fails at all its leases, beside one that decodes all."""
    seen: list[Seen] = []
    open_leases = grants(desk.start(steps=range(10_000)))
    for _ in range(round(seconds * 4)):
        for lease in open_leases:
            if desk.is_void(lease):
                continue
            seen += desk.fail(lease) if lease.worker == worker else desk.answer(lease)
        for step in [step for _, step in desk.ready]:
            batch = desk.ready.pop((10, step))
            seen += desk.slot_back(batch.slot)
        seen += desk.wait(0.25, "good:1", worker)
        open_leases = [lease for lease in grants(seen) if not desk.is_void(lease)]
    return seen


def test_a_worker_that_fails_at_clips_that_others_decode_is_paused_for_longer_each_time() -> None:
    desk = Desk("bad:2", "good:1", credit=2, batch=1, slots=4)
    seen = fails_at_everything(desk, "bad:2", seconds=90)
    pauses = [command for command in seen if isinstance(command, Pause)]
    assert [pause.seconds for pause in pauses] == [2, 4, 8, 16, 32, 60]
    assert {pause.worker for pause in pauses} == {"bad:2"}
    assert not desk.quarantines[0].videos


def test_no_number_of_workers_stops_a_stream_without_a_function_for_its_function() -> None:
    desk = Desk("a:1", "b:2", "c:3", "d:4", credit=1, batch=1, slots=4)
    desk.wait(4, "a:1", "b:2", "c:3", "d:4")
    seen = desk.start(steps=range(1))
    for _ in range(3):
        [lease] = grants(seen)
        seen = desk.fail(lease, 0, "not allowed", Fault.FUNCTION)
    [lease] = grants(seen)
    assert given(desk.answer(lease))


def test_a_fatal_failure_of_one_worker_stops_no_stream() -> None:
    desk = Desk("a:1", "b:2", credit=1, batch=1, slots=2, function="m:f")
    one, two = grants(desk.start())
    seen = desk.fail(one, 0, "not allowed", Fault.FUNCTION)
    assert not any(isinstance(command, Stop) for command in seen)
    again = [lease for lease in grants(desk.answer(two)) if lease.samples == one.samples]
    seen = desk.fail(again[0], 0, "not allowed", Fault.FUNCTION)
    assert any(isinstance(command, Stop) for command in seen)


def test_if_a_local_worker_can_be_asked_no_number_of_others_condemns_a_file() -> None:
    # A worker tells its host and its copy itself, so one liar can be as many as it likes.
    desk = Desk("A", "b:2", "c:3", credit=1, batch=1, slots=3)
    leases = {lease.worker: lease for lease in grants(desk.start())}
    doubted = leases["b:2"].samples
    desk.fail(leases["b:2"])
    asked = [lease for lease in grants(desk.answer(leases["c:3"])) if lease.samples == doubted]
    assert [lease.worker for lease in asked] == ["c:3"]
    desk.fail(asked[0])
    assert not desk.quarantines[0].videos
    asked = [lease for lease in grants(desk.answer(leases["A"])) if lease.samples == doubted]
    assert [lease.worker for lease in asked] == ["A"]
    desk.answer(asked[0])
    assert not desk.quarantines[0].videos


def test_a_refused_answer_counts_against_its_worker_and_another_is_asked() -> None:
    desk = Desk("a:1", "b:2", credit=1, batch=1, slots=2)
    one, two = grants(desk.start())
    desk.fail(one, 0, "another copy", Fault.COPY)
    again = [lease for lease in grants(desk.answer(two)) if lease.samples == one.samples]
    assert [lease.worker for lease in again] == ["b:2"]
    desk.answer(again[0])
    assert not desk.quarantines[0].videos


def test_the_only_worker_is_asked_three_times_if_its_answers_are_refused() -> None:
    desk = Desk("a:1", credit=1, batch=1, slots=2)
    [lease] = grants(desk.start())
    first = lease.samples
    for _ in range(2):
        [lease] = grants(desk.fail(lease, 0, "another copy", Fault.COPY))
        assert lease.samples == first
    desk.fail(lease, 0, "another copy", Fault.COPY)
    assert [video.path for video in desk.quarantines[0].videos] == ["v0.avi"]


# Files that cannot be read now


def unread_for(desk: Desk, seconds: float, lease: Grant) -> tuple[list[Seen], int]:
    """For so long, whoever is asked cannot read the file of this lease. Returns what came last, and
    how often somebody was asked."""
    workers = [str(worker.id) for worker in desk.table.pool.heard_of]
    seen, count, until = desk.fail(lease, 0, "away", Fault.UNREAD), 1, desk.now + seconds
    while desk.now < until and not desk.quarantines[0].videos:
        for again in grants(seen):
            assert again.samples == lease.samples
            desk.fail(again, 0, "away", Fault.UNREAD)
            count += 1
        seen = desk.wait(0.25, *workers)
    return seen, count


@pytest.mark.parametrize("workers", [("A", "B"), ("a:1",), ("a:1", "b:2"), ("A", "b:1")])
def test_a_file_that_workers_cannot_read_now_is_tried_again_and_is_not_bad(
    workers: tuple[str, ...],
) -> None:
    desk = Desk(*workers, credit=1, batch=1)
    [lease] = grants(desk.start(steps=range(1)))
    seen, count = unread_for(desk, 30, lease)
    assert 5 <= count <= 10 * len(workers), "after pauses that grow"
    while not grants(seen):
        seen = desk.wait(0.25, *workers)
    assert desk.answer(*grants(seen)) == [Given(10, 0, 0)]
    assert desk.ready[10, 0].samples == lease.samples
    assert desk.quarantines[0].videos == []
    assert all(not worker.mistakes for worker in desk.table.pool.heard_of)


@pytest.mark.parametrize("workers", [("A", "B"), ("a:1", "b:2")])
def test_a_file_that_no_worker_can_read_for_a_minute_is_bad(workers: tuple[str, ...]) -> None:
    desk = Desk(*workers, credit=1, batch=1)
    [lease] = grants(desk.start(steps=range(1)))
    seen, _ = unread_for(desk, 70, lease)
    assert 60 <= desk.now < 70
    assert desk.quarantines[0].videos == [("v0.avi", "away")]
    assert given(desk.answer(*grants(seen)))


def test_what_can_be_read_again_and_is_broken_is_bad_at_once() -> None:
    desk = Desk("A", batch=1)
    [lease] = grants(desk.start(steps=range(1)))
    desk.fail(lease, 0, "away", Fault.UNREAD)
    [again] = grants(desk.wait(1, "A"))
    desk.fail(again)
    assert desk.quarantines[0].videos == [("v0.avi", "broken")]

"""Clips that cannot be decoded or take their workers down, and which worker is believed."""

import math
from typing import Any

import pytest

from tests.support.desk import STALL_S, TICK_S, Desk, PlayedWorker, local, name_of, remote
from tests.support.stories import (
    Step,
    answers,
    dies,
    dies_between_two_leases,
    each,
    fails,
    fails_with,
    found_elsewhere,
    imports,
    is_asked,
    is_bad,
    is_delivered,
    is_good,
    is_heard,
    is_not_asked,
    joins,
    leaves,
    play,
    returns,
    sends_a_part,
    silence,
    silent_for,
    stalls,
    wait,
)
from videoload.activity import Activity
from videoload.errors import Fault, SpecError, TooManyBadVideos, TransformError, VideoError
from videoload.scheduler.commands import Grant, Stop, Warn

FUNCTION = "augment:bright"


# Clips that cannot be decoded


def attempts(lease: Grant) -> list[int]:
    return [sample.substitution for sample in lease.samples]


@pytest.mark.parametrize(
    ("at", "of", "found_elsewhere"), [(2, 2, None), (3, 3, 1), (4, 0, None), (-1, 0, None)]
)
def test_a_failed_clip_is_replaced_with_all_known_ones_and_its_lease_granted_again(
    at: int, of: int, found_elsewhere: int | None
) -> None:
    """If a failure names no clip of the lease, its first clip failed."""
    desk = Desk(local("A"), steps=1)
    planned = desk.streams[0].plan[0]
    if found_elsewhere is not None:
        desk.streams[0].quarantine.add(found_elsewhere, "found elsewhere")
    desk.fail("A", at=at)
    [again] = desk.granted
    assert attempts(again) == [int(row in (of, found_elsewhere)) for row in range(4)]
    assert again.samples[of] == desk.streams[0].plan.substitute(planned[of])
    desk.answer("A")
    assert desk.ready[10, 0].samples == again.samples
    bad = {video.path: video.reason for video in desk.streams[0].quarantine.videos}
    assert "broken" in bad.pop(f"{of}.avi")
    assert [*bad] == [f"{found_elsewhere}.avi"] * (found_elsewhere is not None)


def test_a_dropped_video_is_replaced_but_not_counted() -> None:
    desk = Desk(local("A"), steps=1)
    desk.fail("A", fault=Fault.SHORT)
    assert attempts(desk.granted[0]) == [1, 0, 0, 0]
    assert desk.bad == []


# The end of a stream


def test_too_many_bad_videos_stop_the_stream() -> None:
    desk = Desk(local("A"), videos=100, steps=9)
    other = desk.granted[1]
    for failures in range(4):
        assert desk.said == [], failures
        desk.fail_lease(min(desk.granted, key=lambda lease: lease.slot))
    error = desk.error()
    assert isinstance(error, TooManyBadVideos)
    assert len(error.videos) == 4
    assert desk.is_void(other)
    desk.answer_all()
    desk.want()
    desk.start(11)
    desk.wait(1, "A")
    assert (desk.ready, desk.granted, desk.take(Stop)) == ({}, [], [])


@pytest.mark.parametrize(
    ("on_error", "failures", "fault", "error"),
    [
        ("raise", 1, Fault.VIDEO, VideoError),
        ("substitute", 4, Fault.VIDEO, TooManyBadVideos),  # 3 may be
        ("substitute", 1, Fault.FUNCTION, TransformError),
    ],
)
def test_a_failure_ahead_ends_the_stream_at_its_own_batch_and_no_earlier(
    on_error: str, failures: int, fault: Fault, error: type[Exception]
) -> None:
    desk = Desk(local("A"), credit=4, on_error=on_error, videos=100, steps=4)
    for _ in range(failures):
        desk.fail_lease(next(lease for lease in desk.granted if lease.slot == 2), 0, fault)
    assert desk.error() is None
    desk.answer_all()
    assert desk.steps() == [0, 1]
    assert desk.error() is None, "nobody has asked for batch 2"
    desk.want()
    ended = desk.error()
    assert type(ended) is error
    assert "broken" in str(ended) or failures > 1
    if isinstance(ended, VideoError):
        assert (ended.path, ended.reason) == ("8.avi", "broken")
    assert desk.bad[:1] == ["8.avi"] * (fault is Fault.VIDEO)


@pytest.mark.parametrize(
    ("on_error", "fault", "error"),
    [
        ("raise", Fault.VIDEO, VideoError),
        ("substitute", Fault.VIDEO, TooManyBadVideos),
        ("substitute", Fault.SHORT, SpecError),
    ],
)
def test_if_all_videos_fail_ahead_the_stream_ends_no_earlier(
    on_error: str, fault: Fault, error: type[Exception]
) -> None:
    desk = Desk(local("A"), on_error=on_error, videos=4, steps=3)
    desk.answer("A")
    while desk.granted:
        desk.fail("A", fault=fault)
    assert (desk.steps(), desk.error()) == ([0], None)
    desk.want()
    assert isinstance(desk.error(), error)


def test_a_file_that_cannot_be_read_is_waited_for_once_and_not_for_each_of_its_rows() -> None:
    # Of the files 0.avi and 1.avi.
    desk = Desk(local("A"), local("B"), videos=40, rows=20, max_bad=1.0, steps=10)
    waits = []
    for step in range(10):
        began = desk.now
        while step not in desk.steps():
            for lease in desk.granted:
                bad = [at for at, sample in enumerate(lease.samples) if sample.video % 2 == 0]
                if bad:
                    desk.fail_lease(lease, bad[0], Fault.UNREAD)
                else:
                    desk.answer_lease(lease)
            desk.wait(0.25, "A", "B")
            assert desk.now < 400
        waits.append(desk.now - began)
        desk.slot_back(step)
        desk.want()
    assert sum(wait > 10 for wait in waits) == 1
    assert 60 <= sum(waits) < 90


def test_of_two_bad_clips_of_a_batch_the_first_one_is_named() -> None:
    desk = Desk(*locals_named("ABCD"), credit=1, slots=4, on_error="raise", steps=1)
    desk.fail("D", "B")
    assert desk.error() is None, "it is not known yet whether clip 0 is good"
    desk.answer_all()
    error = desk.error()
    assert isinstance(error, VideoError)
    assert error.path == "1.avi"


def test_a_stream_of_only_short_videos_stops() -> None:
    desk = Desk(local("A"), videos=1, batch=1, steps=9)
    desk.fail("A", fault=Fault.SHORT)
    assert isinstance(desk.error(), SpecError)


# Clips that are left out


@pytest.mark.parametrize("known", [False, True])
def test_a_skipped_clip_leaves_its_row_empty_unless_it_is_known_from_the_start(known: bool) -> None:
    desk = Desk(local("A"), on_error="skip")
    if known:
        desk.streams[0].quarantine.add(1, "broken")
    desk.start(steps=1)
    if not known:
        desk.fail("A", at=1)
    desk.answer_all()
    ready, planned = desk.ready[10, 0], desk.streams[0].plan[0]
    assert ready.samples == (planned[0], planned[2], planned[3])
    assert ready.rows == (None if known else (0, 2, 3))


def test_a_stream_that_only_skips_hands_over_empty_batches_and_idles() -> None:
    desk = Desk(local("A"), on_error="skip", videos=8)
    for video in range(4):
        desk.streams[0].quarantine.add(video, "broken", Fault.SHORT if video == 3 else Fault.VIDEO)
    desk.start(steps=range(1, 3))
    assert (desk.owes("A"), desk.steps()) == ([[4, 5, 6, 7]], [])
    desk.answer("A")
    assert desk.steps() == [1, 2]


# Stories of video 0: see `tests.support.stories`


def locals_named(names: str) -> list[PlayedWorker]:
    return [local(name) for name in names]


NEVER_ANSWERED: dict[str, list[Step]] = {  # the table in `videoload.scheduler.blame`
    "they die": [
        each([local("A"), "b"], joins, dies),
        is_good,
        each("c", joins, dies),
        is_bad(),
    ],
    "a stand-in is not blamed for what was before it": [
        each(locals_named("ABCXY"), joins, dies),
        is_bad(),
        each(locals_named("Z"), joins, dies),
        is_bad(2),
    ],
    "nor if the video was found to be bad elsewhere": [
        each(locals_named("AB"), joins, dies),
        found_elsewhere,
        each(locals_named("CD"), joins, dies),
        is_bad(),
        each(locals_named("E"), joins, dies),
        is_bad(2),
    ],
    "they are silent": [
        each("ab", joins, stalls),
        is_good,
        each("c", joins, stalls),
        is_bad(),
    ],
    "a death adds nothing to a silence": [
        each("ab", joins, stalls, dies),
        is_good,
        each("c", joins, stalls, dies),
        is_bad(),
    ],
    "that their line ends takes nothing back": [
        each("ab", joins, stalls, sends_a_part, dies),
        is_good,
        each("c", joins, stalls, sends_a_part, dies),
        is_bad(),
    ],
    "they say bye": [
        each([local("A"), "b", local("C"), "d", local("E")], joins, leaves),
        is_good,
    ],
    "they are heard again": [
        each("abcd", joins, stalls, is_heard, leaves),
        is_good,
    ],
    "they come back": [
        each("abcd", joins, dies, returns),
        each("xy", joins, dies),
        is_good,
        each("z", joins, dies),
        is_bad(),
    ],
    "they died between two leases": [
        each([local("A"), "b", local("C"), "d"], joins, dies_between_two_leases),
        is_good,
        each(locals_named("XYZ"), joins, dies),
        is_bad(),
    ],
    "they import": [
        each("a", joins, imports, silent_for(69)),
        is_good,
        each("bc", joins, imports, silent_for(69)),
        is_good,
    ],
    "they imported for too long": [
        each("abc", joins, imports, silent_for(69)),
        silence(83),
        is_good,
        each("de", joins, dies),
        is_bad(),
    ],
    "who returns takes only its own death back": [
        each("ab", joins, dies),
        each("aaz", returns),
        each("c", joins, dies),
        is_good,
        each("a", returns),
        each("d", joins, dies),
        is_bad(),
        each("b", returns),
        each("ef", joins, dies),
        is_bad(),
        each("g", joins, dies),
        is_bad(2),
    ],
    "a silence of workers that had it before the last one was noted": [
        each("abc", joins, silent_for(2.5)),
        silence(6.5),
        is_good,
        each("a", is_heard, answers),
        is_delivered,
    ],
}


@pytest.mark.parametrize("story", NEVER_ANSWERED)
def test_a_clip_that_three_workers_were_at_and_never_answered_is_bad(story: str) -> None:
    play(Desk(batch=1, steps=1), *NEVER_ANSWERED[story])


# Three copies, and the trainer's own.
A, B, C = remote("a", copy="1"), remote("b", copy="2"), remote("c", copy="3")
OWN = local("own")

DOUBTED: dict[str, tuple[list[PlayedWorker], list[Step]]] = {
    "two copies say the same": (
        [A, B],
        [each("a", fails), is_good, each("b", fails), is_bad()],
    ),
    "one of the same copy is asked if there is no other": (
        [A, remote("b", copy="1")],
        [each("ab", fails), wait(3), is_bad()],
    ),
    "another copy is asked first": (
        [A, remote("b", copy="1"), remote("c", copy="2")],
        [each("a", fails), each("b", answers, is_not_asked), each("c", fails), is_bad()],
    ),
    "the only one is believed": (
        [A],
        [each("a", fails), wait(2.75), is_good, wait(0.25), is_bad()],
    ),
    "another one comes": (
        [A],
        [
            each("a", fails),
            wait(2.75),
            is_good,
            each([B], joins, is_asked, answers),
            wait(3),
            is_good,
            is_delivered,
        ],
    ),
    "the trainer's own copy has the last word": (
        [OWN, B],
        [each([OWN], fails), is_bad()],
    ),
    # A worker tells its host and its copy itself, so one liar can be as many as it likes.
    "no number of others has": (
        [B, C, OWN],
        [each("bc", fails), is_good, each([OWN], answers, is_asked, answers), is_good],
    ),
    "nobody is left to ask": (
        [A, B],
        [each("a", fails), each("b", leaves), is_good, wait(3), is_bad()],
    ),
    "nobody is there": (
        [A, B],
        [each("a", fails), each("ab", leaves), wait(1), is_good, each([C], joins, is_asked)],
    ),
}


@pytest.mark.parametrize("story", DOUBTED)
def test_whose_word_about_a_clip_is_believed(story: str) -> None:
    workers, happens = DOUBTED[story]
    play(one_by_one(*workers), *happens)


def test_the_clip_of_a_copy_that_is_another_one_is_tried_three_times() -> None:
    """That may change."""
    is_another = fails_with(Fault.COPY)
    again = [each("a", is_another), is_good]
    play(one_by_one(A), *again, *again, each("a", is_another), is_bad())


def test_a_clip_that_another_copy_has_is_delivered() -> None:
    play(
        one_by_one(A),
        each([B], joins),
        each("a", fails_with(Fault.COPY)),
        each("b", answers, is_asked, answers),
        is_good,
        is_delivered,
    )


def test_a_function_that_fails_for_two_copies_stops_its_stream() -> None:
    happens = each([B], joins), each("ab", fails_with(Fault.FUNCTION))
    desk = play(one_by_one(A, function=FUNCTION), *happens, is_good)
    assert isinstance(desk.error(), TransformError)


def test_a_failure_of_a_function_without_a_function_is_one_of_its_workers() -> None:
    desk = play(
        one_by_one(A),
        each([B], joins),
        each("ab", fails_with(Fault.FUNCTION)),
        each([C], joins, answers),
        is_good,
        is_delivered,
    )
    assert desk.error() is None


lacks_the_code = fails_with(Fault.CODE)
LACKING: dict[str, tuple[list[Step], bool]] = {
    "it waits for another worker": (
        [each("a", lacks_the_code, is_not_asked), wait(2.75), each("a", is_not_asked), is_good],
        False,
    ),
    "nobody else comes": ([each("a", lacks_the_code), wait(4), is_good], True),
    "a third has it": (
        [each([B, C], joins), each("ab", lacks_the_code), each("c", answers, is_asked), is_good],
        False,
    ),
    "a third is silent, for now": (
        [each([B, C], joins), silence(3), each("ab", is_heard, lacks_the_code), wait(5)],
        False,
    ),
    "a third is silent for long": (
        [each([B, C], joins), silence(3), each("ab", is_heard, lacks_the_code), wait(11)],
        True,
    ),
}


@pytest.mark.parametrize("story", LACKING)
def test_a_stream_whose_function_no_worker_has_is_stopped(story: str) -> None:
    happens, stops = LACKING[story]
    desk = play(one_by_one(A, function=FUNCTION), *happens)
    assert isinstance(desk.error(), TransformError) is stops


def one_by_one(*workers: PlayedWorker, **options: Any) -> Desk:
    """Each worker has a lease of one clip, the first one of video 0."""
    return Desk(*workers, **{"credit": 1, "batch": 1, "slots": 4, "steps": 9, **options})


def test_clips_that_a_worker_died_over_are_granted_one_by_one_and_only_the_bad_one_is_bad() -> None:
    desk = Desk(local("A"), steps=2)
    desk.die("A")
    desk.join(local("B"))
    assert [(g.slot, [*g.rows]) for g in desk.answer_all()] == [
        (1, [0, 1, 2, 3]),  # it was waiting, not at work; and a new worker begins with it
        *((0, [row]) for row in range(4)),
    ]  # fmt: skip
    assert [desk.ready[10, step].samples for step in range(2)] == [
        tuple(desk.streams[0].plan[step]) for step in range(2)
    ]
    desk = Desk(steps=1)
    died = 0
    while not desk.steps():
        died += 1
        worker = f"W{died}"
        desk.join(local(worker))
        while desk.owes(worker) and 2 not in desk.owes(worker)[0]:
            desk.answer(worker)
        desk.die(worker)
    assert died == 4, "one died over the whole lease, and two over the clip alone"
    assert desk.bad == ["2.avi"]
    assert [sample.substitution for sample in desk.ready[10, 0].samples] == [0, 0, 1, 0]


def test_a_clip_is_passed_on_to_no_more_than_three_silent_workers_before_one_is_noted() -> None:
    desk = Desk(batch=1, steps=1)
    for worker in "abcd":
        desk.join(worker)
        desk.wait(2.25)
    assert [len(desk.leases[worker]) for worker in "abcd"] == [1, 1, 1, 0]
    while not desk.leases["d"]:
        desk.wait(TICK_S, "d")
    assert desk.now == pytest.approx(STALL_S + 1, abs=1)


def test_a_worker_that_is_heard_again_takes_its_silence_back_from_each_clip_of_its_lease() -> None:
    desk = Desk("a", batch=2, steps=1)
    # Two die over each of the two clips.
    play(
        desk,
        each("a", stalls, is_heard, leaves),
        each(locals_named("BCDE"), joins, dies),
        is_good,
        each(locals_named("F"), joins, dies),
    )
    assert len(desk.bad) == 1


def test_a_worker_that_says_what_it_was_at_may_have_lost_the_answer_before_that() -> None:
    desk = Desk(batch=1, steps=2)
    desk.join(local("A"))
    desk.die("A", at_work=desk.leases["A"][1].lease)
    desk.join(local("B"))
    assert desk.owes("B") == [[0]], "it is not to blame, and goes first"
    desk.answer("B")
    desk.die("B", at_work=desk.leases["B"][0].lease)
    desk.kill(local("C"))
    assert desk.bad == ["1.avi"]


def test_a_death_over_a_void_lease_blames_neither_its_clips_nor_the_next_ones() -> None:
    desk = Desk(local("W"), batch=1, steps=9)
    desk.end()
    desk.start(11)
    desk.kill(local("A"), local("B"))
    desk.die("W")  # it was at work for reader 10
    assert desk.bad == []
    desk = Desk(local("W"), steps=1)
    desk.end()
    desk.start(11)
    assert len(desk.owes("W")) == 1
    desk.die("W")
    desk.join(local("A"))
    assert [len(videos) for videos in desk.owes("A")] == [4, 4]


# Workers that die for a reason of their own


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_worker_that_has_answered_nothing_begins_with_other_clips(is_replaced: bool) -> None:
    desk = Desk(local("A"), batch=1, steps=4)
    desk.die("A")
    desk.join(local("B"))
    assert desk.owes("B") == [[1], [2]]
    if is_replaced:  # nothing speaks against the stand-in
        desk.streams[0].quarantine.add(0, "found elsewhere")
        desk.answer("B")
        assert [attempts(lease) for lease in desk.granted] == [[0], [1]]
        return
    desk.answer("B")
    assert desk.owes("B") == [[2]]
    desk.answer("B")
    assert desk.owes("B") == [[0]], "it has answered by now"


def test_a_worker_has_nothing_else_while_it_has_a_clip_over_which_one_died() -> None:
    """If it dies as well, it was this clip, and not one whose answer was lost."""
    desk = Desk("a", batch=1, credit=3, steps=9)
    desk.answer("a")
    desk.die("a")
    desk.join("b")
    seen = []
    while desk.leases["b"]:
        seen.append(desk.owes("b"))
        desk.answer("b")
    assert seen[0] == [[2], [3], [4]]
    assert [[1]] in seen
    assert all(owed == [[1]] for owed in seen if [1] in owed)


def test_a_clip_over_which_one_died_goes_to_another_copy_if_there_is_one() -> None:
    workers = A, remote("b", copy="1"), remote("c", copy="2")
    desk = Desk(*workers, batch=1, credit=1, steps=5)
    desk.answer("b", "c")
    desk.die("a")
    desk.answer("b")
    assert desk.leases["b"] == [], "it reads the same copy"
    desk.answer("c")
    assert desk.owes("c") == [[0]]


def test_if_most_of_what_is_open_was_decoded_what_is_missing_is_to_blame() -> None:
    desk = Desk("good", batch=1, slots=4, steps=4)
    first = desk.granted[0]
    while left := [lease for lease in desk.granted if lease is not first]:
        desk.answer_lease(left[0])
    desk.die("good")
    for worker in "bc":
        desk.now += 1
        desk.kill(worker)
    assert desk.bad == ["0.avi"]


# The users' functions


@pytest.mark.parametrize("clip_s", [None, 8.0], ids=["no clip was done", "clips take nearly that"])
@pytest.mark.parametrize("first", [remote("a"), local("a")])
def test_a_function_that_takes_too_long_ends_the_stream_and_condemns_no_clip(
    first: PlayedWorker, clip_s: float | None
) -> None:
    desk = Desk(first, "b", batch=1, function=FUNCTION, frame_s=math.inf, steps=9)
    if clip_s is not None:
        desk.join("c")
        desk.answer("c", clip_s=clip_s)
        desk.leave("c")
    desk.beat("a", "b", at=Activity.FUNCTION)
    desk.wait(STALL_S)
    assert (desk.said, [*map(len, desk.leases.values())]) == ([], [2, 2]), "nobody else calls it"
    desk.wait(2)
    if first.is_local:  # it is killed
        desk.die("a")
    error = desk.error()
    assert isinstance(error, TransformError)
    assert FUNCTION in str(error)
    assert "stall_s" in str(error)
    assert desk.bad == []


@pytest.mark.parametrize("ends", [False, True])
def test_a_clip_at_which_a_quick_function_hangs_or_dies_is_bad_and_the_function_is_named(
    ends: bool,
) -> None:
    desk = Desk("a", batch=1, function=FUNCTION, videos=2, steps=2)
    first, second = desk.granted
    desk.answer_lease(second, clip_s=0.1)
    for worker in "abc":
        desk.join(worker)
        desk.beat(worker, at=Activity.FUNCTION)
        desk.wait(0 if ends else STALL_S + 1)
        assert ends or not desk.is_void(first) or worker == "c"
        if ends:
            desk.die(worker)
    [bad] = desk.streams[0].quarantine.videos
    assert bad.path == "0.avi"
    assert FUNCTION in bad.reason
    assert ("stall_s" in bad.reason) is not ends


# One worker's word


def test_a_doubted_clip_is_given_up_if_the_only_other_worker_is_silent() -> None:
    desk = one_by_one(A, B, slots=2, on_error="skip")
    play(desk, each("a", fails), each("b", answers, is_asked), is_good)
    [asked] = [lease for lease in desk.leases["b"] if lease.samples[0].video == 0]
    desk.wait(3.0, "a")
    play(desk, is_bad(), is_delivered)
    assert desk.is_void(asked), "the slot is the consumer's"


@pytest.mark.parametrize("fault", [Fault.VIDEO, Fault.CODE, Fault.COPY])
def test_a_worker_that_fails_at_clips_that_others_decode_is_paused_for_longer_each_time(
    fault: Fault,
) -> None:
    workers = remote("bad", copy="2"), remote("good", copy="1")
    desk = Desk(*workers, batch=1, slots=4, videos=9999, steps=9999)
    for _ in range(90 * 4):
        for lease in desk.granted:
            if not desk.is_void(lease):
                fails = lease.worker == "bad"
                desk.fail_lease(lease, 0, fault) if fails else desk.answer_lease(lease)
        desk.slot_back(*desk.steps())
        desk.ready.clear()
        desk.wait(TICK_S, "good", "bad")
    pauses = [warn for warn in desk.take(Warn) if warn.pause_s]
    assert [pause.pause_s for pause in pauses] == [2, 4, 8, 16, 32, 60]
    assert {pause.worker for pause in pauses} == {"bad"}
    assert desk.bad == []


# Files that cannot be read now


def unread_for(desk: Desk, seconds: float, *workers: str) -> int:
    """For so long, whoever is asked cannot read the file. Returns how often somebody was asked."""
    count, until = 0, desk.now + seconds
    while desk.now < until and not desk.bad:
        for lease in desk.granted:
            desk.fail_lease(lease, fault=Fault.UNREAD, reason="away")
            count += 1
        desk.wait(TICK_S, *workers)
    return count


@pytest.mark.parametrize(
    "workers", [locals_named("AB"), [A], [A, B], [local("A"), remote("b", copy="1")]]
)
def test_a_file_that_workers_cannot_read_now_is_tried_again_for_a_minute(
    workers: list[PlayedWorker],
) -> None:
    desk, names = Desk(*workers, credit=1, batch=1, steps=1), [*map(name_of, workers)]
    count = unread_for(desk, 30, *names)
    assert 5 <= count <= 10 * len(workers), "after pauses that grow"
    assert "away" in desk.take(Warn)[0].reason
    unread_for(desk, 70, *names)
    assert 60 <= desk.now < 71
    assert [bad.reason for bad in desk.streams[0].quarantine.videos] == ["away"]
    desk.answer_all()
    assert desk.steps() == [0]
    assert all(not worker.mistakes for worker in desk.workers.values())


@pytest.mark.parametrize("unread_s", [1, 30])
def test_a_file_that_cannot_be_read_as_its_root_goes_away_is_not_bad_when_that_is_back(
    unread_s: float,
) -> None:
    desk = Desk(remote("a", copy="1"), credit=1, batch=1, steps=1)
    unread_for(desk, unread_s, "a")
    tries = 0
    for _ in range(round(90 / TICK_S)):
        for lease in desk.granted:
            desk.fail_lease(lease, fault=Fault.AWAY, reason="the root is empty")
            tries += 1
        desk.wait(TICK_S, "a")
    assert tries > 60, "it is tried again all the time"
    assert desk.bad == []
    unread_for(desk, 9, "a")
    assert desk.bad == [], "the other files of the root may come first"
    while not desk.granted:
        desk.wait(TICK_S, "a")
    desk.answer("a")
    assert (desk.bad, desk.steps()) == ([], [0])


@pytest.mark.parametrize("fault", [Fault.AWAY, Fault.VIDEO])
def test_a_file_that_cannot_be_read_is_bad_after_a_minute_in_which_its_root_is_there(
    fault: Fault,
) -> None:
    """One worker has no storage, or the wrong file. The other one shows that the root is there."""
    desk = Desk(remote("a", copy="1"), remote("b", copy="2"), credit=1, batch=1, steps=1)
    while not desk.bad:
        assert desk.now < 20 * 60, "it is never bad"
        for lease in desk.granted:
            desk.fail_lease(lease, fault=Fault.UNREAD if lease.worker == "a" else fault)
        desk.wait(TICK_S, "a", "b")
    assert desk.now >= 60
    desk.answer_all()
    assert desk.steps() == [0]


@pytest.mark.parametrize("breaks", [False, True])
def test_what_can_be_read_again_is_decoded_or_bad_at_once(breaks: bool) -> None:
    desk = Desk(local("A"), batch=1, steps=1)
    unread_for(desk, 30, "A")
    while not desk.granted:
        desk.wait(TICK_S, "A")
    desk.fail("A") if breaks else desk.answer("A")
    assert desk.bad == ["0.avi"] * breaks
    assert desk.steps() == [0] * (not breaks)
    assert desk.workers["A"].mistakes == 0, "the storage's"

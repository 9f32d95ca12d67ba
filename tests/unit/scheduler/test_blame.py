"""Clips that cannot be decoded or take their workers down, and which worker is believed."""

import math
from typing import Any

import pytest

from tests.support.desk import STALL_S, TICK_S, Desk
from videoload.activity import Activity
from videoload.errors import Fault, SpecError, TooManyBadVideos, TransformError, VideoError
from videoload.scheduler.commands import Grant, Stop, Warn

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
    desk = Desk("A", steps=1)
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
    desk = Desk("A", steps=1)
    desk.fail("A", fault=Fault.SHORT)
    assert attempts(desk.granted[0]) == [1, 0, 0, 0]
    assert desk.bad == []


# The end of a stream


def test_too_many_bad_videos_stop_the_stream() -> None:
    desk = Desk("A", videos=100, steps=9)
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
    desk = Desk("A", credit=4, on_error=on_error, videos=100, steps=4)
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
    desk = Desk("A", on_error=on_error, videos=4, steps=3)
    desk.answer("A")
    while desk.granted:
        desk.fail("A", fault=fault)
    assert (desk.steps(), desk.error()) == ([0], None)
    desk.want()
    assert isinstance(desk.error(), error)


def test_a_file_that_cannot_be_read_is_waited_for_once_and_not_for_each_of_its_rows() -> None:
    desk = Desk("A", "B", videos=40, rows=20, max_bad=1.0, steps=10)  # files 0.avi, 1.avi
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
    desk = Desk(*"ABCD", credit=1, slots=4, on_error="raise", steps=1)
    desk.fail("D", "B")
    assert desk.error() is None, "it is not known yet whether clip 0 is good"
    desk.answer_all()
    error = desk.error()
    assert isinstance(error, VideoError)
    assert error.path == "1.avi"


def test_a_stream_of_only_short_videos_stops() -> None:
    desk = Desk("A", videos=1, batch=1, steps=9)
    desk.fail("A", fault=Fault.SHORT)
    assert isinstance(desk.error(), SpecError)


# Clips that are left out


@pytest.mark.parametrize("known", [False, True])
def test_a_skipped_clip_leaves_its_row_empty_unless_it_is_known_from_the_start(known: bool) -> None:
    desk = Desk("A", on_error="skip")
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
    desk = Desk("A", on_error="skip", videos=8)
    for video in range(4):
        desk.streams[0].quarantine.add(video, "broken", dropped=video == 3)
    desk.start(steps=range(1, 3))
    assert (desk.owes("A"), desk.steps()) == ([[4, 5, 6, 7]], [])
    desk.answer("A")
    assert desk.steps() == [1, 2]


# Stories of video 0: see `Desk.play`

NEVER_ANSWERED: dict[str, str] = {  # the table in `videoload.scheduler.blame`
    "they die": "A b joins+dies; good; c joins+dies; bad",
    "a stand-in is not blamed for what was before it":
        "A B C X Y joins+dies; bad; Z joins+dies; bad 2",
    "nor if the video was found to be bad elsewhere":
        "A B joins+dies; found; C D joins+dies; bad; E joins+dies; bad 2",
    "they are silent": "a b joins+silent; good; c joins+silent; bad",
    "a death adds nothing to a silence": "a b joins+silent+dies; good; c joins+silent+dies; bad",
    "that their line ends takes nothing back":
        "a b joins+silent+sends+dies; good; c joins+silent+sends+dies; bad",
    "they say bye": "A b C d E joins+leaves; good",
    "they are heard again": "a b c d joins+silent+heard+leaves; good",
    "they come back": "a b c d joins+dies+returns; x y joins+dies; good; z joins+dies; bad",
    "they died between two leases": "A b C d joins+dies-idle; good; X Y Z joins+dies; bad",
    "they import": "a joins+imports+silent=69; good; b c joins+imports+silent=69; good",
    "they imported for too long":
        "a b c joins+imports+silent=69; silence 83; good; d e joins+dies; bad",
    "who returns takes only its own death back":
        "a b joins+dies; a a z returns; c joins+dies; good; a returns; d joins+dies; bad;"
        "b returns; e f joins+dies; bad; g joins+dies; bad 2",
    "a silence of workers that had it before the last one was noted":
        "a b c joins+silent=2.5; silence 6.5; good; a heard+answers; done",
}  # fmt: skip


@pytest.mark.parametrize("story", NEVER_ANSWERED)
def test_a_clip_that_three_workers_were_at_and_never_answered_is_bad(story: str) -> None:
    Desk(batch=1, steps=1).play(NEVER_ANSWERED[story])


DOUBTED: dict[str, tuple[str, str]] = {
    "two copies say the same": ("a:1 b:2", "a fails; good; b fails; bad"),
    "one of the same copy is asked if there is no other":
        ("a:1 b:1", "a fails; b fails; wait 3; bad"),
    "another copy is asked first": ("a:1 b:1 c:2", "a fails; b answers+is-not-asked; c fails; bad"),
    "the only one is believed": ("a:1", "a fails; wait 2.75; good; wait 0.25; bad"),
    "another one comes": (
        "a:1", "a fails; wait 2.75; good; b joins=2+is-asked+answers; wait 3; good; done"),
    "the trainer's own copy has the last word": ("A b:2", "A fails; bad"),
    # A worker tells its host and its copy itself, so one liar can be as many as it likes.
    "no number of others has": ("b:2 c:3 A", "b c fails; good; A answers+is-asked+answers; good"),
    "nobody is left to ask": ("a:1 b:2", "a fails; b leaves; good; wait 3; bad"),
    "nobody is there": ("a:1 b:2", "a fails; a b leaves; wait 1; good; c joins=3+is-asked"),
}  # fmt: skip


@pytest.mark.parametrize("story", DOUBTED)
def test_whose_word_about_a_clip_is_believed(story: str) -> None:
    workers, happens = DOUBTED[story]
    one_by_one(*workers.split()).play(happens)


@pytest.mark.parametrize(
    ("fault", "function", "happens", "stops"),
    [
        # Its copy is another one, and that may change: it is asked three times.
        (Fault.COPY, "", "a fails; good; a fails; good; a fails; bad", False),
        (Fault.COPY, "", "b joins=2; a fails; b answers+is-asked+answers; good; done", False),
        (Fault.FUNCTION, "", "b joins=2; a b fails; c joins=3+answers; good; done", False),
        (Fault.FUNCTION, "m:f", "b joins=2; a b fails; good", True),
        (Fault.CODE, "m:f", "a fails+is-not-asked; wait 2.75; a is-not-asked; good", False),
        (Fault.CODE, "m:f", "a fails; wait 4; good", True),
        (Fault.CODE, "m:f", "b joins=2; c joins=3; a b fails; c answers+is-asked; good", False),
        (Fault.CODE, "m:f", "b joins=2; c joins=3; silence 3; a b heard+fails; wait 5", False),
        (Fault.CODE, "m:f", "b joins=2; c joins=3; silence 3; a b heard+fails; wait 11", True),
    ],
)  # fmt: skip
def test_what_is_the_fault_of_a_worker_or_of_a_function(
    fault: Fault, function: str, happens: str, stops: bool
) -> None:
    desk = one_by_one("a:1", function=function)
    desk.play(happens, fault)
    assert isinstance(desk.error(), TransformError) is stops


def one_by_one(*workers: str, **options: Any) -> Desk:
    """Each worker has a lease of one clip, the first one of video 0."""
    return Desk(*workers, **{"credit": 1, "batch": 1, "slots": 4, "steps": 9, **options})


def test_clips_that_a_worker_died_over_are_granted_one_by_one_and_only_the_bad_one_is_bad() -> None:
    desk = Desk("A", steps=2)
    desk.die("A")
    desk.join("B")
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
        desk.join(worker := f"W{died}")
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
    desk.play("a silent+heard+leaves; B C D E joins+dies; good; F joins+dies")
    assert len(desk.bad) == 1


def test_a_worker_that_says_what_it_was_at_may_have_lost_the_answer_before_that() -> None:
    desk = Desk(batch=1, steps=2)
    desk.join("A")
    desk.die("A", at_work=desk.leases["A"][1].lease)
    desk.join("B")
    assert desk.owes("B") == [[0]], "it is not to blame, and goes first"
    desk.answer("B")
    desk.die("B", at_work=desk.leases["B"][0].lease)
    desk.kill("C")
    assert desk.bad == ["1.avi"]


def test_a_death_over_a_void_lease_blames_neither_its_clips_nor_the_next_ones() -> None:
    desk = Desk("W", batch=1, steps=9)
    desk.end()
    desk.start(11)
    desk.kill("A", "B")
    desk.die("W")  # it was at work for reader 10
    assert desk.bad == []
    desk = Desk("W", steps=1)
    desk.end()
    desk.start(11)
    assert len(desk.owes("W")) == 1
    desk.die("W")
    desk.join("A")
    assert [len(videos) for videos in desk.owes("A")] == [4, 4]


# Workers that die for a reason of their own


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_worker_that_has_answered_nothing_begins_with_other_clips(is_replaced: bool) -> None:
    desk = Desk("A", batch=1, steps=4)
    desk.die("A")
    desk.join("B")
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
    desk = Desk("a:1", "b:1", "c:2", batch=1, credit=1, steps=5)
    desk.answer("b:1", "c:2")
    desk.die("a:1")
    desk.answer("b:1")
    assert desk.leases["b:1"] == [], "it reads the same copy"
    desk.answer("c:2")
    assert desk.owes("c:2") == [[0]]


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


FUNCTION = "augment:bright"


@pytest.mark.parametrize("clip_s", [None, 8.0], ids=["no clip was done", "clips take nearly that"])
@pytest.mark.parametrize("workers", ["ab", "Ab"])
def test_a_function_that_takes_too_long_ends_the_stream_and_condemns_no_clip(
    workers: str, clip_s: float | None
) -> None:
    desk = Desk(batch=1, function=FUNCTION, frame_s=math.inf, steps=9)
    desk.join(*workers)
    if clip_s is not None:
        desk.join("c")
        desk.answer("c", clip_s=clip_s)
        desk.leave("c")
    desk.beat(*workers, at=Activity.FUNCTION)
    desk.wait(STALL_S)
    assert (desk.said, [*map(len, desk.leases.values())]) == ([], [2, 2]), "nobody else calls it"
    desk.wait(2)
    desk.die(*filter(str.isupper, workers))
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
    desk = one_by_one("a:1", "b:2", slots=2, on_error="skip")
    desk.play("a fails; b answers+is-asked; good")
    [asked] = [lease for lease in desk.leases["b:2"] if lease.samples[0].video == 0]
    desk.wait(3.0, "a:1")
    desk.play("bad; done")
    assert desk.is_void(asked), "the slot is the consumer's"


@pytest.mark.parametrize("fault", [Fault.VIDEO, Fault.CODE, Fault.COPY])
def test_a_worker_that_fails_at_clips_that_others_decode_is_paused_for_longer_each_time(
    fault: Fault,
) -> None:
    desk = Desk("bad:2", "good:1", batch=1, slots=4, videos=9999, steps=9999)
    for _ in range(90 * 4):
        for lease in desk.granted:
            if not desk.is_void(lease):
                fails = lease.worker == "bad:2"
                desk.fail_lease(lease, 0, fault) if fails else desk.answer_lease(lease)
        desk.slot_back(*desk.steps())
        desk.ready.clear()
        desk.wait(TICK_S, "good:1", "bad:2")
    pauses = [warn for warn in desk.take(Warn) if warn.pause_s]
    assert [pause.pause_s for pause in pauses] == [2, 4, 8, 16, 32, 60]
    assert {pause.worker for pause in pauses} == {"bad:2"}
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


@pytest.mark.parametrize("workers", [("A", "B"), ("a:1",), ("a:1", "b:2"), ("A", "b:1")])
def test_a_file_that_workers_cannot_read_now_is_tried_again_for_a_minute(
    workers: tuple[str, ...],
) -> None:
    desk = Desk(*workers, credit=1, batch=1, steps=1)
    count = unread_for(desk, 30, *workers)
    assert 5 <= count <= 10 * len(workers), "after pauses that grow"
    assert "away" in desk.take(Warn)[0].reason
    unread_for(desk, 70, *workers)
    assert 60 <= desk.now < 71
    assert [bad.reason for bad in desk.streams[0].quarantine.videos] == ["away"]
    desk.answer_all()
    assert desk.steps() == [0]
    assert all(not worker.mistakes for worker in desk.workers.values())


@pytest.mark.parametrize("breaks", [False, True])
def test_what_can_be_read_again_is_decoded_or_bad_at_once(breaks: bool) -> None:
    desk = Desk("A", batch=1, steps=1)
    unread_for(desk, 30, "A")
    while not desk.granted:
        desk.wait(TICK_S, "A")
    desk.fail("A") if breaks else desk.answer("A")
    assert desk.bad == ["0.avi"] * breaks
    assert desk.steps() == [0] * (not breaks)
    assert desk.workers["A"].mistakes == 0, "the storage's"

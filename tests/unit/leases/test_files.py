"""Which file each video of a stream is, and who has to show that it has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.desk import Desk, Seen, given, grants
from videoload.errors import Fault, StorageError, UnreadableError, VideoError, VideoloadError
from videoload.leases.commands import Changed, Command, Identify, Pause, Stop, Warn
from videoload.leases.files import Files

OWN, OTHER, THIRD, MISSING = 11, 22, 33, 0


def desk_of(*workers: str, own: bool = True, files: Files | None = None, **more: Any) -> Desk:
    files = files or Files(40, has_own=own)
    return Desk(*workers, batch=1, videos=40, files=files, **{"slots": 2, "credit": 1, **more})


def asked(seen: list[Seen]) -> list[int]:
    return [video for each in seen if isinstance(each, Identify) for video in each.videos]


def identified(desk: Desk, videos: list[int], fingerprint: int = OWN) -> list[Seen]:
    for video in videos:
        desk.table.identified([(0, video, fingerprint)])
    return desk.seen()


def of_kind(seen: list[Seen], kind: type[Command]) -> list[Seen]:
    return [each for each in seen if isinstance(each, kind)]


# Known before it is decoded


def test_a_lease_of_another_copy_waits_until_the_file_is_known_and_names_it() -> None:
    desk = desk_of("a:1")
    seen = desk.start()
    assert asked(seen) == [0, 1, 2, 3], (
        "the files of all batches that have a slot, and as many more"
    )
    assert grants(seen) == []
    [lease] = grants(identified(desk, [0]))
    assert lease.files == (OWN,)


def test_files_are_asked_for_once() -> None:
    desk = desk_of("a:1", "b:2")
    desk.start()
    assert desk.want() == desk.wait(1, "a:1", "b:2") == []


@pytest.mark.parametrize("worker", ["A", "b", "b:mine"])
def test_a_worker_of_the_trainers_own_copy_waits_for_nothing(worker: str) -> None:
    desk = desk_of(worker, copy="mine")
    seen = desk.start()
    assert [lease.files for lease in grants(seen)] == [None]
    assert asked(seen) == []


def test_workers_of_both_kinds_share_what_is_known() -> None:
    desk = desk_of("A", "b:2", slots=3)
    seen = desk.start()
    assert [lease.worker for lease in grants(seen)] == ["A"]
    assert asked(seen) == [1, 2, 3, 4, 5], "what A has needs no looking at"
    [lease] = grants(identified(desk, [1]))
    assert (lease.worker, lease.samples[0].video) == ("b:2", 1)


def test_one_slow_file_keeps_back_no_others() -> None:
    desk = desk_of("a:1", slots=3)
    desk.start()
    [lease] = grants(identified(desk, [2]))
    assert lease.samples[0].video == 2


def test_a_substitute_is_known_before_it_is_granted_as_well() -> None:
    desk = desk_of("a:1", slots=1)
    desk.start()
    desk.quarantines[0].add(0, "found elsewhere")
    seen = identified(desk, [0])
    assert grants(seen) == []
    [video] = asked(seen)
    [lease] = grants(identified(desk, [video]))
    assert lease.samples[0].video == video != 0


def test_a_stream_that_was_dropped_is_not_told() -> None:
    desk = desk_of("a:1")
    desk.start()
    desk.table.drop_stream(0)
    assert identified(desk, [0]) == []


# The trainer has the file


@pytest.mark.parametrize("found", [MISSING, OTHER])
def test_a_worker_of_another_copy_makes_a_mistake_and_another_one_is_asked(found: int) -> None:
    desk = desk_of("a:1", "b:2")
    [lease] = grants(identified(desk, asked(desk.start(steps=range(1)))))
    seen = desk.fail(lease, 0, "its copy is another one", Fault.COPY, found)
    assert asked(seen) == [0], "the trainer's own file may have changed"
    assert grants(seen) == []
    seen = identified(desk, [0])
    assert of_kind(seen, Warn) == [Warn(lease.worker, "its copy is another one")]
    assert of_kind(seen, Changed) == []
    [again] = grants(seen)
    assert again.worker != lease.worker
    assert again.files == (OWN,)
    assert given(desk.answer(again))
    assert desk.quarantines[0].videos == []


def test_a_file_that_changed_everywhere_is_nobodys_mistake() -> None:
    desk = desk_of("a:1")
    seen = identified(desk, asked(desk.start(steps=range(1))))
    seen = desk.fail(grants(seen)[0], 0, "another one", Fault.COPY, OTHER)
    seen = identified(desk, asked(seen), OTHER)
    assert of_kind(seen, Changed) == [Changed(0, 0)]
    assert of_kind(seen, Warn) == []
    [again] = grants(seen)
    assert again.files == (OTHER,)


@pytest.mark.parametrize("found", [MISSING, OTHER])
@pytest.mark.parametrize("agreed", ["own", "scanned"])
def test_no_number_of_other_copies_condemns_a_file_that_is_agreed_on(
    found: int, agreed: str
) -> None:
    workers = ["a:1", "b:2", "c:3", "d:4"]
    files = Files(40, has_own=agreed == "own")
    files.give(np.full(40, OWN) * (agreed == "scanned"))
    desk = desk_of(*workers, files=files)
    seen = desk.start(steps=range(1))
    seen += identified(desk, asked(seen))
    every: list[Seen] = []
    for _ in range(400):
        every += seen
        leases, seen = grants(seen), []
        for lease in leases:
            seen += (failed := desk.fail(lease, 0, "no such file", Fault.COPY, found))
            seen += identified(desk, asked(failed))
        seen += desk.wait(0.25, *workers)
    assert desk.quarantines[0].videos == []
    assert of_kind(every, Stop) == []
    assert len(of_kind(every, Pause)) > 4, "it costs them their leases"
    [good] = grants(desk.join("e:5"))
    assert given(desk.answer(good))


@pytest.mark.parametrize("fault", [Fault.VIDEO, Fault.CLIP, Fault.SHORT, Fault.FUNCTION])
def test_a_word_about_another_file_counts_for_nothing(fault: Fault) -> None:
    desk = desk_of("a:1", "b:2")
    seen = identified(desk, asked(desk.start(steps=range(1))))
    [lease] = grants(seen)
    seen = desk.fail(lease, 0, "I do not like it", fault, OTHER)
    seen += identified(desk, asked(seen))
    assert of_kind(seen, Warn) != []
    assert given(desk.answer(*grants(seen)))
    assert desk.quarantines[0].videos == []


def test_two_workers_that_have_the_right_file_condemn_it() -> None:
    desk = desk_of("a:1", "b:2", "c:3")
    desk.wait(4, "a:1", "b:2", "c:3")
    [lease] = grants(identified(desk, asked(desk.start(steps=range(1)))))
    [second] = grants(desk.fail(lease, 0, "broken", file=OWN))
    assert second.worker != lease.worker
    desk.fail(second, 0, "broken", file=OWN)
    assert [video.path for video in desk.quarantines[0].videos] == ["v0.avi"]


# The trainer cannot read its own file

EIO = UnreadableError("v0.avi", "cannot be read: Input/output error")
AWAY = StorageError("s3://bucket does not answer for 30 s")


def unread(desk: Desk, seconds: float, error: VideoloadError, *videos: int) -> list[Seen]:
    """For so long, the trainer's own files of these videos cannot be read."""
    workers = [str(worker.id) for worker in desk.table.pool.heard_of]
    seen: list[Seen] = []
    for video in videos:
        desk.table.unread(0, video, error)
    for _ in range(round(4 * seconds)):
        seen += (now := desk.wait(0.25, *workers))
        for video in asked(now):
            desk.table.unread(0, video, error)
    return [*seen, *desk.seen()]


@pytest.mark.parametrize("error", [EIO, AWAY])
def test_a_file_that_cannot_be_read_now_is_asked_for_again_and_no_copy_is_pinned(
    error: VideoloadError,
) -> None:
    desk = desk_of("a:1", "b:2")
    desk.start(steps=range(1))
    seen = unread(desk, 30, error, 0)
    assert 5 <= len(asked(seen)) <= 10, "after pauses that grow"
    assert grants(seen) == []
    assert not asked(desk.wait(20, "a:1", "b:2")[1:]), "not while it is being read"
    [lease] = grants(identified(desk, [0]))
    assert lease.files == (OWN,)
    assert given(desk.answer(lease))


@pytest.mark.parametrize("on_error", ["substitute", "skip"])
@pytest.mark.parametrize("batch", [1, 4])
def test_a_file_that_cannot_be_read_for_long_is_bad(on_error: str, batch: int) -> None:
    files = Files(40, has_own=True)
    desk = Desk(
        "a:1", "b:2", batch=batch, videos=40, files=files, slots=2, credit=1, on_error=on_error
    )
    first = asked(desk.start(steps=range(2)))
    seen = identified(desk, [video for video in first if video != 0])
    seen += unread(desk, 70, EIO, 0)
    desk.decode_all(*seen, *identified(desk, list(range(1, 40))))
    desk.want()
    assert [bad.reason for bad in desk.quarantines[0].videos] == [EIO.reason]
    assert {(10, 0), (10, 1)} == desk.ready.keys()
    samples = [s for each in desk.ready.values() for s in each.samples]
    assert 0 not in {sample.video for sample in samples}
    assert len(samples) == 2 * batch - (on_error == "skip")


def test_of_a_file_that_cannot_be_read_for_long_a_stream_that_takes_none_ends() -> None:
    desk = desk_of("a:1", on_error="raise")
    desk.start(steps=range(1))
    seen = unread(desk, 70, EIO, 0)
    seen += identified(desk, list(range(1, 40)))
    desk.decode_all(*seen)
    [stop] = of_kind([*seen, *desk.want()], Stop)
    assert isinstance(stop, Stop)
    assert isinstance(stop.error, VideoError)


def test_storage_that_is_away_condemns_nothing() -> None:
    desk = desk_of("a:1")
    desk.start(steps=range(1))
    unread(desk, 600, AWAY, 0)
    assert desk.quarantines[0].videos == []
    assert given(desk.answer(*grants(identified(desk, [0]))))


def test_a_file_that_was_read_before_stays_what_it_was_if_it_cannot_be_read_again() -> None:
    desk = desk_of("a:1", "b:2")
    [lease] = grants(identified(desk, asked(desk.start(steps=range(1)))))
    seen = desk.fail(lease, 0, "another one", Fault.COPY, OTHER)
    seen = unread(desk, 70, EIO, *asked(seen))
    [again] = grants(seen)
    assert (again.worker != lease.worker, again.files) == (True, (OWN,))
    assert of_kind(seen, Warn) != []
    assert given(desk.answer(again))


# The trainer has none


def test_the_first_copy_that_is_decoded_is_the_one_for_all() -> None:
    desk = desk_of("a:1", "b:2", own=False)
    [lease] = grants(desk.start(steps=range(1)))
    assert lease.files == (0,)
    known = desk.table.lease(lease.worker, lease.lease)
    assert known is not None
    assert desk.table.accepts(known, [OTHER]) is None
    assert desk.table.accepts(known, [THIRD]) == 0
    assert desk.table.accepts(known, [OTHER]) is None


def pinned(videos: int, *which: int) -> str:
    """What a training tells the next one that used copies of these videos."""
    files = Files(videos, has_own=False, salt=5)
    assert all(files.accepts(video, OTHER) for video in which)
    return files.pinned()


def test_a_training_that_is_resumed_uses_the_copies_that_were_pinned_before() -> None:
    files = Files(40, has_own=False, salt=1)
    files.pin(pinned(40, 0))
    desk = desk_of("a:1", "b:2", files=files)
    assert {lease.files for lease in grants(desk.start(steps=range(2)))} == {(OTHER,), (0,)}
    assert files.salt == 5, "else its long files would have other fingerprints"
    assert files.pinned() == pinned(40, 0)


def test_what_was_pinned_before_holds_only_for_files_that_the_trainer_does_not_have() -> None:
    files = Files(2, has_own=True)
    files.pin(pinned(2, 0, 1))
    assert files.to_ask([0, 1]) == (0, 1)
    assert files.identified(0, OWN), "it is another one"
    assert not files.identified(1, MISSING)
    assert (files.expected(0), files.expected(1)) == (OWN, OTHER)
    assert files.pinned() == pinned(2, 1)


def test_what_was_pinned_before_is_told_on_before_the_trainer_has_looked_for_its_own() -> None:
    files = Files(3, has_own=True)
    files.pin(pinned(3, 0, 1, 2))
    assert files.to_ask([0, 1]) == (0, 1)
    files.identified(0, OWN)
    assert files.pinned() == pinned(3, 1, 2)


def test_what_is_known_already_is_not_pinned_anew() -> None:
    files = Files(2, has_own=False, salt=7)
    assert files.pinned() == ""
    assert files.accepts(0, THIRD)
    files.pin(pinned(2, 0, 1))
    assert (files.expected(0), files.expected(1), files.salt) == (THIRD, 0, 7)


@pytest.mark.parametrize("own", [True, False])
def test_what_a_scan_found_holds_for_files_that_the_trainer_does_not_have(own: bool) -> None:
    files = Files(40, has_own=own)
    files.give(np.array([THIRD, OTHER] + 38 * [0]))
    desk = desk_of("a:1", "b:2", files=files)
    seen = desk.start(steps=range(3))
    for video in asked(seen):
        desk.table.identified([(0, video, OWN if video == 0 else MISSING)])
    leases = {lease.samples[0].video: lease for lease in grants([*seen, *desk.seen()])}
    assert (leases[0].files, leases[1].files) == ((OWN if own else THIRD,), (OTHER,))
    known = desk.table.lease(leases[1].worker, leases[1].lease)
    assert known is not None
    assert desk.table.accepts(known, [THIRD]) == 0
    assert not files.accepts(1, THIRD)


def test_a_training_that_is_resumed_keeps_what_was_pinned_beside_a_scan() -> None:
    scanned = np.array([THIRD, 0, 0])
    before = Files(3, has_own=False)
    before.give(scanned)
    assert before.accepts(2, OTHER)
    after = Files(3, has_own=False)
    after.give(scanned)
    after.pin(before.pinned())
    assert [after.expected(video) for video in range(3)] == [THIRD, 0, OTHER]


@pytest.mark.parametrize("text", ["", "5", "x:", "5:abc", pinned(3, 0), pinned(2, 0).upper()])
def test_a_text_that_pins_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"incomplete|bad base85|files|Error|header"):
        Files(2, has_own=False).pin(text)


@pytest.mark.parametrize("broken", [2, 3])
def test_copies_with_the_same_fault_condemn_nothing_while_another_one_is_to_be_asked(
    broken: int,
) -> None:
    workers = [f"{name}:{name}" for name in "abcde"]
    desk = desk_of(*workers, own=False)
    desk.wait(4, *workers)
    leases = grants(desk.start(steps=range(1)))
    for _ in range(broken):  # files without a byte are all alike
        [lease] = leases
        leases = grants(desk.fail(lease, 0, "is not a video", file=OTHER))
    [lease] = leases
    assert given(desk.answer(lease))
    assert desk.quarantines[0].videos == []


def test_a_file_that_no_copy_has_is_bad() -> None:
    workers = [f"{name}:{name}" for name in "abc"]
    desk = desk_of(*workers, own=False)
    desk.wait(4, *workers)
    leases = grants(desk.start(steps=range(1)))
    for _ in workers:
        leases = grants(desk.fail(leases[0], 0, "no such file"))
    assert [video.path for video in desk.quarantines[0].videos] == ["v0.avi"]


def test_two_workers_of_a_folder_that_lacks_a_file_are_not_believed_before_others_may_come() -> (
    None
):
    desk = desk_of("a:1", "b:1", own=False)
    one, other = grants(desk.start(steps=range(2)))
    desk.answer(other)
    [again] = [lease for lease in grants(desk.fail(one)) if lease.samples == one.samples]
    assert {one.worker, again.worker} == {"a:1", "b:1"}
    desk.fail(again)
    assert not desk.quarantines[0].videos
    [last] = [lease for lease in grants(desk.join("c:2")) if lease.samples == one.samples]
    assert given(desk.answer(last))
    assert not desk.quarantines[0].videos

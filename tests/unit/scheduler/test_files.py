"""Which file each video of a stream is, and who has to show that it has it."""

from typing import Any

import numpy as np
import pytest

from tests.support.desk import Desk, PlayedWorker, local, name_of, ordinals, remote
from videoload.errors import (
    Fault,
    StorageError,
    TooManyBadVideos,
    TransformError,
    UnreadableError,
    VideoError,
    VideoloadError,
)
from videoload.scheduler import events
from videoload.scheduler.commands import Changed, Stop, Warn
from videoload.scheduler.files import Files, UnreadableFiles
from videoload.worker.stall_clock import SILENT_S

OWN, OTHER, THIRD, MISSING = 11, 22, 33, 0

# Workers of three copies that are not the trainer's own.
A, B, C = remote("a", copy="1"), remote("b", copy="2"), remote("c", copy="3")


def desk_of(*workers: PlayedWorker, own: bool = True, **more: Any) -> Desk:
    options = {"batch": 1, "slots": 2, "credit": 1, "files": Files(40, has_own=own), "steps": 9}
    return Desk(*workers, videos=40, **{**options, **more})


def identify(desk: Desk, file: int = OWN) -> None:
    """Everything that was asked for was looked at."""
    while desk.asked:
        desk.identified(desk.asked.pop(0), file=file)


def expected(desk: Desk) -> list[tuple[int, ...] | None]:
    return [lease.files for lease in desk.granted]


# Known before it is decoded


def test_a_lease_of_another_copy_waits_until_its_file_is_known_and_names_it() -> None:
    desk = desk_of(A, B, slots=3)
    assert desk.asked == [0, 1, 2, 3, 4, 5], "of all batches that have a slot, and as many more"
    assert desk.granted == []
    desk.want()
    desk.wait(1, "a", "b")
    assert len(desk.asked) == 6, "once"
    desk.identified(2, file=OWN)  # one slow file keeps back no others
    assert [(lease.samples[0].video, lease.files) for lease in desk.granted] == [(2, (OWN,))]
    desk.tell(events.StreamDropped(0))
    identify(desk)
    assert len(desk.granted) == 1


@pytest.mark.parametrize("worker", [local("A"), remote("b"), remote("b", copy="mine")])
def test_a_worker_of_the_trainers_own_copy_waits_for_nothing(worker: PlayedWorker) -> None:
    desk = desk_of(worker, copy="mine")
    assert (expected(desk), desk.asked) == ([None], [])


# The trainer has the file


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (Fault.COPY, MISSING),
        *[(fault, OTHER) for fault in (Fault.COPY, Fault.VIDEO, Fault.CLIP, Fault.SHORT)],
        (Fault.FUNCTION, OTHER),
    ],
)
def test_a_word_about_another_file_is_a_mistake_and_another_worker_is_asked(
    fault: Fault, found: int
) -> None:
    desk = desk_of(A, B, steps=1)
    identify(desk)
    desk.fail("a", fault=fault, file=found)
    assert desk.asked == [0], "the trainer's own file may have changed"
    assert desk.granted == []
    identify(desk)
    assert desk.said == [Warn("a", "broken")]
    assert expected(desk) == [(OWN,)]
    desk.answer("b")
    assert (desk.steps(), desk.bad) == ([0], [])


def test_a_file_that_changed_everywhere_is_nobodys_mistake() -> None:
    desk = desk_of(A, steps=1)
    identify(desk)
    desk.fail("a", fault=Fault.COPY, file=OTHER)
    identify(desk, OTHER)
    assert desk.said == [Changed(0, 0)]
    assert expected(desk) == [(OTHER,)]


def test_a_file_that_a_worker_of_the_trainers_own_copy_found_changed_is_looked_at_again() -> None:
    desk = desk_of(A, steps=1)
    identify(desk)
    for stream in (0, 7):
        desk.tell(events.FileChanged(stream, 0))
    desk.leave("a")
    desk.join(B)
    assert (desk.asked, desk.granted) == ([0], [])


@pytest.mark.parametrize("found", [MISSING, OTHER])
@pytest.mark.parametrize("agreed", ["own", "scanned"])
def test_no_number_of_other_copies_condemns_a_file_that_is_agreed_on(
    found: int, agreed: str
) -> None:
    workers = [A, B, C, remote("d", copy="4")]
    files = Files(40, has_own=agreed == "own")
    files.give(np.full(40, OWN) * (agreed == "scanned"))
    desk = desk_of(*workers, files=files, steps=1)
    for _ in range(400):
        identify(desk)
        for lease in desk.granted:
            desk.fail_lease(lease, fault=Fault.COPY, file=found)
        desk.wait(0.25, *map(name_of, workers))
    assert (desk.bad, desk.take(Stop)) == ([], [])
    assert sum(warn.pause_s > 0 for warn in desk.take(Warn)) > 4, "it costs them their leases"
    desk.join(remote("e", copy="5"))
    desk.answer("e")
    assert desk.steps() == [0]


def test_two_workers_that_have_the_right_file_condemn_it() -> None:
    desk = desk_of(A, B, C, steps=0)
    desk.wait(4, "a", "b", "c")
    desk.start(steps=1)
    identify(desk)
    for _ in range(2):
        assert desk.bad == []
        desk.fail(str(desk.granted[0].worker), file=OWN)
    assert desk.bad == ["0.avi"]


# The trainer cannot read its own file

EIO = UnreadableError("0.avi", "cannot be read: Input/output error")
AWAY = StorageError("s3://bucket does not respond for 30 s")


def unread(desk: Desk, seconds: float, error: VideoloadError) -> int:
    """For so long, the trainer's own video 0 cannot be read. Returns how often it was asked for."""
    workers, asked = [str(worker.id) for worker in desk.table.pool.responsive], 0
    for _ in range(round(4 * seconds)):
        for video in desk.asked:
            desk.unread(video, error=error)
        asked += len(desk.asked)
        desk.asked.clear()
        desk.wait(0.25, *workers)
    return asked


@pytest.mark.parametrize("error", [EIO, AWAY])
def test_a_file_that_cannot_be_read_now_is_asked_for_again_and_no_copy_is_pinned(
    error: VideoloadError,
) -> None:
    desk = desk_of(A, B, steps=1)
    assert 5 <= unread(desk, 30, error) <= 10, "after pauses that grow"
    assert desk.granted == []
    desk.wait(20, "a", "b")
    assert len(desk.asked) <= 1, "not while it is being read"
    desk.identified(0, file=OWN)
    assert expected(desk) == [(OWN,)]


@pytest.mark.parametrize("on_error", ["substitute", "skip", "raise"])
@pytest.mark.parametrize("batch", [1, 4])
def test_a_file_that_cannot_be_read_for_long_is_bad(on_error: str, batch: int) -> None:
    desk = desk_of(A, B, batch=batch, on_error=on_error, steps=2)
    for video in range(1, 40):
        desk.asked.remove(video) if video in desk.asked else None
        desk.identified(video, file=OWN)
    unread(desk, 70, EIO)
    desk.answer_all()
    desk.want()
    assert [bad.reason for bad in desk.streams[0].quarantine.videos] == [EIO.reason]
    if on_error == "raise":
        assert isinstance(desk.error(), VideoError)
        return
    assert desk.steps() == [0, 1]
    samples = [sample for each in desk.ready.values() for sample in each.samples]
    assert 0 not in {sample.video for sample in samples}
    assert len(samples) == 2 * batch - (on_error == "skip")


def test_a_file_of_several_open_batches_that_cannot_be_read_for_long_ends_its_stream() -> None:
    files = Files(4, has_own=True)
    desk = Desk(A, B, videos=4, slots=4, on_error="raise", files=files, steps=8)
    for video in range(1, 4):
        desk.identified(video, file=OWN)
    desk.want()
    unread(desk, 70, EIO)
    assert isinstance(desk.error(), VideoError)


def test_a_reader_that_begins_when_no_video_is_left_gets_the_error() -> None:
    desk = Desk(A, videos=2, batch=1, files=Files(2, has_own=True), steps=range(1, 4))
    desk.identified(1, file=OWN)
    desk.answer("a")
    unread(desk, 70, EIO)  # video 1 stands in for video 0
    while desk.granted:
        desk.fail("a", file=OWN)
        desk.wait(3, "a")
    assert (desk.bad, desk.steps(), desk.error()) == (["0.avi", "1.avi"], [1], None)
    desk.start(11, steps=2)
    while desk.granted:
        desk.fail("a")
    assert isinstance(desk.error(), TooManyBadVideos)


def test_storage_that_is_away_condemns_nothing() -> None:
    desk = desk_of(A, steps=1)
    unread(desk, 600, AWAY)
    assert desk.bad == []
    desk.identified(0, file=OWN)
    assert desk.granted


def test_a_worker_of_another_copy_condemns_no_file_for_which_others_lack_the_code() -> None:
    desk = desk_of(A, B, steps=1, function="m:f")
    identify(desk)
    desk.fail("a", fault=Fault.COPY, file=OTHER)
    identify(desk)
    desk.fail("b", fault=Fault.CODE, file=OWN)
    desk.leave("a")
    desk.wait(4, "b")
    desk.want()
    assert isinstance(desk.error(), TransformError)
    assert desk.bad == []


@pytest.mark.parametrize("copy", [None, "1"])
def test_a_copy_of_a_worker_that_is_away_is_away_whatever_the_trainer_reads_of_its_own(
    copy: str | None,
) -> None:
    desk = desk_of(remote("a", copy=copy), steps=1)
    desk.beat("a", storage="it refuses")
    desk.identified(0, file=OWN)
    assert (desk.table.roots.failure_of("") is None) is (copy is None)


def test_an_outage_is_reported_with_the_workers_that_cannot_read() -> None:
    desk = desk_of(remote("a", copy="1", host="h3"), remote("b", copy="1"), own=False)
    desk.beat("a", storage="/h3/data is empty")
    desk.wait(SILENT_S + 1, "a", "b")
    [warning] = desk.take(Warn)
    for text in ("1 of 2 workers", "h3", "/h3/data is empty"):
        assert text in warning.reason


def test_all_workers_of_a_copy_that_is_away_cannot_read() -> None:
    desk = desk_of(*(remote(name, copy="1", host="h3") for name in "ab"), own=False)
    desk.fail("a", fault=Fault.AWAY)
    assert desk.table.roots.copies_away == {"1"}
    desk.wait(SILENT_S + 1, "a", "b")
    assert "2 of 2 workers" in desk.take(Warn)[-1].reason
    desk.answer("b")
    assert desk.table.roots.copies_away == set()


def test_a_file_that_was_read_before_stays_what_it_was_if_it_cannot_be_read_again() -> None:
    desk = desk_of(A, B, steps=1)
    identify(desk)
    desk.fail("a", fault=Fault.COPY, file=OTHER)
    unread(desk, 70, EIO)
    assert (expected(desk), desk.owes("b")) == ([(OWN,)], [[0]])
    assert desk.take(Warn)


def test_a_file_that_was_read_is_tried_at_once() -> None:
    files = UnreadableFiles()
    assert [files.failed("a", now, away_s=1) for now in (5, 7)] == [0, 2]
    assert [files.may_try("a", now) for now in (8.9, 9)] == [False, True]
    assert files.failed("a", 9, away_s=4) == 1, "without the time in which its root did not respond"
    files.was_read("a")
    assert files.may_try("a", 9)
    assert files.lasts_s("a", 99, away_s=4) == 0


# The trainer has none


def test_the_first_copy_that_is_decoded_is_the_one_for_all() -> None:
    desk = desk_of(A, own=False)
    [lease] = desk.granted
    assert lease.files == (0,)
    known = desk.table.lease(lease.worker, lease.lease)
    assert known is not None
    for file in (OTHER, THIRD):
        assert desk.table.other_file(known, [file]) is None, "to look changes nothing"
    desk.tell(events.Answered(known, ordinals(lease.samples), 0.0, files=[OTHER]))
    assert desk.streams[0].files is not None
    assert desk.streams[0].files.expected(0) == OTHER
    assert [desk.table.other_file(known, [file]) for file in (OTHER, THIRD, 0)] == [None, 0, 0]


def test_one_answer_has_one_file_for_each_video() -> None:
    files = Files(2, has_own=False)
    assert files.first_other([0, 0, 1], [OTHER, OTHER, THIRD]) is None
    assert files.first_other([0, 0, 1], [OTHER, THIRD, THIRD]) == 1
    assert files.first_other([0, 1], [OTHER, 0]) == 1


def takes(files: Files, video: int, file: int) -> bool:
    """Whether a clip of this file is taken, which may be the first one of its video."""
    files.pin_first([video], [file])
    return files.first_other([video], [file]) is None


def pinned(videos: int, *which: int) -> str:
    """What a training tells the next one that used copies of these videos."""
    files = Files(videos, has_own=False, salt=5)
    assert all(takes(files, video, OTHER) for video in which)
    return files.pinned()


@pytest.mark.parametrize("own", [False, True])
def test_what_was_pinned_before_holds_for_files_that_the_trainer_does_not_have(own: bool) -> None:
    files = Files(3, has_own=own, salt=1)
    assert files.pinned() == ""
    files.pin(pinned(3, 0, 1, 2))
    assert files.salt == 5, "else its long files would have other fingerprints"
    assert files.pinned() == pinned(3, 0, 1, 2), "it is told on before anything was looked at"
    if own:
        assert files.to_ask([0, 1], 0.0) == (0, 1)
        assert files.identified(0, OWN), "it is another one than before"
        assert not files.identified(1, MISSING)
    assert [files.expected(video) for video in range(2)] == [OWN if own else OTHER, OTHER]
    assert files.pinned() == pinned(3, *range(own, 3))
    desk = Desk(A, batch=1, videos=3, files=files, steps=1)
    assert expected(desk) == [(OWN if own else OTHER,)]


def test_what_is_known_already_is_not_pinned_anew() -> None:
    files = Files(2, has_own=False, salt=7)
    assert takes(files, 0, THIRD)
    files.pin(pinned(2, 0, 1))
    assert (files.expected(0), files.expected(1), files.salt) == (THIRD, 0, 7)


@pytest.mark.parametrize("own", [True, False])
def test_what_a_scan_found_holds_for_files_that_the_trainer_does_not_have(own: bool) -> None:
    files = Files(3, has_own=own)
    files.give(np.array([THIRD, OTHER, 0]))
    assert files.to_ask(range(3), 0.0) == ((0, 1, 2) if own else ())
    for video in range(3 * own):
        files.identified(video, OWN if video == 0 else MISSING)
    assert [files.expected(video) for video in range(3)] == [OWN if own else THIRD, OTHER, 0]
    assert not takes(files, 1, THIRD)
    assert takes(files, 2, OTHER)
    after = Files(3, has_own=False)
    after.give(np.array([THIRD, 0, 0]))
    after.pin(files.pinned())
    assert [after.expected(video) for video in range(3)] == [THIRD, OTHER, OTHER]


@pytest.mark.parametrize("text", ["", "5", "x:", "5:abc", pinned(3, 0), pinned(2, 0).upper()])
def test_a_text_that_pins_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - what is wrong with a text says nobody
        Files(2, has_own=False).pin(text)


@pytest.mark.parametrize("broken", [2, 3])
def test_copies_with_the_same_fault_condemn_nothing_while_another_one_is_to_be_asked(
    broken: int,
) -> None:
    desk = desk_of(*(remote(name, copy=name) for name in "abcd"), own=False, steps=0)
    desk.wait(4, *"abcd")
    desk.start(steps=1)
    for _ in range(broken):  # files without a byte are all alike
        desk.fail(str(desk.granted[0].worker), file=OTHER)
    assert desk.bad == []
    desk.fail(str(desk.granted[0].worker))
    assert bool(desk.bad) is (broken == 3), "no copy has it"

"""What is wrong with an answer is found before a pixel of it is in a batch; files that change are
noticed. See also tests/faults/test_copies.py, with real workers."""

import logging
import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pytest

from videoload.catalog.catalog import Catalog
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.sample_info import info_type
from videoload.clips.sample_spec import one_clip
from videoload.engine.answers import Answers
from videoload.engine.membership import ConnectedWorker
from videoload.engine.meter import Meter
from videoload.engine.open_streams import OpenStream
from videoload.errors import Fault, ProtocolError
from videoload.logs import Log, RateLimitedLog
from videoload.plan.options import checked_options
from videoload.plan.plan import Plan
from videoload.plan.quarantine import Quarantine
from videoload.scheduler import events
from videoload.scheduler.commands import Command, Grant, Identify, Ready
from videoload.scheduler.files import Files
from videoload.scheduler.records import Stream
from videoload.scheduler.scheduler import Scheduler
from videoload.wire.messages import Failed, Result
from videoload.wire.slots import Slots

SPEC = ClipSpec(frames=2, size=(8, 8))
VIDEOS = 40
GOOD, CUT = 1001, 2002
WARNINGS = RateLimitedLog(Log("videoload.test"))


def told_of(*clips: list[int]) -> bytes:
    """What a worker tells of clips that show these frames."""
    info = np.zeros(len(clips), info_type(one_clip(SPEC)))
    info["frames"] = clips
    return info.tobytes()


class Peer:
    """A worker whose copy of every file shows one grey, and the leases that it was granted."""

    def __init__(self, grey: int) -> None:
        self.grey = grey
        self.leases: deque[Grant] = deque()
        self.sent = 0  # whose pixels were taken

    @property
    def router(self) -> Self:
        return self

    def receive_pixels(self, into: Sequence[npt.NDArray[np.uint8]]) -> None:
        self.sent += 1
        for part in into:
            part[:] = self.grey


class Trainer:
    """A stream of one clip a batch, and the answers to it. It has no files, or those whose
    fingerprint is ``own``."""

    def __init__(self, own: int = 0) -> None:
        catalog = Catalog([f"v{i}.avi" for i in range(VIDEOS)], [0] * VIDEOS, ["class"])
        options = checked_options(1)
        plan = Plan(VIDEOS, 1, options)
        self.own, self.now = own, 0.0
        self.stream = OpenStream(
            Stream(
                0, plan, Quarantine(catalog, plan, options), slots=4, ordered=True,
                files=Files(VIDEOS, has_own=own != 0), copy="mine",
            ),
            catalog, one_clip(SPEC), Slots(4, SPEC.clip_bytes), None, Meter(),
        )  # fmt: skip
        self.table = Scheduler(credit=2, stall_s=10.0, silence_s=2.0)
        self.due: list[Command] = []
        self.tell(events.StreamAdded(self.stream.state))
        self.workers: dict[Any, ConnectedWorker] = {}
        self.answers = Answers(
            self.table, self.tell, {0: self.stream}, self.workers, Meter(), WARNINGS
        )
        self.shown: dict[int, int] = {}  # the grey of each step that was handed over
        self.others: list[Command] = []

    def join(self, grey: int, copy: str, *, is_child: bool = False) -> Any:
        peer = Peer(grey)
        worker = ConnectedWorker(
            peer, grey, local=is_child, joined=self.now, copy=copy, host="here"
        )
        self.workers[peer] = worker
        self.tell(events.WorkerJoined(worker))
        self.obey()
        return peer

    def read(self) -> None:
        self.tell(events.ReaderBegan(0, 1, range(VIDEOS)))
        self.obey()

    def tell(self, event: events.Event) -> None:
        self.due += self.table.apply(event, self.now)

    def obey(self) -> None:
        while self.due:
            commands, self.due = self.due, []
            for command in commands:
                match command:
                    case Grant():
                        command.worker.leases.append(command)  # type: ignore[attr-defined]
                    case Ready():
                        pixels = self.stream.memory.view(command.slot, 0, (SPEC.clip_bytes,))
                        self.shown[command.step] = int(pixels[0])
                    case Identify():
                        self.tell(events.Identified(0, dict.fromkeys(command.videos, self.own)))
                    case _:
                        self.others.append(command)

    def answer(self, peer: Any, file: int, **replaced: Any) -> Grant:
        """The worker answers its first lease, with clips of the file with this fingerprint."""
        grant: Grant = peer.leases.popleft()
        told: dict[str, Any] = {"info": told_of([0, 1]), "files": [file]}
        self.answers.take(peer, Result(grant.lease, decode_s=0.01, **(told | replaced)))
        self.obey()
        return grant

    def wait(self, seconds: float, *beating: Any) -> None:
        for _ in range(round(seconds * 4)):
            self.now += 0.25
            for peer in beating:
                self.tell(events.Heard(peer))
            self.tell(events.Tick())
            self.obey()


@pytest.fixture
def trainer() -> Iterator[Trainer]:
    made = Trainer()
    yield made
    made.stream.memory.close()


@pytest.fixture
def owner() -> Iterator[Trainer]:
    made = Trainer(own=GOOD)
    yield made
    made.stream.memory.close()


def test_an_answer_of_another_file_gets_no_pixel_into_the_batch(owner: Trainer) -> None:
    owner.read()
    right, wrong = owner.join(11, "a"), owner.join(222, "b")
    owner.answer(wrong, CUT)
    assert (wrong.sent, owner.shown) == (0, {})
    while len(owner.shown) < 3:
        owner.answer(right, GOOD)
        owner.wait(0.25, right, wrong)
    assert set(owner.shown.values()) == {11}
    assert owner.stream.state.quarantine.videos == []


def test_of_two_workers_that_hold_a_clip_only_the_one_with_the_pinned_file_is_shown(
    trainer: Trainer,
) -> None:
    trainer.read()
    right, wrong = trainer.join(11, "a"), trainer.join(222, "b")
    trainer.answer(right, GOOD)
    held = right.leases[0]
    trainer.wait(2.5, wrong)  # the line of the first worker is down: others get what it holds
    trainer.answer(wrong, CUT)
    assert wrong.leases[-1].samples == held.samples
    assert wrong.leases[-1].files == (0,), "any copy will do, until one was decoded"
    trainer.answer(right, GOOD)
    wrong.leases.rotate()
    trainer.answer(wrong, CUT)
    assert wrong.sent == 1, "too late: the pixels are dropped"
    work = trainer.answers.meter.work(-math.inf)["here:222"]
    assert work.clips == 1
    assert trainer.shown == {0: 11, 1: 11, 2: 222}


def test_an_answer_that_breaks_the_protocol_gets_no_pixel_into_the_batch(trainer: Trainer) -> None:
    trainer.read()
    peer = trainer.join(222, "b")
    shown = [[0, 1], [0, 1]], [[-1, 0]], [[0, 1 << 48]]
    infos = [b"", told_of([0, 1])[1:], *(told_of(*clips) for clips in shown)]
    replaced: list[dict[str, Any]] = [{"info": info} for info in infos]
    for each in [*replaced, {"files": []}, {"files": [1, 2]}]:
        peer.leases.append(peer.leases[0])
        with pytest.raises(ProtocolError):
            trainer.answer(peer, GOOD, **each)
    assert (peer.sent, trainer.shown) == (0, {})


def test_a_failure_and_an_answer_to_no_lease_are_dropped(
    trainer: Trainer, caplog: pytest.LogCaptureFixture
) -> None:
    trainer.read()
    peer = trainer.join(11, "a")
    trainer.answers.take(peer, Result(999, told_of([0, 1]), files=[GOOD]))
    trainer.answers.failed(peer, Failed(999, 0, "no", Fault.FUNCTION), 0.0)
    trainer.obey()
    assert (peer.sent, trainer.shown, trainer.others, caplog.messages) == (0, {}, [], [])


@pytest.mark.parametrize("at", [0, 9])
def test_the_last_error_of_a_worker_names_its_file(trainer: Trainer, at: int) -> None:
    trainer.read()
    peer = trainer.join(11, "a")
    grant = peer.leases[0]
    trainer.answers.failed(peer, Failed(grant.lease, at, "no video"), 0.0)
    path = trainer.stream.catalog[grant.samples[0].video].path
    wanted = "no video" if at else f"{path}: no video"
    assert trainer.workers[peer].last_error == wanted


def test_a_file_of_the_own_copy_that_changes_is_named_once(
    owner: Trainer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    stream = owner.stream
    assert [stream.is_changed(3, version) for version in (7, 7, 0, 7)] == [False] * 4
    for version in (8, 9):
        assert stream.is_changed(3, version)
        stream.note_changed(3)
    assert [*stream.changed] == ["v3.avi"]
    assert caplog.text.count("v3.avi") == 1


def test_a_data_set_whose_files_all_changed_costs_the_io_thread_little_and_the_log_few_lines(
    owner: Trainer, caplog: pytest.LogCaptureFixture
) -> None:
    """A list of 20 000 names would be compared 200 000 000 times, for five seconds."""
    names = [f"class/video-{number:05}.avi" for number in range(20_000)]
    owner.stream.catalog = Catalog(names, [0] * len(names), ["class"])
    began = time.thread_time()
    for video in range(len(names)):
        owner.stream.note_changed(video)
    assert time.thread_time() - began < 1
    assert list(owner.stream.changed) == names
    assert owner.stream.record([]).changed_files == tuple(names[-8:])
    assert len(caplog.messages) < 25
    assert "16384" in caplog.messages[-1]


def test_a_function_that_fails_at_each_of_many_workers_is_in_the_log_once_a_second(
    trainer: Trainer, caplog: pytest.LogCaptureFixture
) -> None:
    trainer.read()
    for number in range(30):
        peer = trainer.join(number, f"h{number}")
        if peer.leases:
            failed = Failed(peer.leases.popleft().lease, 0, f"no module {number}", Fault.CODE)
            trainer.answers.failed(peer, failed, 0.0)
            trainer.obey()
    assert 0 < len(caplog.messages) < 5

"""The I/O loop's own rules, without sockets. Integration tests try the rest with real workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pytest
import zmq

from videoload import Catalog, ClipSpec
from videoload.clips.sample_spec import one_clip
from videoload.engine.engine import Engine
from videoload.engine.membership import ConnectedWorker
from videoload.engine.open_streams import OpenStream
from videoload.engine.reader_queue import ReaderQueue
from videoload.errors import VideoloadError
from videoload.leases.records import Worker
from videoload.plan.options import checked_options
from videoload.plan.plan import Plan
from videoload.plan.quarantine import Quarantine
from videoload.stats.meter import Meter
from videoload.storage.cache_directories import NO_DIRECTORIES
from videoload.transport.messages import (
    Bye,
    FromTrainer,
    FromWorker,
    Heartbeat,
    Lease,
    Result,
    unpack_from_trainer,
)
from videoload.transport.slots import Slots
from videoload.transport.sockets import Peer


@pytest.fixture
def engine() -> Iterator[Engine]:
    """An engine that never runs."""
    made = Engine(
        workers=0,
        listen=(),
        keys=None,
        insecure=False,
        any_software=False,
        stall_s=10.0,
        folders=NO_DIRECTORIES,
    )
    yield made
    made._close(zmq.Context())


class Crowd:
    """An address where more and more messages wait, and the peer that sends them."""

    endpoint = "tcp://127.0.0.1:1"
    socket = "a socket that is ready"
    events = None

    def __init__(self) -> None:
        self.taken = 0
        self.answers: list[FromTrainer] = []

    @property
    def router(self) -> Crowd:
        return self

    connections = router

    def receive(self) -> tuple[Crowd, FromWorker]:
        self.taken += 1
        return self, Heartbeat()

    def skip(self) -> None:
        """There are no pixels."""

    def inspect(self, now: float) -> tuple[list[str], float]:
        return [], now + 1

    def sending(self) -> list[object]:
        return []

    def send(self, message: FromTrainer) -> bool:
        self.answers.append(message)
        return True

    def close(self, linger_ms: int) -> None:
        """There is nothing to close."""


@pytest.fixture
def crowd(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Crowd:
    made = Crowd()
    engine._listener.routers.append(made)  # type: ignore[arg-type]
    monkeypatch.setattr(engine._listener, "poll", lambda channels, until: [made.socket])
    return made


def take_a_turn(engine: Engine) -> None:
    for handle in engine._receive():
        handle()
        engine._send()


def test_one_turn_takes_a_bounded_number_of_messages(engine: Engine, crowd: Crowd) -> None:
    # Otherwise the clock and the other addresses would not have their turn.
    take_a_turn(engine)
    assert crowd.taken == 64
    assert crowd.answers == [Bye("this trainer does not know you")] * 64


def test_an_engine_that_is_stopping_takes_no_messages(engine: Engine, crowd: Crowd) -> None:
    engine.stop()
    take_a_turn(engine)
    assert crowd.taken == 0


class LeaseSink:
    """An address whose worker keeps its leases and ignores the rest."""

    def __init__(self) -> None:
        self.leases: list[Lease] = []
        self.socket = self.limits = self
        self.numbers: dict[bytes, int] = {}

    def send_multipart(self, frames: Sequence[bytes], _flags: int) -> None:
        message = unpack_from_trainer(frames[1:])
        if isinstance(message, Lease):
            self.leases.append(message)

    def skip(self) -> None:
        """There are no pixels."""

    def granted(self, number: int, answer_bytes: int, leases: int) -> None:
        """Nothing is limited."""

    def left(self, number: int, now: float) -> None:
        """Nothing is limited."""


def open_stream(number: int = 0) -> OpenStream:
    options = checked_options(1)
    catalog = Catalog([f"v{i}.avi" for i in range(8)], [0] * 8, ["class"])
    spec = ClipSpec(frames=1, size=(2, 2))
    plan = Plan(len(catalog), 1, options)
    return OpenStream(
        number, catalog, one_clip(spec), plan, Quarantine(catalog, plan, options),
        Slots(3, spec.clip_bytes), True, None, None, Meter(),
    )  # fmt: skip


def broken() -> None:
    raise RuntimeError("a defect")


def test_what_a_call_or_a_command_about_a_stream_raises_ends_this_stream_alone(
    engine: Engine, crowd: Crowd
) -> None:
    streams, queues = [open_stream(number) for number in range(3)], [ReaderQueue() for _ in "012"]
    worker = Peer(LeaseSink(), b"worker")  # type: ignore[arg-type]
    engine.membership.admission.workers[worker] = ConnectedWorker("here", 1, is_child=True)
    for stream, queue in zip(streams, queues, strict=True):
        engine.post_about(stream, partial(engine.streams.add, stream))
        engine.post_about(stream, partial(engine.streams.begin, stream, stream.id, queue, range(8)))
    engine.post_about(streams[0], broken)
    streams[1].layouts.clear()  # no lease of it can be made
    take_a_turn(engine)
    engine._table.worker_joined(Worker(worker, local=True, joined=0.0))
    engine._send()
    for stream, queue in zip(streams[:2], queues, strict=False):
        assert isinstance(stream.error, VideoloadError)
        with pytest.raises(VideoloadError):
            queue.take(0)
    assert streams[2].error is None
    assert engine._table.pool.held(worker), "of the stream that is sound"
    engine.check()


@pytest.mark.parametrize("takes", [True, False], ids=["took a batch", "left its batches"])
def test_a_recall_is_answered_before_the_slots_are_granted_to_the_other_reader(
    takes: bool, engine: Engine
) -> None:
    stream, router = open_stream(), LeaseSink()
    peer = Peer(router, b"worker")  # type: ignore[arg-type]
    first, second = ReaderQueue(), ReaderQueue()
    engine.membership.admission.workers[peer] = ConnectedWorker("here", 1, is_child=True)
    engine._table.worker_joined(Worker(peer, local=True, joined=0.0))
    engine.streams.add(stream)
    engine.streams.begin(stream, 1, first, range(8))
    engine._send()
    while first.ready < 3:
        lease = router.leases.pop(0)
        result = Result(lease.lease, [[0]] * len(lease.clips), 0.01, [7], times=[[0.0]])
        engine._hear(peer, partial(engine._handle, peer, result))
        engine._send()
    assert router.leases == [], "the first reader holds all slots"
    if takes:
        assert first.take(0) is not None
    engine.streams.begin(stream, 2, second, range(8))
    engine._send()
    if not takes:
        assert first.ready == 3, "its consumer may be about to take one"
        engine._table.tick(engine._table.pool.now + 1.5)
        engine._send()
    assert first.ready == 0
    assert [lease.clips[0].row.path for lease in router.leases] == ["v0.avi", "v1.avi"]
    assert not engine._table.data_to_send()


class Gone(LeaseSink):
    """An address whose worker cannot be reached any more."""

    def send_multipart(self, frames: Sequence[bytes], _flags: int) -> None:
        raise zmq.ZMQError(zmq.EHOSTUNREACH)


def test_a_worker_that_no_lease_can_be_sent_to_has_died_and_its_host_is_named(
    engine: Engine,
) -> None:
    stream, peer = open_stream(), Peer(Gone(), b"worker")  # type: ignore[arg-type]
    engine.membership.admission.workers[peer] = ConnectedWorker("node-b", 1, is_child=False)
    engine._table.worker_joined(Worker(peer, local=False, joined=0.0))
    engine.streams.add(stream)
    engine.streams.begin(stream, 1, ReaderQueue(), range(8))
    engine._send()
    assert not engine.membership.workers
    assert "node-b" in engine.membership.lost()

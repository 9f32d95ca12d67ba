"""The I/O thread with workers that the test plays at its address."""

import logging
import socket
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.faults.proxy import Frame
from tests.faults.raw_peers import answer, dealer, hello, say
from tests.support.waiting import SECOND, wait_until
from videoload import Catalog, ClipSpec
from videoload.clips.sample_info import info_type
from videoload.clips.sample_spec import one_clip
from videoload.engine.engine import Engine
from videoload.engine.file_checker import FileChecker
from videoload.engine.meter import Meter
from videoload.engine.open_streams import OpenStream
from videoload.engine.reader_queue import ReaderQueue
from videoload.errors import StorageError, TransportError, VideoloadError
from videoload.plan.options import checked_options
from videoload.plan.plan import Plan
from videoload.plan.quarantine import Quarantine
from videoload.scheduler.records import Stream
from videoload.storage import stores
from videoload.storage.cache_directories import NO_DIRECTORIES
from videoload.storage.files import Folder
from videoload.storage.roots import open_storage
from videoload.wire.messages import (
    Bye,
    Heartbeat,
    Lease,
    Result,
    Welcome,
    pack,
    unpack_from_trainer,
)
from videoload.wire.slots import Slots


def make_engine() -> Engine:
    return Engine(
        workers=0, listen=["tcp://127.0.0.1:*"], keys=None, insecure=False,
        allow_version_mismatch=True, stall_s=10.0, folders=NO_DIRECTORIES,
    )  # fmt: skip


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = make_engine()
    yield made
    made.stop()


def open_stream(number: int = 0) -> OpenStream:
    options = checked_options(1)
    catalog = Catalog([f"{number}/{i}.avi" for i in range(8)], [0] * 8, ["class"])
    spec = ClipSpec(frames=1, size=(2, 2))
    plan = Plan(len(catalog), 1, options)
    return OpenStream(
        Stream(number, plan, Quarantine(catalog, plan, options), slots=3, ordered=True),
        catalog, one_clip(spec), Slots(3, spec.clip_bytes), None, Meter(),
    )  # fmt: skip


def begin(engine: Engine, stream: OpenStream, reader: int) -> ReaderQueue:
    queue = ReaderQueue()
    engine.post_about(stream, partial(engine.streams.begin, stream, reader, queue, range(8)))
    return queue


def wait(event: threading.Event) -> None:
    """Nothing is read meanwhile."""
    assert event.wait(10 * SECOND)


def broken() -> None:
    raise RuntimeError("a defect")


def test_what_a_call_or_a_command_about_a_stream_raises_ends_this_stream_alone(
    engine: Engine,
) -> None:
    streams, [endpoint] = [open_stream(number) for number in range(3)], engine.start()
    streams[1].layouts.clear()  # no lease of it can be made
    for stream in streams:
        engine.post_about(stream, partial(engine.streams.add, stream))
    queues = [begin(engine, stream, stream.state.id) for stream in streams]
    engine.post_about(streams[0], broken)
    with dealer(endpoint) as worker:
        say(worker, hello())
        assert isinstance(answer(worker), Welcome)
        lease = answer(worker)
        assert isinstance(lease, Lease)
        assert lease.clips[0].row.path == "2/0.avi", "of the stream that is sound"
        for stream, queue in zip(streams[:2], queues, strict=False):
            with pytest.raises(VideoloadError):
                queue.take(10 * SECOND)
            assert isinstance(stream.error, VideoloadError)
        assert streams[2].error is None
        engine.check()


def test_an_io_thread_that_collects_another_client_does_not_wait_for_its_end(
    engine: Engine,
) -> None:
    engine.start()
    other = make_engine()
    other.start()
    begins, may_go_on, in_time = threading.Event(), threading.Event(), list[bool]()
    other.post(begins.set)
    other.post(lambda: in_time.append(may_go_on.wait(5 * SECOND)))
    assert begins.wait(10 * SECOND)
    engine.post(other.stop)  # as the garbage collector does, in whichever thread it runs
    engine.post(may_go_on.set)
    wait_until(lambda: in_time, 30 * SECOND)
    assert in_time == [True]
    other.stop()


@pytest.mark.slow
def test_a_worker_whose_answer_is_on_its_way_keeps_its_leases(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("videoload.engine.engine.SILENCE_S", SECOND)
    stream, engine = open_stream(), make_engine()
    [endpoint] = engine.start()
    engine.post_about(stream, partial(engine.streams.add, stream))
    begin(engine, stream, 1)
    host, _, port = endpoint.removeprefix("tcp://").partition(":")
    with (
        socket.create_connection((host, int(port)), 10 * SECOND) as slow,
        dealer(endpoint) as other,
    ):
        slow.sendall(b"\xff" + bytes(8) + b"\x7f\x03\0" + b"NULL".ljust(20, b"\0") + bytes(32))
        slow.recv(64, socket.MSG_WAITALL)  # its greeting
        slow.sendall(Frame(4, b"\5READY\x0bSocket-Type\0\0\0\6DEALER").encode())
        slow.recv(100)  # ZeroMQ reads what comes before it is ready when more comes
        version, text = map(bytes, pack(hello(1)))
        slow.sendall(Frame(1, version).encode() + Frame(0, text).encode())
        wait_until(lambda: engine.membership.workers, 10 * SECOND)
        slow.sendall(Frame(0, bytes(1 << 20)).encode()[:1000])  # of a megabyte, so far
        say(other, hello(2))
        assert isinstance(answer(other), Welcome)
        got: dict[str, int] = {}  # the leases of the other one, by their file

        def gets_all() -> bool:
            say(other, Heartbeat(max(got.values(), default=0)))
            while other.poll(50):
                if isinstance(lease := unpack_from_trainer(other.recv_multipart()), Lease):
                    got[lease.clips[0].row.path] = lease.lease
            return "0/0.avi" in got

        for _ in range(40):
            slow.sendall(b"\0")
            assert not gets_all()
        wait_until(gets_all, 20 * SECOND, "it is silent now")
    engine.stop()


def test_no_thread_waits_for_storage_after_the_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("obstore", reason="needs videoload[remote]")
    monkeypatch.setattr(stores, "TELL_S", 0.0)
    before = {*threading.enumerate()}  # other tests may have left some
    checker, found, url = FileChecker(), list[Any](), "http://127.0.0.1:1/videos"
    paths = {number: f"{number}.avi" for number in range(100)}  # more than are requested at once
    checker.identify(open_storage(url), paths, 0, lambda *reply: found.append(reply))
    wait_until(lambda: url in caplog.text, 20 * SECOND, "nobody answers")
    checker.close()
    caplog.clear()
    names = ("videoload-files", "videoload-fetch")
    wait_until(
        lambda: not [t for t in {*threading.enumerate()} - before if t.name in names], 10 * SECOND
    )
    assert not caplog.messages
    assert all(isinstance(error, StorageError) for _, error in found)


def test_where_no_thread_can_be_started_no_file_is_to_blame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    checker, found = FileChecker(), list[Any]()
    monkeypatch.setattr(threading.Thread, "start", start)
    checker.identify(Folder(tmp_path), {7: "a.avi"}, 0, lambda *reply: found.append(reply))
    checker.close()
    [(number, error)] = found
    assert number == 7
    assert isinstance(error, StorageError)


@pytest.mark.parametrize(
    "error", [RuntimeError("a defect"), VideoloadError("no descriptors"), SystemExit("a handler")]
)
def test_what_a_call_about_no_stream_raises_ends_the_engine_and_all_streams(
    error: BaseException, engine: Engine
) -> None:
    def fail() -> None:
        raise error

    stream, _ = open_stream(), engine.start()
    engine.post_about(stream, partial(engine.streams.add, stream))
    queue = begin(engine, stream, 1)
    engine.post(fail)
    with pytest.raises(VideoloadError, match=str(error)):
        queue.take(10 * SECOND)
    with pytest.raises(VideoloadError, match=str(error)):
        engine.check()


def test_one_more_reader_gets_slots_of_its_own_or_the_error_that_there_is_no_memory(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, [endpoint] = open_stream(), engine.start()  # of three slots
    engine.post_about(stream, partial(engine.streams.add, stream))
    first = begin(engine, stream, 1)
    with dealer(endpoint) as worker:
        say(worker, hello())
        assert isinstance(answer(worker), Welcome)

        def answers(leases: int) -> list[str]:
            paths = []
            for _ in range(leases):
                lease = answer(worker)
                assert isinstance(lease, Lease)
                paths.append(lease.clips[0].row.path)
                info = np.zeros(1, info_type(stream.spec)).tobytes()
                found = Result(lease.lease, info, 0.01, [7])
                say(worker, found, bytes(stream.spec.clip_bytes))
            return paths

        answers(3)
        wait_until(lambda: first.ready == 3, 10 * SECOND, "the first reader holds all slots")
        second = begin(engine, stream, 2)
        assert answers(2) == ["0/0.avi", "0/1.avi"]
        wait_until(lambda: second.ready == 2, 10 * SECOND)
        assert (first.ready, stream.memory.slots) == (3, 5)

        def full(slots: int) -> None:
            raise MemoryError("full")

        monkeypatch.setattr(stream.memory, "grow", full)
        third = begin(engine, stream, 3)
        with pytest.raises(VideoloadError, match="full"):
            third.take(10 * SECOND)
        engine.check()


def test_slots_that_are_added_for_workers_that_come_later_are_used(engine: Engine) -> None:
    stream, [endpoint] = open_stream(), engine.start()  # of three slots
    stream.slots_for = lambda workers: 2 * workers
    engine.post_about(stream, partial(engine.streams.add, stream))
    begin(engine, stream, 1)
    with dealer(endpoint) as one, dealer(endpoint) as other:
        for pid, worker in enumerate((one, other)):
            say(worker, hello(pid))
            assert isinstance(answer(worker), Welcome)
        for worker in (one, other, one, other):
            assert isinstance(answer(worker), Lease)


def test_workers_that_come_and_leave_without_end_fill_no_log(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "videoload")
    [endpoint], began = engine.start(), time.monotonic()
    with dealer(endpoint) as worker:
        for pid in range(500):
            say(worker, hello(pid))
            assert isinstance(answer(worker), Welcome)
            say(worker, Bye(""))
    wait_until(lambda: not engine.membership.workers, 10 * SECOND)
    assert len(caplog.messages) < 100 + 40 * (time.monotonic() - began)


def test_a_client_whose_disk_answers_nobody_does_not_start_and_says_so(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()

    def cores() -> int:
        wait(answers)
        return 1

    monkeypatch.setattr("videoload.engine.engine._START_S", 0.1)
    monkeypatch.setattr("videoload.host.cores", cores)
    with pytest.raises(TransportError, match=r"0\.1 s"):
        engine.start()
    answers.set()


def test_a_worker_whose_connection_ends_has_died_and_its_host_is_named(engine: Engine) -> None:
    stream, [endpoint] = open_stream(), engine.start()
    with dealer(endpoint) as worker:
        say(worker, hello())
        assert isinstance(answer(worker), Welcome)
    engine.post_about(stream, partial(engine.streams.add, stream))
    begin(engine, stream, 1)  # no lease can be sent
    wait_until(lambda: not engine.membership.workers, 10 * SECOND)
    assert hello().host in engine.membership.lost()


def test_a_worker_whose_goodbye_is_read_after_its_connection_ended_did_not_die(
    engine: Engine,
) -> None:
    stream, [endpoint] = open_stream(), engine.start()
    engine.post_about(stream, partial(engine.streams.add, stream))
    begin(engine, stream, 1)
    has_ended = threading.Event()
    with dealer(endpoint) as worker:
        say(worker, hello())
        assert isinstance(answer(worker), Welcome)
        leases = [answer(worker) for _ in range(2)]
        engine.post(lambda: wait(has_ended))
        for lease in leases:
            assert isinstance(lease, Lease)
            info = np.zeros(1, info_type(stream.spec)).tobytes()
            say(worker, Result(lease.lease, info, 0.01, [7]), bytes(stream.spec.clip_bytes))
        say(worker, Bye(""))
    has_ended.set()
    wait_until(lambda: not engine.membership.workers, 10 * SECOND)
    wait_until(lambda: not engine.membership.lost(), 10 * SECOND)


def test_what_a_question_raises_is_raised_by_its_asker_alone(engine: Engine) -> None:
    engine.start()
    with pytest.raises(RuntimeError, match="a defect"):
        engine.ask(broken, 30 * SECOND)
    assert engine.ask(lambda: 7, 30 * SECOND) == 7
    engine.check()

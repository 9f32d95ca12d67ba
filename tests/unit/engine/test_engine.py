"""The I/O thread: what a defect ends, how it starts and ends, and the slots of its readers."""

import threading
from collections.abc import Iterator

import pytest

from tests.support.engines import add, begin, make_engine, open_stream, worker
from tests.support.waiting import SECOND, wait_until
from videoload.engine.engine import Engine
from videoload.engine.open_streams import OpenStream
from videoload.errors import TransportError, VideoloadError


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = make_engine()
    yield made
    made.stop()


# What a defect ends


def broken(*_: OpenStream) -> None:
    raise RuntimeError("a defect")


def test_what_a_call_or_a_command_about_a_stream_raises_ends_this_stream_alone(
    engine: Engine,
) -> None:
    called, granted, sound = streams = [open_stream(number) for number in range(3)]
    [endpoint] = engine.start()
    for stream in streams:
        add(engine, stream)
    queues = [begin(engine, stream, reader) for reader, stream in enumerate(streams)]
    engine.post_about(called, broken)
    granted.layouts.clear()  # no lease of it can be made
    with worker(endpoint) as played:
        assert played.lease().clips[0].row.path == "2/0.avi", "of the stream that is sound"
        for stream, queue in zip((called, granted), queues, strict=False):
            with pytest.raises(VideoloadError):
                queue.take(30 * SECOND)
            assert isinstance(stream.state.ended, VideoloadError)
        assert sound.state.ended is None
        engine.check()


@pytest.mark.parametrize(
    "error", [RuntimeError("a defect"), VideoloadError("no descriptors"), SystemExit("a handler")]
)
def test_what_a_call_about_no_stream_raises_ends_the_engine_and_all_streams(
    error: BaseException, engine: Engine
) -> None:
    def fail() -> None:
        raise error

    stream, _ = open_stream(), engine.start()
    add(engine, stream)
    queue = begin(engine, stream)
    engine.post(fail)
    with pytest.raises(VideoloadError, match=str(error)):
        queue.take(30 * SECOND)
    with pytest.raises(VideoloadError, match=str(error)):
        engine.check()


def test_what_a_question_raises_is_raised_by_its_asker_alone(engine: Engine) -> None:
    engine.start()
    with pytest.raises(RuntimeError, match="a defect"):
        engine.ask(broken, 30 * SECOND)
    assert engine.ask(lambda: 7, 30 * SECOND) == 7
    engine.check()


# Its start and its end


def test_a_client_whose_disk_answers_nobody_does_not_start_and_says_so(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread's first steps import modules and count cores, which read files."""
    disk_answers = threading.Event()

    def cores() -> int:
        assert disk_answers.wait(30 * SECOND)
        return 1

    monkeypatch.setattr("videoload.engine.engine._START_S", 0.1)
    monkeypatch.setattr("videoload.host.cores", cores)
    with pytest.raises(TransportError, match=r"0\.1 s"):
        engine.start()
    disk_answers.set()


def test_an_io_thread_that_collects_another_client_does_not_wait_for_its_end(
    engine: Engine,
) -> None:
    """The garbage collector ends a client in whichever thread it runs."""
    engine.start()
    other = make_engine()
    other.start()
    stands_still, may_go_on, in_time = threading.Event(), threading.Event(), list[bool]()
    other.post(stands_still.set)
    other.post(lambda: in_time.append(may_go_on.wait(30 * SECOND)))
    assert stands_still.wait(30 * SECOND)
    engine.post(other.stop)
    engine.post(may_go_on.set)
    wait_until(lambda: in_time, 60 * SECOND)
    assert in_time == [True]
    other.stop()


# Slots: a stream has three


def test_one_more_reader_gets_slots_of_its_own_or_the_error_that_there_is_no_memory(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, [endpoint] = open_stream(), engine.start()
    add(engine, stream)
    first = begin(engine, stream, 1)
    with worker(endpoint) as played:
        for _ in range(3):
            played.answer(played.lease())
        wait_until(lambda: first.ready == 3, 30 * SECOND, "the first reader holds all slots")
        second = begin(engine, stream, 2)
        assert [played.answer(played.lease()) for _ in range(2)] == ["0/0.avi", "0/1.avi"]
        wait_until(lambda: second.ready == 2, 30 * SECOND)
        assert (first.ready, stream.memory.slots) == (3, 5)

        def full(slots: int) -> None:
            raise MemoryError("full")

        monkeypatch.setattr(stream.memory, "grow", full)
        third = begin(engine, stream, 3)
        with pytest.raises(VideoloadError, match="full"):
            third.take(30 * SECOND)
        engine.check()


def test_slots_that_are_added_for_workers_that_come_later_are_used(engine: Engine) -> None:
    stream, [endpoint] = open_stream(), engine.start()
    stream.slots_for = lambda workers: 2 * workers
    add(engine, stream)
    begin(engine, stream)
    with worker(endpoint, 0) as one, worker(endpoint, 1) as other:
        for each in (one, other, one, other):
            each.lease()


def test_the_record_of_a_stream_tells_training_from_validation() -> None:
    assert "in order" in open_stream().record([]).what
    assert "shuffled" in open_stream(shuffle=True).record([]).what

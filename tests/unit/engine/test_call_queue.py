"""`CallQueue`: calls for another thread, and whether that thread still makes them."""

import os
import select
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.support.clock import Clock
from tests.support.waiting import SECOND
from videoload import VideoloadError
from videoload.engine.call_queue import CallQueue


@pytest.fixture
def queue() -> Iterator[CallQueue]:
    made = CallQueue()
    yield made
    made.close()


def is_woken(queue: CallQueue) -> bool:
    return bool(select.select([queue.socket], [], [], 0)[0])


def make_calls(queue: CallQueue) -> None:
    for call in queue.take():
        call()


def test_several_posts_wake_the_polling_thread_once(queue: CallQueue) -> None:
    assert not is_woken(queue)
    for _ in range(3):
        queue.post(list)
    assert is_woken(queue)
    queue.clear_wake()
    assert not is_woken(queue)


def test_a_call_without_wake_wakes_nobody_and_is_made_with_the_others(queue: CallQueue) -> None:
    made: list[int] = []
    queue.post(lambda: made.append(1), wake=lambda: False)
    assert not is_woken(queue)
    make_calls(queue)
    assert made == [1]


def test_whether_to_wake_is_asked_when_the_call_is_in_the_queue(queue: CallQueue) -> None:
    """A thread notes that it is to be woken, looks at the queue, and sleeps. A call that came
    between the last two has to see the note."""
    queue.post(list, wake=lambda: len(queue) == 1)
    assert is_woken(queue)


def test_a_call_that_another_call_posts_is_made_next_time(queue: CallQueue) -> None:
    made: list[int] = []

    def again() -> None:
        made.append(len(made))
        queue.post(again)

    queue.post(again)
    make_calls(queue)
    assert made == [0]
    assert len(queue) == 1


def test_a_closed_queue_keeps_no_calls(queue: CallQueue) -> None:
    queue.post(list)
    queue.close()
    assert not queue
    queue.post(list)
    assert not queue


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_post_in_a_forked_copy_does_nothing(queue: CallQueue) -> None:
    child = os.fork()
    if not child:
        queue.post(list)
        os._exit(len(queue))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not is_woken(queue)


# Whether the thread still makes calls


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watched(clock: Clock) -> Iterator[CallQueue]:
    made = CallQueue(clock)
    yield made
    made.close()


def in_another_thread(call: Callable[[], None]) -> BaseException | None:
    """What ``call`` raises in another thread."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30 * SECOND)
    return raised[0] if raised else None


def error_after(watched: CallQueue, clock: Clock, seconds: float) -> BaseException | None:
    """The error of a thread that waits for this long and checks five times a second."""
    for _ in range(round(5 * seconds)):
        clock.now += 0.2
        if (error := in_another_thread(watched.check_thread)) is not None:
            return error
    return None


def test_a_thread_that_stands_still_for_20_s_is_an_error_for_those_that_wait(
    watched: CallQueue, clock: Clock
) -> None:
    make_calls(watched)
    assert error_after(watched, clock, 19) is None
    error = error_after(watched, clock, 3)
    assert isinstance(error, VideoloadError)
    make_calls(watched)
    assert error_after(watched, clock, 19) is None, "it goes on"


def test_the_main_thread_never_gets_this_error(watched: CallQueue, clock: Clock) -> None:
    for _ in range(200):
        clock.now += 0.2
        watched.check_thread()


@pytest.mark.parametrize("checked", [False, True])
def test_an_hour_in_which_the_process_was_stopped_does_not_count(
    checked: bool, watched: CallQueue, clock: Clock
) -> None:
    if checked:
        assert error_after(watched, clock, 1) is None
    clock.now += 3600
    assert error_after(watched, clock, 10) is None

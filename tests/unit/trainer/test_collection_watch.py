"""Whether the garbage collector holds up a thread."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable

import pytest

from tests.leaks import collect_garbage
from tests.waiting import SECOND
from videoload import VideoloadError
from videoload.trainer.collection_watch import CollectionWatch


def elsewhere(call: Callable[[], None]) -> BaseException | None:
    """What ``call`` raises in another thread."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(10 * SECOND)
    return raised[0] if raised else None


class Garbage:
    """Part of a cycle; ``freed`` is called where it is collected."""

    def __init__(self, freed: Callable[[], None]) -> None:
        self.me = self
        self._freed = freed

    def __del__(self) -> None:
        self._freed()


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> CollectionWatch:
    monkeypatch.setattr("videoload.trainer.collection_watch._LONGEST_S", 0.0)
    return CollectionWatch()


def test_who_is_waited_for_hears_of_it(watch: CollectionWatch) -> None:
    raised: list[BaseException | None] = []
    with watch:
        Garbage(lambda: raised.append(elsewhere(watch.check)))
        gc.collect()
        assert isinstance(raised[0], VideoloadError)
        assert elsewhere(watch.check) is None  # it is over


def test_the_main_thread_is_never_waited_for(watch: CollectionWatch) -> None:
    checks: list[None] = []
    with watch:
        Garbage(lambda: checks.append(watch.check()))  # type: ignore[func-returns-value]
        gc.collect()
    assert checks == [None]


def test_a_collection_in_another_thread_is_none_of_its_business(watch: CollectionWatch) -> None:
    raised: list[BaseException | None] = []
    with watch:
        Garbage(lambda: raised.append(elsewhere(watch.check)))
        assert elsewhere(collect_garbage) is None
    assert raised == [None]


def test_afterwards_nothing_is_called_any_more(watch: CollectionWatch) -> None:
    before = list(gc.callbacks)
    with watch:
        assert len(gc.callbacks) == len(before) + 1
    assert gc.callbacks == before

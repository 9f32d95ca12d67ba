"""When garbage is collected."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

from videoload.trainer.collection import Collection


@pytest.fixture
def collection() -> Iterator[Collection]:
    made = Collection()
    enabled = gc.isenabled()
    gc.enable()
    yield made
    (gc.enable if enabled else gc.disable)()


def test_none_begins_between_the_first_pause_and_the_last_resume(collection: Collection) -> None:
    collection.pause()
    collection.pause()
    collection.resume()
    assert not gc.isenabled()
    collection.resume()
    assert gc.isenabled()


def test_who_has_switched_it_off_finds_it_off(collection: Collection) -> None:
    gc.disable()
    collection.pause()
    collection.resume()
    assert not gc.isenabled()


@pytest.mark.parametrize("was_on", [True, False])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_has_it_as_it_was_before_the_pause(collection: Collection, was_on: bool) -> None:
    (gc.enable if was_on else gc.disable)()
    collection.pause()
    child = os.fork()
    if not child:
        os._exit(gc.isenabled())
    _, status = os.waitpid(child, 0)
    collection.resume()
    assert os.waitstatus_to_exitcode(status) == was_on

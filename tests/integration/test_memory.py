"""Who owns the memory of batches, and that it is freed, here and in the workers."""

import gc
import logging
import os
import weakref

import pytest

from tests.support.digests import digests
from tests.support.processes import arena_maps, children_of, descriptors
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until
from videoload import Client, ClipSpec, decode_serially

SMALL = ClipSpec(frames=4, resize=36, size=(32, 32), sampling="random", clips_per_video=3)


def open_files() -> int:
    """How many descriptors are open, without those of the reserve, which come and go."""
    return sum("eventfd" not in where for where in descriptors().values())


def test_a_stream_that_is_dropped_frees_its_memory_here_and_in_the_workers(
    videos: Videos,
) -> None:
    with Client(workers=2) as client:
        keep = client.stream(videos.catalog, SMALL, 3)
        list(keep)
        workers = children_of(os.getpid())
        assert len(workers) == 2
        wait_until(lambda: all(len(arena_maps(pid)) == 1 for pid in workers), 30 * SECOND)
        files = open_files()
        for _ in range(5):
            stream = client.stream(videos.catalog, SMALL, 3)
            clips, _labels = next(iter(stream))
            gone = weakref.ref(stream)
            del stream
            gc.collect()
            assert gone() is None
            wait_until(
                lambda: all(len(arena_maps(pid)) == 1 for pid in workers), 30 * SECOND,
                "the workers let go of the arena",
            )  # fmt: skip
            assert len(arena_maps()) == 2, "the consumer's batch must stay"
            del clips
            wait_until(lambda: len(arena_maps()) == 1, 30 * SECOND, "the trainer frees it")
        assert open_files() == files
        list(keep)


def test_a_closed_client_frees_the_memory_of_its_streams(videos: Videos) -> None:
    with Client(workers=1) as client:
        stream = client.stream(videos.catalog, SMALL, 3)
        batch = next(iter(stream))
        other = client.stream(videos.catalog, SMALL, 3)
        half = iter(other)
        next(half)
        assert len(arena_maps()) == 2
    del stream, other, half
    gc.collect()
    assert len(arena_maps()) == 1, "the consumer has the batch, nobody has the rest"
    del batch
    gc.collect()
    assert not arena_maps()
    assert repr(client) == "Client(closed)"  # it is still there


# These share a client, so they come last: the others count all that is mapped.


@pytest.mark.slow
def test_holding_every_batch_never_deadlocks_and_changes_no_batch(
    client: Client, videos: Videos, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "videoload"):
        slots = 8
        stream = client.stream(videos.catalog, SMALL, 2, shuffle=True, slots=slots)
        held, early = [], []
        for batch in stream.batches(epochs=3, info=True):
            held.append(batch)
            early += digests([batch])
        assert len(held) > slots
        assert digests(held) == early
        assert early == digests(
            decode_serially(videos.catalog, SMALL, 2, shuffle=True, epochs=3, info=True)
        )
        copied = stream.stats().copied
        assert len(held) - slots <= copied < len(held)
        [told] = [r.message for r in caplog.records if "copied" in r.message]
        assert all(word in told for word in (f"{slots - 2} of {slots}", "slots="))
        # Dropped batches give their slots back: no more copies.
        del batch
        held.clear()
        for last in stream.batches(epochs=1):
            del last
        assert stream.stats().copied == copied
    held = []


@pytest.mark.slow
def test_a_consumer_may_write_into_its_batch(client: Client, videos: Videos) -> None:
    stream = client.stream(videos.catalog, SMALL, 3, slots=2)
    expected = digests(stream.batches(epochs=2))
    got = []
    for clips, labels in stream.batches(epochs=2):
        got += digests([(clips, labels)])
        clips[:] = 0
    assert got == expected

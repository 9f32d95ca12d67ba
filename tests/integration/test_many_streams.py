"""Training, validation and test streams share the workers of one client, and none delays
another."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.support.digests import digests
from tests.support.thorough import either, rest_nightly
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until
from videoload import Client, ClipSpec, Stream, decode_serially

pytestmark = pytest.mark.timeout(120 * SECOND)

CLIP = ClipSpec(frames=8, stride=2, resize=36, size=(32, 32), sampling="random", clips_per_video=12)
BATCH, SLOTS = 4, 4


def serial(videos: Videos, seed: int) -> list[str]:
    return digests(decode_serially(videos.catalog, CLIP, BATCH, shuffle=True, seed=seed, info=True))


def make(client: Client, videos: Videos, seed: int, slots: int = SLOTS) -> Stream:
    return client.stream(videos.catalog, CLIP, BATCH, shuffle=True, seed=seed, slots=slots)


def decoded(client: Client) -> int:
    return sum(worker.clips for worker in client.workers)


@pytest.mark.slow
@pytest.mark.parametrize("workers", rest_nightly([2, 1]))
def test_a_stream_that_is_read_slowly_or_not_at_all_delays_no_other(
    workers: int, videos: Videos, tell: Callable[[str], None]
) -> None:
    with Client(workers=workers) as client:
        client.wait_for_workers(workers, timeout_s=30 * SECOND)
        unread = make(client, videos, 1).batches(epochs=1, info=True)
        slow = make(client, videos, 2).batches(epochs=1, info=True)
        kept, sipped = digests([next(unread)]), digests([next(slow)])
        full = 2 * (1 + SLOTS) * BATCH  # each was read once, and that slot is free again
        wait_until(lambda: decoded(client) == full, 30 * SECOND, "they fill their slots")

        train = make(client, videos, 3)
        asked = time.monotonic()
        got: list[str] = []
        for batch in train.batches(epochs=1, info=True):
            got += digests([batch])
            if len(got) == 1:
                first_s = time.monotonic() - asked
            if len(got) % 6 == 0:
                sipped += digests([next(slow)])
        assert got == serial(videos, 3)
        assert len(sipped) == 1 + len(train) // 6
        # Exactly what was read is decoded, plus the slots that are full: nothing was decoded in
        # vain.
        expected = full + (len(got) + len(sipped) - 1) * BATCH
        wait_until(lambda: decoded(client) == expected, 30 * SECOND, "and no more than that")

        sipped += digests(slow)
        assert sipped == serial(videos, 2)
        kept += digests(unread)
        assert kept == serial(videos, 1)
    tell(f"first batch beside two full streams: {1000 * first_s:.0f} ms")
    assert first_s < either(20, 2) * SECOND


@pytest.mark.slow
def test_the_stream_whose_consumer_waits_goes_before_one_that_fills_its_slots(
    videos: Videos, tell: Callable[[str], None]
) -> None:
    # The big stream has a hundred slots to fill. Without turns, the small one would wait for all of
    # them.
    with Client(workers=1) as client:
        client.wait_for_workers(1, timeout_s=30 * SECOND)
        full = 100
        big = client.stream(
            videos.catalog, CLIP, BATCH, shuffle=True, seed=1, slots=full
        ).batches(epochs=5, info=True)  # fmt: skip
        next(big)
        small = make(client, videos, 2)
        got = digests(small.batches(epochs=1, info=True))
        before = decoded(client) - len(got) * BATCH
        assert got == serial(videos, 2)
        wait_until(lambda: decoded(client) == (len(got) + 1 + full) * BATCH, 30 * SECOND)
    tell(f"beside {len(got) * BATCH} clips waited for, {before} that were not")
    # The worker holds two leases, so a few of the big stream come in between; not a hundred
    # batches, unless this process hardly ever has a core.
    assert before < full * BATCH / either(1, 2)

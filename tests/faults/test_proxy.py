"""Nothing that breaks on the way between a worker and its trainer changes a stream."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

from tests.faults.proxy import Fault, Kind, Proxy, Way
from tests.support.digests import digests
from tests.support.programs import Programs
from tests.support.thorough import rest_nightly
from tests.support.videos import Videos
from tests.support.waiting import SECOND
from videoload import Client, ClipSpec, decode_serially

pytestmark = [
    pytest.mark.slow, pytest.mark.timeout(120 * SECOND), pytest.mark.xdist_group("proxy"),
]  # fmt: skip

CLIP = ClipSpec(frames=3, stride=2, resize=36, size=(32, 32), sampling="random", clips_per_video=8)
BATCH, SLOTS = 4, 4
RESULT, HELLO, WELCOME = b"\xa6result", b"\xa5hello", b"\xa7welcome"


@pytest.fixture(scope="module")
def serial(videos: Videos) -> list[str]:
    return digests(decode_serially(videos.catalog, CLIP, BATCH, shuffle=True, info=True))


def reading(client: Client, videos: Videos, serial: list[str]) -> Iterator[None]:
    """Reads the same epoch again and again, and checks each batch."""
    stream = client.stream(videos.catalog, CLIP, BATCH, shuffle=True, slots=SLOTS)
    while True:
        for batch, expected in zip(stream.batches(epochs=1, info=True), serial, strict=True):
            assert digests([batch]) == [expected]
            yield
        assert not stream.quarantine


def read(batches: Iterator[None], count: int = 2 * SLOTS) -> None:
    """So many more, or those that were on their way and as many again."""
    for _ in islice(batches, count):
        pass


@pytest.mark.parametrize(
    ("kind", "greeting"),
    [
        *[(Kind.DROP, (Way.UP, HELLO)), (Kind.DUPLICATE, (Way.DOWN, WELCOME))],
        *[(Kind.TRUNCATE, (Way.UP, HELLO)), (Kind.SWAP, (Way.DOWN, WELCOME))],
    ],
)
def test_a_broken_greeting_is_sent_again(
    kind: Kind, greeting: tuple[Way, bytes], videos: Videos, serial: list[str], programs: Programs
) -> None:
    with (
        Client(workers=0, listen="tcp://127.0.0.1:*") as client,
        Proxy(client.endpoints[0]) as proxy,
    ):
        proxy.arm(Fault(kind, *greeting))
        programs.impatient_worker(proxy.endpoint, videos.root)
        read(reading(client, videos, serial))
        assert proxy.done == {kind: 1}


TIMES = 6


@pytest.mark.parametrize("kind", rest_nightly([Kind.CUT_WITHIN, Kind.CUT]))
def test_a_bad_line_is_not_mistaken_for_a_bad_video(
    kind: Kind, videos: Videos, serial: list[str], programs: Programs
) -> None:
    # The only worker comes back each time and gets the same clip, and each time it is cut off when
    # it answers. That must not look like a clip that kills its workers, although four deaths are
    # enough.
    with (
        Client(workers=0, listen="tcp://127.0.0.1:*") as client,
        Proxy(client.endpoints[0], seed=1) as proxy,
    ):
        programs.impatient_worker(proxy.endpoint, videos.root)
        batches = reading(client, videos, serial)
        next(batches)
        proxy.arm(*[Fault(kind, Way.UP, RESULT)] * TIMES)
        while proxy.done[kind] < TIMES:
            next(batches)
        read(batches, len(serial))


def test_a_lease_held_past_the_deadline_goes_to_others_and_its_answer_is_late(
    videos: Videos, serial: list[str], programs: Programs
) -> None:
    with (
        Client(workers=1, listen="tcp://127.0.0.1:*") as client,
        Proxy(client.endpoints[0]) as proxy,
    ):
        programs.impatient_worker(proxy.endpoint, videos.root)
        client.wait_for_workers(2, timeout_s=30 * SECOND)
        batches = reading(client, videos, serial)
        proxy.arm(Fault(Kind.HOLD, Way.UP, RESULT))
        while not proxy.done[Kind.HOLD]:
            next(batches)
        read(batches)  # the others have passed it
        proxy.release()
        read(batches)
        assert len(client.workers) == 2

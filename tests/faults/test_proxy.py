"""The proxy breaks exactly what it should, and nothing that it breaks changes a stream."""

from __future__ import annotations

import pytest

from tests.faults.proxy import Fault, Kind, Proxy, Way
from tests.faults.readings import Reading
from tests.support.programs import Programs
from tests.support.thorough import rest_nightly
from tests.support.videos import Videos
from tests.support.waiting import SECOND
from videoload import Client, ClipSpec

pytestmark = [pytest.mark.timeout(120 * SECOND), pytest.mark.xdist_group("proxy")]

CLIP = ClipSpec(frames=3, stride=2, resize=36, size=(32, 32), sampling="random", clips_per_video=8)
BATCH, SLOTS = 4, 4
EPOCHS = 1  # of 16 batches
RESULT, LEASE = b"\xa6result", b"\xa5lease"
HELLO, WELCOME = b"\xa5hello", b"\xa7welcome"


# The proxy alone


# Workers behind the proxy


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "greeting"),
    [
        *[(Kind.DROP, (Way.UP, HELLO)), (Kind.DUPLICATE, (Way.DOWN, WELCOME))],
        *[(Kind.TRUNCATE, (Way.UP, HELLO)), (Kind.SWAP, (Way.DOWN, WELCOME))],
    ],
)
def test_a_broken_greeting_is_sent_again(
    kind: Kind, greeting: tuple[Way, bytes], videos: Videos, programs: Programs
) -> None:
    with (
        Client(workers=0, listen="tcp://127.0.0.1:*") as client,
        Proxy(client.endpoints[0]) as proxy,
    ):
        proxy.arm(Fault(kind, *greeting))
        programs.impatient_worker(proxy.endpoint, videos.root)
        Reading(client, videos, CLIP, BATCH, slots=SLOTS, epochs=EPOCHS).read(2 * SLOTS)
        assert proxy.done == {kind: 1}


TIMES = 6


@pytest.mark.slow
@pytest.mark.parametrize("kind", rest_nightly([Kind.CUT_WITHIN, Kind.CUT]))
def test_a_bad_line_is_not_mistaken_for_a_bad_video(
    kind: Kind, videos: Videos, programs: Programs
) -> None:
    # The only worker comes back each time and gets the same clip, and each time it is cut off when
    # it answers. That must not look like a clip that kills its workers, although four deaths are
    # enough.
    with (
        Client(workers=0, listen="tcp://127.0.0.1:*") as client,
        Proxy(client.endpoints[0], seed=1) as proxy,
    ):
        programs.impatient_worker(proxy.endpoint, videos.root)
        reading = Reading(client, videos, CLIP, BATCH, slots=SLOTS, epochs=EPOCHS)
        reading.read()
        proxy.arm(*[Fault(kind, Way.UP, RESULT)] * TIMES)
        while proxy.done[kind] < TIMES:
            reading.read()
        reading.read(2 * SLOTS)
        assert not reading.stream.quarantine


@pytest.mark.slow
def test_a_lease_held_past_the_deadline_goes_to_others_and_its_answer_is_late(
    videos: Videos, programs: Programs
) -> None:
    with (
        Client(workers=1, listen="tcp://127.0.0.1:*") as client,
        Proxy(client.endpoints[0]) as proxy,
    ):
        programs.impatient_worker(proxy.endpoint, videos.root)
        client.wait_for_workers(2, timeout_s=30 * SECOND)
        reading = Reading(client, videos, CLIP, BATCH, slots=SLOTS, epochs=EPOCHS)
        proxy.arm(Fault(Kind.HOLD, Way.UP, RESULT))
        while not proxy.done[Kind.HOLD]:
            reading.read()
        reading.read(2 * SLOTS)  # the others have passed it
        proxy.release()
        reading.read(2 * SLOTS)
        assert len(client.workers) == 2

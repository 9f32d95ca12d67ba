"""The proxy breaks exactly what it should, and nothing that it breaks changes a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zmq

from tests.faults.proxy import Fault, Kind, Proxy, Way
from tests.faults.readings import Reading
from tests.support.programs import Programs
from tests.support.thorough import rest_nightly
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until
from videoload import Client, ClipSpec
from videoload.leases.bytes_in_flight import MAX_LEASES

pytestmark = [pytest.mark.timeout(120 * SECOND), pytest.mark.xdist_group("proxy")]

CLIP = ClipSpec(frames=3, stride=2, resize=36, size=(32, 32), sampling="random", clips_per_video=8)
BATCH, SLOTS = 4, 4
EPOCHS = 1  # of 16 batches
RESULT, LEASE = b"\xa6result", b"\xa5lease"
HELLO, WELCOME = b"\xa5hello", b"\xa7welcome"


# The proxy alone


@pytest.fixture
def ends() -> Iterator[tuple[zmq.Socket[bytes], zmq.Socket[bytes], Proxy]]:
    """A DEALER that reaches a ROUTER through a proxy."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    router, dealer = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
    for made in (router, dealer):
        made.setsockopt(zmq.LINGER, 0)
        made.setsockopt(zmq.RCVTIMEO, int(30_000 * SECOND))
    port = router.bind_to_random_port("tcp://127.0.0.1")
    with Proxy(f"tcp://127.0.0.1:{port}", seed=3) as proxy:
        dealer.connect(proxy.endpoint)
        yield dealer, router, proxy
        dealer.close()
        router.close()
    context.term()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (None, [b"1", b"2" * 300, b"3", b"4"]),
        (Kind.DUPLICATE, [b"1", b"2" * 300, b"2" * 300, b"3", b"4"]),
        (Kind.DROP, [b"1", b"3", b"4"]),
        (Kind.SWAP, [b"1", b"3", b"2" * 300, b"4"]),
        (Kind.DELAY, [b"1", b"2" * 300, b"3", b"4"]),
        (Kind.HOLD, [b"1", b"2" * 300, b"3", b"4"]),
        (Kind.TRUNCATE, [b"1", None, b"3", b"4"]),
        (Kind.FLIP, [b"1", None, b"3", b"4"]),
    ],
)
def test_a_fault_happens_to_the_first_message_that_it_fits_and_to_no_other(
    kind: Kind | None, expected: list[bytes | None], ends: Any
) -> None:
    dealer, router, proxy = ends
    if kind is not None:
        proxy.arm(Fault(kind, Way.UP, b"2", delay_s=0.1))
    for body in (b"1", b"2" * 300, b"3", b"4"):
        dealer.send(body)
    got = [router.recv_multipart()[1]]
    if kind is Kind.HOLD:
        wait_until(lambda: proxy.done[kind], 30 * SECOND)
        assert not router.poll(100)
        proxy.release()
    got += [router.recv_multipart()[1] for _ in expected[1:]]
    if None in expected:
        broken, expected[1] = got[1], got[1]
        assert broken != b"2" * 300
        assert len(broken) < 300 if kind is Kind.TRUNCATE else len(broken) == 300
    assert got == expected
    dealer.send(b"2")
    sender, body = router.recv_multipart()
    assert body == b"2"
    router.send_multipart([sender, b"5" * 70_000, b""])
    assert dealer.recv_multipart() == [b"5" * 70_000, b""], "and the other way nothing happens"
    assert proxy.done == ({} if kind is None else {kind: 1})
    assert (proxy.armed, proxy.accepted) == ([], 1)


@pytest.mark.parametrize("kind", [Kind.CUT, Kind.CUT_WITHIN, Kind.LIE])
def test_a_message_that_is_cut_is_lost_and_a_new_connection_is_made(kind: Kind, ends: Any) -> None:
    dealer, router, proxy = ends
    dealer.send(b"1")
    assert router.recv_multipart()[1:] == [b"1"]
    proxy.arm(Fault(kind, Way.UP, b"22"))
    dealer.send_multipart([b"2" * 100, b"3"])
    wait_until(lambda: proxy.done[kind], 30 * SECOND)
    if kind is Kind.LIE:  # what comes next is a part of it
        proxy.cut_all()
    wait_until(lambda: proxy.accepted == 2, 30 * SECOND, "it is dialled again")
    dealer.send(b"4")
    assert router.recv_multipart()[1:] == [b"4"]
    assert proxy.connections == 1


# Workers behind the proxy


@pytest.fixture(scope="module")
def meet(videos: Videos, shared_programs: Programs) -> Iterator[Callable[[Fault], None]]:
    """A client, a worker that reaches it through a proxy, and a stream that test after test reads
    on. No other worker is there, so this one must come back by itself."""
    with (
        pytest.MonkeyPatch.context() as patched,
        Client(workers=0, listen="tcp://127.0.0.1:*") as client,
        Proxy(client.endpoints[0], seed=1) as proxy,
    ):
        patched.setattr("videoload.engine.engine._BEAT_S", 0.1)  # what was lost is noticed soon
        worker = shared_programs.impatient_worker(proxy.endpoint, videos.root)
        reading = Reading(client, videos, CLIP, BATCH, slots=SLOTS, epochs=EPOCHS)

        def clips() -> int:
            return sum(stats.clips for stats in client.workers if stats.pid == worker.pid)

        def there() -> bool:
            return worker.pid in {stats.pid for stats in client.workers} and proxy.connections == 1

        def met(fault: Fault) -> None:
            """Let the fault happen, and wait until everything that was under way has arrived:
            until clips came from the worker that were asked for after the fault. If the fault ends
            the connection, it has done so by then, and not in the middle of the next test."""
            assert worker.process.poll() is None, "a failed test has broken it"
            before = proxy.done[fault.kind]
            proxy.arm(fault)
            while proxy.done[fault.kind] == before:
                reading.read(1)
            reading.read(2 * SLOTS)
            came, before = 0, clips()
            while came <= MAX_LEASES:
                reading.read(1)
                came, before = came + max(0, clips() - before), clips()
            wait_until(there, 30 * SECOND, "it is back")
            assert not reading.stream.quarantine

        wait_until(there, 30 * SECOND, "it is there")
        yield met


@pytest.mark.slow
@pytest.mark.parametrize(("way", "word"), [(Way.UP, RESULT), (Way.DOWN, LEASE)])
@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.HOLD])
def test_no_fault_on_the_wire_changes_the_stream(
    kind: Kind, way: Way, word: bytes, meet: Callable[[Fault], None]
) -> None:
    meet(Fault(kind, way, word))


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

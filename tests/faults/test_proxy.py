"""The proxy breaks exactly what it should, and nothing that it breaks changes a stream."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import zmq

from tests.faults.proxy import Fault, Kind, Proxy, Way
from tests.faults.readings import Reading
from tests.support.programs import Program, Programs
from tests.support.thorough import rest_nightly
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until
from videoload import Client, ClipSpec
from videoload.leases.bytes_in_flight import MAX_LEASES
from videoload.transport.keys import make_keys

pytestmark = [pytest.mark.timeout(120 * SECOND), pytest.mark.xdist_group("proxy")]

CLIP = ClipSpec(frames=3, stride=2, resize=36, size=(32, 32), sampling="random", clips_per_video=8)
BATCH, SLOTS = 4, 4
EPOCHS = 1  # of 16 batches
RESULT, LEASE = b"\xa6result", b"\xa5lease"
HELLO, WELCOME = b"\xa5hello", b"\xa7welcome"


# The proxy alone


class Ends:
    """A DEALER that reaches a ROUTER through a proxy."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], seed: int) -> None:
        self.router, self.dealer = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
        for made in (self.router, self.dealer):
            made.setsockopt(zmq.LINGER, 0)
            made.setsockopt(zmq.RCVTIMEO, int(30_000 * SECOND))
        port = self.router.bind_to_random_port("tcp://127.0.0.1")
        self.proxy = Proxy(f"tcp://127.0.0.1:{port}", seed)

    def up(self, *messages: bytes | list[bytes]) -> None:
        """Send messages to the ROUTER."""
        for message in messages:
            self.dealer.send_multipart(message if isinstance(message, list) else [message])

    def got(self, count: int = 1) -> list[list[bytes]]:
        """What arrived at the ROUTER."""
        return [self.router.recv_multipart()[1:] for _ in range(count)]


@contextmanager
def through_a_proxy(seed: int = 0) -> Iterator[Ends]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    ends = Ends(context, seed)
    try:
        with ends.proxy:
            ends.dealer.connect(ends.proxy.endpoint)
            yield ends
    finally:
        ends.dealer.close()
        ends.router.close()
        context.term()


def test_without_faults_messages_of_any_size_pass_both_ways() -> None:
    messages = [[b"a"], [b"", b"b" * 255, b"c" * 256], [b"d" * 3_000_000, b""]]
    with through_a_proxy() as ends:
        ends.up(*messages)
        assert ends.got(3) == messages
        ends.dealer.send(b"who")
        identity, _ = ends.router.recv_multipart()
        ends.router.send_multipart([identity, b"e" * 300, b"f"])
        assert ends.dealer.recv_multipart() == [b"e" * 300, b"f"]
        assert not ends.proxy.done
        assert ends.proxy.connections == ends.proxy.accepted == 1


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Kind.DUPLICATE, [b"1", b"2", b"2", b"3", b"4"]),
        (Kind.DROP, [b"1", b"3", b"4"]),
        (Kind.SWAP, [b"1", b"3", b"2", b"4"]),
        (Kind.DELAY, [b"1", b"2", b"3", b"4"]),
    ],
)
def test_a_fault_happens_to_the_first_message_that_it_fits_and_to_no_other(
    kind: Kind, expected: list[bytes]
) -> None:
    with through_a_proxy() as ends:
        fault = Fault(kind, Way.UP, b"2", delay_s=0.2 * SECOND)
        ends.proxy.arm(fault)
        assert ends.proxy.armed == [fault]
        began = time.monotonic()
        ends.up(b"1", b"2", b"3", b"4")
        assert [body for (body,) in ends.got(len(expected))] == expected
        if kind is Kind.DELAY:
            assert time.monotonic() - began >= 0.2 * SECOND
        ends.up(b"2")
        assert ends.got() == [[b"2"]]
        assert ends.proxy.done == {kind: 1}
        assert ends.proxy.armed == []


def test_held_messages_come_in_order_when_they_are_released() -> None:
    with through_a_proxy() as ends:
        ends.proxy.arm(Fault(Kind.HOLD, Way.UP, b"2"))
        ends.up(b"1", b"2", b"3")
        assert ends.got() == [[b"1"]]
        wait_until(lambda: ends.proxy.done[Kind.HOLD] == 1, 30 * SECOND)
        assert not ends.router.poll(200)
        ends.proxy.release()
        assert ends.got(2) == [[b"2"], [b"3"]]


@pytest.mark.parametrize("kind", [Kind.CUT, Kind.CUT_WITHIN])
def test_after_a_cut_the_message_is_lost_and_a_new_connection_is_made(kind: Kind) -> None:
    with through_a_proxy() as ends:
        ends.up(b"1")
        ends.got()
        ends.proxy.arm(Fault(kind, Way.UP, b"22"))
        ends.up([b"2" * 100, b"3"])
        wait_until(lambda: ends.proxy.accepted == 2, 30 * SECOND, "it is dialled again")
        ends.up(b"4")
        assert ends.got() == [[b"4"]]
        assert ends.proxy.connections == 1


def test_a_truncated_frame_is_shorter_and_the_next_ones_are_complete() -> None:
    with through_a_proxy(seed=3) as ends:
        ends.proxy.arm(Fault(Kind.TRUNCATE))
        ends.up([b"2" * 100], [b"3"])
        (short,), following = ends.got(2)
        assert len(short) < 100
        assert short == b"2" * len(short)
        assert following == [b"3"]


def test_flipped_bytes_keep_the_length() -> None:
    with through_a_proxy() as ends:
        ends.proxy.arm(Fault(Kind.FLIP))
        ends.up([b"2" * 10, b"3"])
        ((flipped, rest),) = ends.got()
        assert len(flipped) == 10
        assert flipped != b"2" * 10
        assert rest == b"3"


def test_a_frame_that_lies_about_its_length_takes_bytes_of_the_next() -> None:
    with through_a_proxy() as ends:
        ends.proxy.arm(Fault(Kind.LIE))
        ends.up([b"2" * 10, b"3" * 100])
        ends.up(*[b"4"] * 3)
        wait_until(lambda: ends.proxy.done[Kind.LIE] == 1, 30 * SECOND)
        for _ in range(2 if ends.router.poll(500) else 0):
            if ends.router.poll(200):
                assert ends.got() != [[b"2" * 10, b"3" * 100]]


def test_the_same_seed_breaks_the_same_bytes() -> None:
    found = []
    for seed in (5, 5, 6):
        with through_a_proxy(seed) as ends:
            ends.proxy.arm(Fault(Kind.FLIP), Fault(Kind.TRUNCATE))
            ends.up([b"2" * 1000], [b"3" * 1000])
            found.append(ends.got(2))
    assert found[0] == found[1] != found[2]


def test_a_connection_ends_at_once_if_nobody_listens() -> None:
    with through_a_proxy() as ends:
        ends.router.close()
        wait_until(lambda: ends.proxy.accepted >= 2, 30 * SECOND, "it is dialled again")
        assert ends.proxy.connections == 0


# Workers behind the proxy


class Stand:
    """A client, a worker that reaches it through a proxy, and one stream that test after test
    continues to read. Fault after fault happens to the same three."""

    def __init__(self, client: Client, proxy: Proxy, worker: Program, videos: Videos) -> None:
        self.proxy = proxy
        self._client = client
        self._worker = worker
        self._reading = Reading(client, videos, CLIP, BATCH, slots=SLOTS, epochs=EPOCHS)
        self.read = self._reading.read

    def meet(self, fault: Fault) -> None:
        """Let the fault happen, and wait until everything that was under way has arrived."""
        assert self._worker.process.poll() is None, "a failed test has broken it"
        before = self.proxy.done[fault.kind]
        self.proxy.arm(fault)
        while self.proxy.done[fault.kind] == before:
            self.read(1)
        self.read(2 * SLOTS)
        self.proxy.release()
        self._read_until_it_passed()
        self.wait()
        assert not self._reading.stream.quarantine

    def _read_until_it_passed(self) -> None:
        """Read until clips came from the worker that were asked for after the fault. If the fault
        ends the connection, it has done so by then, and not in the middle of the next test."""
        came, before = 0, self._clips()
        while came <= MAX_LEASES:
            self.read(1)
            now = self._clips()
            came, before = came + max(0, now - before), now

    def _clips(self) -> int:
        return sum(stats.clips for stats in self._client.workers if stats.pid == self._worker.pid)

    def wait(self) -> None:
        """Wait until the worker is connected, and its connection is the only one."""

        def there() -> bool:
            return self._worker.pid in {stats.pid for stats in self._client.workers}

        wait_until(lambda: there() and self.proxy.connections == 1, 30 * SECOND, "it is back")


@pytest.fixture(scope="module")
def _quick_beats() -> Iterator[None]:
    """What was lost is noticed after some heartbeats."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("videoload.engine.engine._BEAT_S", 0.1)
        yield


@pytest.fixture(scope="module")
def bare(_quick_beats: None, videos: Videos, shared_programs: Programs) -> Iterator[Stand]:
    """No other worker is there, so the worker behind the proxy must come back by itself."""
    with (
        Client(workers=0, listen="tcp://127.0.0.1:*") as client,
        Proxy(client.endpoints[0], seed=1) as proxy,
    ):
        worker = shared_programs.impatient_worker(proxy.endpoint, videos.root)
        stand = Stand(client, proxy, worker, videos)
        stand.wait()
        yield stand


@pytest.fixture(scope="module")
def sealed(
    videos: Videos, shared_programs: Programs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stand]:
    """With CURVE keys, and a local worker beside it."""
    trainer, keys = make_keys(tmp_path_factory.mktemp("keys") / "keys")
    with (
        Client(workers=1, listen="tcp://127.0.0.1:*", keys=trainer) as client,
        Proxy(client.endpoints[0], seed=1) as proxy,
    ):
        client.wait_for_workers(1, timeout_s=30 * SECOND)
        worker = shared_programs.impatient_worker(proxy.endpoint, videos.root, "--keys", str(keys))
        stand = Stand(client, proxy, worker, videos)
        stand.wait()
        yield stand


def alternating(kinds: Iterable[Kind], ways: Sequence[Any]) -> list[tuple[Kind, Any]]:
    """Each kind with one of the two ways, in turn, and then each with the other one."""
    turns = [(kind, number % 2) for number, kind in enumerate(kinds)]
    return [(kind, ways[way ^ other]) for other in (0, 1) for kind, way in turns]


@pytest.mark.slow
@pytest.mark.parametrize(("way", "word"), [(Way.UP, RESULT), (Way.DOWN, LEASE)])
@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.HOLD])
def test_no_fault_on_the_wire_changes_the_stream(
    kind: Kind, way: Way, word: bytes, bare: Stand
) -> None:
    bare.meet(Fault(kind, way, word))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "way"), rest_nightly(alternating(Kind, tuple(Way)), usual=len(Kind))
)
def test_under_curve_any_byte_may_be_broken(kind: Kind, way: Way, sealed: Stand) -> None:
    sealed.meet(Fault(kind, way))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "greeting"),
    rest_nightly(
        alternating(
            (Kind.DROP, Kind.DUPLICATE, Kind.TRUNCATE, Kind.SWAP),
            ((Way.UP, HELLO), (Way.DOWN, WELCOME)),
        ),
        usual=4,
    ),
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

"""A trainer's socket: the sender of a message that is too large is disconnected or refused."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import numpy as np
import pytest
import zmq

from tests.faults.raw_peers import answer, dealer
from tests.support.waiting import SECOND, wait_until
from videoload import TransportError
from videoload.errors import ProtocolError
from videoload.wire.messages import VERSION, FromWorker, Heartbeat, Welcome, pack
from videoload.wire.sockets import Dealer, Peer, Router, check_dial

TOO_LONG = (64 << 20) + 1


@pytest.fixture
def router(context: zmq.Context[zmq.Socket[bytes]]) -> Iterator[Router]:
    made = Router(context, "tcp://127.0.0.1:*", pixel_bytes=1)  # 64 MiB all the same
    yield made
    made.close()


@pytest.fixture
def peer(router: Router) -> Iterator[zmq.Socket[bytes]]:
    with dealer(router.endpoint, linger_ms=0) as made:
        yield made


def heard(router: Router) -> tuple[Peer, FromWorker | ProtocolError]:
    """The next message, but for its pixels."""
    assert router.socket.poll(int(30_000 * SECOND))
    got = router.receive()
    assert got is not None
    return got


def test_a_frame_larger_than_any_lease_hangs_up_on_its_sender(
    router: Router, peer: zmq.Socket[bytes]
) -> None:
    peer.send_multipart([*pack(Heartbeat(1)), bytes(60 << 20)])
    assert heard(router)[1] == Heartbeat(1)
    router.skip()
    peer.send_multipart([VERSION, bytes(TOO_LONG)])
    # It dials again, and the next message arrives. The large one never did.
    peer.send_multipart(pack(Heartbeat(2)))

    def is_back() -> bool:
        with suppress(zmq.Again):
            peer.send_multipart(pack(Heartbeat(2)), zmq.DONTWAIT)
        if (got := router.receive()) is None:
            return False
        router.skip()
        assert got[1] == Heartbeat(2)
        return True

    wait_until(is_back, 30 * SECOND)


def test_a_worker_hangs_up_on_a_trainer_that_sends_more_than_any_message_has(
    context: zmq.Context[zmq.Socket[bytes]],
) -> None:
    with ExitStack() as opened:
        trainer = opened.enter_context(context.socket(zmq.ROUTER))
        port = trainer.bind_to_random_port("tcp://127.0.0.1")
        worker = Dealer(context, f"tcp://127.0.0.1:{port}", insecure=True)
        opened.callback(worker.close)
        wait_until(lambda: worker.send(Heartbeat(1)), 30 * SECOND)
        name, *_ = trainer.recv_multipart()
        trainer.send_multipart([name, VERSION, bytes(TOO_LONG)])
        wait_until(worker.hung_up, 30 * SECOND)


def test_a_connection_counts_until_it_ends(router: Router) -> None:
    def connected() -> int:
        router.connections.update()
        return len(router.connections)

    with dealer(router.endpoint, linger_ms=0) as peer:
        peer.send_multipart(pack(Heartbeat(1)))
        heard(router)
        assert connected() == 1
    wait_until(lambda: connected() == 0, 30 * SECOND)


def test_a_failed_dial_leaves_nothing_behind(context: zmq.Context[zmq.Socket[bytes]]) -> None:
    with pytest.raises(TransportError, match=r"tcp://\*:5555"):
        Dealer(context, "tcp://*:5555", insecure=True)


def test_a_body_that_is_too_long_is_refused_before_it_is_read(
    context: zmq.Context[zmq.Socket[bytes]],
) -> None:
    router = Router(context, "tcp://127.0.0.1:*")
    with dealer(router.endpoint, linger_ms=0) as peer:
        peer.send_multipart([VERSION, bytes(TOO_LONG)])
        error = heard(router)[1]
        assert isinstance(error, ProtocolError)
        assert str(TOO_LONG) in str(error)
        router.skip()
    router.close()


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("size", [0, 59, 60, 61])
def test_pixels_fill_all_their_places_or_none(
    parts: int, size: int, router: Router, peer: zmq.Socket[bytes]
) -> None:
    into = np.array_split(np.zeros((60, 1), np.uint8), parts)
    peer.send_multipart([*pack(Heartbeat(1)), bytes(range(1, size + 1))])
    heard(router)
    if size == 60:
        router.receive_pixels(into)
        assert np.concatenate(into).tobytes() == bytes(range(1, 61))
    else:
        with pytest.raises(ProtocolError, match="60"):
            router.receive_pixels(into)
    assert router.receive() is None


def test_a_worker_that_is_sending_is_known_before_its_message_is_read(
    router: Router, peer: zmq.Socket[bytes]
) -> None:
    peer.send_multipart(pack(Heartbeat(1)))
    worker, _ = heard(router)
    worker.admitted()

    def sending() -> bool:
        router.connections.inspect(time.monotonic())
        return router.sending() == [worker]

    wait_until(lambda: not sending(), 30 * SECOND, "all that it has said was seen")
    peer.send_multipart([*pack(Heartbeat(2)), bytes(1 << 20)])
    wait_until(sending, 30 * SECOND, "it is seen before it is taken")


@pytest.mark.parametrize("announced", [b"\0next", b"worker"])
def test_peers_of_one_name_are_two(announced: bytes, router: Router) -> None:
    with ExitStack() as peers:
        for number in (1, 2):
            made = peers.enter_context(dealer(router.endpoint, linger_ms=0, name=announced))
            made.send_multipart(pack(Heartbeat(number)))
            worker, message = heard(router)
            assert message == Heartbeat(number)
            assert worker.identity != announced, "or libzmq may give it to somebody else"
            assert worker.send(Welcome(float(number)))
            assert answer(made) == Welcome(float(number))


def test_a_trainer_is_dialled_at_a_port() -> None:
    check_dial("tcp://127.0.0.1:5555")
    with pytest.raises(TransportError, match="tcp://"):
        check_dial("tcp://127.0.0.1:*")


def test_a_worker_that_leaves_late_takes_nothing_from_the_next_one_with_its_descriptor(
    router: Router,
) -> None:
    def join() -> tuple[zmq.Socket[bytes], Peer]:
        made = peers.enter_context(dealer(router.endpoint, linger_ms=0))
        made.send_multipart(pack(Heartbeat(1)))
        worker, _ = heard(router)
        worker.admitted()
        return made, worker

    def nobody() -> bool:
        router.connections.update()
        return not len(router.connections)

    with ExitStack() as peers:
        before = [join() for _ in range(8)]
        for cut, _ in before:
            cut.close()
        wait_until(nobody, 30 * SECOND)
        after = [join() for _ in range(8)]  # the kernel gives them numbers that are free
        for _, old in before:
            old.left()
        much_later = time.monotonic() + 1000
        lines, _ = router.connections.inspect(much_later)
        assert lines == [], "each is a worker that may be silent"
        for there, new in after:
            there.send_multipart(pack(Heartbeat(2)))
            assert heard(router)[0] == new

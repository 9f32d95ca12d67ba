"""A trainer's socket: the sender of a message that is too large is disconnected or refused."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress

import numpy as np
import pytest
import zmq

from tests.faults.raw_peers import answer, dealer
from tests.support.waiting import SECOND, wait_until
from videoload import TransportError
from videoload.errors import ProtocolError
from videoload.transport.messages import VERSION, FromWorker, Heartbeat, Welcome, pack
from videoload.transport.sockets import Dealer, Router


def test_a_frame_larger_than_any_lease_hangs_up_on_its_sender() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    router = Router(context, "tcp://127.0.0.1:*", pixel_bytes=1)  # 64 MiB all the same
    try:
        with dealer(router.endpoint, linger_ms=0) as made:

            def get() -> FromWorker | ProtocolError:
                assert router.socket.poll(int(30_000 * SECOND))
                got = router.receive()
                assert got is not None
                router.skip()
                return got[1]

            made.send_multipart([*pack(Heartbeat(1)), bytes(60 << 20)])
            assert get() == Heartbeat(1)
            made.send_multipart([VERSION, bytes((64 << 20) + 1)])
            # It dials again, and the next message arrives. The large one never did.
            made.send_multipart(pack(Heartbeat(2)))
            wait_until(lambda: _said_again(made, router, 3), 30 * SECOND, "it is back")
    finally:
        router.close()
        context.term()


def _said_again(made: zmq.Socket[bytes], router: Router, number: int) -> bool:
    """Whether a message arrives."""
    with suppress(zmq.Again):
        made.send_multipart(pack(Heartbeat(number)), zmq.DONTWAIT)
    got = router.receive()
    if got is None:
        return False
    router.skip()
    assert got[1] in (Heartbeat(2), Heartbeat(number))
    return True


def test_a_failed_dial_leaves_nothing_behind() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with pytest.raises(TransportError, match=r"cannot dial tcp://\*:5555"):
        Dealer(context, "tcp://*:5555", insecure=True)
    context.term()  # waits for sockets that are open


def test_a_body_that_is_too_long_is_refused_before_it_is_read() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    router = Router(context, "tcp://127.0.0.1:*")
    try:
        with dealer(router.endpoint, linger_ms=0) as made:
            made.send_multipart([VERSION, bytes((64 << 20) + 1)])
            assert router.socket.poll(int(30_000 * SECOND))
            got = router.receive()
            assert got is not None
            assert str(got[1]) == f"a message of {(64 << 20) + 1} bytes, pixels apart"
            router.skip()
    finally:
        router.close()
        context.term()


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("size", [0, 59, 60, 61])
def test_pixels_fill_all_their_places_or_none(parts: int, size: int) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    router = Router(context, "tcp://127.0.0.1:*")
    into = np.array_split(np.zeros((60, 1), np.uint8), parts)
    try:
        with dealer(router.endpoint, linger_ms=0) as made:
            made.send_multipart([*pack(Heartbeat(1)), bytes(range(1, size + 1))])
            assert router.socket.poll(int(30_000 * SECOND))
            assert router.receive() is not None
            if size == 60:
                router.receive_pixels(into)
                assert np.concatenate(into).tobytes() == bytes(range(1, 61))
            else:
                with pytest.raises(ProtocolError, match="the lease has 60"):
                    router.receive_pixels(into)
            assert router.receive() is None
    finally:
        router.close()
        context.term()


def test_a_worker_that_is_sending_is_known_before_its_message_is_read() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    router = Router(context, "tcp://127.0.0.1:*")
    try:
        with dealer(router.endpoint, linger_ms=0) as made:
            made.send_multipart(pack(Heartbeat(1)))
            assert router.socket.poll(int(30_000 * SECOND))
            got = router.receive()
            assert got is not None
            got[0].admitted()

            def sending() -> bool:
                router.inspect(time.monotonic())
                return router.sending() == [got[0]]

            wait_until(lambda: not sending(), 30 * SECOND, "all that it has said was seen")
            made.send_multipart([*pack(Heartbeat(2)), bytes(1 << 20)])
            wait_until(sending, 30 * SECOND, "it is seen before it is taken")
    finally:
        router.close()
        context.term()


@pytest.mark.parametrize("announced", [b"\0next", b"worker"])
def test_peers_of_one_name_are_two(announced: bytes) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    router = Router(context, "tcp://127.0.0.1:*")
    try:
        with ExitStack() as peers:
            for number in (1, 2):
                made = peers.enter_context(dealer(router.endpoint, linger_ms=0, name=announced))
                made.send_multipart(pack(Heartbeat(number)))
                assert router.socket.poll(int(30_000 * SECOND))
                got = router.receive()
                assert got is not None
                assert got[1] == Heartbeat(number)
                assert got[0].identity != announced, "or libzmq may give it to somebody else"
                assert got[0].send(Welcome(float(number)))
                assert answer(made) == Welcome(float(number))
    finally:
        router.close()
        context.term()

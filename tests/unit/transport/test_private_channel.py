"""The private channel: whole messages in their order, however they are cut, each with its own
descriptor."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.waiting import SECOND
from videoload.errors import ProtocolError
from videoload.transport.messages import Private, Share, Unshare, WorkerSettings, pack_private
from videoload.transport.private_channel import PrivateChannel

Ends = tuple[PrivateChannel, PrivateChannel]
MESSAGES: list[Private] = [
    WorkerSettings(["tcp://127.0.0.1:5555"], root="/videos"),
    Share(1, "/videos", memory=False),
    Unshare(1),
    Share(2, "/" + 1000 * "x", memory=False),
]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """The trainer's and the worker's."""
    mine, theirs = PrivateChannel.pair()
    worker = PrivateChannel(theirs)
    yield mine, worker
    mine.close()
    worker.close()


def framed(message: Private) -> bytes:
    body = pack_private(message)
    return len(body).to_bytes(4, "big") + body


def file_of(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def test_messages_arrive_in_their_order(ends: Ends) -> None:
    for message in MESSAGES:
        ends[0].send(message)
    assert [ends[1].receive(SECOND) for _ in MESSAGES] == [(message, None) for message in MESSAGES]
    assert ends[1].receive(0) is None


def test_both_ends_may_speak(ends: Ends) -> None:
    ends[1].send(Unshare(7))
    assert ends[0].receive(SECOND) == (Unshare(7), None)


@given(cuts=st.lists(st.integers(1, 200), max_size=12))
def test_a_message_may_come_in_pieces_and_several_in_one(cuts: list[int]) -> None:
    mine, theirs = PrivateChannel.pair()
    worker = PrivateChannel(theirs)
    try:
        data, got = b"".join(map(framed, MESSAGES)), []
        for size in [*cuts, len(data)]:
            mine.socket.sendall(data[:size])
            data = data[size:]
            while (found := worker.receive(0)) is not None:
                got.append(found[0])
        assert got == MESSAGES
    finally:
        mine.close()
        worker.close()


def test_a_message_larger_than_the_sockets_buffer_arrives(ends: Ends) -> None:
    message = WorkerSettings([f"tcp://host-{number}:5555" for number in range(100_000)])
    sender = threading.Thread(target=ends[0].send, args=(message,))
    sender.start()
    assert ends[1].receive(5 * SECOND) == (message, None)
    sender.join()


def test_each_share_of_memory_brings_its_own_descriptor(ends: Ends) -> None:
    files = [os.memfd_create("one"), os.memfd_create("other")]
    try:
        ends[0].send(Share(1, "/", memory=True), files[0])
        ends[0].send(Share(2, "/", memory=False))
        ends[0].send(Unshare(5))
        ends[0].send(Share(3, "/", memory=True), files[1])
        got = [ends[1].receive(SECOND) for _ in range(4)]
        descriptors = [found[1] for found in got if found is not None]
        assert [found[0] for found in got if found is not None] == [
            Share(1, "/", memory=True), Share(2, "/", memory=False), Unshare(5),
            Share(3, "/", memory=True),
        ]  # fmt: skip
        one, *none, other = descriptors
        assert none == [None, None]
        assert one is not None
        assert other is not None
        assert [file_of(one), file_of(other)] == [file_of(file) for file in files]
        assert one not in files, "the descriptor is a new one"
        os.close(one)
        os.close(other)
    finally:
        for file in files:
            os.close(file)


def test_what_does_not_come_in_time_is_none(ends: Ends) -> None:
    ends[0].socket.sendall(framed(Unshare(1))[:-1])
    assert ends[1].receive(0) is None
    assert ends[1].receive(0.01) is None
    ends[0].socket.sendall(framed(Unshare(1))[-1:])
    assert ends[1].receive(SECOND) == (Unshare(1), None)


def test_the_end_of_the_other_process_is_the_end_of_the_channel(ends: Ends) -> None:
    ends[0].send(Unshare(1))
    ends[0].close()
    assert ends[1].receive(SECOND) == (Unshare(1), None), "what was said before is heard"
    with pytest.raises(EOFError):
        ends[1].receive(SECOND)
    with pytest.raises(OSError, match="Broken pipe"):
        ends[1].send(Unshare(2))


def test_a_reset_is_the_end_as_well(ends: Ends) -> None:
    ends[1].send(Unshare(1))  # which is never read
    ends[0].close()
    with pytest.raises(EOFError):
        ends[1].receive(SECOND)


def test_who_does_not_read_holds_nobody_up_for_ever(ends: Ends) -> None:
    ends[0].socket.settimeout(0.05)  # five seconds, by default
    long = WorkerSettings([f"tcp://host-{number}:5555" for number in range(100_000)])
    with pytest.raises(TimeoutError):
        ends[0].send(long)


def test_what_is_no_message_is_an_error(ends: Ends) -> None:
    ends[0].socket.sendall((3).to_bytes(4, "big") + b"\xc1\xc1\xc1")
    with pytest.raises(ProtocolError, match="not a message of this protocol"):
        ends[1].receive(SECOND)


def test_the_ends_are_nobody_elses(ends: Ends) -> None:
    for end in ends:
        assert end.socket.family == socket.AF_UNIX
        assert end.socket.getsockname() in ("", b""), "it has no name to connect to"

"""The private channel: whole messages in their order, however they are cut, each with its own
descriptor."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.waiting import SECOND
from videoload.errors import ProtocolError
from videoload.wire.messages import encode
from videoload.wire.private_channel import PrivateChannel
from videoload.wire.private_messages import Private, Share, Unshare, WorkerSettings

Ends = tuple[PrivateChannel, PrivateChannel]
MANY = 400  # a full channel holds some forty
MESSAGES: list[Private] = [
    WorkerSettings(["tcp://127.0.0.1:5555"], root="/videos"),
    Unshare(1),
    WorkerSettings(["tcp://127.0.0.1:5555"], root="/" + 1000 * "x"),
    Unshare(1 << 40),
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
    body = encode(message)
    return len(body).to_bytes(4, "big") + body


@contextmanager
def memory() -> Iterator[int]:
    file = os.memfd_create("shared")
    try:
        yield file
    finally:
        os.close(file)


def receive_all(ends: Ends) -> list[tuple[Private, int | None]]:
    """What the worker reads, until there is nothing more."""
    got = []
    while (found := ends[1].receive(0)) is not None or ends[0].is_full:
        ends[0].flush()
        if found is not None:
            got.append(found)
    return got


def file_of(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


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


def test_each_share_brings_its_own_descriptor(ends: Ends) -> None:
    files = [os.memfd_create("one"), os.memfd_create("other")]
    try:
        ends[0].send(Share(1, b"/"), files[0])
        ends[0].send(Unshare(2))
        ends[0].send(Unshare(5))
        ends[0].send(Share(3, b"/"), files[1])
        got = [ends[1].receive(30 * SECOND) for _ in range(4)]
        descriptors = [found[1] for found in got if found is not None]
        assert [found[0] for found in got if found is not None] == [
            Share(1, b"/"), Unshare(2), Unshare(5), Share(3, b"/"),
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


def test_the_channel_ends_with_the_other_process(ends: Ends) -> None:
    ends[0].send(Unshare(1))
    ends[0].close()
    assert ends[1].receive(30 * SECOND) == (Unshare(1), None), "earlier messages arrive"
    with pytest.raises(EOFError):
        ends[1].receive(30 * SECOND)
    ends[1].send(Unshare(2))
    assert not ends[1].is_full, "it is dropped"


def test_nobody_waits_for_a_process_that_does_not_read_and_it_gets_everything_later(
    ends: Ends,
) -> None:
    with memory() as file:
        sent: list[tuple[Private, int | None]] = []
        for arena in range(MANY):
            sent += [(Share(arena, b"/"), file), (Unshare(MANY + arena), None)]
        for message, descriptor in sent:
            ends[0].send(message, descriptor)
        assert ends[0].is_full
        got = receive_all(ends)
        assert [message for message, _ in got] == [message for message, _ in sent]
        for (_, descriptor), (_, theirs) in zip(sent, got, strict=True):
            assert (theirs is None) == (descriptor is None)
            if theirs is not None:
                assert file_of(theirs) == file_of(file)
                os.close(theirs)
    assert not ends[0].is_full


def test_an_arena_that_is_dropped_before_it_was_sent_is_never_sent(ends: Ends) -> None:
    with memory() as first:
        for arena in range(MANY):
            ends[0].send(Share(arena, b"/"), first)
        for arena in range(MANY):
            ends[0].send(Unshare(arena))
    with memory() as later:  # whose descriptor is the same number
        assert later == first
        ends[0].send(Share(MANY, b"/"), later)
        got = receive_all(ends)
        expected = file_of(later)
    *shared, (last, descriptor) = [found for found in got if isinstance(found[0], Share)]
    assert 0 < len(shared) < MANY / 4, "only the ones that were sent"
    assert last == Share(MANY, b"/")
    assert descriptor is not None
    assert file_of(descriptor) == expected
    ended = [message for message, _ in got if isinstance(message, Unshare)]
    assert ended == [Unshare(arena) for arena in range(MANY)], "a lease of it may be on the way"
    for _, theirs in (*shared, (last, descriptor)):
        assert theirs is not None
        os.close(theirs)


def test_bytes_that_are_no_message_are_an_error(ends: Ends) -> None:
    ends[0].socket.sendall((3).to_bytes(4, "big") + b"\xc1\xc1\xc1")
    with pytest.raises(ProtocolError):
        ends[1].receive(30 * SECOND)

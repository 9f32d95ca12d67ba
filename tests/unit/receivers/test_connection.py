"""Data connections: an answer lands where the trainer said, and nothing else lands."""

from __future__ import annotations

import logging
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.thorough import either
from tests.support.waiting import SECOND, wait_until
from videoload.errors import ProtocolError
from videoload.receivers import connection as data_connection
from videoload.receivers.connection import TICKET_BYTES, PixelReader, PixelSender
from videoload.transport.messages import DataOffer

PIECE = 256 << 10
TICKET, KEY = b"t" * TICKET_BYTES, b"k" * 16
KEYS = pytest.mark.parametrize("key", [b"", KEY], ids=["plain", "sealed"])


class Ends(NamedTuple):
    sender: PixelSender
    reader: PixelReader


@contextmanager
def connected(key: bytes, key_of_sender: bytes | None = None) -> Iterator[Ends]:
    """A worker's end and a receiver's."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        theirs = key if key_of_sender is None else key_of_sender
        offer = DataOffer(7, listening.getsockname()[1], TICKET, theirs)
        sender = PixelSender("127.0.0.1", offer)
        end, _ = listening.accept()
        end.settimeout(30 * SECOND)
        assert end.recv(TICKET_BYTES, socket.MSG_WAITALL) == TICKET
        with end:
            yield Ends(sender, PixelReader(end, key))
            sender.close()


def read_all(reader: PixelReader, answers: int) -> list[int]:
    """Read until ``answers`` answers have landed; returns their leases."""
    landed: list[int] = []

    def more() -> bool:
        _, lease = reader.read()
        landed.extend([] if lease is None else [lease])
        return len(landed) == answers

    wait_until(more, 30 * SECOND)
    return landed


def noise(size: int, seed: int = 0) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


@KEYS
@given(
    st.lists(st.sampled_from([0, 1, 100, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 7]), max_size=5),
    st.sampled_from([1, 2, 3, 7]),
)
@settings(max_examples=either(8, 30), deadline=None)
def test_answers_land_complete_and_in_order(key: bytes, sizes: list[int], parts: int) -> None:
    with connected(key) as (sender, reader):
        wait_until(lambda: sender.is_open, 30 * SECOND)
        sent = [noise(size, seed) for seed, size in enumerate(sizes)]
        places = [np.zeros(size, np.uint8) for size in sizes]
        for lease, (pixels, place) in enumerate(zip(sent, places, strict=True)):
            reader.land(lease, [part.data for part in np.array_split(place, parts)])
            sender.send(lease, pixels)
        assert read_all(reader, len(sizes)) == list(range(len(sizes)))
        assert not reader.is_told
        for pixels, place in zip(sent, places, strict=True):
            assert np.array_equal(pixels, place)


@pytest.mark.parametrize(("cache_kb", "kb"), [(0, 64), (512, 64), (1024, 102.4), (2048, 204.8)])
def test_the_send_buffer_fits_into_a_cores_cache(
    cache_kb: int, kb: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_connection, "own_cache_bytes", lambda: cache_kb << 10)
    assert data_connection.near_buffer_bytes.__wrapped__() == int(kb * 1024)


@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="TCP_INFO is Linux's")
@pytest.mark.parametrize("is_near", [True, False])
def test_a_near_trainer_gets_a_small_send_buffer_and_no_answer_stalls(
    is_near: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_connection, "_NEAR_S", 1.0 if is_near else -1.0)
    # As on a host that does not tell: more stalls even less.
    monkeypatch.setattr(data_connection, "near_buffer_bytes", lambda: 64 << 10)
    with connected(b"") as (sender, reader):
        wait_until(lambda: sender.is_open, 30 * SECOND)
        assert sender._socket is not None
        kept = sender._socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        assert (kept == 2 * data_connection.near_buffer_bytes()) is is_near
        # With half the bytes on the way: 5 MB/s.
        place = np.zeros(either(16, 256) << 20, np.uint8)
        reader.land(1, [place.data])
        sender.send(1, noise(place.size))
        assert read_all(reader, 1) == [1]


@KEYS
def test_a_void_answer_is_dropped_and_the_next_one_lands(key: bytes) -> None:
    with connected(key) as (sender, reader):
        wait_until(lambda: sender.is_open, 30 * SECOND)
        pixels, place = noise(PIECE + 5), np.zeros(PIECE + 5, np.uint8)
        sender.send(1, noise(2 * PIECE + 1, seed=1))
        sender.send(2, pixels)
        reader.land(1, None)
        reader.land(2, [place.data])
        assert read_all(reader, 2) == [1, 2]
        assert np.array_equal(pixels, place)


@KEYS
def test_nothing_is_read_before_the_trainer_says_where_it_goes(key: bytes) -> None:
    with connected(key) as (sender, reader):
        wait_until(lambda: sender.is_open, 30 * SECOND)
        sender.send(1, noise(1000))
        wait_until(lambda: select.select([reader.socket], [], [], 0)[0], 30 * SECOND)
        assert reader.read() == (0, None)


@KEYS
@pytest.mark.parametrize(("lease", "size"), [(2, 100), (1, 99), (1, 101)])
def test_an_answer_that_was_not_announced_ends_the_connection(
    key: bytes, lease: int, size: int
) -> None:
    with connected(key) as (sender, reader):
        wait_until(lambda: sender.is_open, 30 * SECOND)
        place = np.zeros(100, np.uint8)
        reader.land(1, [place.data])
        sender.send(lease, noise(size))
        with pytest.raises(ProtocolError, match="not what was announced"):
            read_all(reader, 1)
        assert not place.any()


def test_a_piece_sealed_with_another_key_ends_the_connection() -> None:
    with connected(KEY) as (sender, reader):
        wait_until(lambda: sender.is_open, 30 * SECOND)
        reader._cipher._aes = type(reader._cipher._aes)(b"x" * 16)  # type: ignore[union-attr]
        place = np.zeros(100, np.uint8)
        reader.land(1, [place.data])
        sender.send(1, noise(100))
        with pytest.raises(ProtocolError, match="not sealed with its key"):
            read_all(reader, 1)
        assert not place.any()


def test_a_worker_sends_nothing_to_a_receiver_without_its_key(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    with connected(KEY, key_of_sender=b"x" * 16) as (sender, _):
        wait_until(lambda: caplog.records, 30 * SECOND)
        assert not sender.is_open
    assert "not sealed with its key" in caplog.text


@KEYS
def test_a_worker_that_hangs_up_is_noticed(key: bytes) -> None:
    with connected(key) as (sender, reader):
        wait_until(lambda: sender.is_open, 30 * SECOND)
        reader.land(1, [np.zeros(100, np.uint8).data])
        sender.close()
        with pytest.raises(EOFError):
            read_all(reader, 1)


def test_a_receiver_that_hangs_up_is_noticed() -> None:
    with connected(b"") as (sender, reader):
        wait_until(lambda: sender.is_open, 30 * SECOND)
        reader.socket.close()

        def noticed() -> bool:
            sender.send(1, noise(1 << 20))
            return not sender.is_open

        wait_until(noticed, 30 * SECOND)


def test_a_port_without_a_listener_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    sender = PixelSender("127.0.0.1", DataOffer(1, port, TICKET))
    wait_until(lambda: caplog.records, 30 * SECOND)
    assert not sender.is_open
    [record] = caplog.records
    assert f"port {port} of 127.0.0.1 cannot be used" in record.getMessage()
    assert "pixels go by ZeroMQ" in record.getMessage()


def test_a_port_of_another_program_is_not_used(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sender = PixelSender("127.0.0.1", DataOffer(1, listening.getsockname()[1], TICKET))
        end, _ = listening.accept()
        with end:
            end.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            wait_until(lambda: caplog.records, 30 * SECOND)
        assert not sender.is_open
    assert "no receiver of this trainer" in caplog.text

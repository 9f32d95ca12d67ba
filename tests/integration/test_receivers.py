"""Receivers read the pixels of workers that dial in straight into the batch, and the batches equal
the serial ones."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.support.digests import digest
from tests.support.ports import free_pair, free_port
from tests.support.processes import children_of, is_alive
from tests.support.programs import Programs
from tests.support.thorough import rest_nightly
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until
from videoload import Client, ClipSpec, SpecError, TransportError, decode_serially
from videoload.processes.child import ChildProcess
from videoload.receivers.pool import Receivers
from videoload.transport.keys import make_keys
from videoload.transport.messages import Place
from videoload.transport.private_channel import PrivateChannel
from videoload.transport.private_messages import Adopt, Alive, Land, Landed

pytestmark = pytest.mark.timeout(120 * SECOND)

CLIP = ClipSpec(frames=6, stride=2, resize=36, size=(32, 32), sampling="random", clips_per_video=4)
BATCH, EPOCHS = 4, 2


def receivers_of(client: Client) -> Receivers:
    return client._engine._receivers


def adopted(client: Client) -> int:
    """The number of workers that send their pixels to a receiver now."""
    return sum(len(receiver.connections) for receiver in receivers_of(client)._receivers)


@pytest.mark.parametrize(
    ("receivers", "has_keys"), rest_nightly([(2, True), (1, True), (2, False), (1, False)])
)
def test_a_stream_through_receivers_equals_the_serial_one(
    videos: Videos, programs: Programs, tmp_path: Path, receivers: int, has_keys: bool
) -> None:
    keys, flags = None, []
    if has_keys:
        keys, of_worker = map(str, make_keys(tmp_path / "keys"))
        flags = ["--keys", of_worker]
    expected = decode_serially(videos.catalog, CLIP, BATCH, shuffle=True, epochs=EPOCHS)
    with Client(workers=1, listen="tcp://127.0.0.1:*", keys=keys, receivers=receivers) as client:
        for _ in range(2):
            programs.worker(client.endpoints[0], videos.catalog.root or "", *flags)
        client.wait_for_workers(3, timeout_s=30 * SECOND)
        wait_until(lambda: adopted(client) == 2, 30 * SECOND)
        stream = client.stream(videos.catalog, CLIP, BATCH, shuffle=True)
        assert digest(stream.batches(epochs=EPOCHS)) == digest(expected)
        assert adopted(client) == 2
        other = client.stream(videos.catalog, CLIP, BATCH)  # another arena
        assert digest(other.batches()) == digest(decode_serially(videos.catalog, CLIP, BATCH))


def test_a_worker_that_cannot_reach_their_port_sends_pixels_over_zeromq(
    videos: Videos, programs: Programs
) -> None:
    expected = decode_serially(videos.catalog, CLIP, BATCH, shuffle=True, epochs=EPOCHS)
    with Client(workers=0, listen="tcp://127.0.0.1:*", receivers=1) as client:
        unused = free_port()
        receivers_of(client)._ports.numbers[client.endpoints[0]] = unused
        wait_until(lambda: receivers_of(client)._working, 30 * SECOND)
        worker = programs.worker(client.endpoints[0], videos.catalog.root or "")
        stream = client.stream(videos.catalog, CLIP, BATCH, shuffle=True)
        assert digest(stream.batches(epochs=EPOCHS)) == digest(expected)
        assert adopted(client) == 0
        worker.wait_for(f"port {unused} of 127.0.0.1 cannot be used", 30 * SECOND)


def test_pixels_of_a_dropped_stream_are_discarded() -> None:
    mine, theirs = PrivateChannel.pair()
    process = ChildProcess("videoload.receivers.process", theirs)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        worker = socket.create_connection(listening.getsockname())
        end, _ = listening.accept()
    with worker, end:
        mine.send(Adopt(3), end.fileno())
        mine.send(Land(3, 1, Place(7, 0), 100))  # of an arena that was taken back
        worker.sendall((1).to_bytes(8, "little") + (100).to_bytes(8, "little") + bytes(100))
        told: list[object] = []
        while Landed(3, 1) not in told:
            got = mine.receive(30 * SECOND)
            assert got is not None
            told.append(got[0])
        assert set(map(type, told)) <= {Landed, Alive}
    mine.close()
    assert process.wait(30 * SECOND) == 0


def test_receivers_end_with_their_client() -> None:
    with Client(workers=0, listen="tcp://127.0.0.1:*", receivers=2) as client:
        pids = {receiver.process.pid for receiver in receivers_of(client)._receivers}
        assert len(pids) == 2
        assert pids <= set(children_of(os.getpid()))
    assert not any(map(is_alive, pids))


def test_receivers_listen_on_the_next_port() -> None:
    port = free_pair()
    with Client(workers=0, listen=f"tcp://127.0.0.1:{port}", receivers=1) as client:
        assert receivers_of(client)._ports.numbers == {client.endpoints[0]: port + 1}
    with (
        socket.create_server(("127.0.0.1", port + 1)),
        pytest.raises(TransportError, match=f"port {port + 1} of 127.0.0.1, where receivers take"),
    ):
        Client(workers=0, listen=f"tcp://127.0.0.1:{port}", receivers=1)


def test_a_wrong_number_of_receivers_is_refused() -> None:
    with pytest.raises(SpecError, match="receivers"):
        Client(workers=0, listen="tcp://127.0.0.1:*", receivers=-1)

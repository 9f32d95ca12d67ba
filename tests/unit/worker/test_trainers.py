"""Which trainer's lease a worker takes next. Decoding time decides, and a pause saves up nothing.
The test has its own clock, and nobody listens at the addresses."""

import shutil
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from tests.support.waiting import SECOND, wait_until
from videoload import Client
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.rows import Clip, Video
from videoload.clips.sample_spec import one_clip
from videoload.wire.keys import make_keys
from videoload.wire.messages import Bye, Hello, Lease, Notice, Refused, Welcome
from videoload.wire.private_messages import WorkerSettings
from videoload.wire.sockets import Router
from videoload.worker.trainers import Beat, TrainerConnection, Trainers

LEASE = Lease(1, one_clip(ClipSpec(frames=1, size=(32, 32))), [Clip(1, row=Video("a.avi"))])


class Shop:
    """A worker without a decoder. Trainers ask, and each is served for some seconds."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        addresses = ["ipc://@videoload-test-links-a", "ipc://@videoload-test-links-b"]
        self.links = Trainers(context, WorkerSettings(addresses), lambda name: [])
        self.a, self.b = self.links
        for link in self.links:
            link.take(Welcome(0.25))
        self.now = 0.0

    def ask(self, *links: TrainerConnection) -> None:
        """These have a lease waiting, if they had none."""
        for link in links:
            if not link.leases:
                link.take(LEASE)

    def serve(self, seconds: float) -> TrainerConnection | None:
        """Who is served next, if anybody is now."""
        got = self.links.next_lease(self.now)
        if got is None:
            return None
        self.now += seconds
        self.links.served(got[0], seconds, self.now)
        return got[0]


@pytest.fixture
def shop() -> Iterator[Shop]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    made = Shop(context)
    yield made
    made.links.close()
    context.term()


def test_trainers_share_decoding_time_and_not_the_number_of_leases(shop: Shop) -> None:
    served = {shop.a: 0, shop.b: 0}
    for _ in range(1100):
        shop.ask(shop.a, shop.b)
        link = shop.links.next_lease(shop.now)
        assert link is not None
        served[link[0]] += 1
        seconds = 1.0 if link[0] is shop.a else 0.01  # a's clips are heavy
        shop.now += seconds
        shop.links.served(link[0], seconds, shop.now)
    assert served[shop.b] == pytest.approx(100 * served[shop.a], rel=0.1)


def test_an_idle_worker_wakes_up_for_its_next_heartbeat(shop: Shop) -> None:
    assert shop.links.wait_ms(shop.now) == 200
    assert shop.links.wait_ms(shop.now + 0.125) == 125
    assert shop.links.wait_ms(shop.now + 1) == 0


def test_a_trainer_saves_up_no_time_in_a_pause(shop: Shop) -> None:
    for _ in range(100):
        shop.ask(shop.a)
        assert shop.serve(1.0) is shop.a
    turns = []
    for _ in range(40):
        shop.ask(shop.a, shop.b)
        turns.append(shop.serve(0.1))
    # b is owed one lease of a and a quarter of a second. Then they take turns.
    owed = turns.index(shop.a)
    assert owed <= 13
    rest = turns[owed:]
    assert abs(rest.count(shop.a) - rest.count(shop.b)) <= 1


def test_a_worker_waits_a_moment_for_a_trainer_that_is_owed_time(
    shop: Shop,
) -> None:
    shop.ask(shop.a, shop.b)
    assert shop.serve(0.1) is shop.a
    shop.ask(shop.a)
    assert shop.serve(0.001) is shop.b
    assert shop.serve(0.1) is None, "a's lease waits while b's next one may be on its way"
    assert 2 <= shop.links.wait_ms(shop.now) <= 3
    shop.now += 0.001
    shop.ask(shop.b)
    assert shop.links.wait_ms(shop.now) == 0
    assert shop.serve(0.001) is shop.b
    shop.now += 0.0021
    assert shop.links.wait_ms(shop.now) == 0
    assert shop.serve(0.1) is shop.a, "it did not come in time"


def test_a_worker_does_not_wait_for_a_trainer_that_is_owed_nothing_or_is_gone(shop: Shop) -> None:
    shop.ask(shop.a, shop.b)
    assert shop.serve(0.1) is shop.a
    assert shop.links.wait_ms(shop.now) == 0
    assert shop.serve(0.001) is shop.b
    shop.ask(shop.a)
    shop.b.take(Bye("the end"))
    assert shop.serve(0.1) is shop.a


def test_a_worker_that_is_refused_again_and_again_pauses_longer_each_time(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.monotonic", lambda: shop.now)
    ends = set()
    for pause, most in zip(
        (0, 0, 0, 0, 0, 0, 58, 61), (0.25, 0.5, 1, 2, 4, 5, 5, 0.25), strict=True
    ):
        shop.now += pause
        shop.a.take(Refused("not now"))
        began = shop.now
        while shop.a.dealer is None:  # it dials again when the pause is over
            shop.now += most / 100
            shop.links.tick(shop.now, Beat())
        share = (shop.now - began) / most
        assert 0.5 <= share <= 1.01
        ends.add(round(share, 2))
    assert len(ends) > 1, "those who were refused together do not come back together"
    assert not shop.a.welcomed
    assert shop.b.welcomed


@pytest.mark.parametrize("kind", [Refused, Notice])
def test_a_trainer_that_says_much_fills_no_log(
    kind: type[Refused | Notice], shop: Shop, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr("time.monotonic", lambda: shop.now)
    shop.a.take(kind("this worker is not liked"))
    assert "not liked" in caplog.text
    for number in range(500):
        shop.a.take(kind(f"for reason {number}"))
    assert len(caplog.records) == 1


def test_a_trainer_that_closes_during_the_handshake_does_not_refuse_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("videoload.worker.trainers.UNREACHABLE_S", 1.5)
    monkeypatch.setattr("videoload.worker.trainers.WELCOME_S", 0.5)
    _, keys = make_keys(tmp_path / "keys")
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        links = Trainers(context, WorkerSettings([endpoint], keys=str(keys)), lambda name: [])
        closing, _ = listener.accept()
        closing.recv(1)  # the handshake has begun
        closing.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        closing.close()  # with a reset
    [link] = links

    def is_seen(what: Callable[[], bool]) -> bool:
        links.tick(time.monotonic(), Beat())
        return what()

    try:
        wait_until(lambda: is_seen(lambda: link.rejected), 60 * SECOND)
        wait_until(lambda: is_seen(lambda: endpoint in caplog.text), 60 * SECOND)
    finally:
        links.close()
        context.term()
    assert "cannot be reached" in caplog.text
    assert "key" not in caplog.text
    assert not link.rejected


def test_a_worker_that_no_trainer_knows_dials_anew_with_the_keys_of_today(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("videoload.worker.trainers.REDIAL_S", 0.2)
    _, old = make_keys(tmp_path / "old")
    trainer, new = make_keys(tmp_path / "new")
    mine = tmp_path / "mine"
    shutil.copytree(old, mine)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with Client(workers=0, listen="tcp://127.0.0.1:*", keys=trainer) as client:
        [endpoint] = client.endpoints
        links = Trainers(context, WorkerSettings([endpoint], keys=str(mine)), lambda name: [])
        [link] = links

        def serves(seconds: float) -> bool:
            until = time.monotonic() + seconds
            while not link.welcomed and time.monotonic() < until:
                links.tick(time.monotonic(), Beat())
                time.sleep(0.01)
            return link.welcomed

        assert not serves(0.4)
        (mine / "trainer.key").unlink()  # the keys are being changed
        assert not serves(0.4)
        assert "trainer.key" in caplog.text
        for name in ("trainer.key", "worker.key_secret"):
            shutil.copy(new / name, mine / name)
        assert serves(30 * SECOND)
        links.close()
    context.term()


def test_a_worker_without_keys_is_counted_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("UNREACHABLE_S", "REMIND_S"):
        monkeypatch.setattr(f"videoload.worker.trainers.{name}", 0.1)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    router = Router(context, "tcp://127.0.0.1:*", keys=make_keys(tmp_path / "keys")[0])
    links = Trainers(context, WorkerSettings([router.endpoint]), lambda name: [])

    def is_known() -> bool:
        links.tick(time.monotonic(), Beat())
        router.connections.inspect(time.monotonic())
        return router.connections.rejected > 0 and "--keys" in caplog.text

    wait_until(is_known, 30 * SECOND)
    links.close()
    router.close()
    context.term()


@pytest.mark.parametrize("has_room", [True, False])
def test_a_worker_that_is_not_welcomed_says_hello_again_on_a_fresh_connection(
    has_room: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a time without an answer, or when it is disconnected: then it pauses first."""
    wait_s = 0.1 if has_room else 3600.0
    monkeypatch.setattr("videoload.worker.trainers.WELCOME_S", wait_s)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    router = Router(context, "tcp://127.0.0.1:*", most=9 if has_room else 0)
    links = Trainers(context, WorkerSettings([router.endpoint]), lambda name: [])
    peers, hung_up, began = set[object](), 0, time.monotonic()
    while len(peers) < 3 and time.monotonic() < began + 60 * SECOND:
        links.tick(time.monotonic(), Beat())
        router.socket.poll(10)
        while (got := router.receive()) is not None:
            peers |= {got[0]} if isinstance(got[1], Hello) else set()
        if not has_room and len(peers) > hung_up:
            hung_up += len(router.connections.inspect(time.monotonic())[0])
    took_s = time.monotonic() - began
    links.close()
    router.close()
    context.term()
    assert len(peers) == 3
    assert hung_up == (0 if has_room else 3)
    assert took_s > (0.2 if has_room else 0.3)

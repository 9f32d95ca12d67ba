"""Several trainers, the same workers: each gets its own stream, and its share of the work."""

import re
import signal
import threading
import time

import pytest
import zmq

from tests.support.digests import digests
from tests.support.programs import Program, Programs
from tests.support.videos import Videos
from tests.support.waiting import SECOND
from videoload import Client, ClipSpec, Stream, decode_serially
from videoload.activity import Activity
from videoload.clips.rows import Clip, Video
from videoload.clips.sample_spec import one_clip
from videoload.wire.messages import Heartbeat, Hello, Lease, Welcome
from videoload.wire.sockets import Router

CLIP = ClipSpec(frames=8, stride=2, resize=36, size=(32, 32), sampling="random", clips_per_video=8)
BATCH = 4
LISTEN = "tcp://127.0.0.1:*"


@pytest.fixture(scope="module")
def serial(videos: Videos) -> dict[int, list[str]]:
    """The serial stream, by seed."""
    return {
        seed: digests(
            decode_serially(
                videos.catalog, CLIP, BATCH, shuffle=True, seed=seed, epochs=2, info=True
            )
        )
        for seed in (1, 2)
    }


def make(client: Client, videos: Videos, seed: int) -> Stream:
    return client.stream(videos.catalog, CLIP, BATCH, shuffle=True, seed=seed)


def share_workers(programs: Programs, videos: Videos, count: int, *endpoints: str) -> list[Program]:
    """This many workers, which dial all these trainers."""
    more = [flag for endpoint in endpoints[1:] for flag in ("--connect", endpoint)]
    return [programs.worker(endpoints[0], videos.root, *more) for _ in range(count)]


@pytest.mark.slow
def test_two_trainers_share_two_workers_and_each_gets_its_own_stream(
    videos: Videos, serial: dict[int, list[str]], programs: Programs
) -> None:
    got: dict[int, list[str]] = {}
    others_at_the_end: list[int] = []
    with Client(workers=0, listen=LISTEN) as one, Client(workers=0, listen=LISTEN) as other:
        share_workers(programs, videos, 2, one.endpoints[0], other.endpoints[0])
        for client in (one, other):
            client.wait_for_workers(2, timeout_s=30 * SECOND)

        def read(client: Client, seed: int) -> None:
            stream = make(client, videos, seed)
            got[seed] = digests(stream.batches(epochs=2, info=True))
            there = other if client is one else one
            others_at_the_end.append(sum(worker.clips for worker in there.workers))

        threads = [threading.Thread(target=read, args=reader) for reader in ((one, 1), (other, 2))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert got == serial
    assert others_at_the_end[0], "both progress, not one after the other"


TRAINER = """
    import sys
    import videoload as vl

    root, clip = sys.argv[1], vl.ClipSpec(frames=8, stride=2, resize=36, size=(32, 32))
    with vl.Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        print("listening at", client.endpoints[0], flush=True)
        stream = client.stream(vl.Catalog.from_folder(root), clip, 4, shuffle=True)
        for number, _ in enumerate(stream.batches(epochs=10**6)):
            if number == 20:
                print("it trains", flush=True)
"""


@pytest.mark.slow
def test_a_killed_trainer_disturbs_no_other(
    videos: Videos, serial: dict[int, list[str]], programs: Programs
) -> None:
    victim = programs.script(TRAINER, str(videos.root))
    victim.wait_for("listening at", 30 * SECOND)
    endpoint = re.findall("listening at (.*)", victim.out)[0]
    got: list[str] = []
    with Client(workers=0, listen=LISTEN) as client:
        workers = share_workers(programs, videos, 2, client.endpoints[0], endpoint)
        client.wait_for_workers(2, timeout_s=30 * SECOND)
        victim.wait_for("it trains", 30 * SECOND)
        for batch in make(client, videos, 1).batches(epochs=2, info=True):
            got += digests([batch])
            if len(got) == len(serial[1]) // 3:
                victim.signal(signal.SIGKILL)
                victim.wait(30 * SECOND)
        assert got == serial[1]
        assert len(client.workers) == 2
        for worker in workers:
            worker.wait_for(f"trainer {endpoint} disconnected", 30 * SECOND)
            assert worker.err.count("serving trainer") == 2
            assert "Traceback" not in worker.err


@pytest.mark.slow
def test_a_worker_stops_decoding_for_a_dead_trainer(videos: Videos, programs: Programs) -> None:
    # Thousands of passes over a file, for a trainer that dies when they have begun.
    long = ClipSpec(frames=100, resize=36, size=(32, 32))
    clips = [Clip(n, row=Video(("jump/long.avi", "walk/gop12.avi")[n % 2])) for n in range(4000)]
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    router = Router(context, LISTEN)
    with Client(workers=0, listen=LISTEN) as client:
        try:
            (worker,) = share_workers(programs, videos, 1, client.endpoints[0], router.endpoint)
            client.wait_for_workers(1, timeout_s=30 * SECOND)
            at = Activity.IDLE
            while not at:  # it says HELLO, and later that it is at work
                assert router.socket.poll(int(30_000 * SECOND))
                got = router.receive()
                assert got is not None
                peer, message = got
                if isinstance(message, Hello):
                    assert peer.send(Welcome(0.05))
                    assert peer.send(Lease(1, one_clip(long), clips))
                else:
                    assert isinstance(message, Heartbeat)
                    at = message.at
        finally:
            router.close()
            context.term()
        began = time.monotonic()
        next(make(client, videos, 1).batches())
        # all passes take more than a minute, on a quick machine
        assert time.monotonic() - began < 30 * SECOND
        assert "Traceback" not in worker.err

"""Garbage from the network disturbs no stream, and nobody gets in."""

import os
import random
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import zmq

from tests.faults.raw_peers import Trainer, answer, dealer, hello, say
from tests.support.digests import digests
from tests.support.leaks import private_sockets
from tests.support.processes import children_of, descriptors, is_alive
from tests.support.programs import Programs
from tests.support.thorough import either
from tests.support.videos import Videos, make_avi
from tests.support.waiting import SECOND, in_background, wait_until
from videoload import Client, ClipSpec, decode_serially
from videoload.activity import Activity
from videoload.clips.rows import Clip, Video
from videoload.clips.sample_spec import one_clip
from videoload.errors import Fault
from videoload.wire.messages import (
    VERSION,
    Bye,
    Failed,
    FromWorker,
    Heartbeat,
    Lease,
    Place,
    Result,
    Welcome,
    pack,
)

CLIP = ClipSpec(frames=6, stride=2, resize=36, size=(32, 32), sampling="random", clips_per_video=6)
BATCH = 4


# At the trainer's port


@pytest.mark.slow
def test_noise_at_the_moment_of_closing_does_not_abort_the_trainer(
    videos: Videos, programs: Programs
) -> None:
    # If the first byte is not 0xff, libzmq takes the peer for ZMTP 1.0, and that handshake fails if
    # the socket is being closed. The test uses a process of its own, because it would take this one
    # along.
    script = """
        import random, socket, sys
        from videoload import Client

        draw = random.Random(1)
        for _ in range(int(sys.argv[1])):
            with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
                port = int(client.endpoints[0].rpartition(":")[2])
                callers = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
                for caller in callers:
                    caller.sendall(bytes([draw.randrange(1, 200), 0]) + draw.randbytes(300))
            for caller in callers:
                caller.close()
    """
    trainer = programs.script(script, str(either(40, 150)))
    assert trainer.wait(60 * SECOND) == 0, trainer.err[-2000:]


def test_messages_outside_of_the_protocol_disturb_nothing(videos: Videos) -> None:
    draw = random.Random(2)
    # it names no lease of its own, because an admitted worker may call its own video bad
    far = 10**9
    valid: list[FromWorker] = [
        hello(), Result(far, b""), Failed(far, 0, "no"), Heartbeat(3), Bye("gone"),
    ]  # fmt: skip
    sent = 0

    def garbage() -> list[bytes]:
        match draw.randrange(6):
            case 0:
                return [draw.randbytes(draw.randrange(1000)) for _ in range(draw.randint(1, 5))]
            case 1:
                return [VERSION, draw.randbytes(draw.randrange(100))]
            case 2:
                return [VERSION, msgspec.msgpack.encode({"type": draw.choice(("hello", "no", 7))})]
            case 3:
                return [b"videoload/999", pack(draw.choice(valid))[1]]
            case 4:
                return [*pack(draw.choice(valid)), *([b"more"] * draw.randrange(4))]
            case _:
                body = bytearray(pack(draw.choice(valid))[1])
                body[draw.randrange(len(body))] = draw.randrange(256)
                return [VERSION, bytes(body)]

    def shout(over: threading.Event) -> None:
        nonlocal sent
        while not over.is_set():
            with dealer(client.endpoints[0]) as made:
                for _ in range(draw.randint(1, 10)):
                    made.send_multipart(garbage())
                    sent += 1
                made.send_multipart([b"videoload/999", b""])  # nobody answers a mere BYE
                answer(made)  # the trainer is alive and answers
                say(made, Bye("it was nonsense"))

    how: dict[str, Any] = {"batch_size": BATCH, "shuffle": True}
    expected = digests(decode_serially(videos.catalog, CLIP, **how, info=True))
    with Client(workers=1, listen="tcp://127.0.0.1:*") as client:
        client.wait_for_workers(1, timeout_s=30 * SECOND)
        with in_background(shout):
            while sent < 200:
                stream = client.stream(videos.catalog, CLIP, **how)
                assert digests(stream.batches(epochs=1, info=True)) == expected
                assert not stream.quarantine
        wait_until(lambda: len(client.workers) == 1, 30 * SECOND)


@pytest.mark.slow
def test_the_leases_of_a_local_worker_that_sends_nonsense_wait_for_its_death(
    videos: Videos, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It has mapped memory that its leases name, and may be writing there.
    spec = replace(CLIP, clips_per_video=1)
    killed = threading.Event()
    owed: set[str] = set()
    others, elsewhere = children_of(os.getpid()), private_sockets(descriptors())
    with Client(workers=2) as client:
        client.wait_for_workers(2, timeout_s=30 * SECOND)
        stream = client.stream(videos.catalog, spec, 1, shuffle=True)
        victim = next(child for child in children_of(os.getpid()) if child not in others)
        (name,) = private_sockets(descriptors()) - elsewhere
        os.kill(victim, signal.SIGSTOP)
        # A kill that takes its time: the victim lives until the test ends it.
        monkeypatch.setattr(subprocess.Popen, "kill", lambda process: killed.set())
        # Nobody else can know this token; workers prove with it that the trainer started them. The
        # test speaks in the name of one of them.
        token = client._engine._token

        def talk(made: zmq.Socket[bytes]) -> None:
            try:
                for _ in range(2):
                    lease = answer(made)
                    assert isinstance(lease, Lease)
                    assert lease.place is not None
                    owed.update(clip.row.path for clip in lease.clips)
                made.send_multipart([b"noise"])
                assert killed.wait(30 * SECOND)
                rest = len(videos.catalog) - len(owed)
                wait_until(lambda: sum(w.clips for w in client.workers) >= rest, 30 * SECOND)
                time.sleep(0.3 * SECOND)  # the other worker is idle, and gets nothing
                assert sum(w.clips for w in client.workers) == rest
            finally:
                os.kill(victim, signal.SIGKILL)

        with dealer(f"ipc://{name}") as made, ThreadPoolExecutor() as pool:
            say(made, hello(pid=victim, token=token))
            assert isinstance(answer(made), Welcome)
            talking = pool.submit(talk, made)
            got, early = [], []
            for batch in stream.batches(epochs=1, info=True):
                got += digests([batch])
                path = videos.catalog[int(batch[2].video[0])].path
                if path in owed and is_alive(victim):
                    early.append(path)
            talking.result()
    assert len(owed) == 2
    assert not early
    assert got == digests(decode_serially(videos.catalog, spec, 1, shuffle=True, info=True))


# At the worker


def test_a_worker_decodes_nothing_outside_its_root(
    videos: Videos, programs: Programs, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    make_avi(root / "good.avi", frames=12)
    make_avi(tmp_path / "secret.avi", frames=12, seed=1)
    (root / "link.avi").symlink_to(tmp_path / "secret.avi")
    (root / "script.avi").write_text(f"ffconcat version 1.0\nfile {tmp_path}/secret.avi\n")
    (root / "near.avi").write_text("ffconcat version 1.0\nfile ../secret.avi\n")
    spec = ClipSpec(frames=4, size=(32, 32))
    outside = ("../secret.avi", str(tmp_path / "secret.avi"), "/etc/passwd", "link.avi")
    asked = {
        **dict.fromkeys(outside, "root"),
        **dict.fromkeys(("script.avi", "near.avi"), "opened"), "good.avi\0": "file name",
        **dict.fromkeys(("http://127.0.0.1/x.avi", "concat:good.avi|good.avi"), "No such file"),
    }  # fmt: skip
    with Trainer(programs, root) as trainer:
        for number, (path, reason) in enumerate(asked.items()):
            trainer.say(
                Lease(
                    number,
                    one_clip(spec),
                    [Clip(1, row=Video(each)) for each in ("good.avi", path)],
                )
            )
            said = trainer.answer()
            assert isinstance(said, Failed)
            assert (said.lease, said.at, said.fault) == (number, 1, Fault.VIDEO)
            assert reason in said.reason
            assert not trainer.pixels
        # Memory that it was never given, and after that memory that it may use.
        trainer.say(Lease(100, one_clip(spec), [Clip(1, row=Video("good.avi"))], Place(0, 0)))
        said = trainer.answer()
        assert isinstance(said, Bye), "no clip is to blame: the lease is given back"
        trainer.welcome(30 * SECOND)
        trainer.say(Lease(101, one_clip(spec), [Clip(1, row=Video("good.avi"))]))
        said = trainer.answer()
        assert isinstance(said, Result)
        assert said.lease == 101
        assert len(trainer.pixels) == spec.clip_bytes
        assert np.frombuffer(trainer.pixels, np.uint8).std() > 0


def far_apart(count: int) -> list[Clip]:
    """Clips that no single pass over a file can give, so the lease is long."""
    return [
        Clip(number, row=Video(("jump/long.avi", "walk/gop12.avi")[number % 2]))
        for number in range(count)
    ]


@pytest.mark.slow
def test_a_worker_tells_that_it_decodes_and_does_not_take_a_long_lease_for_the_trainers_silence(
    videos: Videos, programs: Programs
) -> None:
    # The trainer sends heartbeats, but a worker at work does not read them.
    long = ClipSpec(frames=20, stride=5, size=(32, 32))
    with Trainer(programs, videos.root, beat_s=0.01) as trainer:
        took_s, clips, beats = 0.0, 100, 0
        while took_s < 1.5 * 40 * trainer.beat_s:  # longer than a silence may last
            clips *= 2
            beats = 0
            began = time.monotonic()
            trainer.say(Lease(clips, one_clip(long), far_apart(clips)))
            while isinstance(said := trainer.hear(), Heartbeat):
                beats += said.at is Activity.DECODING
                trainer.say(Heartbeat())
            assert isinstance(said, Result)
            assert said.lease == clips
            took_s = time.monotonic() - began
        for _ in range(5):
            assert isinstance(trainer.hear(), Heartbeat)
            trainer.say(Heartbeat())
        assert "does not respond" not in trainer.worker.err
    assert beats >= 5


@pytest.mark.slow
def test_a_worker_dials_again_when_its_trainer_falls_silent(
    videos: Videos, programs: Programs
) -> None:
    with Trainer(programs, videos.root, beat_s=0.02) as trainer:
        first = trainer.peer
        trainer.welcome(30 * SECOND)  # forty heartbeats later
        assert trainer.peer != first
        trainer.say(Lease(1, one_clip(CLIP), [Clip(1, row=Video("walk/gop12.avi"))]))
        assert isinstance(trainer.answer(), Result)

"""Garbage from the network disturbs no stream, and nobody gets in."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
import zmq

from tests.faults.raw_peers import Trainer, answer, answer_if_any, dealer, hello, say
from tests.support.digests import digests
from tests.support.leaks import private_sockets
from tests.support.processes import children_of, descriptors, is_alive
from tests.support.programs import Programs
from tests.support.videos import Videos, make_avi
from tests.support.waiting import SECOND, in_background, wait_until
from videoload import Client, ClipSpec, decode_serially
from videoload.transport.messages import (
    VERSION,
    Bye,
    Clip,
    Failed,
    FromWorker,
    Heartbeat,
    Lease,
    Place,
    Refused,
    Result,
    Welcome,
    pack,
    unpack_from_trainer,
)

pytestmark = pytest.mark.timeout(40 * SECOND)

CLIP = ClipSpec(frames=6, stride=2, resize=36, size=(32, 32), sampling="random", clips_per_video=6)
BATCH = 4
EPOCHS = 3


@pytest.fixture(scope="module")
def serial(videos: Videos) -> list[str]:
    return digests(
        decode_serially(videos.catalog, CLIP, BATCH, shuffle=True, epochs=EPOCHS, info=True)
    )


def read(client: Client, videos: Videos) -> list[str]:
    stream = client.stream(videos.catalog, CLIP, BATCH, shuffle=True)
    return digests(stream.batches(epochs=EPOCHS, info=True))


# At the trainer's port


@pytest.mark.slow
def test_bytes_that_are_not_zeromq_disturb_nothing(
    videos: Videos, serial: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    draw = random.Random(1)
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL".ljust(55, b"\0")
    sent = 0
    with Client(workers=2, listen="tcp://127.0.0.1:*") as client:
        port = int(client.endpoints[0].rpartition(":")[2])

        def shout(over: threading.Event) -> None:
            nonlocal sent
            held = []
            while not over.is_set() or sent < 50:
                body = draw.choice((
                    b"GET / HTTP/1.1\r\n\r\n", draw.randbytes(draw.randrange(1, 2000)),
                    greeting[: draw.randrange(64)], greeting + draw.randbytes(200), b"",
                ))  # fmt: skip
                with suppress(ConnectionError):
                    caller = socket.create_connection(("127.0.0.1", port))
                    caller.sendall(body)
                    held.append(caller)  # some hang up, some keep the line open
                if len(held) > 20:
                    held.pop(draw.randrange(20)).close()
                sent += 1
            for caller in held:
                caller.close()

        with in_background(shout):
            client.wait_for_workers(2, timeout_s=10 * SECOND)  # they get in through it
            assert read(client, videos) == serial
        assert len(client.workers) == 2
    assert sent >= 50
    assert not caplog.records, "noise does not come as far as videoload"


@pytest.mark.slow
def test_noise_at_the_moment_of_closing_does_not_abort_the_trainer(
    videos: Videos, programs: Programs
) -> None:
    # If the first byte is not 0xff, libzmq takes the peer for ZMTP 1.0, and that handshake fails if
    # the socket is being closed. The test uses a process of its own, because it would take this one
    # along.
    script = """
        import random, socket
        from videoload import Client

        draw = random.Random(1)
        for _ in range(150):
            with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
                port = int(client.endpoints[0].rpartition(":")[2])
                callers = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
                for caller in callers:
                    caller.sendall(bytes([draw.randrange(1, 200), 0]) + draw.randbytes(300))
            for caller in callers:
                caller.close()
    """
    trainer = programs.script(script)
    assert trainer.wait(30 * SECOND) == 0, trainer.err[-2000:]


def test_messages_outside_of_the_protocol_disturb_nothing(
    videos: Videos, serial: list[str]
) -> None:
    draw = random.Random(2)
    # it names no lease of its own, because an admitted worker may call its own video bad
    far = 10**9
    valid: list[FromWorker] = [
        hello(),
        Result(far, [[0]]),
        Failed(far, 0, "no"),
        Heartbeat(3),
        Bye("gone"),
    ]
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

    with Client(workers=2, listen="tcp://127.0.0.1:*") as client:

        def shout(over: threading.Event) -> None:
            nonlocal sent
            while not over.is_set() or sent < 200:
                with dealer(client.endpoints[0]) as made:
                    for _ in range(draw.randint(1, 10)):
                        made.send_multipart(garbage())
                        sent += 1
                    answer(made)  # the trainer is alive and answers
                    say(made, Bye("it was nonsense"))

        with in_background(shout):
            assert read(client, videos) == serial
        assert read(client, videos) == serial
        wait_until(lambda: len(client.workers) == 2, 5 * SECOND)
    assert sent >= 200


def test_a_worker_of_another_version_is_told_why(caplog: pytest.LogCaptureFixture) -> None:
    with (
        Client(workers=0, listen="tcp://127.0.0.1:*") as client,
        dealer(client.endpoints[0]) as made,
    ):
        made.send_multipart([b"videoload/0", pack(hello())[1]])
        why = "the other side speaks b'videoload/0', this one speaks b'videoload/1'"
        assert answer(made) == Refused(why)
        assert not client.workers
        assert caplog.messages == [f"refused a message at {client.endpoints[0]}: {why}"]


OLD_WORKER = """
    import sys

    from videoload.transport import messages
    from videoload.transport.private_messages import WorkerSettings
    from videoload.worker.worker import serve

    messages.VERSION = b"videoload/0"
    sys.exit(serve(WorkerSettings([sys.argv[1]], root=sys.argv[2])))
"""


def test_two_versions_that_meet_both_say_why_they_disconnect(
    videos: Videos, programs: Programs, caplog: pytest.LogCaptureFixture
) -> None:
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        old = programs.script(OLD_WORKER, client.endpoints[0], str(videos.root))
        old.wait_for(
            f"trainer {client.endpoints[0]}: the other side speaks b'videoload/1', this one speaks "
            "b'videoload/0'", 10 * SECOND,
        )  # fmt: skip
        why = "the other side speaks b'videoload/0', this one speaks b'videoload/1'"
        assert caplog.messages == [f"refused a message at {client.endpoints[0]}: {why}"]
        assert not client.workers
        old.signal(signal.SIGTERM)
        assert old.wait(2 * SECOND) == 0, "it is patient, and can be stopped"


@pytest.mark.slow
def test_a_worker_that_has_not_said_hello_is_told_so(videos: Videos, serial: list[str]) -> None:
    with (
        Client(workers=1, listen="tcp://127.0.0.1:*") as client,
        dealer(client.endpoints[0]) as made,
    ):
        for message in (Result(1, [[0] * 6]), Failed(1, 0, "all are bad"), Heartbeat(1)):
            say(made, message)
            assert answer(made) == Bye("this trainer does not know you")
        assert read(client, videos) == serial


@pytest.mark.slow
def test_a_worker_that_comes_and_goes_and_lies_changes_nothing(
    videos: Videos, serial: list[str]
) -> None:
    with (
        Client(workers=1, listen="tcp://127.0.0.1:*") as client,
        dealer(client.endpoints[0]) as made,
    ):
        say(made, hello())
        assert isinstance(answer(made), Welcome)
        comings = 0

        def lie(over: threading.Event) -> None:
            nonlocal comings
            while not over.wait(0.001):
                number = random.randrange(10**6, 10**7)  # no file has these names
                say(made, Result(number, [[0] * CLIP.frames] * 2), bytes(2 * CLIP.clip_bytes))
                say(made, Failed(number, 0, "not mine"))
                # it takes no work: it leaves, and comes back
                if isinstance(answer_if_any(made), Lease):
                    comings += 1
                    say(made, Bye("not for me"))
                    say(made, hello())

        with in_background(lie):
            assert read(client, videos) == serial
    assert comings


@pytest.mark.slow
@pytest.mark.parametrize("how", ["too few bytes", "other frames", "too many bytes", "no pixels"])
def test_an_answer_of_the_wrong_size_is_refused_and_its_lease_goes_to_another(
    how: str, videos: Videos, serial: list[str]
) -> None:
    refused: list[str] = []
    with (
        Client(workers=1, listen="tcp://127.0.0.1:*") as client,
        dealer(client.endpoints[0]) as made,
    ):
        client.wait_for_workers(1, timeout_s=20 * SECOND)
        say(made, hello())
        assert isinstance(answer(made), Welcome)

        def answer_wrongly(over: threading.Event) -> None:
            while not over.is_set():
                if not made.poll(20):
                    continue
                match unpack_from_trainer(made.recv_multipart()):
                    case Lease() as lease:
                        rows = len(lease.clips)
                        frames = [[0] * CLIP.frames] * rows
                        body = bytes(rows * CLIP.clip_bytes)
                        match how:
                            case "too few bytes":
                                say(made, Result(lease.lease, frames), body[1:])
                            case "too many bytes":
                                say(made, Result(lease.lease, frames), body + b"1")
                            case "no pixels":
                                say(made, Result(lease.lease, frames))
                            case "other frames":
                                say(made, Result(lease.lease, [*frames[1:], [0]]), body)
                    case Refused() as said:
                        refused.append(said.reason)
                        say(made, hello())
                    case _:
                        pass

        with in_background(answer_wrongly):
            assert read(client, videos) == serial
    assert refused
    expected = "answer does not" if how == "other frames" else "bytes of pixels came, the lease has"
    assert all(expected in reason for reason in refused), refused


@pytest.mark.slow
def test_a_worker_that_takes_leases_and_never_answers_loses_them(
    videos: Videos, serial: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("videoload.engine.engine._SILENCE_S", 0.8 * SECOND)
    with (
        Client(workers=1, listen="tcp://127.0.0.1:*") as client,
        dealer(client.endpoints[0]) as made,
    ):
        say(made, hello())
        assert isinstance(answer(made), Welcome)
        assert read(client, videos) == serial
        assert isinstance(answer(made), Lease), "it was given work"


@pytest.mark.slow
def test_three_lost_connections_are_not_blamed_on_the_leased_video(
    videos: Videos, programs: Programs
) -> None:
    # As when a rack of hosts fails: each had the same clip for a while, and the clip killed none of
    # them.
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        stream = client.stream(videos.catalog, CLIP, 1)
        batches = stream.batches(info=True)
        got: list[str] = []
        reader = threading.Thread(target=lambda: got.extend(digests(batches)))
        reader.start()
        try:
            for _ in range(3):
                with dealer(client.endpoints[0]) as made:
                    say(made, hello())
                    assert isinstance(answer(made), Welcome)
                    assert isinstance(answer(made), Lease)
                wait_until(lambda: not client.workers, 5 * SECOND)
            programs.worker(client.endpoints[0], videos.root)
            reader.join(20 * SECOND)
            assert not stream.quarantine
        finally:
            client.close()
            reader.join()
    assert got == digests(decode_serially(videos.catalog, CLIP, 1, info=True))


def test_only_local_workers_may_use_their_address(videos: Videos, serial: list[str]) -> None:
    with Client(workers=1) as client:
        client.wait_for_workers(1, timeout_s=20 * SECOND)
        with dealer(private_endpoint()) as made:
            for token in ("", "0" * 64):
                say(made, hello(pid=os.getpid(), token=token))
                assert answer(made) == Refused("this address is for the trainer's own workers")
            say(made, Result(1, [[0] * CLIP.frames]))
            assert answer(made) == Bye("this trainer does not know you")
            made.send_multipart([b"noise"] * 3)
            assert isinstance(answer(made), Refused)
            assert len(client.workers) == 1
            assert read(client, videos) == serial


def private_endpoint() -> str:
    """Where this process listens for its own workers. Anybody on this host can read it."""
    (name,) = private_sockets(descriptors())
    return f"ipc://{name}"


@pytest.mark.slow
def test_the_leases_of_a_local_worker_that_sends_nonsense_wait_for_its_death(
    videos: Videos, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It has mapped memory that its leases name, and may be writing there.
    spec = replace(CLIP, clips_per_video=1)
    killed = threading.Event()
    owed: set[str] = set()
    with Client(workers=2) as client:
        client.wait_for_workers(2, timeout_s=20 * SECOND)
        stream = client.stream(videos.catalog, spec, 1, shuffle=True)
        victim = children_of(os.getpid())[0]
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
                    owed.update(clip.path for clip in lease.clips)
                made.send_multipart([b"noise"])
                assert killed.wait(5 * SECOND)
                rest = len(videos.catalog) - len(owed)
                wait_until(lambda: sum(w.clips for w in client.workers) >= rest, 10 * SECOND)
                time.sleep(0.3 * SECOND)  # the other worker is idle, and gets nothing
                assert sum(w.clips for w in client.workers) == rest
            finally:
                os.kill(victim, signal.SIGKILL)

        with dealer(private_endpoint()) as made, ThreadPoolExecutor() as pool:
            say(made, hello(pid=victim, token=token))
            assert isinstance(answer(made), Welcome)
            talking = pool.submit(talk, made)
            got, early = [], []
            for batch in stream.batches(info=True):
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
    asked = {
        "../secret.avi": "lies outside of the root",
        str(tmp_path / "secret.avi"): "lies outside of the root",
        "/etc/passwd": "lies outside of the root",
        "link.avi": "lies outside of the root",
        "script.avi": "is not a video that can be opened",
        "near.avi": "is not a video that can be opened",
        "good.avi\0": "cannot be a file name",
        "http://127.0.0.1/x.avi": "No such file",
        "concat:good.avi|good.avi": "No such file",
    }
    with Trainer(programs, root) as trainer:
        for number, (path, reason) in enumerate(asked.items()):
            trainer.say(Lease(number, spec, [Clip("good.avi", 1), Clip(path, 1)]))
            said = trainer.answer()
            assert isinstance(said, Failed)
            assert (said.lease, said.at, said.dropped) == (number, 1, False)
            assert reason in said.reason
            assert not trainer.pixels
        # Memory that it was never given, and after that memory that it may use.
        trainer.say(Lease(100, spec, [Clip("good.avi", 1)], Place(0, 0)))
        said = trainer.answer()
        assert isinstance(said, Failed)
        assert "not shared with this worker" in said.reason
        trainer.say(Lease(101, spec, [Clip("good.avi", 1)]))
        said = trainer.answer()
        assert isinstance(said, Result)
        assert said.lease == 101
        assert len(trainer.pixels) == spec.clip_bytes
        assert np.frombuffer(trainer.pixels, np.uint8).std() > 0


def test_a_worker_survives_a_trainer_that_sends_nonsense(
    videos: Videos, programs: Programs
) -> None:
    with Trainer(programs, videos.root) as trainer:
        trainer.say_raw(b"videoload/2", pack(Heartbeat())[1])
        trainer.worker.wait_for(
            "the other side speaks b'videoload/2', this one speaks b'videoload/1'", 5 * SECOND
        )
        trainer.welcome(10 * SECOND)  # it rests, and dials again
        trainer.say(Lease(1, CLIP, [Clip("walk/gop12.avi", 1)]))
        assert isinstance(trainer.answer(), Result)
        assert "Traceback" not in trainer.worker.err


def far_apart(count: int) -> list[Clip]:
    """Clips that no single pass over a file can give, so the lease is long."""
    return [
        Clip(("jump/long.avi", "walk/gop12.avi")[number % 2], number) for number in range(count)
    ]


def test_a_worker_says_goodbye_in_the_middle_of_a_lease(videos: Videos, programs: Programs) -> None:
    long = ClipSpec(frames=100, resize=112, size=(112, 112))
    with Trainer(programs, videos.root, beat_s=0.02) as trainer:
        for number in range(2):
            trainer.say(Lease(number, long, far_apart(40)))
        while not (isinstance(said := trainer.hear(), Heartbeat) and said.progress):
            pass  # it is at work now
        trainer.worker.signal(signal.SIGTERM)
        assert trainer.answer() == Bye("SIGTERM")
        assert trainer.worker.wait(2 * SECOND) == 0


@pytest.mark.slow
def test_a_worker_sends_heartbeats_with_its_progress_while_it_decodes(
    videos: Videos, programs: Programs
) -> None:
    long = ClipSpec(frames=100, resize=112, size=(112, 112))
    with Trainer(programs, videos.root, beat_s=0.02) as trainer:
        trainer.say(Lease(1, long, far_apart(40)))
        progress = []
        while isinstance(said := trainer.hear(), Heartbeat):
            progress.append(said.progress)
            trainer.say(Heartbeat())
        assert isinstance(said, Result)
    assert progress == sorted(progress)
    assert len(set(progress)) >= 5


@pytest.mark.slow
def test_a_long_lease_is_not_mistaken_for_the_trainers_silence(
    videos: Videos, programs: Programs
) -> None:
    # The trainer sends heartbeats, but a worker at work does not read them.
    long = ClipSpec(frames=20, stride=5, size=(32, 32))
    with Trainer(programs, videos.root, beat_s=0.01) as trainer:
        took_s, clips = 0.0, 250
        while took_s < 2 * 40 * trainer.beat_s:  # twice as long as a silence may last
            clips *= 2
            began = time.monotonic()
            trainer.say(Lease(clips, long, far_apart(clips)))
            while isinstance(said := trainer.hear(), Heartbeat):
                trainer.say(Heartbeat())
            assert isinstance(said, Result)
            assert said.lease == clips
            took_s = time.monotonic() - began
        for _ in range(5):
            assert isinstance(trainer.hear(), Heartbeat)
            trainer.say(Heartbeat())
        assert "fallen silent" not in trainer.worker.err


@pytest.mark.slow
def test_a_worker_dials_again_when_its_trainer_falls_silent(
    videos: Videos, programs: Programs
) -> None:
    with Trainer(programs, videos.root, beat_s=0.02) as trainer:
        first = trainer.peer
        trainer.welcome(5 * SECOND)  # forty heartbeats later
        assert trainer.peer != first
        assert "has fallen silent; dialling again" in trainer.worker.err
        trainer.say(Lease(1, CLIP, [Clip("walk/gop12.avi", 1)]))
        assert isinstance(trainer.answer(), Result)

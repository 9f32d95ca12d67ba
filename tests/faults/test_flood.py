"""What strangers can cost a trainer: floods, messages that never end, and any number of connections
change no byte, cost little, and leave nothing behind."""

import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.digests import digests
from tests.support.leaks import private_sockets
from tests.support.processes import children_of, descriptors, resident_mb
from tests.support.programs import Programs
from tests.support.thorough import either
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until
from videoload import Client, ClipSpec, decode_serially
from videoload.wire.keys import make_keys

CLIP = ClipSpec(frames=6, stride=2, resize=36, size=(32, 32), sampling="random", clips_per_video=6)
BATCH = 4
CONNECTIONS = either(1500, 10_000)


@pytest.fixture(scope="module")
def serial(videos: Videos) -> list[str]:
    return digests(decode_serially(videos.catalog, CLIP, BATCH, shuffle=True, info=True))


@contextmanager
def reading(client: Client, videos: Videos, serial: list[str]) -> Iterator[Callable[[], int]]:
    """A thread that reads epochs until the block is left, and checks that each equals the serial
    one. Yields a function that returns how many it has read."""
    over = threading.Event()
    epochs: list[bool] = []
    stream = client.stream(videos.catalog, CLIP, BATCH, shuffle=True)

    def read() -> None:
        while not over.is_set():
            epochs.append(digests(stream.batches(epochs=1, info=True)) == serial)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield lambda: len(epochs)
    finally:
        over.set()
        thread.join()
    assert epochs
    assert all(epochs)


@pytest.mark.slow
def test_any_number_of_connections_leaves_nothing_behind_and_silent_ones_are_closed(
    videos: Videos, serial: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("videoload.wire.sockets.HANDSHAKE_MS", 500)
    draw = random.Random(1)
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL".ljust(55, b"\0")
    bodies = [
        b"GET / HTTP/1.1\r\n\r\n", b"", draw.randbytes(300), greeting[:10],
        greeting, greeting + draw.randbytes(200),
    ]  # fmt: skip
    with Client(workers=1, listen="tcp://127.0.0.1:*") as client:
        client.wait_for_workers(1, timeout_s=30 * SECOND)
        address = ("127.0.0.1", int(client.endpoints[0].rpartition(":")[2]))
        with reading(client, videos, serial) as epochs:
            wait_until(epochs, 30 * SECOND)
            before_fds, before_mb, before_epochs = len(descriptors()), resident_mb(), epochs()
            began = time.monotonic()
            silent = [socket.create_connection(address, timeout=60 * SECOND) for _ in range(100)]
            held: list[socket.socket] = []
            number = 0
            while number < CONNECTIONS or epochs() == before_epochs:  # the stream continues
                number += 1
                with suppress(ConnectionError):
                    caller = socket.create_connection(address, timeout=60 * SECOND)
                    held.append(caller)
                    caller.sendall(bodies[number % len(bodies)])
                if len(held) > 50:
                    held.pop(draw.randrange(50)).close()
            took_s = time.monotonic() - began
            for caller in held:
                caller.close()
            for caller in silent:
                with suppress(ConnectionResetError):
                    while caller.recv(1000):  # its greeting, then the end
                        pass
                caller.close()
            wait_until(
                lambda: len(descriptors()) <= before_fds, 30 * SECOND, "descriptors come back"
            )
            grown_mb = resident_mb() - before_mb
    print(f"{CONNECTIONS} connections in {took_s:.1f} s, {grown_mb:+.0f} MB")
    assert grown_mb < 16


FLOOD = """
    import random
    import sys

    import zmq
    from videoload.wire.messages import VERSION, Heartbeat, Result, pack

    draw = random.Random(2)
    noise = [
        [draw.randbytes(100)], [VERSION, draw.randbytes(50)], [b"videoload/999", b""],
        [b""] * 9, [*pack(Result(1, b"")), bytes(10_000)],
        [VERSION, pack(Heartbeat())[1], b"more"],
    ]
    made = zmq.Context().socket(zmq.DEALER)
    made.connect(sys.argv[1])
    sent = 0
    while True:
        for message in noise:
            made.send_multipart(message)
        sent += len(noise)
        if sent == 600:
            print("it floods", flush=True)
"""


@pytest.mark.slow
def test_a_flood_of_messages_starves_nobody_and_fills_no_log(
    videos: Videos, serial: list[str], programs: Programs, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    def refused() -> list[str]:
        return [line for line in caplog.messages if "refused" in line]

    with Client(workers=0, listen=["tcp://127.0.0.1:*", "tcp://127.0.0.1:*"]) as client:
        programs.worker(client.endpoints[1], videos.root)  # the flood comes at the other address
        client.wait_for_workers(1, timeout_s=30 * SECOND)
        with reading(client, videos, serial) as epochs:
            wait_until(epochs, 30 * SECOND)
            before_mb, before_epochs = resident_mb(), epochs()
            began = time.monotonic()
            flood = programs.script(FLOOD, client.endpoints[0])
            flood.wait_for("it floods", 60 * SECOND)
            wait_until(lambda: len(refused()) >= 2, 60 * SECOND, "it is logged at a limited rate")
            # Ticks are sent as well; otherwise the worker would seem silent and lose its leases.
            wait_until(lambda: epochs() >= before_epochs + 2, 60 * SECOND, "the stream continues")
            assert flood.process.poll() is None
            flood.end()
            took_s = time.monotonic() - began
            grown_mb = resident_mb() - before_mb
        assert len(client.workers) == 1
    more = sum(int(line.rpartition("(and ")[2].split()[0]) for line in refused()[1:])
    told = f"{more} messages refused in {took_s:.1f} s, {len(refused())} lines"
    print(f"{told}, {epochs() - before_epochs} epochs meanwhile, {grown_mb:+.0f} MB")
    assert len(refused()) <= took_s + 2
    assert grown_mb < 64


SENT_MB = 600  # the most that is sent if nobody hangs up
MAX_MB = 250

ENDLESS = """
    import os
    import socket
    import sys

    from videoload.wire.messages import Hello, pack

    where, mechanism, what, user, megabytes = sys.argv[1:]
    if int(user):
        os.setuid(int(user))
    if where.startswith("@"):
        made = socket.socket(socket.AF_UNIX)
        made.connect("\\0" + where[1:])
    else:
        made = socket.create_connection(("127.0.0.1", int(where)))
    made.settimeout(60)

    def take(count):
        while count:
            got = made.recv(count)
            if not got:
                raise ConnectionError
            count -= len(got)

    def frame(flags, body):  # ZMTP 3.0: 1 more, 2 long, 4 command
        return bytes([flags | 2]) + len(body).to_bytes(8, "big") + body

    sent = 0
    part = bytes(4 << 20)
    try:
        made.sendall(b"\\xff" + bytes(8) + b"\\x7f\\x03\\x00" + mechanism.encode().ljust(20, b"\\0")
                     + bytes(32))
        take(64)
        if what == "handshake":  # a command of a gigabyte
            made.sendall(bytes([6]) + (1 << 30).to_bytes(8, "big"))
        else:
            made.sendall(frame(4, b"\\x05READY\\x0bSocket-Type\\0\\0\\0\\x06DEALER"))
        if what == "as a worker":
            version, body = pack(Hello("0", "elsewhere", 1, "software"))
            made.sendall(frame(1, version) + frame(0, body))
            take(100)  # READY, WELCOME
        while sent < int(megabytes):
            made.sendall(part if what == "handshake" else frame(1, part))
            sent += 4
    except ConnectionError:
        print("disconnected after", sent, flush=True)
    else:
        print("all was taken", flush=True)
        while made.recv(1000):
            pass
"""


@contextmanager
def peak_mb() -> Iterator[Callable[[], float]]:
    """How much more memory this process has used than at the beginning, at most."""
    before = peak = resident_mb()
    over = threading.Event()

    def watch() -> None:
        nonlocal peak
        size = os.sysconf("SC_PAGESIZE")
        while not over.wait(0.005):
            peak = max(peak, int(Path("/proc/self/statm").read_text().split()[1]) * size / 1e6)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield lambda: peak - before
    finally:
        over.set()
        watcher.join()


def port_of(client: Client) -> str:
    return client.endpoints[0].rpartition(":")[2]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["NULL", "CURVE"])
def test_a_sender_of_an_endless_message_is_disconnected(
    mechanism: str, videos: Videos, serial: list[str], programs: Programs,
    tmp_path: Path, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    keys = make_keys(tmp_path / "keys")[0] if mechanism == "CURVE" else None
    ways = ["handshake"] if keys else ["as a stranger", "as a worker", "handshake"]
    with Client(
        workers=1, listen="tcp://127.0.0.1:*", keys=keys, allow_version_mismatch=True
    ) as client:
        client.wait_for_workers(1, timeout_s=30 * SECOND)
        for what in ways:
            with peak_mb() as grown:
                port = port_of(client)
                stranger = programs.script(ENDLESS, port, mechanism, what, "0", str(SENT_MB))
                stranger.wait_for("\n", 60 * SECOND)
            assert stranger.out.startswith("disconnected after ")
            print(f"{what}: {stranger.out.strip()} MB, the trainer had {grown():.0f} MB more")
            assert grown() < MAX_MB
        assert any(" bytes " in line for line in caplog.messages)
        stream = client.stream(videos.catalog, CLIP, BATCH, shuffle=True)
        assert digests(stream.batches(epochs=1, info=True)) == serial


def test_the_private_address_accepts_only_this_trainers_own_children(
    videos: Videos, serial: list[str], programs: Programs, caplog: pytest.LogCaptureFixture
) -> None:
    with Client(workers=1) as client:
        client.wait_for_workers(1, timeout_s=30 * SECOND)
        (name,) = private_sockets(descriptors())  # as anybody can read it in /proc/net/unix
        for user in (0,) if os.getuid() else (0, 65534):  # only root can start one of another user
            with peak_mb() as grown:
                stranger = programs.script(
                    ENDLESS, name, "NULL", "a stranger", str(user), str(SENT_MB)
                )
                stranger.wait_for("\n", 60 * SECOND)
            assert stranger.out.startswith("disconnected after ")
            assert grown() < MAX_MB
            if not user:  # ZeroMQ itself turns others away
                assert any(f"process {stranger.pid} " in line for line in caplog.messages)
        stream = client.stream(videos.catalog, CLIP, BATCH, shuffle=True)
        assert digests(stream.batches(epochs=1, info=True)) == serial


# Descriptors

TRAINER = """
    import os
    import resource
    import sys
    import time

    from tests.support.digests import digests
    from videoload import Catalog, Client, ClipSpec, decode_serially

    root, soft, hard = sys.argv[1:]
    clip = ClipSpec(
        frames=6, stride=2, resize=36, size=(32, 32), sampling="random", clips_per_video=6
    )
    catalog = Catalog.from_folder(root)
    expected = digests(decode_serially(catalog, clip, 4, shuffle=True, info=True))
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(soft), int(hard)))
    with Client(workers=1, listen="tcp://127.0.0.1:*", allow_version_mismatch=True) as client:
        client.wait_for_workers(1, 60)
        print("listens at", client.endpoints[0].rpartition(":")[2], "end", flush=True)
        stream = client.stream(catalog, clip, 4, shuffle=True)
        epochs = 0
        while not os.path.exists(root + "/over"):
            assert digests(stream.batches(epochs=1, info=True)) == expected
            epochs += 1
            print("epoch", epochs, "workers", len(client.workers), "end", flush=True)
    print("closed", flush=True)
"""


def number_after(text: str, word: str) -> int:
    return int(text.rpartition(word)[2].split()[0])


def epochs(text: str) -> int:
    """How many epochs were read, as the trainer says."""
    return number_after(text, "epoch") if "epoch" in text else 0


@pytest.mark.slow
def test_more_idle_connections_than_descriptors_break_nothing(
    programs: Programs, tmp_path: Path
) -> None:
    root = Videos.make(tmp_path / "own").root
    trainer = programs.script(TRAINER, str(root), "256", "256")
    trainer.wait_for("end", 60 * SECOND)
    address = ("127.0.0.1", number_after(trainer.out, "listens at"))
    with ExitStack() as held:
        for _ in range(400):
            with suppress(OSError):
                held.enter_context(socket.create_connection(address, timeout=30 * SECOND))
        done = epochs(trainer.out)
        trainer.wait_for(f"epoch {done + 2} ", 60 * SECOND)
        # A killed worker is replaced, which needs descriptors, and another one joins.
        (victim,) = children_of(trainer.pid)
        os.kill(victim, signal.SIGKILL)
        programs.worker(f"tcp://127.0.0.1:{address[1]}", root)
        trainer.wait_for("workers 2 end", 60 * SECOND)
    (root / "over").touch()
    assert trainer.wait(60 * SECOND) == 0, trainer.err
    assert "broke" not in trainer.err


FULL = """
    import os, resource, signal, sys, time
    from contextlib import suppress
    from pathlib import Path
    from videoload import Catalog, Client, ClipSpec

    root, over = Path(sys.argv[1]), Path(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    clip = ClipSpec(frames=4, resize=36, size=(32, 32), clips_per_video=1)
    with Client(workers=1, listen="tcp://127.0.0.1:*", cache=False) as client:
        stream = client.stream(Catalog.from_folder(root), clip, 2)
        port = client.endpoints[0].rpartition(":")[2]
        print(len(list(stream)), "batches; listens at", port, flush=True)
        killed, held = client.workers[0].pid, []
        with suppress(OSError):  # as a DataLoader takes them, or many maps of memory
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        os.kill(killed, signal.SIGKILL)
        while [each.pid for each in client.workers] in ([], [killed]):
            time.sleep(0.01)
        print("its own worker is replaced", flush=True)
        while not over.exists():
            time.sleep(0.01)
        print(len(list(stream)), "batches", flush=True)
        for each in held:
            os.close(each)
        client.wait_for_workers(2, timeout_s=60)
        print(len(list(stream)), "batches", flush=True)
"""


@pytest.mark.slow
def test_workers_that_connect_while_no_descriptor_is_free_end_nobody(
    programs: Programs, tmp_path: Path
) -> None:
    """The client's own worker connects (ipc), and one that dials in waits (tcp)."""
    root = Videos.make(tmp_path / "own").root
    trainer = programs.script(FULL, str(root), str(tmp_path / "over"))
    trainer.wait_for("listens at", 60 * SECOND)
    trainer.wait_for("its own worker is replaced", 60 * SECOND)
    port = number_after(trainer.out, "listens at")
    stranger = programs.worker(f"tcp://127.0.0.1:{port}", root)
    stranger.wait_for("cannot be reached", 60 * SECOND)
    (tmp_path / "over").touch()
    assert trainer.wait(90 * SECOND) == 0, trainer.err
    counted = [line.split()[0] for line in trainer.out.splitlines() if "batches" in line]
    assert len(counted) == 3
    assert len({*counted}) == 1

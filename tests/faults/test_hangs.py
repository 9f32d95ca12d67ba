"""Workers that are stopped, fall silent, or cannot work: what they owe goes to others, and no file
is condemned for it."""

import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pytest

from tests.support.digests import digests
from tests.support.processes import children_of
from tests.support.programs import Programs
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until
from videoload import Client, ClipSpec, decode_serially

pytestmark = pytest.mark.slow

LEAKING = """
    import os
    import resource
    import sys
    from contextlib import suppress

    from videoload.errors import WorkerError
    from videoload.wire.private_messages import WorkerSettings
    from videoload.worker.worker import Worker, serve

    work = Worker._work

    def leaking(self, *lease):
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
        with suppress(OSError):
            while True:
                os.dup(2)
        work(self, *lease)

    Worker._work = leaking
    try:
        serve(WorkerSettings([sys.argv[1]], root=sys.argv[2]))
    except WorkerError as error:
        sys.exit(str(error))
"""


def test_a_worker_that_was_stopped_with_its_supervisor_continues(
    videos: Videos, programs: Programs
) -> None:
    clip = ClipSpec(frames=4, resize=36, size=(32, 32), sampling="random", clips_per_video=4)
    expected = digests(decode_serially(videos.catalog, clip, 4, info=True))
    with Client(workers=0, listen="tcp://127.0.0.1:*", stall_s=1 * SECOND) as client:
        alone = programs.worker(
            client.endpoints[0], videos.root, "--workers", "1", start_new_session=True
        )
        client.wait_for_workers(1, timeout_s=60 * SECOND)
        child = children_of(alone.pid)
        batches = client.stream(videos.catalog, clip, 4).batches(info=True)
        got = digests(islice(batches, 2))
        os.killpg(alone.pid, signal.SIGSTOP)
        time.sleep(2 * SECOND)  # more than its supervisor allows
        os.killpg(alone.pid, signal.SIGCONT)
        got += digests(batches)
        assert got == expected
        assert children_of(alone.pid) == child
        alone.signal(signal.SIGTERM)
        assert alone.wait(30 * SECOND) == 0


def test_a_worker_without_descriptors_condemns_no_video_and_ends(
    videos: Videos, programs: Programs
) -> None:
    clip = ClipSpec(frames=4, resize=36, size=(32, 32), sampling="random")
    expected = digests(decode_serially(videos.catalog, clip, 4, info=True))
    with ThreadPoolExecutor(1) as pool, Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        without = programs.script(LEAKING, client.endpoints[0], str(videos.root))
        client.wait_for_workers(1, timeout_s=60 * SECOND)
        stream = client.stream(videos.catalog, clip, 4)
        read = pool.submit(digests, stream.batches(info=True))
        without.wait_for("ulimit -n", 60 * SECOND)
        assert without.wait(30 * SECOND) == 1
        programs.worker(client.endpoints[0], videos.root)
        assert read.result(30 * SECOND) == expected
        assert stream.quarantine == []


def test_a_silent_dialled_in_worker_is_not_here_until_it_is_heard_again(
    videos: Videos,
    programs: Programs,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("videoload.scheduler.pool.GONE_S", 1.0 * SECOND)
    with Client(workers=0, listen="tcp://127.0.0.1:*") as client:
        silent, _ = (programs.worker(client.endpoints[0], videos.root) for _ in range(2))
        client.wait_for_workers(2, timeout_s=60 * SECOND)
        silent.signal(signal.SIGSTOP)
        wait_until(lambda: len(client.workers) == 1, 60 * SECOND, "it is not counted")
        assert silent.pid not in [worker.pid for worker in client.workers]
        wait_until(lambda: platform.node() in caplog.text, 60 * SECOND, "its host is named")
        silent.signal(signal.SIGCONT)
        client.wait_for_workers(2, timeout_s=60 * SECOND)


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """A network of its own, whose only line leads to 10.77.0.1, here. Line and network have this
    name."""
    name = f"vl-{os.getpid()}"
    if shutil.which("ip") is None or ip("netns", "add", name, check=False):
        pytest.skip("network namespaces are not to be had here: they need root and iproute2")
    try:
        ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        for end, device, of in ((1, name, []), (2, "eth0", ["-n", name])):
            ip(*of, "address", "add", f"10.77.0.{end}/30", "dev", device)
            ip(*of, "link", "set", device, "up")
        yield name
    finally:
        ip("netns", "delete", name)


def ip(*words: str, check: bool = True) -> int:
    return subprocess.run(["ip", *words], check=check, capture_output=True).returncode


def test_a_host_that_loses_its_line_is_not_here_until_it_is_back(
    elsewhere: str, videos: Videos, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its kernel says nothing any more, as that of a host without power."""
    monkeypatch.setattr("videoload.scheduler.pool.GONE_S", 1.0 * SECOND)
    clip = ClipSpec(frames=4, resize=36, size=(32, 32), sampling="random", clips_per_video=4)
    expected = digests(decode_serially(videos.catalog, clip, 4, info=True))
    with Client(workers=0, listen="tcp://10.77.0.1:*", insecure=True) as client:
        words = ["worker", "--connect", client.endpoints[0], "--root", str(videos.root)]
        words += ["--insecure", "--workers", "1"]
        there = ["ip", "netns", "exec", elsewhere, sys.executable, "-m", "videoload", *words]
        programs.python("-c", "import os, sys; os.execvp('ip', sys.argv[1:])", *there)
        client.wait_for_workers(1, timeout_s=60 * SECOND)
        batches = client.stream(videos.catalog, clip, 4, slots=4).batches(info=True)
        got = digests(islice(batches, 2))
        ip("link", "set", elsewhere, "down")
        wait_until(lambda: not client.workers, 60 * SECOND, "it is not counted")
        programs.videoload(*words)
        got += digests(batches)
        assert got == expected
        ip("link", "set", elsewhere, "up")
        client.wait_for_workers(2, timeout_s=60 * SECOND)

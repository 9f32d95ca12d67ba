"""Many streams beside a local worker that does not read its messages: nobody waits for it, and no
message to it is lost or left behind."""

import gc
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.faults.raw_peers import answer, dealer, hello, say
from tests.support.digests import digests
from tests.support.processes import arena_maps, children_of, descriptors
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until
from videoload import Client, ClipSpec, Stream, decode_serially
from videoload.wire.messages import Bye, Welcome

pytestmark = pytest.mark.slow

CLIP = ClipSpec(frames=2, resize=36, size=(32, 32))
STREAMS = 300  # a socket holds some 270 messages


@contextmanager
def with_a_stopped_worker() -> Iterator[tuple[Client, int]]:
    """A client with one local worker, which is stopped, and that worker's pid."""
    # On a busy machine it is stopped for long, and must not be taken for one that hangs.
    with Client(workers=1, listen="tcp://127.0.0.1:*", stall_s=120 * SECOND) as client:
        client.wait_for_workers(1, timeout_s=30 * SECOND)
        (pid,) = children_of(os.getpid())
        os.kill(pid, signal.SIGSTOP)
        try:
            yield client, pid
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def make(client: Client, videos: Videos, seed: int = 0) -> Stream:
    return client.stream(videos.catalog, CLIP, 2, shuffle=True, seed=seed, slots=2)


def memory_of(pid: int | str) -> list[str]:
    """Where the descriptors of arenas of a process lead."""
    return [where for where in descriptors(pid).values() if "memfd:videoload" in where]


def is_served(client: Client, number: int) -> None:
    """The I/O thread has done everything that it was asked before, and continues."""
    with dealer(client.endpoints[0]) as stranger:
        say(stranger, hello(number))
        assert isinstance(answer(stranger), Welcome)
        say(stranger, Bye("that was all"))


def test_streams_never_wait_for_a_worker_that_does_not_read_and_leave_nothing(
    videos: Videos,
) -> None:
    with with_a_stopped_worker() as (client, pid):
        streams = [make(client, videos) for _ in range(STREAMS)]
        is_served(client, 1)
        kept = streams[-1]
        del streams
        gc.collect()
        wait_until(lambda: len(arena_maps()) == 1, 30 * SECOND, "the trainer frees them")
        again = [make(client, videos, 1) for _ in range(STREAMS)]  # of the same descriptors
        is_served(client, 2)
        os.kill(pid, signal.SIGCONT)
        for stream, seed in ((again[-1], 1), (again[0], 1), (kept, 0)):
            serial = decode_serially(videos.catalog, CLIP, 2, shuffle=True, seed=seed, info=True)
            assert digests(stream.batches(epochs=1, info=True)) == digests(serial)
        wait_until(lambda: len(arena_maps(pid)) == 1 + STREAMS, 30 * SECOND, "all of them came")
        del again, stream
        gc.collect()
        wait_until(lambda: len(arena_maps(pid)) == 1, 30 * SECOND, "the worker frees them too")
        # Python keeps a descriptor of its own for each mapping.
        wait_until(lambda: len(memory_of("self")) <= 2, 30 * SECOND, "the trainer too")
        assert len(memory_of(pid)) <= 1
        assert children_of(os.getpid()) == [pid], "it is the same worker"

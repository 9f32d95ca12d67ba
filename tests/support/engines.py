"""An I/O thread without worker processes: the test plays the workers at its address."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from tests.faults.raw_peers import answer, dealer, hello, say
from tests.support.waiting import SECOND, wait_until
from videoload import Catalog, ClipSpec
from videoload.clips.sample_info import info_type
from videoload.clips.sample_spec import one_clip
from videoload.engine.engine import Engine
from videoload.engine.meter import Meter
from videoload.engine.open_streams import OpenStream
from videoload.engine.reader_queue import ReaderQueue
from videoload.plan.options import checked_options
from videoload.plan.plan import Plan
from videoload.plan.quarantine import Quarantine
from videoload.scheduler.records import Stream
from videoload.storage.cache_directories import NO_DIRECTORIES
from videoload.wire.messages import Bye, Lease, Result, Welcome
from videoload.wire.slots import Slots

BATCHES, SLOTS = 8, 3  # of a stream; a batch is a clip
_SPEC = ClipSpec(frames=1, size=(2, 2))


def make_engine() -> Engine:
    """An engine for workers that dial in."""
    return Engine(
        workers=0,
        listen=["tcp://127.0.0.1:*"],
        keys=None,
        insecure=False,
        allow_version_mismatch=True,
        stall_s=10.0,
        folders=NO_DIRECTORIES,
    )


def open_stream(number: int = 0, *, shuffle: bool = False) -> OpenStream:
    """A stream whose videos are ``<number>/0.avi`` to ``7.avi``, in this order if not shuffled."""
    options = checked_options(1, shuffle=shuffle)
    catalog = Catalog([f"{number}/{i}.avi" for i in range(BATCHES)], [0] * BATCHES, ["class"])
    plan = Plan(len(catalog), 1, options)
    return OpenStream(
        Stream(number, plan, Quarantine(catalog, plan, options), slots=SLOTS, ordered=True),
        catalog,
        one_clip(_SPEC),
        Slots(SLOTS, _SPEC.clip_bytes),
        None,
        Meter(),
    )


def add(engine: Engine, stream: OpenStream) -> None:
    engine.post_about(stream, engine.streams.add)


def begin(engine: Engine, stream: OpenStream, reader: int = 1) -> ReaderQueue:
    """Let a reader take all batches of a stream."""
    queue = ReaderQueue()
    engine.post_about(stream, engine.streams.begin, reader, queue, range(BATCHES))
    return queue


class PlayedWorker:
    """A worker that the trainer has welcomed, played by the test."""

    def __init__(self, endpoint: str, pid: int = 1) -> None:
        self._dealing = dealer(endpoint)
        self.socket = self._dealing.__enter__()
        say(self.socket, hello(pid))
        assert isinstance(answer(self.socket), Welcome)

    def lease(self) -> Lease:
        """The next lease that it gets."""
        lease = answer(self.socket)
        assert isinstance(lease, Lease)
        return lease

    def answer(self, lease: Lease) -> str:
        """Send the clip of a lease; returns its path."""
        info = np.zeros(1, info_type(one_clip(_SPEC))).tobytes()
        say(self.socket, Result(lease.lease, info, 0.01, [7]), bytes(_SPEC.clip_bytes))
        return lease.clips[0].row.path

    def say_goodbye(self) -> None:
        say(self.socket, Bye(""))

    def hang_up(self) -> None:
        """End the connection, once all that was said is sent."""
        self._dealing.__exit__(None, None, None)


@contextmanager
def worker(endpoint: str, pid: int = 1) -> Iterator[PlayedWorker]:
    """A worker that hangs up at the end."""
    played = PlayedWorker(endpoint, pid)
    try:
        yield played
    finally:
        played.hang_up()


def wait_until_no_worker_is_there(engine: Engine) -> None:
    wait_until(lambda: not engine.membership.workers, 30 * SECOND)

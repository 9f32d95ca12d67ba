"""The I/O thread of a client: it owns all sockets and children, asks the lease table, and obeys.

    consumer threads ── post(call) ──> │           │ <── messages ──> routers ── workers
                     <── Pass.ready ── │ I/O thread │
    supervisor ────── child ended ───> │           │ ── events ──> LeaseTable ── commands ──┐
                                       └───────────┘ <───────────────────────────────────────┘

Nothing here decides which clip goes where; that is `leases`. Nothing here waits for anything but
its sockets, so the sockets are always drained and memory is bounded by slots.

Other threads do two things only: `post` a call to be made in this thread, and take batches from a
`Pass`, which is a queue.
"""

from __future__ import annotations

import copy
import hmac
import logging
import math
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

import numpy as np
import numpy.typing as npt
import zmq
from cachetools import LRUCache

from videoload.errors import ClosedError, ProtocolError, VideoloadError
from videoload.spec.catalog import Catalog
from videoload.spec.clips import ClipSpec
from videoload.spec.plan import Plan, Sample
from videoload.spec.quarantine import Quarantine
from videoload.trainer.leases import Command, Grant, Kill, LeaseTable, Ready, Recall, Stop
from videoload.trainer.rate_limited_log import Complaints
from videoload.trainer.stats import WorkerStats
from videoload.transport.messages import (
    Bye,
    Clip,
    Failed,
    FromWorker,
    Heartbeat,
    Hello,
    Lease,
    Place,
    Refused,
    Result,
    Share,
    Welcome,
    WorkerSettings,
)
from videoload.transport.slots import SHARED, Arena, keep_pages
from videoload.transport.sockets import PIXEL_BYTES, Doorkeeper, Peer, Router, private_endpoint
from videoload.worker.supervisor import Supervisor

_log = logging.getLogger(__name__)

_CREDIT = 2  # one lease at work and one waiting, so that no worker idles for a round trip
_BEAT_S = 0.25  # workers beat so often, and the table is ticked
_SILENCE_S = 2.0  # a remote worker silent for so long is passed over
_HERE_S = 0.5  # workers hear of this trainer so often, and it finds out who is gone
_LONELY_S = 5.0  # no worker for so long while a consumer waits: say so
_REMIND_S = 60.0
_START_S = 30.0
_INDEX_BYTES_KEPT = 64 << 20  # some 60 000 videos like UCF-101's
_STOP_S = 10.0
_CRASH_SIGNALS = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL")  # how a decoder's bug ends
_MOST_DIALLED_IN = 4096  # workers at once: with insecure=True anybody may say HELLO
_PEERS_KEPT = 4096  # workers that dialled in, to know one again that was cut off
_WAKES = 4096  # at most so many are taken in one go
_IN_ONE_GO = 64  # messages taken at one address before the others and the clock have their turn


@dataclass(eq=False, slots=True)
class Source:
    """What the engine knows of a stream."""

    id: int
    catalog: Catalog
    spec: ClipSpec
    plan: Plan
    quarantine: Quarantine
    arena: Arena
    ordered: bool
    root: str  # of the catalog; a Path takes long to hash
    passes: dict[int, Pass] = field(default_factory=dict)
    error: VideoloadError | None = None


class Pass:
    """One consumer's way through a stream: batches go in here in the I/O thread and come out in
    the consumer's."""

    def __init__(self) -> None:
        self._ready: SimpleQueue[Ready | None] = SimpleQueue()  # None: there is an error
        self._error: VideoloadError | None = None

    def put(self, batch: Ready) -> None:
        """A batch for the consumer."""
        self._ready.put(batch)

    def fail(self, error: VideoloadError) -> None:
        """No more batches; the consumer gets ``error`` after those that are here."""
        if self._error is None:
            self._error = error
            self._ready.put(None)

    def take_back(self) -> list[Ready]:
        """The batches that the consumer has not taken."""
        batches = []
        with suppress(Empty):
            while (batch := self._ready.get_nowait()) is not None:
                batches.append(batch)
            self._ready.put(None)
        return batches

    def take(self, wait_s: float) -> Ready | None:
        """The next batch, or None if there is none in time. Raises what `fail` was given."""
        try:
            batch = self._ready.get(timeout=wait_s)
        except Empty:
            return None
        if batch is None:
            self._ready.put(None)  # for whoever asks again
            assert self._error is not None
            raise copy.copy(self._error)  # one that was raised holds its consumer's frames
        return batch


@dataclass(eq=False, slots=True)
class _Colleague:
    """A worker, as the engine knows it."""

    name: str
    pid: int
    started_here: bool
    clips: int = 0
    decode_s: float = 0.0
    hung: bool = False  # and was killed for it


class Engine:
    """The I/O thread. Start it with `start`, speak to it with `post`, end it with `stop`."""

    def __init__(
        self,
        *,
        workers: int,
        listen: Sequence[str],
        keys: str | None,
        insecure: bool,
        stall_s: float,
    ) -> None:
        self._workers = workers
        self._listen = listen
        self._keys = keys
        self._insecure = insecure
        self._table = LeaseTable(credit=_CREDIT, stall_s=stall_s, silence_s=_SILENCE_S)
        self._token = secrets.token_hex(32)
        self._calls: deque[Callable[[], None]] = deque()
        self.has_credit = True  # some worker would take a lease
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._started: Future[list[str]] = Future()
        self._stopping = False
        self._sources: dict[int, Source] = {}
        self._source_of: dict[int, Source] = {}  # by pass
        self._colleagues: dict[Peer, _Colleague] = {}
        self._routers: list[Router] = []
        self._doorkeeper: Doorkeeper | None = None
        self._supervisor: Supervisor | None = None
        self._private: Router | None = None
        self._joined = threading.Condition()
        self._error: VideoloadError | None = None
        self._indexes: LRUCache[tuple[str, str], bytes] = LRUCache(
            _INDEX_BYTES_KEPT, lambda packed: len(packed) + 300
        )
        self._peer_of: LRUCache[tuple[str, str, int], Peer] = LRUCache(_PEERS_KEPT)
        self._lonely_since: float | None = None
        self._software: str | None = None  # of the first worker that came
        self._refusals, self._mixtures = Complaints(_log), Complaints(_log)
        self._poller: zmq.Poller | None = None  # made anew when the children change
        self._thread = threading.Thread(target=self._run, name="videoload-io", daemon=True)

    # Called from other threads

    def start(self) -> list[str]:
        """Begin; returns the addresses listened on. Raises TransportError, WorkerError."""
        self._thread.start()
        return self._started.result(_START_S)

    def post(self, call: Callable[[], None], *, about_leases: bool = False) -> None:
        """Have ``call`` made in the I/O thread, soon. Never blocks, takes no lock (finalizers
        use it). One that can do no more than grant a lease, ``about_leases``, does not wake the
        thread while every worker has its leases: the next answer does, and then it is made first.
        """
        self._calls.append(call)
        if about_leases and not self.has_credit:
            return
        try:
            self._wake_in.send(b"\0")
        except BlockingIOError:
            pass  # full: it is awake
        except OSError:
            self._calls.clear()  # closed: nobody is left to call, and calls hold memory

    def stop(self) -> None:
        """End the thread, its sockets and its workers. Idempotent; takes two seconds at most."""
        self._stopping = True
        self.post(lambda: None)
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(_STOP_S)

    @property
    def stopped(self) -> bool:
        """Whether nothing is to be had from this engine any more."""
        return self._stopping or self._error is not None

    def check(self) -> None:
        """Raises what ended this engine, if it has ended."""
        if self._error is not None:
            raise copy.copy(self._error)
        if self._stopping:
            raise ClosedError("the client is closed")

    def wait_for_workers(self, count: int, timeout_s: float) -> int:
        """Wait until ``count`` workers are there, or time is out; returns how many are."""
        with self._joined:
            self._joined.wait_for(lambda: len(self._colleagues) >= count or self.stopped, timeout_s)
            if self._error is not None:
                raise copy.copy(self._error)
            return len(self._colleagues)

    def worker_stats(self) -> tuple[WorkerStats, ...]:
        """The figures of each worker that is there."""
        return tuple(
            WorkerStats(c.name, c.clips, c.clips / c.decode_s if c.decode_s else 0.0)
            for c in list(self._colleagues.values())
        )

    # Called in the I/O thread, by way of `post`

    def add(self, source: Source) -> None:
        """Make a stream known."""
        self._sources[source.id] = source
        self._table.add_stream(
            source.id, source.plan, source.quarantine,
            clip_frames=source.spec.frames, slots=source.arena.slots, ordered=source.ordered,
            lease_clips=PIXEL_BYTES // source.spec.clip_bytes,
        )  # fmt: skip
        if self._supervisor is not None:
            shared = source.arena.fd if SHARED else None
            message = Share(source.id, str(source.catalog.root), shared is not None)
            self._supervisor.share(message, shared)

    def drop(self, source: Source) -> None:
        """Forget a stream."""
        if self._sources.pop(source.id, None) is None:
            return
        if self._supervisor is not None:
            self._supervisor.unshare(source.id)
        self._obey(self._table.drop_stream(source.id))
        source.arena.close()

    def begin(self, source: Source, number: int, reader: Pass, steps: range) -> None:
        """A consumer starts to read ``steps``."""
        if source.error is not None:
            reader.fail(source.error)
            return
        if self._listen:
            keep_pages()  # not earlier: TensorFlow's import has its own ideas of them
        source.passes[number] = reader
        self._source_of[number] = source
        self._obey(self._table.start_run(source.id, number, steps.start, steps.stop))

    def want(self, number: int) -> None:
        """A consumer waits for its next batch."""
        self._obey(self._table.wanted(number))

    def end(self, source: Source, number: int) -> None:
        """A consumer reads no further."""
        reader = source.passes.pop(number, None)
        self._source_of.pop(number, None)
        if reader is None:
            return
        self._obey(self._table.end_run(number))
        for batch in reader.take_back():
            self.give_back(source, batch.slot)

    def give_back(self, source: Source, slot: int) -> None:
        """A consumer is done with a slot."""
        self._obey(self._table.slot_back(source.id, slot))

    # The thread

    def _run(self) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        try:
            try:
                self._started.set_result(self._open(context))
            except BaseException as error:
                self._started.set_exception(error)
                return
            self._loop()
        except VideoloadError as error:
            self._fail(error)
        except Exception as error:
            _log.exception("the I/O thread of videoload broke")
            self._fail(VideoloadError(f"the I/O thread of videoload broke: {error!r}"))
        finally:
            self._close(context)

    def _open(self, context: zmq.Context[zmq.Socket[bytes]]) -> list[str]:
        if self._keys is not None:
            self._doorkeeper = Doorkeeper(context, self._keys)
        for address in self._listen:
            self._routers.append(Router(context, address, keys=self._keys, insecure=self._insecure))
        endpoints = [router.endpoint for router in self._routers]
        if self._workers:
            self._private = Router(context, private_endpoint())
            self._routers.append(self._private)
            settings = WorkerSettings([self._private.endpoint], token=self._token, transforms=None)
            self._supervisor = Supervisor(self._workers, settings)
        return endpoints

    def _loop(self) -> None:
        next_tick = next_here = time.monotonic()
        while not self._stopping:
            # Before the look for calls: `post` leaves its call first, and then looks at this.
            self.has_credit = self._table.has_credit
            ready = self._poll(0.0 if self._calls else max(0.0, next_tick - time.monotonic()))
            self._make_calls()
            for router in self._routers:
                if router.socket in ready:
                    self._receive(router)
            now = time.monotonic()
            if now < next_tick:
                continue
            next_tick = now + _BEAT_S
            self._reap()
            self._obey(self._table.tick(now))
            self._notice_loneliness(now)
            self._refusals.tell(now)
            self._mixtures.tell(now)
            if now >= next_here:
                next_here = now + _HERE_S
                self._say_here()

    def _poll(self, timeout_s: float) -> Collection[object]:
        """Wait; returns what is ready, after the doorkeeper and the children had their due."""
        children = [] if self._supervisor is None else self._supervisor.watched()
        if self._poller is None:
            self._poller = zmq.Poller()
            sockets = [router.socket for router in self._routers]
            doorkeeper = [] if self._doorkeeper is None else [self._doorkeeper.socket]
            for socket_ in (self._wake_out, *sockets, *doorkeeper, *children):
                self._poller.register(socket_, zmq.POLLIN)
        ready = dict(self._poller.poll(math.ceil(timeout_s * 1000)))
        if self._wake_out.fileno() in ready:
            self._wake_out.recv(_WAKES)
        if self._doorkeeper is not None and self._doorkeeper.socket in ready:
            self._doorkeeper.answer()
        if any(child.fileno() in ready for child in children):
            self._reap()
        return ready

    def _make_calls(self) -> None:
        while self._calls:
            self._calls.popleft()()

    def _receive(self, router: Router) -> None:
        """Take what has come; a flood waits for its next turn."""
        for _ in range(_IN_ONE_GO):
            got = None if self._stopping else router.receive()
            if got is None:
                return
            peer, message = got
            try:
                if isinstance(message, ProtocolError):
                    raise message
                self._take(peer, message)
            except ProtocolError as error:
                what = f"refused a message at {router.endpoint}: {error}"
                self._refusals.add(what, time.monotonic())
                router.send(peer[1], Refused(str(error)))
                self._part_with(peer)
            finally:
                router.skip()

    def _take(self, peer: Peer, message: FromWorker) -> None:
        router, identity = peer
        now = time.monotonic()
        if isinstance(message, Hello):
            self._admit(peer, message, now)
        elif not self._table.heard(
            peer, now, message.frames if isinstance(message, Heartbeat) else None
        ):
            router.send(identity, Bye("this trainer does not know you"))
        elif isinstance(message, Result):
            self._take_result(peer, message)
        elif isinstance(message, Failed):
            lease, at, reason = message.lease, message.at, message.reason
            dropped, fatal = message.dropped, message.fatal
            self._obey(self._table.failed(peer, lease, at, reason, dropped=dropped, fatal=fatal))
        elif isinstance(message, Bye):
            # Also of a local worker: its one thread says BYE when it has left its decoder for good.
            self._gone(peer, died=False)

    def _admit(self, peer: Peer, hello: Hello, now: float) -> None:
        router, identity = peer
        started_here = router is self._private
        if started_here:
            refusal = self._look_at_own(peer, hello)
        else:
            refusal = self._look_at_guest(peer, hello)
        if refusal is not None:
            router.send(identity, Refused(refusal))
            return
        self._note_software(hello, now)
        name = f"{hello.host}:{hello.pid}"
        with self._joined:
            self._colleagues[peer] = _Colleague(name, hello.pid, started_here)
            self._joined.notify_all()
        if not started_here:
            _log.info("worker %s joined", name)
        router.send(identity, Welcome(_BEAT_S))
        self._obey(self._table.worker_joined(peer, local=started_here and SHARED, now=now))

    def _look_at_own(self, peer: Peer, hello: Hello) -> str | None:
        """Why this is not one of the trainer's own workers, if it is not."""
        assert self._supervisor is not None
        if not hmac.compare_digest(hello.token, self._token):
            return "this address is for the trainer's own workers"
        # The last words of a child that is reaped may still be here. Nobody would reap it again.
        if all(child.pid != hello.pid for child in self._supervisor.children):
            return "this trainer has no such child"
        # A worker dials again only when its one thread is between two leases, and forgets them.
        for other, colleague in list(self._colleagues.items()):
            if colleague.started_here and colleague.pid == hello.pid and other != peer:
                self._gone(other, died=False)
        return None

    def _look_at_guest(self, peer: Peer, hello: Hello) -> str | None:
        """Why a worker that dialled in is not admitted, if it is not."""
        who = (hello.worker, hello.host, hello.pid)
        last = self._peer_of.get(who, peer)
        if last != peer:  # cut off, and here again
            self._gone(last, died=False)
            self._table.worker_returned(last)
        guests = sum(not colleague.started_here for colleague in self._colleagues.values())
        if guests >= _MOST_DIALLED_IN and peer not in self._colleagues:
            return f"{guests} workers have dialled in, and that is the most"
        self._peer_of[who] = peer
        return None

    def _take_result(self, peer: Peer, result: Result) -> None:
        place = self._table.place(peer, result.lease)
        frames = np.empty((0, 0), np.int64)
        if place is not None:
            stream, slot, first, rows = place
            source = self._sources[stream]
            frames = _as_frames(result.frames, rows, source.spec.frames)
            if not (self._colleagues[peer].started_here and SHARED):
                shape = (rows, *source.spec.shape)
                peer[0].receive_pixels(
                    source.arena.view(slot, first * source.spec.clip_bytes, shape)
                )
            colleague = self._colleagues[peer]
            for path, packed in result.indexes.items():
                self._indexes[source.root, path] = packed
            colleague.clips += rows
            colleague.decode_s += result.decode_s
        self._obey(self._table.result(peer, result.lease, frames, result.decode_s))

    def _gone(self, peer: Peer, *, died: bool, crashed: bool = False) -> None:
        with self._joined:
            colleague = self._colleagues.pop(peer, None)
        if colleague is not None and not colleague.started_here:
            _log.info("worker %s left", colleague.name)
        self._obey(self._table.worker_left(peer, died=died, crashed=crashed))

    def _part_with(self, peer: Peer) -> None:
        """Have no more of a worker that lives. A local one may be writing into shared memory, so
        its leases are its own until it is killed and reaped."""
        colleague = self._colleagues.get(peer)
        if colleague is not None and colleague.started_here and self._supervisor is not None:
            self._supervisor.kill(colleague.pid)
        else:
            self._gone(peer, died=False)

    def _reap(self) -> None:
        if self._supervisor is None:
            return
        for pid, how in self._supervisor.reap():
            _log.warning("worker process %d ended (%s); another takes its place", pid, how)
            self._poller = None
            for peer, colleague in list(self._colleagues.items()):
                if colleague.started_here and colleague.pid == pid:
                    self._gone(peer, died=True, crashed=colleague.hung or how in _CRASH_SIGNALS)

    def _say_here(self) -> None:
        """Let the workers know that this trainer lives, and find those that are gone."""
        for peer, colleague in list(self._colleagues.items()):
            if not peer[0].send(peer[1], Heartbeat()) and not colleague.started_here:
                self._gone(peer, died=True)

    def _notice_loneliness(self, now: float) -> None:
        if self._colleagues or not self._source_of:
            self._lonely_since = None
        elif self._lonely_since is None:
            self._lonely_since = now + _LONELY_S
        elif now >= self._lonely_since:
            self._lonely_since = now + _REMIND_S
            where = ", ".join(
                router.endpoint for router in self._routers if router is not self._private
            )
            _log.warning("no worker is connected; waiting for one at %s", where or "this host")

    def _note_software(self, hello: Hello, now: float) -> None:
        if self._software is None:
            self._software = hello.software
        elif self._software != hello.software:
            self._mixtures.add(
                f"worker {hello.host}:{hello.pid} decodes with {hello.software}, others with "
                f"{self._software}: pixels may differ", now,
            )  # fmt: skip

    # Commands

    def _obey(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case Grant():
                    self._send_lease(command)
                case Ready():
                    self._source_of[command.run].passes[command.run].put(command)
                case Recall():
                    batches = self._source_of[command.run].passes[command.run].take_back()
                    taken = [(batch.step, batch.slot) for batch in batches]
                    self._obey(self._table.recalled(command.run, taken))
                case Kill():
                    self._kill(command)
                case Stop():
                    stopped = self._sources[command.stream]
                    stopped.error = command.error
                    for reader in stopped.passes.values():
                        reader.fail(command.error)

    def _send_lease(self, grant: Grant) -> None:
        assert isinstance(grant.worker, tuple)
        router, identity = grant.worker
        source = self._sources[grant.stream]
        if grant.worker not in self._colleagues:  # it went while this list of commands was obeyed
            return
        place = None
        if self._colleagues[grant.worker].started_here:
            offset = grant.slot * source.arena.stride + grant.first * source.spec.clip_bytes
            place = Place(source.id, offset)
        clips = [self._clip(source, sample) for sample in grant.samples]
        lease = Lease(grant.lease, source.spec, clips, place)
        if not router.send(identity, lease) and place is None:
            self._gone(grant.worker, died=False)

    def _clip(self, source: Source, sample: Sample) -> Clip:
        video = source.catalog[sample.video]
        index = self._indexes.get((source.root, video.path))
        return Clip(video.path, sample.key, sample.clip, video.start, video.end, index)

    def _kill(self, command: Kill) -> None:
        assert isinstance(command.worker, tuple)
        colleague = self._colleagues.get(command.worker)
        if colleague is None:
            return
        if colleague.started_here:
            _log.warning("worker process %d hangs; killing it", colleague.pid)
            colleague.hung = True
        else:
            _log.warning("worker %s lost its leases; starting afresh with it", colleague.name)
        self._part_with(command.worker)

    # The end

    def _fail(self, error: VideoloadError) -> None:
        with self._joined:
            self._error = error
            self._joined.notify_all()
        self._fail_all(error)

    def _fail_all(self, error: VideoloadError) -> None:
        for source in self._sources.values():
            for reader in source.passes.values():
                reader.fail(error)

    def _close(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        for peer in self._colleagues:
            peer[0].send(peer[1], Bye("this trainer is closing"))
        for router in self._routers:
            router.socket.setsockopt(zmq.LINGER, 200)
            router.socket.close()
        if self._doorkeeper is not None:
            self._doorkeeper.close()
        if self._supervisor is not None:
            self._supervisor.stop()
        context.term()
        self._fail_all(self._error or ClosedError("the client is closed"))
        for source in self._sources.values():
            source.arena.close()
        self._sources.clear()
        self._source_of.clear()
        self.has_credit = True  # from now on, whoever posts finds the socket closed
        self._wake_in.close()
        self._wake_out.close()
        self._calls.clear()
        with self._joined:
            self._joined.notify_all()


def _as_frames(frames: list[list[int]], rows: int, length: int) -> npt.NDArray[np.int64]:
    if len(frames) != rows or any(len(row) != length for row in frames):
        raise ProtocolError(f"the lease has {rows} clips of {length} frames, the answer does not")
    return np.array(frames, np.int64)

"""The I/O thread of a client. It owns all sockets and children. It receives events, passes them to
the scheduler, and executes its commands.

    consumer threads ── post(call) ──> │            │ <── messages ──> Listener ── workers
                  <── ReaderQueue ───  │ I/O thread │
    supervisor ────── child ended ───> │            │ ── events ──> Scheduler ── commands ──┐
                                       └────────────┘ <──────────────────────────────────────┘

Which worker decodes which clip is decided in `scheduler`. Three modules know what an event means:
`membership` for workers that join and leave, `answers` for their clips, and `open_streams` for
requests of consumers. After each event, the loop carries out the scheduler's commands, and nothing
else does.

The thread waits for nothing but its sockets, and takes a bounded number of events in a turn. So the
sockets are always drained, and slots bound the memory. Other threads do two things only: they
`post` calls for this thread, and they take batches from a `ReaderQueue`.

A fault ends what it belongs to: what a message raises, its peer's connection; what a call or a
command about a stream raises, that stream. Only what belongs to neither ends the client.
"""

from __future__ import annotations

import copy
import math
import os
import platform
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

import zmq

from videoload import host, native
from videoload.engine.answers import Answers
from videoload.engine.call_queue import CallQueue
from videoload.engine.file_checker import FileChecker
from videoload.engine.listener import Listener
from videoload.engine.membership import SAID, STRANGERS, Admission, Membership, workers_at_most
from videoload.engine.meter import Meter
from videoload.engine.open_streams import OpenStream, OpenStreams
from videoload.engine.snapshots import MAX_STREAMS, WINDOW_S, shortened
from videoload.engine.stats import ClientRecord, RootRecord, WorkerStats
from videoload.engine.work import NO_WORK
from videoload.errors import (
    ClosedError,
    ProtocolError,
    TransportError,
    VideoloadError,
    printable,
)
from videoload.logs import Log, RateLimitedLog
from videoload.scheduler import commands, events
from videoload.scheduler.pool import SILENCE_S
from videoload.scheduler.scheduler import Scheduler
from videoload.storage.cache_directories import CacheDirectories
from videoload.wire.context import new_context
from videoload.wire.messages import (
    Bye,
    Failed,
    FromWorker,
    Heartbeat,
    Hello,
    Refused,
    Result,
)
from videoload.wire.private_messages import WorkerSettings
from videoload.wire.reserve import RESERVE
from videoload.wire.sockets import Peer, RevokedKeyError
from videoload.worker.supervisor import Supervisor

_log = Log(__name__)

T = TypeVar("T")

# ZeroMQ's threads receive and decipher what workers send, 1.5 GB/s each with keys. ZeroMQ spreads
# the connections over them.
_MAX_ZMQ_THREADS = 4
_CREDIT = 2  # leases of a worker: one at work and one waiting; more if a round trip takes long
_BEAT_S = 0.25  # between two heartbeats of a worker, and between two ticks of the scheduler
_HEARTBEAT_S = 0.5  # between two heartbeats of this trainer, which also find workers that are gone
_START_S = 30.0
_STOP_S = 10.0
_DESCRIPTORS = "/proc/self/fd"
_THREAD = "videoload-io"


class Engine:
    """The I/O thread. Start it with `start`, call into it with `post`, end it with `stop`.

    Attributes:
        calls: The calls that other threads posted.
        streams: The client's streams. They belong to the I/O thread.
        membership: The client's workers. Methods that any thread may call are marked.
        has_credit: Some worker would take another lease.
    """

    def __init__(
        self,
        *,
        workers: int,
        listen: Sequence[str],
        keys: str | None,
        insecure: bool,
        allow_version_mismatch: bool,
        stall_s: float,
        folders: CacheDirectories,
        storage_timeout_s: float | None = None,
    ) -> None:
        self._pid, self._began_s = os.getpid(), time.time()
        self._children = workers
        self._helping = threading.Lock()  # of who has children for a while
        self._listen, self._keys, self._insecure = listen, keys, insecure
        self._any_software = allow_version_mismatch
        self._folders = folders
        self._scheduler = Scheduler(
            credit=_CREDIT, stall_s=stall_s, silence_s=SILENCE_S,
            storage_timeout_s=storage_timeout_s,
        )  # fmt: skip
        self._due: deque[commands.Command] = deque()  # its commands that were not executed yet
        self._token = secrets.token_hex(32)
        self.calls = CallQueue()
        self.has_credit = True
        self._started: Future[list[str]] = Future()
        self._stopping = False
        self._error: VideoloadError | None = None
        self._admission: Admission[Peer] = Admission(self._token)
        self._supervisor = Supervisor()
        self._meter = Meter()  # of all streams
        self._refusals, self._warnings = RateLimitedLog(_log), RateLimitedLog(_log)
        self._files = FileChecker()
        # Stream, video, and its fingerprint or why there is none now.
        self._identified: deque[tuple[int, int, int | VideoloadError]] = deque()
        self._listener = Listener(self.calls, self._refusals)
        self.streams = OpenStreams(self._tell, self._supervisor, bool(listen))
        by_id = self.streams.by_id
        self.membership = Membership(
            self._admission, self._scheduler, self._tell, self._supervisor, self._listener,
            self._warnings, _BEAT_S, stall_s,
        )  # fmt: skip
        self._workers = self.membership.workers
        self._answers = Answers(
            self._scheduler, self._tell, by_id, self._workers, self._meter, self._warnings
        )
        self._tick_at = self._heartbeat_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=_THREAD, daemon=True)

    # Called from any thread

    def start(self) -> list[str]:
        """Start the thread; returns the addresses that it listens on. Raises TransportError,
        WorkerError."""
        try:
            self._thread.start()
        except RuntimeError:
            raise TransportError(host.NO_THREAD) from None
        try:
            return self._started.result(_START_S)
        except TimeoutError:
            raise TransportError(
                f"the client did not start within {_START_S:g} s: the disk with Python or with "
                "the keys is not responding, or this host is too busy"
            ) from None

    def post(self, call: Callable[[], None], *, about_leases: bool = False) -> None:
        """Queue ``call`` for the I/O thread. It never blocks and takes no lock, since finalizers
        use it. A call ``about_leases`` can only lead to a lease. It does not wake the thread while
        every worker has its leases; the call is then made before the next answer."""
        self.calls.post(call, wake=lambda: self.has_credit or not about_leases)

    def post_about(
        self, stream: OpenStream, call: Callable[..., None], *arguments: object,
        about_leases: bool = False,
    ) -> None:  # fmt: skip
        """Queue a call with ``stream`` and these arguments, as `post`. Its errors end only this
        stream."""
        own = partial(call, stream, *arguments)
        self.post(partial(self._about, stream, own), about_leases=about_leases)

    def stop(self) -> None:
        """End the thread, its sockets and its workers. It takes two seconds at most. Further calls
        do nothing. Garbage may be collected in the thread of another client, which must not block:
        there, the end is only requested."""
        if os.getpid() != self._pid:  # in a fork's copy, the thread is the parent's
            return
        self._stopping = True
        self.post(lambda: None)
        if self._thread.ident is None:  # it was never started
            self.calls.close()
        elif threading.current_thread().name != _THREAD:
            self._thread.join(_STOP_S)

    @property
    def stopped(self) -> bool:
        return self._stopping or self._error is not None

    def check(self) -> None:
        """Raise the error that ended this engine, if it has ended."""
        self.check_process()
        if self._error is not None:
            raise copy.copy(self._error)
        if self._stopping:
            raise ClosedError("the client is closed")

    def check_process(self) -> None:
        """Raise ClosedError in a forked process: the threads and sockets are the parent's."""
        if os.getpid() != self._pid:
            raise ClosedError(
                "this client belongs to another process: after a fork, only the parent can use it; "
                "start processes with the method 'spawn', and create a client in each"
            )

    def ask(self, question: Callable[[], T], timeout_s: float) -> T | None:
        """Return the I/O thread's answer to a call; None after the timeout. Raises the errors of
        the call."""
        answers: SimpleQueue[T | Exception] = SimpleQueue()

        def reply() -> None:
            try:
                answers.put(question())
            except Exception as error:
                answers.put(error)

        self.post(reply)
        with suppress(Empty):
            if isinstance(answer := answers.get(timeout=timeout_s), Exception):
                raise answer
            return answer
        return None

    @contextmanager
    def children(self, workers: int) -> Iterator[None]:
        """Have so many workers of this host for a while, if this client starts none. Raises
        WorkerError."""
        if self._children or not workers:
            yield
            return
        with self._helping:
            try:
                self.ask(partial(self._start_children, workers), _START_S)
                yield
            finally:
                self.ask(self._stop_children, _STOP_S)

    def wait_for_workers(self, count: int, timeout_s: float) -> int:
        """Wait until ``count`` workers are connected, or time is out; returns how many are."""
        here = self.membership.wait_for(count, timeout_s, lambda: self.stopped)
        if self._error is not None:
            raise copy.copy(self._error)
        return here

    def worker_stats(self) -> tuple[WorkerStats, ...]:
        """Return the figures of each connected worker: all its clips, and its shares of the last 10
        s."""
        ever, lately = self._meter.work(-math.inf), self._meter.work(time.monotonic() - WINDOW_S)
        return tuple(
            worker._replace(work=ever.get(worker.name, NO_WORK)).stats(
                lately.get(worker.name, NO_WORK), WINDOW_S
            )
            for worker in self.membership.records()
        )

    def record(self, streams: Iterable[OpenStream], window_s: float) -> ClientRecord:
        """Return the state of the client and of these streams, with the figures of their last
        ``window_s`` seconds."""
        records, membership = self.membership.records(), self.membership
        return ClientRecord(
            trainer=f"{platform.node()}:{os.getpid()}",
            workers=self.worker_stats(),
            streams=tuple(
                replace(
                    stream.record(records, window_s),
                    storage_unavailable_s=self._unavailable_s(stream.state.root),
                )
                for stream in streams
            ),
            began_s=self._began_s,
            departed=membership.departed,
            decoded=sum(work.clips for work in self._meter.work(-math.inf).values()),
            refusals={"key": self._listener.rejected, "hello": membership.refusals},
        )

    def snapshot(self) -> ClientRecord:
        """Return the state of the client, shortened, with the file that each worker decodes. For
        the I/O thread: see `ask`."""
        record = self.record(list(self.streams.by_id.values())[-MAX_STREAMS:], WINDOW_S)
        files = {worker.name: self._scheduler.file_of(at) for at, worker in self._workers.items()}
        workers = tuple(replace(each, file=files.get(each.name, "")) for each in record.workers)
        refused = tuple(f"{who}: {why}" for who, why in self.membership.refused_lately.items())
        return shortened(replace(record, workers=workers, refused=refused))

    def storage_of(self, root: str, since: float = -math.inf) -> RootRecord:
        """Return what is known of a root, and since then."""
        roots = self._scheduler.roots
        _, says = roots.failure_of(root) or (0.0, "")
        error = f"{root}: {says}" if says and root not in says else says
        return RootRecord(root, error, roots.unread_s(root, since, time.monotonic()))

    def _unavailable_s(self, root: str) -> float:
        """Return for how long a root has not answered; 0 if it does."""
        found = self._scheduler.roots.failure_of(root)
        return 0.0 if found is None else time.monotonic() - found[0]

    # The thread

    def _run(self) -> None:
        try:
            context = new_context(
                min(_MAX_ZMQ_THREADS, max(1, host.cores() // 4)) if self._listen else 1
            )
        except TransportError as error:
            self._started.set_exception(error)
            return
        RESERVE.open()
        try:
            try:
                self._started.set_result(self._open(context))
            except BaseException as error:
                self._started.set_exception(error)
                return
            while not self._stopping:
                # Before `calls` are looked at: `post` adds its call first, and then reads this.
                self.has_credit = self._scheduler.pool.has_credit
                for handle in self._receive():
                    handle()
                    self._send()
        except VideoloadError as error:
            self._fail(error)
        except BaseException as error:
            self._fail(ClosedError(f"the client is closed: its I/O thread broke: {error!r}"))
            _log.exception("internal error in videoload's I/O thread")
        finally:
            self._close(context)

    def _open(self, context: zmq.Context[zmq.Socket[bytes]]) -> list[str]:
        connections, most = STRANGERS, native.allow_descriptors()
        if self._listen:
            used = len(os.listdir(_DESCRIPTORS))
            self._admission.max_remote = workers_at_most(most, used + 4 * self._children)
            if not self._any_software:
                from videoload.decoding.software import software_and_code  # imports FFmpeg

                self._admission.software = software_and_code()
            connections += self._admission.max_remote // len(self._listen)
        self._listener.open(
            context, self._listen, keys=self._keys, insecure=self._insecure, most=connections
        )
        self._context = context
        if self._children:
            self._start_children(self._children)
        return self._listener.endpoints

    def _start_children(self, workers: int) -> None:
        settings = WorkerSettings(
            [self._listener.open_private(self._context, self._supervisor.pids)],
            token=self._token,
            transforms=None,
            folders=self._folders,
        )
        self._supervisor.start(workers, settings)

    def _stop_children(self) -> None:
        self._supervisor.stop()
        for peer in [peer for peer, worker in self._workers.items() if worker.local]:
            self.membership.remove(peer, died=False)

    # Receive

    def _receive(self) -> Iterator[Callable[[], object]]:
        """Wait for events, then yield a call for each, a bounded number."""
        children = self._supervisor.watched()
        ready = self._listener.poll(children, self._tick_at)
        if any(child.fileno() in ready for child in children):
            yield self.membership.reap_children
        yield from self.calls.take()
        for peer, message in () if self._stopping else self._listener.messages(ready):
            yield partial(self._on_message, peer, partial(self._handle, peer, message))
            if self._stopping:
                return
        self._listener.inspect(ready)
        if (now := time.monotonic()) >= self._tick_at:
            self._tick_at = now + _BEAT_S
            yield from self._tick(now)

    def _tick(self, now: float) -> Iterator[Callable[[], object]]:
        yield self.membership.reap_children
        yield self.streams.give_back_dead
        for router in self._listener.routers:
            for peer in router.sending():
                self._tell(events.Heard(peer, whole=False))
        yield partial(self._tell, events.Tick())
        yield partial(self.streams.grow, len(self._workers))
        self.membership.tick(
            now, is_read=any(stream.queues for stream in self.streams.by_id.values())
        )
        self._refusals.tell(now)
        self._warnings.tell(now)
        if now >= self._heartbeat_at:
            self._heartbeat_at = now + _HEARTBEAT_S
            yield self.membership.send_heartbeats

    # Questions to the I/O thread

    def _on_message(self, peer: Peer, handle: Callable[[], None]) -> None:
        """Handle what a peer sent. Pixels that are left of it are dropped."""
        try:
            handle()
        except ProtocolError as error:
            what = f"refused a message at {peer.router.endpoint}: {error}"
            self._refusals.add(what, time.monotonic())
            peer.send(Refused(str(error)))
            if not isinstance(error, RevokedKeyError):  # it counts as a key when it reconnects
                self.membership.refusals += 1
            self.membership.evict(peer)
        except VideoloadError:
            raise
        except Exception:  # an internal error: only this peer loses its connection
            _log.exception("a message at %s could not be handled", peer.router.endpoint)
            peer.send(Refused("this trainer could not handle that message; see its log"))
            self.membership.evict(peer)
        finally:
            peer.router.skip()

    def _handle(self, peer: Peer, message: FromWorker | ProtocolError) -> None:
        if isinstance(message, ProtocolError):
            raise message
        now = time.monotonic()
        if isinstance(message, Hello):
            self.membership.admit(peer, message, now)
            return
        worker = self._workers.get(peer)
        if isinstance(message, Bye):
            self.membership.sent_bye(peer, message, now)
            return
        if worker is None:
            peer.send(Bye("this trainer does not know you"))
            return
        match message:
            case Heartbeat():
                says = printable(message.storage[:SAID])
                self._tell(
                    events.Heartbeat(peer, message.lease, message.at, says, message.storage_s)
                )
            case Result():
                self._answers.take(peer, message)
            case Failed():
                self._answers.failed(peer, message, now)

    # Send

    def _send(self) -> None:
        """Carry out the scheduler's commands in order, and the commands that follow from them."""
        while self._due:
            command = self._due.popleft()
            try:
                self._carry_out(command)
            except Exception as error:
                if (stream := self.streams.of(command)) is None:
                    raise
                self._end_stream(stream, error)

    def _tell(self, event: events.Event) -> None:
        """Pass an event to the scheduler, and queue its commands."""
        self._due += self._scheduler.apply(event, time.monotonic())

    def _about(self, stream: OpenStream, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:
            self._end_stream(stream, error)

    def _end_stream(self, stream: OpenStream, error: Exception) -> None:
        self._tell(events.StreamFailed(stream.state.id, error))

    def _carry_out(self, command: commands.Command) -> None:
        match command:
            case commands.Grant():
                self._send_lease(command)
            case commands.Ready():
                self.streams.hand_out(command)
            case commands.AddSlots():
                self.streams.add_slots(self.streams.by_id[command.stream], command.slots)
            case commands.Identify():
                self._identify(self.streams.by_id[command.stream], command.videos)
            case commands.Changed():
                self.streams.by_id[command.stream].note_changed(command.video)
            case commands.Warn():
                self.membership.warn(command)
            case commands.Stop():
                if type(command.error) is VideoloadError and command.error.__cause__ is not None:
                    _log.error("internal error in a stream", exc_info=command.error.__cause__)
                self.streams.stop(self.streams.by_id[command.stream], command.error)

    def _identify(self, stream: OpenStream, videos: Sequence[int]) -> None:
        """Have the fingerprints of the trainer's own copies found out."""
        assert stream.state.files is not None
        assert stream.storage is not None

        def reply(video: int, found: int | VideoloadError) -> None:
            self._identified.append((stream.state.id, video, found))
            self.post(self._take_identified)

        rows = {video: stream.row_of(video) for video in videos}
        paths = {video: row.path for video, row in rows.items()}
        for row in rows.values():
            stream.storage.expect(row.path, row.places)
        self._files.identify(stream.storage, paths, stream.state.files.salt, reply)

    def _send_lease(self, grant: commands.Grant) -> None:
        peer = grant.worker
        assert isinstance(peer, Peer)
        if (worker := self._workers.get(peer)) is None:  # it left after this was granted
            return
        stream = self.streams.by_id[grant.stream]
        task, clip_bytes, metadata_bytes = stream.layout_of(grant.samples[0])
        place = stream.place(grant.slot, grant.rows, clip_bytes) if worker.local else None
        if place is None:
            answer_bytes = len(grant.samples) * (clip_bytes + metadata_bytes)
            peer.granted(answer_bytes, self._scheduler.pool.held(peer))
        worker.timer.granted(time.monotonic())
        worker.last_lease = grant.lease
        if not peer.send(stream.lease(grant, task, place)) and place is None:
            is_idle = self._scheduler.pool.held(peer) == 1  # it never got this lease
            self.membership.remove(peer, died=True, at_work=0 if is_idle else None)

    def _take_identified(self) -> None:
        """Take all fingerprints that are known by now: each one alone would grant leases."""
        found: dict[int, dict[int, int | VideoloadError]] = {}
        for _ in range(len(self._identified)):
            number, video, what = self._identified.popleft()
            if number not in self.streams.by_id:
                continue
            found.setdefault(number, {})[video] = what
            if not isinstance(what, int):
                says = f"the trainer cannot read its own copy, and tries again: {what}"
                self._warnings.add(says, time.monotonic())
        for number, files in found.items():
            told = events.Identified(number, files)
            self._about(self.streams.by_id[number], partial(self._tell, told))

    # The end

    def _fail(self, error: VideoloadError) -> None:
        self._error = error
        self.membership.wake()
        self.streams.stop_all(error)

    def _close(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self._stopping = True
        # each runs, also after an error of another one; the last one first
        with ExitStack() as steps:
            steps.callback(self.membership.wake)
            steps.callback(RESERVE.close)
            steps.callback(self.calls.close)
            steps.callback(setattr, self, "has_credit", True)  # `post` finds the socket closed then
            steps.callback(self.streams.close)
            steps.callback(
                self.streams.stop_all, self._error or ClosedError("the client is closed")
            )
            steps.callback(context.term)
            steps.callback(self._files.close)
            steps.callback(self._supervisor.stop)
            steps.callback(self._listener.close)
            steps.callback(self.membership.close)

"""The I/O thread of a client: it owns all sockets and children, tells the lease table what happens,
and carries out its commands.

    consumer threads ── post(call) ──> │            │ <── messages ──> routers ── workers
                  <── ReaderQueue ───  │ I/O thread │
    supervisor ────── child ended ───> │            │ ── events ──> LeaseTable ── commands ──┐
                                       └────────────┘ <──────────────────────────────────────┘

Nothing here decides which worker decodes which clip; that is `leases`. What is done with the
messages is others' work: `membership` for workers that come and leave, `answers` for their clips.
Nothing here waits for anything but its sockets, so the sockets are always drained and memory is
bounded by slots.

Other threads do two things only: `post` a call to be made in this thread, and take batches from a
`ReaderQueue`.
"""

from __future__ import annotations

import copy
import gc
import logging
import math
import os
import platform
import secrets
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from functools import lru_cache, partial

import zmq

from videoload import host, native
from videoload.engine.admission import STRANGERS, Admission, workers_at_most
from videoload.engine.answers import Answers
from videoload.engine.auto_workers import LOOK_S, AutoWorkers
from videoload.engine.call_queue import CallQueue
from videoload.engine.copy_check import CopyCheck
from videoload.engine.local_workers import LocalWorkers
from videoload.engine.membership import Membership
from videoload.engine.open_streams import OpenStream, ReaderQueue
from videoload.engine.own_files import OwnFiles
from videoload.engine.rate_limited_log import RateLimitedLog
from videoload.errors import ClosedError, ProtocolError, VideoloadError
from videoload.leases.commands import (
    AskStorage,
    Command,
    Dismiss,
    Evict,
    Grant,
    Pause,
    Ready,
    Recall,
    Stop,
)
from videoload.leases.table import LeaseTable
from videoload.processes.supervisor import Supervisor
from videoload.receivers.pool import Receivers
from videoload.stats.meter import Meter
from videoload.stats.snapshots import MAX_STREAMS, WINDOW_S, Snapshots, snapshot
from videoload.stats.stats import WorkerRecord, WorkerStats
from videoload.stats.work import NO_WORK
from videoload.storage.files import NO_FOLDER
from videoload.storage.keep import Keep
from videoload.storage.roots import is_url
from videoload.transport.addresses import private_endpoint
from videoload.transport.keys import KeyAuthenticator
from videoload.transport.messages import (
    Bye,
    Compared,
    Failed,
    FromWorker,
    Heartbeat,
    Hello,
    Refused,
    Result,
    Snapshot,
    Watch,
)
from videoload.transport.private_messages import Ended, FromReceiver, Landed, Share, WorkerSettings
from videoload.transport.slots import SHARED
from videoload.transport.sockets import Peer, Router

_log = logging.getLogger(__name__)

# Of ZeroMQ, where workers dial in: they receive and decipher, 1.5 GB/s each with keys. Connections
# are dealt out among them.
_MAX_ZMQ_THREADS = 4
_CREDIT = 2  # one lease at work and one waiting; more where a round trip takes long
# malloc keeps no block above 32 MB: larger answers would be allocated anew, and come half as fast.
_LEASE_BYTES = 31 << 20
_BEAT_S = 0.25  # workers send heartbeats so often, and the table is ticked
_SILENCE_S = 2.0  # the leases of a remote worker silent for so long go to others
_HEARTBEAT_S = 0.5  # this trainer sends heartbeats so often, and finds out which workers are gone
_START_S = 30.0
_STOP_S = 10.0
_MAX_MESSAGES = 64  # messages taken at one address before the others and the clock have their turn


class Engine:
    """The I/O thread. Start it with `start`, speak to it with `post`, end it with `stop`."""

    def __init__(
        self,
        *,
        workers: int,
        listen: Sequence[str],
        keys: str | None,
        insecure: bool,
        any_software: bool,
        stall_s: float,
        cache: str | None,
        keep: Keep | None = None,
        auto: bool = False,
        receivers: int = 0,
    ) -> None:
        self._pid = os.getpid()
        self._children = workers
        self._listen = listen
        self._keys = keys
        self._insecure = insecure
        self._any_software = any_software
        self._cache, self._keep = cache, keep
        self._receiving = receivers if SHARED else 0  # processes
        self._receivers = Receivers()
        self._table = LeaseTable(credit=_CREDIT, stall_s=stall_s, silence_s=_SILENCE_S)
        self._token = secrets.token_hex(32)
        self.calls = CallQueue()
        self._commands: deque[Command] = deque()  # of the lease table, to be carried out
        self.has_credit = True  # some worker would take a lease
        self._started: Future[list[str]] = Future()
        self._stopping = False
        self._streams: dict[int, OpenStream] = {}
        self._stream_of: dict[int, OpenStream] = {}  # by reader
        self._admission: Admission[Peer] = Admission(self._token)
        self._workers = self._admission.workers
        self._meter = Meter()  # of all streams
        self._routers: list[Router] = []
        self._authenticator: KeyAuthenticator | None = None
        self._supervisor = Supervisor()
        self._error: VideoloadError | None = None
        self._refusals, self._mixtures = RateLimitedLog(_log), RateLimitedLog(_log)
        self._own_files = OwnFiles()
        self._copies = CopyCheck(
            self._table, self._streams, self._workers, self._own_files, self._mixtures,
            commands=self._commands, post=self.post,
        )  # fmt: skip
        self._answers = Answers(
            self._table, self._streams, self._workers, self._receivers, self._copies, self._meter,
            commands=self._commands, refuse=self._refuse,
        )  # fmt: skip
        self._membership = Membership(
            self._admission, self._table, self._supervisor, self._receivers, self._copies,
            self._mixtures, beat_s=_BEAT_S, commands=self._commands,
        )  # fmt: skip
        self._local = LocalWorkers(
            self._supervisor, self._membership, self._table, self._streams, self._workers,
            self._own_files, AutoWorkers(workers) if auto else None, post=self.post,
        )  # fmt: skip
        self._poller: zmq.Poller | None = None  # made anew when the children change
        self._polled: dict[socket.socket, bool] = {}  # the children's channels that it looks at
        self._snapshots = Snapshots()
        now = time.monotonic()
        self._tick_at = self._heartbeat_at = self._inspect_at = self._resize_at = now
        self._thread = threading.Thread(target=self._run, name="videoload-io", daemon=True)

    # Called from other threads

    def start(self) -> list[str]:
        """Start the thread; returns the addresses that it listens on. Raises TransportError,
        WorkerError."""
        self._thread.start()
        endpoints = self._started.result(_START_S)
        self.collect_garbage()
        return endpoints

    def collect_garbage(self) -> None:
        """As long as no worker has come, and where more modules are imported than last time. After
        TensorFlow's import a complete collection is due, which stops all threads for 0.17 s: in
        mid-stream, workers that have done their leases would wait for it."""
        if not self._workers:
            _collect_garbage(len(sys.modules))

    def post(self, call: Callable[[], None], *, about_leases: bool = False) -> None:
        """Have ``call`` made in the I/O thread, soon. Never blocks, takes no lock (finalizers
        use it). A call that can do no more than grant a lease, ``about_leases``, does not wake the
        thread while every worker has its leases: the next answer does, and then it is made first.
        """
        self.calls.post(call, wake=self.has_credit or not about_leases)

    def stop(self) -> None:
        """End the thread, its sockets and its workers. Idempotent; takes two seconds at most."""
        if os.getpid() != self._pid:  # a fork's copy: the thread is the parent's
            return
        self._stopping = True
        self.post(lambda: None)
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(_STOP_S)

    @property
    def stopped(self) -> bool:
        """Whether this engine has ended, or is about to."""
        return self._stopping or self._error is not None

    def check(self) -> None:
        """Raise what ended this engine, if it has ended."""
        if os.getpid() != self._pid:
            raise ClosedError(
                "this client is another process's: after a fork only its parent can use it; start "
                "processes with the method 'spawn' and make a client in each"
            )
        if self._error is not None:
            raise copy.copy(self._error)
        if self._stopping:
            raise ClosedError("the client is closed")

    def wait_for_workers(self, count: int, timeout_s: float) -> int:
        """Wait until ``count`` workers are connected, or time is out; returns how many are."""
        here = self._membership.wait_for(count, timeout_s, lambda: self.stopped)
        if self._error is not None:
            raise copy.copy(self._error)
        return here

    def worker_stats(self) -> tuple[WorkerStats, ...]:
        """The figures of each connected worker: all its clips, and its shares of the last 10 s."""
        ever, lately = self._meter.work(-math.inf), self._meter.work(time.monotonic() - WINDOW_S)
        return tuple(
            worker._replace(work=ever.get(worker.name, NO_WORK)).stats(
                lately.get(worker.name, NO_WORK), WINDOW_S
            )
            for worker in self.records()
        )

    def line_is_full(self) -> bool:
        """Whether workers of other hosts get no leases, since others' pixels fill the line."""
        return self._table.line_is_full

    def records(self) -> list[WorkerRecord]:
        """The connected workers, without their work."""
        return self._membership.records()

    @property
    def departed(self) -> int:
        """How many workers are connected no more."""
        return self._membership.departed

    def workers_needed(self) -> float | None:
        """How many workers all streams that are read now are worth, if that is known."""
        return self._local.needed()

    # Called in the I/O thread, by way of `post`

    def decoded(self) -> int:
        """How many clips all workers decoded, those that are gone included."""
        return sum(work.clips for work in self._meter.work(-math.inf).values())

    def add(self, stream: OpenStream) -> None:
        """Make a stream known."""
        self._streams[stream.id] = stream
        self._table.add_stream(
            stream.id, stream.plan, stream.quarantine,
            clip_frames=2 * math.prod(stream.spec.frames_shape),  # and their times
            slots=stream.arena.slots, ordered=stream.ordered,
            lease_clips=_LEASE_BYTES // stream.clip_bytes, clip_bytes=stream.clip_bytes,
            fetched=stream.catalog.root is not None and is_url(stream.catalog.root),
        )  # fmt: skip
        shared = stream.arena.fd if SHARED else None
        root = str(stream.catalog.root or NO_FOLDER)
        self._supervisor.share(Share(stream.id, root, shared is not None), shared)
        self._receivers.share(Share(stream.id, NO_FOLDER, memory=True), stream.arena.fd)

    def drop(self, stream: OpenStream) -> None:
        """Forget a stream."""
        if self._streams.pop(stream.id, None) is None:
            return
        self._supervisor.unshare(stream.id)
        self._receivers.unshare(stream.id)
        self._commands.extend(self._table.drop_stream(stream.id))
        stream.arena.close()

    def begin(self, stream: OpenStream, reader_id: int, queue: ReaderQueue, steps: range) -> None:
        """A consumer starts to read ``steps``."""
        if stream.error is not None:
            queue.fail(stream.error)
            return
        if self._listen:
            native.keep_pages()  # not earlier: TensorFlow's import would set malloc after it
        stream.readers[reader_id] = queue
        self._stream_of[reader_id] = stream
        self._commands.extend(
            self._table.start_reader(stream.id, reader_id, steps.start, steps.stop)
        )

    def want(self, reader_id: int) -> None:
        """A consumer waits for its next batch."""
        self._commands.extend(self._table.wanted(reader_id))

    def end(self, stream: OpenStream, reader_id: int) -> None:
        """A consumer reads no further."""
        queue = stream.readers.pop(reader_id, None)
        self._stream_of.pop(reader_id, None)
        if queue is None:
            return
        self._commands.extend(self._table.end_reader(reader_id))
        for batch in queue.never_handed_over():
            self.give_back(stream, batch)

    def give_back(self, stream: OpenStream, batch: Ready) -> None:
        """A consumer is done with a batch's slot. May be said more than once."""
        if stream.lent.get(batch.slot) is batch:
            del stream.lent[batch.slot]
            stream.loans.pop(batch.slot, None)
            self._commands.extend(self._table.slot_back(stream.id, batch.slot))

    # The thread

    def _run(self) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(
            min(_MAX_ZMQ_THREADS, max(1, host.cores() // 4)) if self._listen else 1
        )
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
            self._authenticator = KeyAuthenticator(
                context, self._keys, lambda line: self._refusals.add(line, time.monotonic())
            )
        if self._listen:
            used, most = len(os.listdir(_DESCRIPTORS)), native.allow_descriptors()
            each = 2 if self._receiving else 1  # one for words, one for pixels
            self._admission.max_remote = workers_at_most(most // each, used + 4 * self._children)
            if not self._any_software:
                from videoload.decoding.software import software  # FFmpeg: not for local workers

                self._admission.software = software()
        for address in self._listen:
            self._routers.append(
                Router(
                    context, address, keys=self._keys, insecure=self._insecure,
                    most=self._admission.max_remote // len(self._listen) + STRANGERS,
                )
            )  # fmt: skip
        endpoints = [router.endpoint for router in self._routers]
        if endpoints:
            self._own_files.start()
            if self._receiving:
                bound = dict(zip(endpoints, self._listen, strict=True))
                self._receivers.open(self._receiving, bound, has_keys=self._keys is not None)
        if self._children:
            private = Router(context, private_endpoint(), children=self._supervisor.pids)
            self._routers.append(private)
            self._membership.private = private
            settings = WorkerSettings(
                [private.endpoint],
                token=self._token,
                transforms=None,
                cache=self._cache,
                keep=self._keep,
            )
            self._supervisor.start(self._children, settings)
        return endpoints

    def _loop(self) -> None:
        while not self._stopping:
            # Before `calls` are looked at: `post` adds its call first, and then reads this.
            self.has_credit = self._table.has_credit
            for handle in self._receive():
                handle()
                self._carry_out()

    # Receive

    def _receive(self) -> Iterator[Callable[[], object]]:
        """Wait until something comes; then a call for each event. The number of events is bounded,
        so a flood at one address leaves the others and the clock their turn."""
        children, receivers = self._supervisor.watched(), self._receivers.watched()
        ready = self._poll(children | receivers)
        self._table.clock(time.monotonic())
        if any(child.fileno() in ready for child in children):
            yield self._local.look_after
        if any(receiver.fileno() in ready for receiver in receivers):
            for told in self._receivers.read(ready):
                yield partial(self._hear_receiver, told)
        yield from self.calls.take()
        for router in self._routers:
            if router.socket in ready:
                yield from self._messages(router)
        now = time.monotonic()
        if now >= self._inspect_at or any(router.events in ready for router in self._routers):
            self._inspect_at = self._inspect(now)
        if now >= self._tick_at:
            self._tick_at = now + _BEAT_S
            yield from self._ticks(now)

    def _poll(self, channels: dict[socket.socket, bool]) -> Collection[object]:
        """Wait; returns what is ready. ``channels`` of children: whether they may be full."""
        if self._poller is None or channels != self._polled:
            self._poller, self._polled = zmq.Poller(), channels
            sockets = [router.socket for router in self._routers]
            sockets += [router.events for router in self._routers if router.events is not None]
            authenticator = [] if self._authenticator is None else [self._authenticator.socket]
            for socket_ in (self.calls.socket, *sockets, *authenticator):
                self._poller.register(socket_, zmq.POLLIN)
            for channel, is_full in channels.items():
                self._poller.register(channel, zmq.POLLIN | (zmq.POLLOUT if is_full else 0))
        wait_s = min(self._tick_at, self._inspect_at) - time.monotonic()
        ready = dict(self._poller.poll(0 if self.calls else max(0, math.ceil(wait_s * 1000))))
        if self.calls.socket.fileno() in ready:
            self.calls.clear_wake()
        if self._authenticator is not None and self._authenticator.socket in ready:
            self._authenticator.answer()
        return ready

    def _messages(self, router: Router) -> Iterator[Callable[[], object]]:
        for _ in range(_MAX_MESSAGES):
            got = None if self._stopping else router.receive()
            if got is None:
                return
            yield partial(self._hear, *got)

    def _inspect(self, now: float) -> float:
        """Hang up on connections that cost too much; returns when to look again."""
        again = math.inf
        for router in self._routers:
            told, when = router.inspect(now)
            again = min(again, when)
            for line in told:
                self._refusals.add(f"{line} ({router.endpoint})", now)
        return again

    def _ticks(self, now: float) -> Iterator[Callable[[], object]]:
        """What is done four times a second."""
        yield self._local.look_after
        for told in self._receivers.keep(now):
            yield partial(self._hear_receiver, told)
        yield self._copies.settle_void
        yield self._take_back_what_is_dead
        yield partial(self._local.look_at_silent, now)
        yield partial(self._pass_time, now)
        self._membership.keep(now, self._routers, is_read=bool(self._stream_of))
        self._refusals.tell(now)
        self._mixtures.tell(now)
        if now >= self._heartbeat_at:
            self._heartbeat_at = now + _HEARTBEAT_S
            yield self._membership.send_heartbeats
        if now >= self._resize_at:
            self._resize_at = now + LOOK_S
            yield self._local.resize

    # Ask

    def _pass_time(self, now: float) -> None:
        for router in self._routers:
            for peer in router.sending():
                self._table.sends(peer, now)
        self._commands.extend(self._table.tick(now))

    def _hear(self, peer: Peer, message: FromWorker | ProtocolError) -> None:
        """A message came; what is left of it is dropped afterwards."""
        try:
            if isinstance(message, ProtocolError):
                raise message
            self._take(peer, message)
        except ProtocolError as error:
            self._refuse(peer, error)
        except VideoloadError:
            raise
        except Exception:  # a defect of ours: this peer loses its connection, and nobody else
            _log.exception("a message at %s could not be handled", peer.router.endpoint)
            peer.send(Refused("this trainer could not handle that message; see its log"))
            self._membership.evict(peer)
        finally:
            peer.router.skip()

    def _refuse(self, peer: Peer, error: ProtocolError) -> None:
        """A message is none of this protocol: have no more of its sender."""
        what = f"refused a message at {peer.router.endpoint}: {error}"
        self._refusals.add(what, time.monotonic())
        peer.send(Refused(str(error)))
        self._membership.evict(peer)

    def _take(self, peer: Peer, message: FromWorker) -> None:
        now = time.monotonic()
        beat = message if isinstance(message, Heartbeat) else None
        if (known := self._workers.get(peer)) is not None:
            known.heard = now
        if isinstance(message, Watch):
            if (told := self._snapshots.answer(now, self._take_snapshot)) is not None:
                peer.send(told)
        elif isinstance(message, Hello):
            self._membership.admit(peer, message, now)
        elif not self._table.heard(
            peer,
            now,
            None if beat is None else beat.progress,
            importing=beat is not None and beat.importing,
        ):
            peer.send(Bye("this trainer does not know you"))
        elif isinstance(message, Result):
            self._answers.take(peer, message)
        elif isinstance(message, Failed):
            lease, at, reason = message.lease, message.at, message.reason
            dropped, fatal = message.dropped, message.fatal
            if known is not None:
                known.timer.failed(now)
                known.last_error = "" if dropped else reason.partition("\n")[0]
            if fatal:
                first = reason.partition("\n")[0]  # the error tells the rest
                _log.warning("worker %s: %s", self._workers[peer].name, first)
            commands = self._table.failed(
                peer, lease, at, reason, dropped=dropped, fatal=fatal, here_only=message.here_only
            )
            self._commands.extend(commands)
        elif isinstance(message, Compared):
            self._copies.compared(peer, message)
        elif isinstance(message, Bye):
            self._membership.said_bye(peer, message, now)

    def _take_snapshot(self) -> Snapshot:
        records = self.records()
        latest = list(self._streams.values())[-MAX_STREAMS:]
        streams = [stream.record(records, self.departed, WINDOW_S) for stream in latest]
        trainer = f"{platform.node()}:{os.getpid()}"
        return snapshot(trainer, streams, self.worker_stats())

    def _hear_receiver(self, told: FromReceiver) -> None:
        """An answer is in its place, a data connection has ended, or a receiver has begun."""
        if isinstance(told, Landed):
            self._answers.landed(told)
        elif isinstance(told, Ended):
            self._answers.lost(told)
            peer = self._receivers.worker_of(told.connection)
            if isinstance(peer, Peer) and (worker := self._workers.get(peer)) is not None:
                _log.info("data connection of worker %s ended: %s", worker.name, told.why)
                self._membership.welcome(peer)
        else:
            self._membership.offer_connections()

    def _take_back_what_is_dead(self) -> None:
        """A Ctrl-C that strikes while an array dies keeps its slot from being given back."""
        for stream in self._streams.values():
            for loan in list(stream.loans.values()):
                if loan.array() is None:
                    self.give_back(stream, loan.batch)

    # Send

    def _carry_out(self) -> None:
        """Carry out the commands of the lease table, and those that follow from them, in order."""
        while self._commands:
            match command := self._commands.popleft():
                case Grant():
                    self._send_lease(command)
                case Ready():
                    stream = self._stream_of[command.reader]
                    stream.lent[command.slot] = command
                    stream.readers[command.reader].put(command)
                case Recall():
                    stream = self._stream_of[command.reader]
                    batches = stream.readers[command.reader].take_back()
                    for batch in batches:
                        del stream.lent[batch.slot]
                    taken = [(batch.step, batch.slot) for batch in batches]
                    self._commands.extend(self._table.recalled(command.reader, taken))
                case Evict():
                    self._membership.evict_stuck(command)
                case AskStorage():
                    self._local.ask_storage(command)
                case Pause():
                    self._membership.pause(command)
                case Dismiss():
                    self._membership.dismiss(command)
                case Stop():
                    stopped = self._streams[command.stream]
                    stopped.error = command.error
                    for queue in stopped.readers.values():
                        queue.fail(command.error)

    def _send_lease(self, grant: Grant) -> None:
        peer = grant.worker
        assert isinstance(peer, Peer)
        stream = self._streams[grant.stream]
        if peer not in self._workers:  # it left after this was granted
            return
        place = stream.place(grant.slot, grant.first) if self._workers[peer].is_child else None
        if place is None or not SHARED:
            # In a message, at most, with the rate.
            frames_bytes = 18 * (math.prod(stream.spec.frames_shape) + 1)
            answer_bytes = len(grant.samples) * (stream.clip_bytes + frames_bytes)
            peer.granted(answer_bytes, self._table.held(peer))
        lease = stream.lease(grant.lease, grant.samples, place)
        self._workers[peer].timer.granted(time.monotonic())
        if not peer.send(lease) and place is None:
            self._membership.gone(peer, died=False)

    # The end

    def _fail(self, error: VideoloadError) -> None:
        self._error = error
        self._membership.wake()
        self._fail_all(error)

    def _fail_all(self, error: VideoloadError) -> None:
        for stream in self._streams.values():
            for queue in stream.readers.values():
                queue.fail(error)

    def _close(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        for peer in self._workers:
            peer.send(Bye("this trainer is closing"))
        for router in self._routers:
            router.close(linger_ms=200)
        if self._authenticator is not None:
            self._authenticator.close()
        self._supervisor.stop()
        self._receivers.close()
        self._own_files.close()
        context.term()
        self._fail_all(self._error or ClosedError("the client is closed"))
        for stream in self._streams.values():
            stream.arena.close()
        self._streams.clear()
        self._stream_of.clear()
        self._workers.clear()
        self.has_credit = True  # from now on, `post` finds the socket closed
        self.calls.close()
        self._membership.wake()


@lru_cache(1)
def _collect_garbage(modules: int) -> None:
    gc.collect()


_DESCRIPTORS = "/proc/self/fd"

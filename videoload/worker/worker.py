"""A worker: receive a lease, decode, answer. One process, one thread, no state that matters.

It dials every trainer in its settings and shares its time fairly among them (`trainers`). A trainer
that cannot be reached, closes or falls silent is dialled again and again, each time on a fresh
socket. Heartbeats are sent by the decode loop itself, between two frames: a worker that hangs
inside a decoder sends none, and that is how its trainer finds out.

Workers that a trainer started have a private channel to it (a socket pair) over which shared memory
comes, and they end with it, whatever they are doing. Others send pixels.

A SIGTERM or Ctrl-C takes effect between two frames: BYE gives the leases back, for others to take.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from types import FrameType

import numpy as np
import numpy.typing as npt
import zmq

from videoload import host, native
from videoload.decoding.decoder import Decoder
from videoload.decoding.prepared import Prepared
from videoload.errors import ProtocolError, StorageError, VideoError, VideoloadError
from videoload.processes.child import inherited
from videoload.processes.counters import SIZE, Counters
from videoload.transport.addresses import resolve
from videoload.transport.messages import Bye, Compared, Lease, Result, Spent
from videoload.transport.private_channel import PrivateChannel
from videoload.transport.private_messages import Share, Unshare, WorkerSettings
from videoload.transport.slots import Window
from videoload.worker.lease_runs import ClipError, failure, look_ahead, requests, runs
from videoload.worker.trainers import Resolve, TrainerConnection, Trainers

_log = logging.getLogger(__name__)

_POLL_S = 0.02  # between two frames, signals and heartbeats are looked after so often
_REST_S = 1.0  # without a lease for so long, no file is kept open
_END_S = 1.0  # after a signal, a worker ends by then whatever it is at
_CHANNEL_S = 5.0  # a message that is due on the private channel comes within so long


class Stopped(BaseException):
    """A signal came. Raised between two frames."""


class Orphaned(BaseException):
    """The process that started this worker has ended."""


class _HungUp(BaseException):
    """The trainer of this lease is disconnected. Raised between two frames."""


class Worker:
    """Serves the trainers in ``settings``; ``channel`` leads to the process that started it.
    ``pulse``, if given, is shared memory for `Counters`, of which two bytes change while this
    worker makes progress. ``resolve`` finds the addresses of a trainer's host name."""

    def __init__(
        self,
        settings: WorkerSettings,
        channel: PrivateChannel | None = None,
        *,
        pulse: npt.NDArray[np.uint8] | None = None,
        resolve: Resolve = resolve,
    ) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._channel = channel
        self._transforms = settings.transforms
        self._folders = settings.folders
        self._fetches = False  # some files: leases are looked at before their turn comes
        self._dial_in = None if settings.root is None else self._decoder(settings.root)
        self._shares: dict[int, tuple[Window | None, Decoder]] = {}
        self._unshared: set[int] = set()  # a lease of a dropped stream may come after its end
        self._decoders: dict[str, Decoder] = {}  # one per root: arenas come and go
        self._frames = self._turns = 0
        self._counters = Counters(pulse)
        self._pulse = self._counters.pulse
        self._worked = time.monotonic()
        self._core_clock = host.CoreClock()
        self._on_core = self._core_clock.read()
        self._next_poll = 0.0
        self._stop_reason: str | None = None
        self._serving: set[TrainerConnection] = set()
        self._decoding_for: TrainerConnection | None = None
        self._trainers = Trainers(self._context, settings, resolve)

    def stop(self, reason: str) -> None:
        """End between two frames, or within 200 ms. May be called in a signal handler."""
        self._stop_reason = reason

    def run(self) -> None:
        """Serve until stopped, or until the process that started this one has ended."""
        try:
            self._read_channel()  # what came with the settings
            while True:
                self._turn()
        except Stopped as stopped:
            for trainer in self._trainers:
                trainer.say(Bye(str(stopped)))
                trainer.close(drain=True)
        except Orphaned:
            pass
        finally:
            self._trainers.close()
            self._context.term()
            self._core_clock.close()

    def _turn(self) -> None:
        self._turns += 1
        self._pulse[0] = self._turns % 255 + 1  # 0 only before the first
        self._trainers.keep(time.monotonic(), self._frames)
        sockets: list[tuple[zmq.Socket[bytes] | socket.socket, int]] = [
            (trainer.dealer.socket, zmq.POLLIN if trainer.greeted else zmq.POLLIN | zmq.POLLOUT)
            for trainer in self._trainers
            if trainer.dealer is not None
        ]
        channel = None if self._channel is None else self._channel.socket
        if channel is not None:
            sockets.append((channel, zmq.POLLIN))
        wait_ms = self._trainers.wait_ms(time.monotonic())
        if not sockets:  # no name that stands for anything, or all at rest; a poll would not wait
            time.sleep(wait_ms / 1000)
        ready = dict(zmq.zmq_poll(sockets, wait_ms))
        if ready:
            self._trainers.read()
        self._meet_trainers()
        if self._stop_reason is not None:
            raise Stopped(self._stop_reason)
        if channel is not None and channel.fileno() in ready:
            self._read_channel()
        self._compare()
        if self._fetches:
            look_ahead(self._trainers, self._decoder_of)
        got = self._trainers.next_lease(time.monotonic())
        if got is not None:
            self._work(*got)
        elif time.monotonic() - self._worked > _REST_S:
            for decoder in (self._dial_in, *self._decoders.values()):
                if decoder is not None:
                    decoder.rest()

    def _meet_trainers(self) -> None:
        serving = {trainer for trainer in self._trainers if trainer.welcomed}
        if self._dial_in is not None and serving - self._serving:
            self._dial_in.begin()
        self._serving = serving
        self._counters.set("trainers", len(serving))

    def _work(self, trainer: TrainerConnection, lease: Lease) -> None:
        began = time.perf_counter()
        idle_s, imported_s = time.monotonic() - self._worked, 0.0
        frames: list[list[int]] = []
        times: list[list[float]] = []
        files: list[int] = []
        clip_s: list[float] = []
        at = 0
        self._decoding_for = trainer
        self._counters.lease = lease.lease
        try:
            decoder, out, shared = self._place(lease)
            imported_s = self._import(decoder, lease)
            decoder.watch.start()
            ready, took = self._prepare_all(decoder, lease, out)
            for (at, last), prepared_s in zip(list(ready), took, strict=True):
                since = time.perf_counter()
                # Popped, so that it and its file go as soon as it is done.
                rows, row_times = self._decode(decoder, lease, out, at, last, ready.pop((at, last)))
                frames += rows.tolist()
                times += row_times.tolist()
                run_s = prepared_s + time.perf_counter() - since
                clip_s += [run_s / (last - at)] * (last - at)
                if lease.place is None and lease.asked.files:
                    files += [decoder.fingerprint(lease.clips[at].path)] * (last - at)
        except _HungUp:
            pass
        except StorageError as error:  # no video's fault: others may have them elsewhere
            trainer.give_back(str(error))
        except ClipError as error:
            self._counters.add("failures", 1)
            trainer.say(failure(lease, error.at, error.why))
        except Exception as error:  # whatever a file can do to a decoder, it is that file's fault
            self._counters.add("failures", 1)
            trainer.say(failure(lease, at, error))
        else:
            seconds = time.perf_counter() - began
            spent = Spent(
                **decoder.watch.read(), importing=imported_s, idle=idle_s, **self._since_last()
            )
            self._counters.add("clips", len(lease.clips))
            self._counters.add("decode_seconds", seconds)
            result = Result(lease.lease, frames, seconds, files, spent, clip_s, times)
            trainer.answer(result, None if shared else out)
        finally:
            self._counters.lease = 0
            self._worked = time.monotonic()
            self._trainers.served(trainer, time.perf_counter() - began, self._worked)

    def _import(self, decoder: Decoder, lease: Lease) -> float:
        """Import the users' functions that a lease names; returns how many seconds that took."""
        since = time.perf_counter()
        for spec in (lease.asked, *lease.others):
            if not decoder.has_imported(spec):
                self._trainers.tell_of_import(self._frames, begins=True)
                decoder.import_function(spec)
                self._trainers.tell_of_import(self._frames, begins=False)
        return time.perf_counter() - since

    def _since_last(self) -> dict[str, float]:
        """What this process was on a core, and waited for one, since its last answer."""
        before, self._on_core = self._on_core, self._core_clock.read()
        core, no_core = (now - then for then, now in zip(before, self._on_core, strict=True))
        return {"core": core, "no_core": no_core}

    def _compare(self) -> None:
        """Answer trainers that want to know which copies of files this worker has."""
        for trainer in self._trainers:
            while trainer.comparisons:
                asked = trainer.comparisons.popleft()
                files = dict.fromkeys(asked.paths, 0)
                for video, path in asked.paths.items():
                    if self._dial_in is not None:
                        with suppress(VideoError, StorageError):
                            files[video] = self._dial_in.fingerprint(path)
                trainer.say(Compared(asked.stream, files))

    def _prepare_all(
        self, decoder: Decoder, lease: Lease, out: npt.NDArray[np.uint8]
    ) -> tuple[dict[tuple[int, int], Prepared | None], list[float]]:
        """Prepare each run of the lease; the seconds that each took."""
        ready: dict[tuple[int, int], Prepared | None] = dict.fromkeys(runs(lease))
        took: list[float] = []
        for run in ready:
            since = time.perf_counter()
            try:
                ready[run] = self._prepare(decoder, lease, out, *run)
            except StorageError:
                raise
            except Exception:  # raised again, and reported, by `_decode`
                pass
            took.append(time.perf_counter() - since)
        return ready, took

    def _prepare(
        self, decoder: Decoder, lease: Lease, out: npt.NDArray[np.uint8], first: int, last: int
    ) -> Prepared:
        clips, spec = lease.clips[first:last], lease.spec_of(first)
        return decoder.prepare(clips[0].path, spec, requests(clips), out[first:last], self._tick)

    def _decode(
        self,
        decoder: Decoder,
        lease: Lease,
        out: npt.NDArray[np.uint8],
        first: int,
        last: int,
        prepared: Prepared | None = None,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Decode the clips [first, last) of the lease, all of one video, in one pass over it.
        Returns their frames, and the times of these."""
        try:
            prepared = prepared or self._prepare(decoder, lease, out, first, last)
            frames = decoder.decode_prepared(prepared, self._tick)
        except VideoError as error:
            if last - first == 1:
                raise ClipError(first, error) from None
            # Which of them is it? One at a time tells.
            each = [self._decode(decoder, lease, out, at, at + 1) for at in range(first, last)]
            return np.vstack([rows for rows, _ in each]), np.vstack([rows for _, rows in each])
        return frames, prepared.times_of(frames)

    def _place(self, lease: Lease) -> tuple[Decoder, npt.NDArray[np.uint8], bool]:
        """The decoder and the array for the lease's clips, and whether the trainer shares it."""
        shape = (len(lease.clips), lease.asked.clip_bytes)
        if lease.place is None:
            if self._dial_in is None:
                raise ProtocolError("the lease names no shared memory, and this worker has no root")
            return self._dial_in, np.empty(shape, np.uint8), False
        arena = lease.place.arena
        if arena not in self._shares and arena not in self._unshared:
            # The arena was sent before the lease, but on the private channel.
            self._read_channel(wait_for=arena)
        if arena not in self._shares:
            raise ProtocolError(f"arena {arena} is not shared with this worker")
        window, decoder = self._shares[arena]
        if window is None:
            return decoder, np.empty(shape, np.uint8), False
        return decoder, window.view(lease.place.offset, shape), True

    def _decoder(self, root: str) -> Decoder:
        decoder = Decoder(root, transforms=self._transforms, folders=self._folders)
        self._fetches |= decoder.fetches
        return decoder

    def _decoder_of(self, lease: Lease) -> Decoder | None:
        """Whose files a waiting lease is of, if that is known by now."""
        if lease.place is None:
            return self._dial_in
        return self._shares.get(lease.place.arena, (None, None))[1]

    def _read_channel(self, wait_for: int | None = None) -> None:
        """Take what came over the private channel. Raises Orphaned when its other end is closed."""
        if self._channel is None:
            return
        try:
            while got := self._channel.receive(_CHANNEL_S if wait_for is not None else 0):
                message, descriptor = got
                if isinstance(message, Share):
                    decoder = self._decoders.get(message.root) or self._decoder(message.root)
                    self._decoders[message.root] = decoder
                    window = None if descriptor is None else Window(descriptor)
                    self._shares[message.arena] = (window, decoder)
                    if message.arena == wait_for:
                        wait_for = None  # go on: no poll tells of what is in the buffer already
                elif isinstance(message, Unshare):
                    self._shares.pop(message.arena, None)
                    self._unshared.add(message.arena)
        except EOFError:
            raise Orphaned from None

    def _tick(self) -> None:
        """Between two frames."""
        self._frames += 1
        now = time.monotonic()
        if now < self._next_poll:
            return
        self._next_poll = now + _POLL_S
        self._pulse[1] = self._frames & 255
        if self._stop_reason is not None:
            raise Stopped(self._stop_reason)
        self._trainers.beat(now, self._frames)
        if self._fetches:
            self._trainers.read()
            look_ahead(self._trainers, self._decoder_of)
        if self._decoding_for is not None and self._decoding_for.dealer is None:
            raise _HungUp


def serve(
    settings: WorkerSettings,
    channel: PrivateChannel | None = None,
    *,
    pulse: npt.NDArray[np.uint8] | None = None,
    resolve: Resolve = resolve,
) -> int:
    """Run a worker in this process until a signal ends it; returns the exit status: 0 after
    SIGTERM or when the process that started it has ended, 130 after Ctrl-C. Raises TransportError.
    """
    logging.basicConfig(
        # Of the workers that it started, the trainer tells what there is to tell.
        level=logging.WARNING if settings.token else logging.INFO,
        format=f"videoload worker {os.getpid()}: %(message)s",
        force=True,
    )
    native.limit_memory()
    native.keep_pages()
    native.is_worker = True
    worker = Worker(settings, channel, pulse=pulse, resolve=resolve)
    status = 0

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal status
        status = 130 if number == signal.SIGINT else 0
        worker.stop(signal.Signals(number).name)
        if channel is None:  # nobody else ends it where a user's function does not return
            signal.signal(signal.SIGALRM, lambda *_: os._exit(status))
            signal.setitimer(signal.ITIMER_REAL, _END_S)

    signal.signal(signal.SIGTERM, on_signal)
    # Ctrl-C reaches every process of a terminal; who started this one will end it.
    signal.signal(signal.SIGINT, signal.SIG_IGN if channel is not None else on_signal)
    # A process begins with the mask of the thread that starts it: one of Ray's blocks this one.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    worker.run()
    return status


def main() -> int:
    """``python -m videoload.worker FD [PULSE]``: a worker started by a `Supervisor`; FD is its end
    of the private channel, PULSE the descriptor of memory where it shows that it makes progress."""
    descriptors = inherited()
    channel = PrivateChannel(socket.socket(fileno=descriptors[0]))
    try:
        first = channel.receive(_CHANNEL_S)
        if first is None or not isinstance(first[0], WorkerSettings):
            raise ProtocolError("the private channel did not begin with the settings")
        pulse = Window(descriptors[1]).view(0, (SIZE,)) if len(descriptors) > 1 else None
        return serve(first[0], channel, pulse=pulse)
    except EOFError:
        return 0
    except VideoloadError as error:
        print(f"videoload worker: {error}", file=sys.stderr)
        return 1

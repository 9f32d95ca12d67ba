"""A worker: receive a lease, do its task, answer. One process, one thread, no state that matters.

It connects to every trainer in its settings and shares its time fairly among them (`trainers`). A
trainer that cannot be reached, closes or stops responding is tried again and again. The decode loop
itself sends the heartbeats, between two frames: a worker that hangs in a decoder sends none, so its
trainer notices. While it stands in a read, the thread that watches this sends them (`read_watch`).

A worker that a trainer started gets shared memory over its private channel, and ends with the
trainer. Other workers send pixels.

SIGTERM and Ctrl-C take effect between two frames: BYE gives the leases back, for other workers.

    Worker      the loop: takes a lease, answers it, beats
    Trainers    the connections, and whose lease is next
    Decoders    what a lease is decoded with, and which memory its clips go to
    LeaseRuns   one lease: its clips, one pass over each video
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import time

import numpy as np
import numpy.typing as npt
import zmq

from videoload import activity, host, native
from videoload.activity import Activity
from videoload.decoding.decoder import Decoder
from videoload.errors import (
    OtherCopyError,
    ProtocolError,
    StorageError,
    VideoloadError,
    fault_of,
    named,
)
from videoload.logs import Log, is_logged, log_to_stderr
from videoload.wire.addresses import resolve
from videoload.wire.context import new_context
from videoload.wire.messages import Bye, Failed, Lease, Timings
from videoload.wire.private_channel import PrivateChannel
from videoload.wire.private_messages import WorkerSettings
from videoload.wire.slots import Window
from videoload.worker import read_watch
from videoload.worker.child import inherited
from videoload.worker.counters import SIZE, Counters
from videoload.worker.decoders import CHANNEL_S, Decoders, Orphaned
from videoload.worker.lease_runs import LeaseRuns, failure, look_ahead
from videoload.worker.stall_clock import IMPORT_S, SILENT_S
from videoload.worker.trainers import Beat, Resolve, TrainerConnection, Trainers

_log = Log(__name__)

_POLL_S = 0.02  # between two frames, signals and heartbeats are looked after this often
_IDLE_S = 1.0  # after this time without a lease, files are closed
_LOOK_S = 5.0  # ... and so often, the root is looked at


class Stopped(BaseException):
    """A signal was received. Raised between two frames."""


class _HungUp(BaseException):
    """The trainer of this lease is disconnected. Raised between two frames."""


class Worker:
    """Serves the trainers in ``settings``.

    Attributes:
        stop_reason: Why it was stopped; None if it was not.
        counters: What it has done.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        channel: PrivateChannel | None = None,
        *,
        pulse: npt.NDArray[np.uint8] | None = None,
        resolve: Resolve = resolve,
    ) -> None:
        """``channel`` leads to the process that started this one. ``pulse`` is shared memory for
        `Counters`. ``resolve`` finds the addresses of a trainer's host name."""
        self._context = new_context()
        self._channel = None if channel is None else channel.socket
        self._frames = 0
        self.counters = Counters() if pulse is None else Counters.from_buffer(pulse.data)
        activity.now = np.frombuffer(memoryview(self.counters), np.uint8, 1)
        self._decoders = Decoders(settings, channel, self._call)
        self._worked = time.monotonic()
        self._core_clock = host.CoreClock()
        self._on_core = self._core_clock.read()
        self._next_poll = 0.0
        self.stop_reason: str | None = None
        self._serving: set[TrainerConnection] = set()
        self._decoding_for: TrainerConnection | None = None
        self._is_child = bool(settings.token)
        self._look_at = 0.0
        self._other_copies = 0  # of files, that leases were not for
        self._refused = ""  # why the storage gave nothing, at the last lease or look
        self._trainers = Trainers(
            self._context, settings, resolve, self._decoders.ask if self._is_child else None
        )

    def stop(self, reason: str) -> None:
        """End between two frames, or within 200 ms. May be called in a signal handler."""
        self.stop_reason = reason

    def run(self) -> None:
        """Serve until stopped, or until the process that started this one has ended. Raises
        WorkerError if this process cannot continue."""
        reason = "cannot continue"
        try:
            self._decoders.read_channel()  # arenas may follow the settings at once
            while True:
                self._turn()
        except Stopped as stopped:
            reason = str(stopped)
        except Orphaned:
            reason = ""
        finally:
            if reason:
                for trainer in self._trainers:
                    trainer.say(Bye(reason))
                    trainer.close(drain=True)
            self._trainers.close()
            self._context.term()
            self._core_clock.close()

    def _turn(self) -> None:
        self.counters.turns += 1
        self._trainers.tick(time.monotonic(), self._beat())
        sockets: list[tuple[zmq.Socket[bytes] | socket.socket, int]] = [
            (trainer.dealer.socket, zmq.POLLIN if trainer.greeted else zmq.POLLIN | zmq.POLLOUT)
            for trainer in self._trainers
            if trainer.dealer is not None
        ]
        if self._channel is not None:
            sockets.append((self._channel, zmq.POLLIN))
        wait_ms = self._trainers.wait_ms(time.monotonic())
        if not sockets:  # a poll would not wait: there is no trainer to connect to now
            time.sleep(wait_ms / 1000)
        ready = dict(zmq.zmq_poll(sockets, wait_ms))
        if ready:
            self._trainers.read()
        serving = {trainer for trainer in self._trainers if trainer.welcomed}
        if serving - self._serving:
            self._decoders.begin()
        self._serving = serving
        self.counters.trainers = len(serving)
        self.counters.rejected = sum(trainer.rejected for trainer in self._trainers)
        if self.stop_reason is not None:
            raise Stopped(self.stop_reason)
        if self._channel is not None and self._channel.fileno() in ready:
            self._decoders.read_channel()
        if self._decoders.fetches:
            look_ahead(self._trainers, self._decoders.of)
        got = self._trainers.next_lease(time.monotonic())
        if got is not None:
            self._work(*got)
        elif time.monotonic() - self._worked > _IDLE_S:
            self._decoders.close_files()
            if time.monotonic() >= self._look_at:
                self._note_storage(self._decoders.look())
                self._look_at = time.monotonic() + _LOOK_S

    def _work(self, trainer: TrainerConnection, lease: Lease) -> None:
        began = time.perf_counter()
        idle_s = time.monotonic() - self._worked
        self._decoding_for, runs = trainer, None
        self.counters.lease, self.counters.stall_s = lease.lease, trainer.stall_s
        activity.begins(Activity.DECODING)
        try:
            decoder, out, shared = self._decoders.place(lease)
            runs = LeaseRuns(decoder, lease, out, self._tick)
            if lease.files:
                runs.look_at_files()
            imported_s = self._import(decoder, lease)
            decoder.functions.check(lease.code)
            decoder.watch.start()
            runs.do()
            runs.look_at_files()  # none of them has changed meanwhile
        except _HungUp:
            pass
        except StorageError as error:  # not the video's fault: others may read it elsewhere
            self._note_storage(str(error))
            at = 0 if runs is None else runs.at
            trainer.say(Failed(lease.lease, at, str(error), fault_of(error)))
        except Exception as error:  # whatever a file can do to a decoder is the file's fault
            if runs is not None:
                self.counters.failures += 1
                if isinstance(error, OtherCopyError):
                    self._note_other_copy(error)
                trainer.say(failure(lease, runs.at, error, runs.file))
            elif self._decoders.is_over(lease):  # the reason is not read
                trainer.say(Failed(lease.lease, 0, str(error)))
            else:  # nothing was opened: no clip is to blame
                trainer.give_back(str(error))
        else:
            result, seconds = runs.result, time.perf_counter() - began
            result.decode_s, result.spent = (
                seconds,
                Timings(
                    **decoder.watch.read(), importing=imported_s, idle=idle_s, **self._since_last()
                ),
            )
            self._note_storage("")
            self.counters.clips += len(lease.clips)
            self.counters.decode_seconds += seconds
            trainer.say(result, None if shared or not out.size else out)
        finally:
            self._decoding_for = None
            self.counters.lease, self.counters.stall_s = 0, 0.0
            trainer.done = lease.lease
            activity.begins(Activity.IDLE)
            self._worked = time.monotonic()
            self._trainers.served(trainer, time.perf_counter() - began, self._worked)

    def _note_other_copy(self, error: OtherCopyError) -> None:
        """Log another copy of a file than the trainer uses, and then every now and then."""
        self._other_copies += 1
        if is_logged(self._other_copies, 1) and not self._is_child:
            _log.warning("%s", error.reason)

    def _note_storage(self, error: str) -> None:
        """Note why the storage gives nothing now; "": it does. The log says it when that changes;
        for the workers that a trainer started, the trainer says it."""
        before, self._refused = self._refused, error
        if error and not before and not self._is_child:
            _log.warning("waiting for the videos: %s", error)
        elif before and not error and not self._is_child:
            _log.warning("the videos can be read again")

    def _import(self, decoder: Decoder, lease: Lease) -> float:
        """Import the users' functions that a lease names; returns the seconds that it took."""
        since = time.perf_counter()
        if not decoder.has_imported(lease.task):
            self._trainers.say(self._beat(Activity.IMPORT))
            self.counters.stall_s += IMPORT_S
            try:
                with activity.during(Activity.IMPORT):
                    decoder.import_functions(lease.task)
            finally:
                self.counters.stall_s -= IMPORT_S
            self._trainers.say(self._beat(Activity.DECODING))
        return time.perf_counter() - since

    def _call(self) -> None:
        """A user's function is called now, and may take long."""
        self._trainers.say(self._beat(Activity.FUNCTION))

    def _beat(self, at: Activity = Activity.IDLE) -> Beat:
        says = self._decoders.storage_error()
        self.counters.refused = bool(says or self._refused)
        return Beat(at, says)

    def waits(self, path: str, seconds: float) -> None:
        """Send heartbeats while this worker blocks in a read, in another thread: see `read_watch`.
        Also greet trainers meanwhile."""
        self.counters.refused = seconds >= SILENT_S or bool(self._refused)
        beat = Beat(Activity.READING, named(path), seconds)
        self._trainers.tick(time.monotonic(), beat, may_look=False)

    def _since_last(self) -> dict[str, float]:
        """Return how long this process was on a core, and waited for one, since its last answer."""
        before, self._on_core = self._on_core, self._core_clock.read()
        core, no_core = (now - then for then, now in zip(before, self._on_core, strict=True))
        return {"core": core, "no_core": no_core}

    def _tick(self) -> None:
        """Between two packets, and after each read."""
        self._frames += 1
        now = time.monotonic()
        if now < self._next_poll:
            return
        self._next_poll = now + _POLL_S
        self.counters.packets = self._frames
        if self.stop_reason is not None:
            raise Stopped(self.stop_reason)
        self._trainers.beat(now, self._beat(Activity.DECODING))
        if self._decoders.fetches:
            self._trainers.read()
            look_ahead(self._trainers, self._decoders.of)
        if self._decoding_for is not None and self._decoding_for.dealer is None:
            raise _HungUp


def serve(
    settings: WorkerSettings,
    channel: PrivateChannel | None = None,
    *,
    pulse: npt.NDArray[np.uint8] | None = None,
    resolve: Resolve = resolve,
) -> None:
    """Run a worker in this process until SIGTERM, or until the process that started it has ended:
    it leads the ``channel``, and kills a worker that hangs. Raises TransportError, WorkerError.
    """
    # The trainer logs what happens to the workers that it started.
    level = logging.WARNING if settings.token else logging.INFO
    log_to_stderr(f"videoload worker {os.getpid()}", settings.log_format, level)
    native.limit_memory()
    native.keep_pages()
    native.allow_descriptors()
    native.is_worker = True
    worker = Worker(settings, channel, pulse=pulse, resolve=resolve)
    signal.signal(signal.SIGTERM, lambda number, _: worker.stop(signal.Signals(number).name))
    # A process begins with the mask of the thread that starts it, and one of Ray's blocks this.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    read_watch.start(worker.counters, worker.waits)
    worker.run()
    if worker.stop_reason is not None:
        _log.info("received %s; this worker has ended", worker.stop_reason)


def main() -> int:
    """Return ``python -m videoload.worker``: a worker that a `Supervisor` started. It inherits its
    end of the private channel, and memory for `Counters`."""
    descriptors = inherited()
    channel = PrivateChannel(socket.socket(fileno=descriptors[0]))
    try:
        first = channel.receive(CHANNEL_S)
        if first is None or not isinstance(first[0], WorkerSettings):
            raise ProtocolError("the private channel did not begin with the settings")
        serve(first[0], channel, pulse=Window(descriptors[1]).view(0, (SIZE,)))
    except EOFError:
        pass
    except VideoloadError as error:
        print(f"videoload worker: {error}", file=sys.stderr)
        return 1
    return 0

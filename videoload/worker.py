"""A worker: receive a lease, decode, answer. One process, one thread, no state that matters.

It dials every trainer that it was told of and takes their leases in turn. A trainer that cannot be
reached, goes away or falls silent is dialled again, for ever, on a fresh socket. Heartbeats are
sent by the decode loop itself, between two frames: a worker that hangs inside a decoder falls
silent, and that is how its trainer finds out.

Workers that the trainer's own host started have a private channel to it (a socket pair) over which
shared memory comes, and they end with it, whatever they are doing. Others send pixels.

A SIGTERM or Ctrl-C takes effect at the next frame: BYE gives the leases back, and others take them.
"""

from __future__ import annotations

import ctypes
import logging
import os
import resource
import signal
import socket
import sys
import time
import uuid
from collections.abc import Iterator
from itertools import groupby
from types import FrameType

import numpy as np
import numpy.typing as npt
import zmq

from videoload.decode import Decoder, Request, ShortVideoError
from videoload.errors import ProtocolError, TransformError, VideoError, VideoloadError
from videoload.slots import Window
from videoload.transport import Dealer, PrivateChannel
from videoload.video import SOFTWARE
from videoload.wire import (
    INDEX_BYTES,
    Bye,
    Clip,
    Failed,
    FromTrainer,
    Heartbeat,
    Hello,
    Lease,
    Refused,
    Result,
    Share,
    Unshare,
    Welcome,
    WorkerSettings,
)

_log = logging.getLogger(__name__)

_POLL_MS = 200  # a signal is seen at most so long after it came
_UNREACHABLE_S = 3.0  # a trainer that cannot be reached for so long is complained about
_REMIND_S = 60.0  # ... and so often after that
_WELCOME_S = 5.0  # a HELLO without an answer for so long is said again, on a fresh socket
_SILENCE_BEATS = 40  # a trainer silent for so many beats is dialled again
_REFUSED_S = 5.0  # wait so long after a REFUSED
_MEMORY_BYTES = 4 << 30  # what a file can make a decoder allocate; shared slots do not count


class Stopped(BaseException):
    """A signal came; raised at the next frame."""


class Orphaned(BaseException):
    """The process that started this worker is gone."""


class Worker:
    """Serves the trainers in ``settings``; ``channel`` leads to the process that started it."""

    def __init__(self, settings: WorkerSettings, channel: PrivateChannel | None = None) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._channel = channel
        self._transforms = settings.transforms
        self._new_indexes: dict[str, bytes] = {}
        self._dial_in = None if settings.root is None else self._decoder(settings.root)
        self._shares: dict[int, tuple[Window | None, Decoder]] = {}
        self._unshared: set[int] = set()  # a lease of a dropped stream may come after its end
        self._decoders: dict[str, Decoder] = {}  # one a root: arenas come and go
        self._frames = 0
        self._stop_reason: str | None = None
        self._links = [_Link(self._context, address, settings) for address in settings.trainers]

    def stop(self, reason: str) -> None:
        """End at the next frame, or within 200 ms; may be called from a signal handler."""
        self._stop_reason = reason

    def run(self) -> None:
        """Serve until stopped, or until the process that started this one is gone."""
        try:
            while True:
                self._turn()
        except Stopped as stopped:
            for link in self._links:
                link.say(Bye(str(stopped)))
                link.close(drain=True)
        except Orphaned:
            pass
        finally:
            for link in self._links:
                link.close()
            self._context.term()

    def _turn(self) -> None:
        now = time.monotonic()
        poller = zmq.Poller()
        for link in self._links:
            link.keep(now, self._frames)
            if link.dealer is not None:
                poller.register(link.dealer.socket, zmq.POLLIN)
        if self._channel is not None:
            poller.register(self._channel.socket, zmq.POLLIN)
        poller.poll(_POLL_MS)
        if self._stop_reason is not None:
            raise Stopped(self._stop_reason)
        self._read_channel()
        for link in self._links:  # one lease of each trainer in turn
            lease = link.next_lease()
            if lease is not None:
                self._work(link, lease)

    def _work(self, link: _Link, lease: Lease) -> None:
        began = time.perf_counter()
        frames: list[list[int]] = []
        at = 0
        try:
            decoder, out, shared = self._place(lease)
            for at, last in _visits(lease.clips):
                frames += self._visit(decoder, lease, out, at, last)
        except _ClipError as error:
            link.say(_failure(lease, error.at, error.why))
        except Exception as error:  # whatever a file can do to a decoder, it is that file's fault
            link.say(_failure(lease, at, error))
        else:
            seconds = time.perf_counter() - began
            answer = Result(lease.lease, frames, seconds, self._new_indexes)
            link.say(answer, None if shared else out)
            self._new_indexes.clear()

    def _visit(
        self, decoder: Decoder, lease: Lease, out: npt.NDArray[np.uint8], first: int, last: int
    ) -> list[list[int]]:
        """Decode the clips [first, last) of the lease, all of one video, in one pass."""
        clips = lease.clips[first:last]
        path = clips[0].path
        if clips[0].index is not None:
            decoder.learn(path, clips[0].index)
        requests = [Request(clip.key, clip.clip, clip.start, clip.end) for clip in clips]
        try:
            got = decoder.decode(path, lease.spec, requests, out[first:last], self._tick)
        except VideoError as error:
            if len(clips) == 1:
                raise _ClipError(first, error) from None
            # Which of them is it? One at a time tells.
            return [
                row
                for at in range(first, last)
                for row in self._visit(decoder, lease, out, at, at + 1)
            ]
        frames: list[list[int]] = got.tolist()
        return frames

    def _place(self, lease: Lease) -> tuple[Decoder, npt.NDArray[np.uint8], bool]:
        """Where the lease's clips are decoded from and to, and whether the trainer sees it."""
        shape = (len(lease.clips), *lease.spec.shape)
        if lease.place is None:
            if self._dial_in is None:
                raise ProtocolError("the lease names no shared memory, and this worker has no root")
            return self._dial_in, np.empty(shape, np.uint8), False
        arena = lease.place.arena
        if arena not in self._shares and arena not in self._unshared:
            # The lease overtook the arena, which was sent before it on the private channel.
            self._read_channel(wait_for=arena)
        if arena not in self._shares:
            raise ProtocolError(f"arena {arena} is not shared with this worker")
        window, decoder = self._shares[arena]
        if window is None:
            return decoder, np.empty(shape, np.uint8), False
        return decoder, window.view(lease.place.offset, shape), True

    def _decoder(self, root: str) -> Decoder:
        def note(path: str, packed: bytes) -> None:
            if len(packed) <= INDEX_BYTES:
                self._new_indexes[path] = packed

        return Decoder(root, note, transforms=self._transforms)

    def _read_channel(self, wait_for: int | None = None) -> None:
        """Take what came over the private channel. Raises Orphaned when its other end is gone."""
        if self._channel is None:
            return
        try:
            while got := self._channel.receive(_WELCOME_S if wait_for is not None else 0):
                message, descriptor = got
                if isinstance(message, Share):
                    decoder = self._decoders.get(message.root) or self._decoder(message.root)
                    self._decoders[message.root] = decoder
                    window = None if descriptor is None else Window(descriptor)
                    self._shares[message.arena] = (window, decoder)
                    if message.arena == wait_for:
                        return
                elif isinstance(message, Unshare):
                    self._shares.pop(message.arena, None)
                    self._unshared.add(message.arena)
        except EOFError:
            raise Orphaned from None

    def _tick(self) -> None:
        """Between two frames."""
        self._frames += 1
        if self._stop_reason is not None:
            raise Stopped(self._stop_reason)
        now = time.monotonic()
        for link in self._links:
            link.beat(now, self._frames)


class _Link:
    """One trainer, as a worker sees it: dialling -> greeted -> welcomed, and back to dialling."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], address: str, settings: WorkerSettings
    ) -> None:
        self._context = context
        self._address = address
        self._settings = settings
        self._complain_at = time.monotonic() + _UNREACHABLE_S
        self._complained = False
        self._rest_until = 0.0
        self._beat_s: float | None = None
        self._greeted: float | None = None
        self._heard = self._said = 0.0
        self.dealer: Dealer | None = None
        self._dial()

    def keep(self, now: float, frames: int) -> None:
        """Say HELLO, beat, or dial again, whichever is due."""
        if now < self._rest_until:
            return
        if self.dealer is None:
            self._dial()
        if self._greeted is None:
            self._greet(now)
        elif self._beat_s is None:
            if now - self._greeted > _WELCOME_S:
                self._complain(now, "does not answer; still trying")
                self._hang_up()
        elif self.dealer and self.dealer.socket.poll(0):
            self._heard = now  # it was this worker, at a long lease, that did not listen
            self.beat(now, frames)
        elif now - self._heard > _SILENCE_BEATS * self._beat_s:
            _log.warning("trainer %s has fallen silent; dialling again", self._address)
            self._hang_up()
        else:
            self.beat(now, frames)

    def beat(self, now: float, frames: int) -> None:
        """A heartbeat, if one is due."""
        if self._beat_s is None or now - self._said < self._beat_s:
            return
        if not self.say(Heartbeat(frames)):
            _log.info("trainer %s hung up; dialling again", self._address)
            self._complain_at = now + _UNREACHABLE_S
            self._hang_up()

    def next_lease(self) -> Lease | None:
        """The next lease, if one came; what else came is dealt with."""
        while self.dealer is not None:
            try:
                message = self.dealer.receive()
            except ProtocolError as error:
                _log.error("trainer %s: %s", self._address, error)
                self._rest()
                return None
            if message is None:
                return None
            self._heard = time.monotonic()
            if isinstance(message, Lease):
                return message
            self._take(message)
        return None

    def say(
        self, message: Hello | Heartbeat | Result | Failed | Bye,
        pixels: npt.NDArray[np.uint8] | None = None,
    ) -> bool:  # fmt: skip
        """False if the trainer is not there now; an answer is then dropped, and missed by nobody:
        the trainer gives the lease to another."""
        if self.dealer is None or not self.dealer.send(message, pixels):
            return False
        self._said = time.monotonic()
        return True

    def close(self, *, drain: bool = False) -> None:
        """Hang up for good."""
        if self.dealer is not None:
            self.dealer.close(drain=drain)
            self.dealer = None

    def _take(self, message: FromTrainer) -> None:
        match message:
            case Welcome():
                self._beat_s = message.beat_s
                self._complained = False
                _log.info("serving trainer %s", self._address)
            case Refused():
                _log.error("trainer %s refuses this worker: %s", self._address, message.reason)
                self._rest()
            case Bye():
                _log.info("trainer %s: %s; waiting for the next", self._address, message.reason)
                self._complain_at = time.monotonic() + _UNREACHABLE_S
                self._hang_up()
            case _:
                pass

    def _dial(self) -> None:
        self.dealer = Dealer(
            self._context, self._address,
            keys=self._settings.keys, insecure=self._settings.insecure,
        )  # fmt: skip

    def _greet(self, now: float) -> None:
        hello = Hello(
            uuid.uuid4().hex, socket.gethostname(), os.getpid(), SOFTWARE, self._settings.token
        )
        if self.say(hello):
            self._greeted = self._heard = now
        elif now > self._complain_at:
            self._complain(
                now, "cannot be reached (or does not know this worker's key); still trying"
            )

    def _complain(self, now: float, what: str) -> None:
        _log.warning("trainer %s %s", self._address, what)
        self._complain_at = now + _REMIND_S

    def _rest(self) -> None:
        self._hang_up()
        self._rest_until = time.monotonic() + _REFUSED_S

    def _hang_up(self) -> None:
        self.close()
        self._greeted = self._beat_s = None


class _ClipError(Exception):
    """Clip ``at`` of the lease cannot be had."""

    def __init__(self, at: int, why: VideoError) -> None:
        super().__init__(at, why)
        self.at = at
        self.why = why


def _visits(clips: list[Clip]) -> Iterator[tuple[int, int]]:
    """Runs [first, last) of clips of the same video."""
    first = 0
    for _, run in groupby(clips, key=lambda clip: clip.path):
        last = first + sum(1 for _ in run)
        yield first, last
        first = last


def _failure(lease: Lease, at: int, error: Exception) -> Failed:
    if isinstance(error, VideoError):
        dropped = isinstance(error, ShortVideoError)
        return Failed(lease.lease, at, error.reason[:4096], dropped)
    if isinstance(error, TransformError):
        return Failed(lease.lease, at, str(error)[:4096], fatal=True)
    if not isinstance(error, VideoloadError):
        _log.exception("lease %d, clip %r", lease.lease, lease.clips[at].path)
    return Failed(lease.lease, at, f"{type(error).__name__}: {error}"[:4096])


def serve(settings: WorkerSettings, channel: PrivateChannel | None = None) -> int:
    """Run a worker in this process until a signal ends it; returns the exit status: 0 after
    SIGTERM or when the starting process is gone, 130 after Ctrl-C. Raises TransportError."""
    logging.basicConfig(
        # What a trainer's own worker does is the trainer's to tell.
        level=logging.WARNING if settings.token else logging.INFO,
        format=f"videoload worker {os.getpid()}: %(message)s",
        force=True,
    )
    _limit_memory()
    worker = Worker(settings, channel)
    status = 0

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal status
        status = 130 if number == signal.SIGINT else 0
        worker.stop(signal.Signals(number).name)

    signal.signal(signal.SIGTERM, on_signal)
    # Ctrl-C reaches every process of a terminal; a started worker leaves it to who started it.
    signal.signal(signal.SIGINT, signal.SIG_IGN if channel is not None else on_signal)
    worker.run()
    return status


def main() -> int:
    """``python -m videoload.worker FD``: a worker started by this host's supervisor; FD is its end
    of the private channel."""
    _die_with_parent()
    channel = PrivateChannel(socket.socket(fileno=int(sys.argv[1])))
    try:
        first = channel.receive(_WELCOME_S)
        if first is None or not isinstance(first[0], WorkerSettings):
            raise ProtocolError("the private channel did not begin with the settings")
        return serve(first[0], channel)
    except EOFError:
        return 0
    except VideoloadError as error:
        print(f"videoload worker: {error}", file=sys.stderr)
        return 1


def _limit_memory() -> None:
    """A file that asks for more gets an error, and its worker lives on."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = _MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(_MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def _die_with_parent() -> None:
    """Linux kills this process when the thread that started it ends, even in a hung decoder."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


if __name__ == "__main__":
    sys.exit(main())

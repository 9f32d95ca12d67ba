"""How a stream is read: by a ``for`` loop, by `tf.data`, by Keras.

A *reader* is one way through the stream, used by one thread at a time. Each batch that it gets is
the slot itself. The slot is lent until the last array that looks into it dies. A consumer that
keeps nearly all slots gets copies.
"""

from __future__ import annotations

import copy
import itertools
import logging
import math
import time
import weakref
from collections import Counter
from collections.abc import Callable, Generator
from functools import cached_property, partial
from typing import Any

import numpy as np

from videoload.clips.sample_spec import heard_in
from videoload.engine.engine import Engine
from videoload.engine.open_streams import Loan, OpenStream, ReaderQueue
from videoload.errors import VideoloadError
from videoload.leases.commands import Ready
from videoload.plan.identity import Identity
from videoload.plan.options import StreamOptions
from videoload.plan.plan import Batch, BatchWithInfo, batch_info
from videoload.stats.stats import StreamRecord, StreamStats
from videoload.transport.slots import aligned_copy

_log = logging.getLogger(__name__)

_WAIT_S = 0.2  # A waiting consumer sees Ctrl-C after this time at most.
_IDLE_WAIT_S = 0.05  # The same, if `idle` is called meanwhile.
_REMIND_S = 60.0  # Between two warnings about a batch that does not come.
_PEEK = 2  # Batches that are read only to look at a stream: Keras takes two.
_KEPT = 2  # These slots are never lent. A consumer that holds all others gets copies.


class Readers:
    """The readers of one stream. The stream lives as long as this object.

    Attributes:
        spec: The stream's clips; the native size is known.
        code: The user's modules, as they were when the stream was made.
        on_batch: Called with the step, clips and labels of each batch that is handed over.
        error: What ended the last reading, or None.
        step: Number of batches, over all epochs, up to the last one that a loop has taken.
        close_client: Ends this stream and all others of its client, which this keeps alive.
    """

    def __init__(
        self,
        engine: Engine,
        source: OpenStream,
        options: StreamOptions,
        close_client: Callable[[], None],
    ) -> None:
        self.close_client = close_client
        self._engine = engine
        self._source = source
        self._numbers = itertools.count()
        self._begun: set[int] = set()  # Steps from which more than a peek was read.
        self._has_warned = False
        self._told_of_store = False
        self._when_closed: list[weakref.WeakMethod[Callable[[], None]]] = []
        self.options, self.catalog, self.spec = options, source.catalog, source.spec
        self.code = source.code
        self.meter = source.meter
        self.quarantine = source.quarantine
        self._start = 0  # Where the next loop begins: no loop has read its epoch to the end.
        self.step = 0  # Behind the last batch that a loop has taken.
        self.on_batch: Callable[[int, Any, Any], None] | None = None
        self.error: VideoloadError | None = None
        engine.post(lambda: engine.streams.add(source))
        weakref.finalize(self, engine.post, lambda: engine.streams.drop(source)).atexit = False

    def __len__(self) -> int:
        """Batches per epoch."""
        return len(self._source.plan)

    @cached_property
    def identity(self) -> Identity:
        """What the stream is. Nothing of it changes, and a training may ask for it in each step."""
        return Identity.of(self.catalog, self.spec, self.options, self.code.digests)

    def steps(self, start_step: int, epochs: int) -> range:
        """The steps from ``start_step`` to the end of epoch number ``epochs``. Raises SpecError."""
        return self._source.plan.steps(start_step, epochs)

    def next_epoch(self) -> range:
        """The steps of the next loop: to the end of the first epoch that no loop has read to its
        end."""
        epochs = self._start // len(self) + 1
        return self._source.plan.steps(self._start, epochs)

    def taken(self, step: int) -> None:
        """A loop has taken the batch of a step of `next_epoch`."""
        self.step = step + 1
        if self.step % len(self) == 0:  # The caller may not ask for one more, like `zip`.
            self._start = max(self._start, self.step)

    def go_to(self, step: int) -> None:
        """Have the next loop begin at a step."""
        self._start = self.step = step

    def new_reader(self) -> int:
        """A number that no other reader of the client has."""
        return self._source.id << 32 | next(self._numbers)

    def read(
        self,
        steps: range,
        idle: Callable[[], None] | None = None,
        *,
        reader: int | None = None,
        counts: bool = True,
        info: bool = False,
        pauses: bool = False,
        repeats: bool = False,
        taken: Callable[[int], None] = lambda step: None,
    ) -> Generator[Any, None, None]:
        """Read the batches of ``steps``, with their BatchInfo if ``info``.

        ``idle`` is called every 50 ms of a wait, and at its beginning if a worker waits for a slot.
        A ``reader`` with a number notes by itself in the meter when it waits. Unless it ``counts``,
        the reading is in no figures, and `on_batch` does not see its batches. With ``pauses``, None
        is yielded every 50 ms of a wait. With ``repeats``, it is no mistake to read steps again.
        ``taken`` is called with each step before its batch is yielded, also for an empty batch,
        which is not. Raises what ended the stream.
        """
        engine, source, queue = self._engine, self._source, ReaderQueue()
        number = self.new_reader() if reader is None else reader
        meter = self.meter if counts and reader is None else None
        self.error = None
        reading = _Reading()
        end = weakref.finalize(reading, engine.post, lambda: engine.streams.end(source, number))
        end.atexit = False
        try:
            engine.check()
            engine.post(lambda: engine.streams.begin(source, number, queue, steps))
            engine.collect_garbage()
            if counts and not repeats:
                self._check_repetition(steps)
            for at, step in enumerate(steps):
                if counts and at == _PEEK:
                    self._begun.add(steps.start)
                if meter is not None:
                    meter.asked(number)
                batch, warn_at = queue.take(0), time.monotonic() + _REMIND_S
                while batch is None:
                    if time.monotonic() > warn_at:
                        warn_at += _REMIND_S
                        self._warn_of_wait(step)
                    if (batch := self._wait(queue, number, idle)) is not None:
                        break
                    if pauses:
                        yield None
                    else:
                        engine.calls.check_thread()
                source.meter.batch_waited(queue.waited_s)
                source.step = batch.step
                if meter is not None:
                    meter.got(number, len(batch.samples))
                if batch.samples:
                    # No variable holds the arrays: it would keep the slot.
                    yield self._noted(
                        batch.step, self._hand_over(batch, queue, idle, info=info), counts,
                        partial(taken, step),
                    )  # fmt: skip
                else:
                    engine.post(partial(engine.streams.give_back, source, batch), about_leases=True)
                    queue.handed_over()
                    taken(step)
                if meter is not None:
                    self.log_epoch(step)
        except VideoloadError as error:
            self.error = copy.copy(error)
            raise
        finally:
            end()
            if meter is not None:
                meter.left(number)

    def _warn_of_wait(self, step: int) -> None:
        """Say who keeps the consumer waiting. If no worker is connected, `Membership` says so."""
        if states := Counter(worker.state for worker in self._engine.membership.records()):
            told = ", ".join(f"{states[state]} {state}" for state in sorted(states))
            _log.warning(
                "batch %d has not come for %.0f s; workers: %s (if all are silent or return again "
                "and again, their storage may be down, or all clips hang)", step, _REMIND_S, told,
            )  # fmt: skip

    def _check_repetition(self, steps: range) -> None:
        """Warn, once per stream, if a shuffled stream is read again from the same step. A stream
        that is not shuffled may be for validation, where this is meant."""
        if steps.start in self._begun and self.options.shuffle and not self._has_warned:
            self._has_warned = True
            _log.warning(
                "the stream is read from step %d again and gives the same batches as before: "
                "batches() and dataset() begin at start_step=, and a loop that was left early "
                "begins its epoch again; give start_step=, with epochs= for all epochs, or loop "
                "over the stream itself to the end of its epoch", steps.start,
            )  # fmt: skip

    def _noted(
        self, step: int, batch: Batch | BatchWithInfo, counts: bool, taken: Callable[[], None]
    ) -> Batch | BatchWithInfo:
        if counts and self.on_batch is not None:
            self.on_batch(step, *batch[:2])
        taken()
        return batch

    def _wait(
        self, queue: ReaderQueue, reader: int, idle: Callable[[], None] | None
    ) -> Ready | None:
        """The reader's next batch, or None after 200 ms, with ``idle`` after 50 ms. Raises what
        ended the stream, and what ``idle`` raises."""
        engine = self._engine
        # This is posted in each turn: another reader's turn may have taken the batch back.
        engine.post(lambda: engine.streams.want(reader), about_leases=True)
        if idle is not None and engine.has_credit:  # A worker waits as well, maybe for a slot.
            idle()
        batch = queue.take(_WAIT_S if idle is None else _IDLE_WAIT_S)
        if batch is None and engine.stopped:
            batch = queue.take(_WAIT_S)  # The batch, or the error, may just have come.
        if batch is None:
            engine.check()
            if idle is not None:
                idle()
        return batch

    def _hand_over(
        self, batch: Ready, queue: ReaderQueue, idle: Callable[[], None] | None, *, info: bool
    ) -> Batch | BatchWithInfo:
        """The arrays of a batch. ``idle`` is called before a copy is made: it may end a loan.

        A Ctrl-C may strike between any two steps. The slot is still given back: by the queue's end
        until the array exists, and then by the array's end. Twice does no harm.
        """
        source, engine = self._source, self._engine
        shape = (len(batch.samples), source.clip_bytes)
        slot = batch.slot
        if batch.rows is not None:  # Close the gaps. Nobody else writes into this slot any more.
            whole = source.arena.view(slot, 0, (max(batch.rows) + 1, source.clip_bytes))
            for to, row in enumerate(batch.rows):
                if to != row:
                    whole[to] = whole[row]

        def give_back() -> None:
            engine.post(lambda: engine.streams.give_back(source, batch), about_leases=True)

        most = source.arena.slots - min(_KEPT, source.arena.slots // 2)
        held = self._held()
        if held >= most and idle is not None:
            idle()
            held = self._held()
        if held >= most:
            rows = aligned_copy(source.arena.view(slot, 0, shape))
            give_back()
            source.meter.copied += 1
            if source.meter.copied == 1:
                _log.warning(
                    "%d of %d batches in memory are still referenced; the stream goes on with "
                    "copies (keep fewer, or give more slots=)",
                    held, source.arena.slots,
                )  # fmt: skip
        else:
            rows = source.arena.lend(slot, shape, give_back)
            assert rows.base is not None
            source.loans[slot] = Loan(batch, weakref.ref(rows.base))
        queue.handed_over()
        videos = np.array([sample.video for sample in batch.samples], np.int64)
        pairs = batch.frames.reshape(len(videos), 2, *source.spec.frames_shape)
        frames, times = np.ascontiguousarray(pairs.swapaxes(0, 1))
        clips, targets = source.spec.arrays(rows), source.catalog.targets_of(videos, frames)
        if not info:
            return clips, targets
        shown = times.view(np.float64)
        heard = heard_in(source.spec, rows)
        come_from = batch_info(batch.step, batch.samples, source.catalog, frames, shown, heard)
        return clips, targets, come_from

    def _held(self) -> int:
        """How many slots are lent to arrays that still live."""
        return sum(loan.array() is not None for loan in list(self._source.loans.values()))

    # Figures

    def stats(self, window_s: float = math.inf) -> StreamStats:
        """What the stream did in the last ``window_s`` seconds."""
        return self.record(window_s).stats

    def record(self, window_s: float) -> StreamRecord:
        """All figures, with those of the last ``window_s`` seconds."""
        engine = self._engine
        return self._source.record(
            engine.membership.records(), engine.membership.departed, window_s
        )

    def log_epoch(self, step: int) -> None:
        """Log the figures of an epoch if ``step`` was its last one, and once if the frame store has
        no room for all videos."""
        tells_of_store = self.meter.lacks_room and not self._told_of_store
        if (step + 1) % len(self) or not (tells_of_store or _log.isEnabledFor(logging.INFO)):
            return
        figures = self.stats(self.meter.since("epoch"))
        _log.info("epoch %d: %s", (step + 1) // len(self), figures)
        if figures.full_store is not None and tells_of_store:
            self._told_of_store = True
            _log.warning("%s", figures.full_store)

    # The end

    def when_closed(self, call: Callable[[], None]) -> None:
        """Have a method called once the client is closed. Its object is not kept alive."""
        self._when_closed.append(weakref.WeakMethod(call))

    def closed(self) -> None:
        """The client is closed."""
        for method in self._when_closed:
            if (call := method()) is not None:
                call()


class _Reading:
    """Lives as long as one reading. Its end ends the reader, even if a Ctrl-C strikes before the
    ``finally`` does."""

    __slots__ = ("__weakref__",)

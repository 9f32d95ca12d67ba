"""Readers of a stream: a ``for`` loop, `tf.data`, Keras.

A *reader* is one way through the stream, used by one thread at a time. It gets the slot itself,
until the last array that refers to it dies. A consumer that holds nearly all slots gets copies.
"""

from __future__ import annotations

import copy
import logging
import sys
import time
import weakref
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from videoload.catalog.catalog import Catalog
from videoload.clips.sample_spec import SampleSpec
from videoload.engine.engine import Engine
from videoload.engine.meter import Meter
from videoload.engine.open_streams import Loan, OpenStream
from videoload.engine.reader_queue import ReaderQueue
from videoload.engine.stats import StreamRecord
from videoload.errors import VideoError, VideoloadError
from videoload.logs import Log
from videoload.plan.batches import Batch, BatchWithInfo, collate
from videoload.plan.epoch_cursor import EpochCursor
from videoload.plan.identity import Identity
from videoload.plan.options import CheckedOptions
from videoload.plan.plan import Plan
from videoload.plan.windows import Lengths
from videoload.scheduler.commands import Ready
from videoload.wire.slots import aligned_copy

_log = Log(__name__)

_WAIT_S = 0.2  # A waiting consumer sees Ctrl-C after this time at most.
_IDLE_WAIT_S = 0.05  # The same, if `idle` is called meanwhile.
_REMIND_S = 60.0  # Between two warnings about a missing batch.
# These slots of a reader are never delivered. A consumer that holds all others gets copies.
_KEPT = 2
_PEEK = 2  # Batches that are read only to look at a stream: Keras takes two.
_ENDLESS = 1 << 40  # steps: passes continue in the next epochs


class ReadableStream:
    """A stream as frameworks and tools read it; `client.Stream` adds what a script calls. The
    stream lives as long as this object.

    Attributes:
        source: The stream, as the I/O thread has it.
        options: Its options, by their names in `Client.stream`.
        cursor: Which epoch the next pass has.
        close_client: Ends this stream and all others of its client, which this holds.
    """

    def __init__(
        self,
        engine: Engine,
        source: OpenStream,
        options: CheckedOptions,
        close_client: Callable[[], None],
    ) -> None:
        self.source, self.close_client = source, close_client
        self.options = options
        self.cursor = EpochCursor(len(self.plan), ranks=options["shard"][1])
        self._engine = engine
        self._lengths = Lengths(source.catalog, source.spec)
        self._begun: set[int] = set()  # Steps from which more than a peek was read.
        self._warned = False
        self._when_closed: list[weakref.WeakMethod[Callable[[], None]]] = []
        # By its next step: the reader of the last pass that reached its end.
        self._resting: dict[int, Reading] = {}
        self._error: VideoloadError | None = None  # that ended the last reading
        _drop_with(self, engine, source)
        engine.post_about(source, engine.streams.add)

    @property
    def plan(self) -> Plan:
        """Its batches."""
        return self.source.state.plan

    @property
    def spec(self) -> SampleSpec:
        """Its clips; the native size is known."""
        return self.source.spec

    @property
    def clip(self) -> Any:
        """Its clips, as a script names them: `ClipSpec`, or a dict of them."""
        return self.spec.given

    @property
    def catalog(self) -> Catalog:
        """Its videos and labels."""
        return self.source.catalog

    @property
    def copies(self) -> str:
        """The copies that the stream uses of files that the trainer does not have, for
        `use_copies`; "" if there are none."""
        return "" if self.source.state.files is None else self.source.state.files.pinned()

    def use_copies(self, text: str) -> None:
        """Use the same copies as a stream before. Raises ValueError."""
        if text and self.source.state.files is not None:
            self.source.state.files.pin(text)

    @cached_property
    def identity(self) -> Identity:
        """The identity of the stream. It does not change, and a script may read it in each step."""
        return Identity.of(self.catalog, self.spec, self.options, self.source.code)

    def check_process(self) -> None:
        """Raise ClosedError in a forked process: each step is checked, since the slots are memory
        of both processes, and the parent fills them again."""
        self._engine.check_process()

    def read(
        self,
        steps: range,
        idle: Callable[[], None] | None = None,
        *,
        counts: bool = True,
        info: bool = False,
        pauses: bool = False,
        follows: bool = False,
        taken: Callable[[int], None] = lambda step: None,
        ends: Callable[[int], bool] = lambda step: False,
    ) -> Generator[Any, None, None]:
        """Read the batches of ``steps``, with their BatchInfo if ``info``.

        ``idle`` is called every 50 ms of a wait, and at its beginning if a worker waits for a slot.
        Unless it ``counts``, the reading is in no figures. With ``pauses``, None is yielded every
        50 ms of a wait, and for an empty batch. If it ``follows``, the steps are a pass, and the
        following steps are prefetched for the next pass. ``taken`` is called with each step before
        its batch is yielded, also for an empty batch, which is not. ``ends`` is called with the
        step while its batch is awaited; if it returns True, the reading ends there. Raises what
        ended the stream.
        """
        engine, source = self._engine, self.source
        goes_on, over, self._error = follows and self.options["ordered"], False, None
        reading = self._reading(steps, goes_on=goes_on)
        number = reading.id
        meter = source.meter if counts else None
        try:
            engine.check()
            for step in steps:
                self.check_process()  # one may have been forked since the last step
                if counts and not follows:
                    self._check_repetition(steps, step)
                if meter is not None:
                    meter.requested(number)
                for batch in reading.awaited(step, idle):
                    if batch is None and ends(step):
                        return
                    if batch is None and pauses:
                        yield None
                    elif batch is None:
                        engine.calls.check_thread()
                assert batch is not None
                source.step = batch.step
                if meter is not None and batch.samples:  # else it still waits
                    meter.got(number, len(batch.samples))
                reading.next = step + 1
                taken(step)
                if meter is not None:
                    self._log_epoch(step)
                if batch.samples:
                    # No variable holds the arrays: it would hold the slot.
                    yield self._hand_over(batch, reading.queue, idle, info=info)
                else:
                    reading.give_back(batch)
                    if pauses:
                        yield None
            over = True
        except GeneratorExit:
            over = True  # the caller may not request one more than the last
            raise
        except VideoloadError as error:
            self._error = copy.copy(error)
            raise
        finally:
            if over and goes_on and reading.next == steps.stop:
                self._resting = {steps.stop: reading}
            else:
                reading.end()
            self._leave(number, meter, tells=counts)

    def _reading(self, steps: range, *, goes_on: bool) -> Reading:
        """Return a reader of ``steps``; if it ``goes_on``, of all that follow, which may have
        begun."""
        resting, self._resting = self._resting.pop(steps.start, None), {}
        if goes_on and resting is not None:
            return resting
        ahead = range(steps.start, steps.start + _ENDLESS) if goes_on else steps
        return Reading(self._engine, self.source, ahead)

    def _check_repetition(self, steps: range, step: int) -> None:
        """Warn, once per stream, if a shuffled stream is read by number from a step for a second
        time. A stream that is not shuffled may be for validation, where this is meant."""
        at = step - steps.start
        if at == _PEEK:
            self._begun.add(steps.start)
        elif not at and steps.start in self._begun and self.options["shuffle"] and not self._warned:
            self._warned = True
            _log.warning(
                "the stream is read from step %d again and gives the same batches as before: "
                "omit start_step= and epochs= to read the next epoch", steps.start,
            )  # fmt: skip

    def _hand_over(
        self, batch: Ready, queue: ReaderQueue, idle: Callable[[], None] | None, *, info: bool
    ) -> Batch | BatchWithInfo:
        """Return the arrays of a batch. ``idle``: see `_lend`.

        A Ctrl-C may strike between any two steps. The slot is still given back: by the queue's end
        until the array exists, and then by the array's end. Twice does no harm.
        """
        rows = self._lend(batch, idle)
        queue.handed_over()
        source = self.source
        spec = cast("SampleSpec", source.layout_of(batch.samples[0]).task)
        look, source.look = source.look, None
        made = collate(
            batch.step, batch.samples, self.catalog, spec, rows, batch.info, self._lengths,
            info=info or look is not None,
        )  # fmt: skip
        if look is not None and len(made) == 3:
            try:
                look(made)
            except Exception:  # who draws for people ends no training
                _log.exception("the live page cannot show a batch")
        return made if info else made[:2]

    def _lend(self, batch: Ready, idle: Callable[[], None] | None) -> npt.NDArray[np.uint8]:
        """Return the clips of a batch, uint8 [B, bytes of a clip]. ``idle`` is called before a
        copy: it may free a slot."""
        engine, source = self._engine, self.source  # the arrays do not hold this object
        clip_bytes = source.layout_of(batch.samples[0]).clip_bytes
        shape, slot, memory = (len(batch.samples), clip_bytes), batch.slot, source.memory
        if batch.rows is not None:  # Close the gaps. No worker writes into this slot any more.
            whole = memory.view(slot, 0, (max(batch.rows) + 1, clip_bytes))
            for to, row in enumerate(batch.rows):
                if to != row:
                    whole[to] = whole[row]

        give_back = partial(
            engine.post_about, source, engine.streams.give_back, batch, about_leases=True
        )
        most = batch.slots - max(1, min(_KEPT, batch.slots // 2))
        if (held := self._held(batch.reader)) >= most and idle is not None:
            idle()
            held = self._held(batch.reader)
        if held < most:
            rows = memory.lend(slot, shape, give_back)
            assert rows.base is not None
            source.loans[slot] = Loan(batch, weakref.ref(rows.base))
            return rows
        rows = aligned_copy(memory.view(slot, 0, shape))
        give_back()
        source.meter.copied += 1
        if source.meter.copied == 1:
            _log.warning(
                "%d of %d batches in memory are still referenced; further batches are copied (hold "
                "fewer, or give more slots=)", held, batch.slots,
            )  # fmt: skip
        return rows

    def _held(self, reader: int) -> int:
        """Return how many slots of a reader belong to live arrays."""
        return sum(
            loan.batch.reader == reader and loan.array() is not None
            for loan in list(self.source.loans.values())
        )

    # Figures

    def record(self, window_s: float) -> StreamRecord:
        """Return all statistics, with those of the last ``window_s`` seconds."""
        return self.source.record(self._engine.membership.records(), window_s)

    def _log_epoch(self, step: int) -> None:
        """Log the figures of an epoch if ``step`` was its last one."""
        if (step + 1) % len(self.plan):
            return
        self._note_lengths()
        if _log.shows(logging.INFO):
            figures = self.record(self.source.meter.since("epoch")).stats
            _log.info("epoch %d: %s", (step + 1) // len(self.plan), figures)

    def _leave(self, number: int, meter: Meter | None, *, tells: bool) -> None:
        if meter is not None:
            meter.left(number)
        if tells and not sys.is_finalizing():  # NumPy may be gone by then
            self._note_lengths()

    def _note_lengths(self) -> None:
        for text in self._lengths.warnings():
            _log.warning("%s", text)

    # The end

    def when_closed(self, call: Callable[[], None]) -> None:
        """Call a method once the client is closed, through a weak reference."""
        self._when_closed.append(weakref.WeakMethod(call))

    def closed(self) -> None:
        """The client is closed."""
        for method in self._when_closed:
            if (call := method()) is not None:
                call()


class Reading:
    """A reader of the engine, and its batches. It ends with this object, even if a Ctrl-C strikes
    before a ``finally`` does.

    Attributes:
        id: The reader's number. No other one of the client has it.
        queue: Its batches.
        next: The next step.
        end: Ends it.
    """

    __slots__ = ("__weakref__", "_engine", "_source", "end", "id", "next", "queue")

    def __init__(self, engine: Engine, source: OpenStream, steps: range) -> None:
        self._engine, self._source = engine, source
        self.id = number = source.state.id << 32 | next(source.readings)
        self.queue, self.next = ReaderQueue(), steps.start
        self.end = weakref.finalize(self, engine.post_about, source, engine.streams.end, number)
        self.end.atexit = False
        engine.post_about(source, engine.streams.begin, number, self.queue, steps)

    def awaited(self, step: int, idle: Callable[[], None] | None) -> Iterator[Ready | None]:
        """Yield None every 200 ms, with ``idle`` every 50 ms, and the batch of a step at last."""
        if (batch := self.queue.take(0)) is not None:
            yield batch
            return
        engine = self._engine
        engine.post_about(self._source, engine.streams.request_batch, self.id, about_leases=True)
        warn_at = time.monotonic() + _REMIND_S
        while batch is None:
            if time.monotonic() > warn_at:
                warn_at += _REMIND_S
                self._warn_of_wait(step)
            yield (batch := self._wait(idle))

    def _warn_of_wait(self, step: int) -> None:
        """Log why the consumer waits. If no worker is connected, `Membership` logs it."""
        if states := Counter(worker.state for worker in self._engine.membership.records()):
            who = ", ".join(f"{states[state]} {state}" for state in sorted(states))
            known = self._engine.storage_of(self._source.state.root).error
            why = known or "if all are silent or return again and again, all clips may hang"
            _log.warning(
                "still waiting for batch %d after %.0f s; workers: %s (%s)",
                step, _REMIND_S, who, why,
            )  # fmt: skip

    def _wait(self, idle: Callable[[], None] | None) -> Ready | None:
        """Return the reader's next batch, or None after 200 ms, with ``idle`` after 50 ms. Raises
        what ended the stream, and what ``idle`` raises."""
        engine, queue = self._engine, self.queue
        if idle is not None and engine.has_credit:  # A worker waits as well, maybe for a slot.
            idle()
        batch = queue.take(_WAIT_S if idle is None else _IDLE_WAIT_S)
        if batch is None and engine.stopped:
            batch = queue.take(_WAIT_S)  # The batch, or the error, may just have arrived.
        if batch is None:
            engine.check()
            if idle is not None:
                idle()
        return batch

    def give_back(self, batch: Ready) -> None:
        """The consumer needs nothing of this batch's slot."""
        engine, source = self._engine, self._source
        engine.post_about(source, engine.streams.give_back, batch, about_leases=True)
        self.queue.handed_over()


class _Run:
    """Lives as long as the iterator of a run."""


def _drop_with(owner: object, engine: Engine, source: OpenStream) -> None:
    """Have a stream dropped with its owner. Called before the stream is added: a Ctrl-C may strike
    between any two steps."""
    weakref.finalize(owner, engine.post_about, source, engine.streams.drop).atexit = False


def results(engine: Engine, source: OpenStream) -> Generator[tuple[int, Any], None, None]:
    """Yield the results of a task without clips: (row, its result, or a VideoError), in any order.
    The stream ends with the iterator. Raises the error that ended the stream."""
    engine.check()
    steps, paths = source.state.plan.steps(0, None), source.catalog.paths
    [most] = source.state.plan.sizes.values()  # rows of a batch
    run = _Run()
    _drop_with(run, engine, source)
    engine.post_about(source, engine.streams.add)
    reading = Reading(engine, source, steps)
    try:
        for step in steps:
            engine.check_process()
            for batch in reading.awaited(step, None):
                if batch is None:
                    engine.calls.check_thread()
            assert batch is not None
            reading.give_back(batch)
            found = {each.video: of for each, of in zip(batch.samples, batch.info, strict=True)}
            for row in range(batch.step * most, min((batch.step + 1) * most, len(paths))):
                why = source.state.quarantine.reasons.get(row, "")
                yield row, found[row] if row in found else VideoError(paths[row], why)
    finally:
        reading.end()

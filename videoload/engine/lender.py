"""A batch on its way into a consumer's hands: the slot itself, lent until the last array that looks
into it dies, or a copy where too many slots are held."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable

import numpy as np

from videoload.engine.engine import Engine
from videoload.engine.open_streams import Loan, OpenStream, ReaderQueue
from videoload.leases.commands import Ready
from videoload.plan.plan import Batch, BatchWithInfo, batch_info
from videoload.transport.slots import aligned_copy

_log = logging.getLogger(__name__)

_WAIT_S = 0.2  # a waiting consumer sees Ctrl-C after this long at most
_IDLE_WAIT_S = 0.05  # the same with something to do meanwhile
_KEPT = 2  # so many slots are never lent: a consumer that holds all others gets copies


class Lender:
    """Waits for the batches of a stream, and hands them over."""

    def __init__(self, engine: Engine, source: OpenStream) -> None:
        self._engine = engine
        self._source = source

    def wait(self, queue: ReaderQueue, reader_id: int, idle: Callable[[], None] | None) -> Ready:
        """The reader's next batch. ``idle`` is called every 50 ms, and before that where a worker
        waits for a slot. Raises what ended the stream, and what ``idle`` raises."""
        while (batch := self.wait_a_while(queue, reader_id, idle)) is None:
            self._engine.calls.check_thread()
        return batch

    def wait_a_while(
        self, queue: ReaderQueue, reader_id: int, idle: Callable[[], None] | None
    ) -> Ready | None:
        """The same, or None after 50 ms (without ``idle`` after 200)."""
        engine = self._engine
        # Again and again: what was ready may go back when another reader has its turn.
        engine.post(lambda: engine.want(reader_id), about_leases=True)
        if idle is not None and engine.has_credit:  # some worker waits as well, maybe for a slot
            idle()
        batch = queue.take(_WAIT_S if idle is None else _IDLE_WAIT_S)
        if batch is None and engine.stopped:
            batch = queue.take(_WAIT_S)  # it, or the error, may just have come
        if batch is None:
            engine.check()
            if idle is not None:
                idle()
        return batch

    def hand_over(
        self, batch: Ready, queue: ReaderQueue, idle: Callable[[], None] | None, *, info: bool
    ) -> Batch | BatchWithInfo:
        """A batch for the consumer, with its ``info`` if that is wanted. ``idle`` is called before
        a copy is made: it may end a loan.

        A Ctrl-C may strike between any two steps: the slot is given back all the same, by the
        queue's end until the array's end does it. Once is enough: see `Engine.give_back`."""
        source, engine = self._source, self._engine
        shape = (len(batch.samples), source.spec.clip_bytes)
        slot = batch.slot
        if batch.rows is not None:  # close the gaps: nobody else writes into this slot any more
            whole = source.arena.view(slot, 0, (max(batch.rows) + 1, source.spec.clip_bytes))
            for to, row in enumerate(batch.rows):
                if to != row:
                    whole[to] = whole[row]

        def give_back() -> None:
            engine.post(lambda: engine.give_back(source, batch), about_leases=True)

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
        frames = batch.frames.reshape(len(videos), *source.spec.frames_shape)
        clips, targets = source.spec.arrays(rows), source.catalog.targets_of(videos, frames)
        if not info:
            return clips, targets
        told = batch_info(batch.step, batch.samples, source.catalog, frames, source.rates[videos])
        return clips, targets, told

    def _held(self) -> int:
        """How many slots consumers reference arrays of."""
        return sum(loan.array() is not None for loan in list(self._source.loans.values()))

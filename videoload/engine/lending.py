"""A batch in the hands of its consumer: the slot itself, lent until the last array that looks into
it dies. A consumer that keeps nearly all slots gets copies."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from videoload.engine.engine import Engine
from videoload.engine.open_streams import Loan, OpenStream
from videoload.logs import Log
from videoload.scheduler.commands import Ready
from videoload.wire.slots import aligned_copy

_log = Log(__name__)

_KEPT = 2  # These slots of a reader are never lent. A consumer of all others gets copies.


def lend(
    engine: Engine, source: OpenStream, batch: Ready, idle: Callable[[], None] | None
) -> npt.NDArray[np.uint8]:
    """The clips of a batch, uint8 [B, bytes of a clip]. ``idle`` is called before a copy is made:
    it may end a loan."""
    clip_bytes = source.layout_of(batch.samples[0]).clip_bytes
    shape, slot, memory = (len(batch.samples), clip_bytes), batch.slot, source.memory
    if batch.rows is not None:  # Close the gaps. Nobody else writes into this slot any more.
        whole = memory.view(slot, 0, (max(batch.rows) + 1, clip_bytes))
        for to, row in enumerate(batch.rows):
            if to != row:
                whole[to] = whole[row]

    def give_back() -> None:
        engine.post_about(
            source, lambda: engine.streams.give_back(source, batch), about_leases=True
        )

    most = batch.slots - max(1, min(_KEPT, batch.slots // 2))
    if (held := _held(source, batch.reader)) >= most and idle is not None:
        idle()
        held = _held(source, batch.reader)
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


def _held(source: OpenStream, reader: int) -> int:
    """How many slots of a reader are lent to arrays that still live."""
    return sum(
        loan.batch.reader == reader and loan.array() is not None
        for loan in list(source.loans.values())
    )

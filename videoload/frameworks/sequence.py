"""A stream as a ``keras.utils.PyDataset``, for code that needs a length and random access.

The stream is a pure function of its arguments, so ``[i]`` is the same batch in any order of
requests. Numbers in order share one pass over the stream, which is prefetched. Any other number is
a seek, and nothing is prefetched after it. Keras looks at the first two batches before it begins;
that is a seek as well.

TensorFlow holds Keras's adapter of a PyDataset in its global graph forever, and the adapter holds
the PyDataset. So the adapter gets only a weak reference: a stream ends, and its slots are freed,
when ``fit`` has ended and the sequence is not referenced elsewhere.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Generator
from types import FrameType
from typing import Any

from videoload.engine.readers import ReadableStream
from videoload.errors import ClosedError, SpecError, VideoloadError
from videoload.frameworks import tfdata
from videoload.plan.batches import Batch, BatchWithInfo
from videoload.plan.epoch_cursor import Pass
from videoload.plan.options import check_numbered

try:
    import keras
except ImportError as error:
    raise VideoloadError(
        f"stream.sequence needs Keras and its backend ({error}): pip install tensorflow, or set "
        "KERAS_BACKEND to one that is installed"
    ) from None

_ENDLESS = 1 << 40  # steps: a reading in order continues in the next epochs


class StreamSequence(keras.utils.PyDataset):  # type: ignore[misc]  # Keras has no types
    """The batches of one epoch of a stream, by number; created by `Stream.sequence`. `on_epoch_end`
    advances to the next epoch, if three batches were requested, or all.
    """

    def __init__(self, stream: ReadableStream) -> None:
        super().__init__()
        check_numbered(stream.options, "a sequence")
        if len(stream.plan.sizes) > 1:
            raise SpecError(
                "a sequence needs batches of one shape, as Keras looks at the first two alone: use "
                "dataset(), or give one length and one size"
            )
        self._cursor = stream.cursor
        self._pass = self._begin()
        self._stream: ReadableStream | None = stream
        stream.when_closed(self._let_go)
        self._lock = threading.Lock()  # Keras may use several threads.
        self._reader: Generator[BatchWithInfo, None, None] | None = None
        self._next = self._stop = -1  # The step that follows, and the one at which `_reader` ends.
        self._given: set[int] = set()  # The steps that were requested in this epoch.
        self._idle: tfdata.Idle | None = None
        if keras.config.backend() == "tensorflow":
            tfdata.expect_reader(stream)

    def __len__(self) -> int:
        """Return batches of an epoch."""
        return self._cursor.size

    @property
    def epoch(self) -> int:
        """The epoch of these batches, from 0."""
        return self._pass.steps.start // len(self)

    def __getitem__(self, index: int) -> Batch:
        """Batch number ``index`` of the epoch: (clips, labels). Raises what the stream raises."""
        if self._stream is not None:
            self._stream.check_process()  # before the lock, which another thread may have held
        with self._lock:
            step = self._pass.steps[index]  # raises IndexError
            if self._reader is None or step != self._next:
                self._seek(step, follows=step in (self._next, self._pass.steps.start))
            assert self._reader is not None
            if self._idle is not None:
                self._idle.requested = time.monotonic()
            try:
                batch = next(self._reader)[:2]
            except BaseException:
                self._reader = None
                raise
            self._next = step + 1
            if step not in self._given:
                self._given.add(step)
                self._pass.taken(step)
            if self._next == self._stop:
                self._close()
            return batch

    def on_epoch_begin(self) -> None:
        """Prepare an epoch. Keras calls this before it requests its batches."""
        self._weaken(sys._getframe(1))

    def on_epoch_end(self) -> None:
        """Advance to the next epoch, if enough batches of this one were requested."""
        self._weaken(sys._getframe(1))
        with self._lock:
            self._given.clear()
            self._pass = self._begin()

    def _begin(self) -> Pass:
        own = self._cursor.begin()
        if len(own.steps) < self._cursor.size:
            raise SpecError(
                f"the stream stands at batch {own.steps.start}, in the middle of an epoch: read "
                "its rest with a loop or dataset(), then make a sequence"
            )
        return own

    def _seek(self, step: int, *, follows: bool) -> None:
        """Read from ``step`` on, or only ``step`` unless it ``follows`` the step before it."""
        self._close()
        if self._stream is None:
            raise ClosedError("the client is closed")
        # TensorFlow's iterators release memory only while something calls it: see `tfdata`.
        self._idle = tfdata.Idle() if keras.config.backend() == "tensorflow" else None
        self._stop = step + (_ENDLESS if follows else 1)
        self._reader = self._stream.read(range(step, self._stop), self._idle)

    def _weaken(self, caller: FrameType) -> None:
        """Have the adapter that calls hold this object by a weak reference. Meanwhile `fit`,
        `evaluate` and `predict` hold it, which were given it. Without this, in a Keras that has no
        such adapter, the stream lives until its client is closed."""
        if not caller.f_globals.get("__name__", "").startswith("keras."):
            return  # f_locals would hold a user's arrays for longer
        adapter = caller.f_locals.get("self")
        holders: list[Any] = [adapter, getattr(adapter, "enqueuer", None)]
        for holder in holders:
            if getattr(holder, "py_dataset", None) is self:
                holder.py_dataset = weakref.proxy(self)

    def _let_go(self) -> None:
        self._reader = self._stream = None

    def _close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

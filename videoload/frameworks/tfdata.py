"""A stream as a ``tf.data.Dataset``, without a copy of any batch.

TensorFlow takes a C-contiguous, 64-byte aligned uint8 array from a generator without a copy, which
is 20 times as fast. It releases the array when the tensor dies. But the release is only queued: the
queue is emptied when a py_func finishes or an eager tensor is freed. A generator that blocks for a
free slot therefore blocks the release that it waits for. So while it waits, it makes and drops a
tiny tensor every 50 ms.

The generator runs ahead of the trainer, in TensorFlow's prefetch. So the cost of handing a batch
over is no part of the trainer's step, but the generator's waiting is not the trainer's either. A
small function behind the prefetch notes when the trainer asks for a batch. The trainer has got it
once it has asked and the batch is there, whichever comes last.

The generator runs in a thread of TensorFlow. That thread must have left Python before the
interpreter ends: otherwise it is killed inside, and the destructor of its iterator never returns.
So at exit the clients are closed first, and then their threads are waited for.

Freeing an iterator waits for the thread that prefetches. Python's garbage collector frees iterators
in cycles (a caught exception makes one) in any thread, also in the I/O thread, which alone brings
batches. So the wait for a batch is a loop in the graph, 50 ms each, that TensorFlow can break off.
For the same reason, no lock is taken that another thread may hold while it collects.
"""

from __future__ import annotations

import atexit
import logging
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, field
from traceback import walk_stack
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from videoload.catalog.joining import file_rows
from videoload.catalog.targets import named, shapes
from videoload.clips.sample_info import info_type
from videoload.clips.sample_spec import SampleSpec, frames_shape, with_shape
from videoload.engine.readers import StreamReaders
from videoload.errors import ClosedError, VideoloadError
from videoload.frameworks import interrupts
from videoload.frameworks.python_datasets import PythonDatasets, itself
from videoload.plan.batches import Batch, BatchInfo, BatchWithInfo, Sample, batch_of
from videoload.plan.lengths import Lengths

if TYPE_CHECKING:
    import tensorflow as tf

    from videoload.plan.epoch_cursor import EpochCursor, Pass

_log = logging.getLogger(__name__)

_PREFETCH = 1  # More would only take slots, which read ahead already.
_LEAVE_S = 2.0
_BEGINS_ANEW = (
    "you gave epochs= twice, to dataset() and to fit(epochs=%d): each epoch of fit trains on all "
    "epochs of the dataset. Leave it out of dataset(), and each epoch of fit is the next one"
)

_read_here: weakref.WeakSet[StreamReaders] = weakref.WeakSet()  # TensorFlow may be reading these.


def dataset(readers: StreamReaders, cursor: EpochCursor, *, info: bool = False) -> tf.data.Dataset:
    """What `Stream.dataset` returns: each iteration is one of the ``cursor``. The dataset keeps the
    stream alive."""
    try:
        import tensorflow as tf
    except ImportError:
        raise VideoloadError(
            "stream.dataset needs TensorFlow: pip install tensorflow; or, with Keras on another "
            "backend, use stream.sequence()"
        ) from None

    steps = cursor.begin().steps
    skips = readers.options["on_error"] == "skip"
    expect_reader(readers)
    reading = _Reading(readers, cursor, info=info)
    are_whole = readers.options["drop_remainder"] and not skips
    # Batches of several shapes: what they differ in is None.
    kinds = [
        _signature(readers, with_shape(readers.spec, shape), rows if are_whole else None, info)
        for shape, rows in readers.sizes.items()
    ]
    signature = tf.nest.map_structure(
        lambda one, *others: one.most_specific_common_supertype(others), *kinds
    )
    number, python = tf.TensorSpec((), tf.int64), PythonDatasets()

    def iteration(reader: tf.Tensor) -> tf.data.Dataset:
        again_and_again = tf.data.Dataset.from_tensors(reader).repeat()
        questions = python.calls(again_and_again, reading.requested)
        batches = python.map(again_and_again, reading.next_batch, signature)
        error = python.generator([reader], itself, reading.error, itself, signature)
        ahead = batches.concatenate(error).prefetch(_PREFETCH)
        # Behind each question comes the number of the dataset to ask. There is one dataset.
        return tf.data.Dataset.choose_from_datasets([ahead], questions)

    once = python.generator([], reading.begin, itself, reading.end, number).take(1)
    # AutoGraph would convert this function, and may leave the files that it writes for that.
    made = once.flat_map(tf.autograph.experimental.do_not_convert(iteration))
    made.readers, made.functions = readers, python  # They live as long as the dataset.
    if tf.inside_function():  # It forgets the dataset as soon as it is traced.
        reading.functions = python
    # Not in the middle of an epoch that a state was loaded for: the later ones are longer.
    if not skips and len(steps) == (len(readers) if cursor.length is None else cursor.length):
        made = made.apply(tf.data.experimental.assert_cardinality(len(steps)))
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    options.experimental_optimization.inject_prefetch = False  # It would ask before the trainer.
    # There is nothing to tune. The tuning thread sleeps twice as long each time, up to a minute,
    # and an iteration that ends meanwhile often waits for it.
    options.autotune.enabled = False
    return made.with_options(options)


@dataclass
class _Iteration:
    """One iteration over the dataset."""

    own: Pass
    step: int  # The step of the last batch that the trainer got.
    batches: Generator[tuple[Any, ...] | None, None, None] = field(init=False)
    requested: int = 0  # For this many more it asks.
    there: deque[tuple[int, int]] = field(default_factory=deque)  # Step and clips of each more.
    is_over: bool = False  # No more batches come.
    end: int = -1  # The last step, if the iteration came to it.
    # Questions and batches come in different threads.
    lock: threading.Lock = field(default_factory=threading.Lock)


class _Reading:
    """What TensorFlow calls.

    It calls `begin` when an iteration begins, `end` when its iterator is freed, `next_batch` in the
    thread that prefetches, and `requested` when the trainer asks for a batch. TensorFlow never
    frees these methods, so only the dataset holds the stream and the graphs.
    """

    def __init__(self, readers: StreamReaders, cursor: EpochCursor, *, info: bool) -> None:
        self._readers = weakref.ref(readers)
        self._cursor = cursor
        self._info = info
        self._first = cursor.start
        self._warned = False
        self._iterations: dict[int, _Iteration] = {}
        self._errors: dict[int, VideoloadError] = {}  # By reader: what ended it.
        self.functions: PythonDatasets | None = None  # Held here if nothing else holds them.

    def begin(self) -> int:
        """Begin an iteration. Returns the number of its reader."""
        readers, own = self._readers_now(), self._cursor.begin()
        reader = readers.new_reader()
        iteration = self._iterations[reader] = _Iteration(own, own.steps.start - 1)
        iteration.batches = self._batches(reader, iteration)
        epochs = -(-(self._cursor.length or 0) // len(readers))
        if epochs > 1 and own.steps.start > self._first and not self._warned:
            self._warned = True
            _log.warning(_BEGINS_ANEW, epochs)
        return reader

    def end(self, reader: np.int64) -> np.int64:
        """The iterator was freed, and so was its prefetch."""
        if (iteration := self._iterations.pop(int(reader), None)) is not None:
            iteration.batches.close()
        self._errors.pop(int(reader), None)
        return reader

    def next_batch(self, reader: np.int64) -> tuple[Any, ...] | None:
        """The next batch, or None if it does not come within 50 ms."""
        if (iteration := self._iterations.get(int(reader))) is None:
            raise StopIteration  # It has ended and is asked again.
        try:
            return next(iteration.batches)
        except VideoloadError as error:
            self._errors[int(reader)] = error.with_traceback(None)
            raise StopIteration from None

    def error(self, reader: np.int64) -> NoReturn:
        """Raise the error that ended the iteration, if one did. Called after the last batch."""
        raise self._errors.pop(int(reader), StopIteration())

    def requested(self, reader: np.int64) -> None:
        """The trainer asks for a batch, or whether there is one more."""
        readers, iteration = self._readers(), self._iterations.get(int(reader))
        if readers is not None and iteration is not None:
            with iteration.lock:
                readers.meter.requested(int(reader))
                iteration.requested += 1
            self._match(readers, int(reader), iteration)

    def _match(self, readers: StreamReaders, reader: int, iteration: _Iteration) -> None:
        """Note what the trainer got: a batch that it asked for and that is there."""
        with iteration.lock:
            before = iteration.step
            if iteration.requested and iteration.there:
                iteration.requested -= 1
                iteration.step, clips = iteration.there.popleft()
                readers.meter.got(reader, clips)
            if iteration.is_over and not iteration.there:
                iteration.step = max(iteration.step, iteration.end)
                self._iterations.pop(reader, None)
                readers.meter.left(reader)
            done = range(before + 1, iteration.step + 1)  # Some of them may have had no batch.
        for step in done:
            iteration.own.taken(step)
            readers.log_epoch(step)

    def _batches(
        self, reader: int, iteration: _Iteration
    ) -> Generator[tuple[Any, ...] | None, None, None]:
        readers = self._readers_now()
        idle, waits, step = Idle(), False, -1

        def taken(number: int) -> None:
            nonlocal step
            step = number

        def counted(batch: Batch | BatchWithInfo | None) -> tuple[Any, ...] | None:
            nonlocal waits
            if waits := batch is None:
                return None
            rows = len(next(iter(named(batch[1]).values())))
            iteration.there.append((step, rows))
            self._match(readers, reader, iteration)
            return batch if len(batch) == 2 else (*batch[:2], _as_dict(batch[2]))

        batches = readers.read(
            iteration.own.steps, idle, reader=reader, info=self._info, pauses=True,
            follows=self._cursor.length is None, taken=taken,
        )  # fmt: skip
        try:
            with suppress(StopIteration):
                while True:
                    # No variable holds the batch: it would keep the slot.
                    yield counted(next(batches))
                    if not waits:
                        idle.requested = time.monotonic()
            iteration.end = step
        except VideoloadError as error:
            # It is no error to leave `with Client` while a dataset lives. The text is logged, not
            # the error: a kept log record would keep frames.
            level = logging.INFO if isinstance(error, ClosedError) else logging.ERROR
            _log.log(level, "the stream stopped: %s", str(error))
            raise
        except GeneratorExit:
            iteration.there.clear()  # The trainer takes nothing any more.
            raise
        finally:
            iteration.is_over = True
            self._match(readers, reader, iteration)

    def _readers_now(self) -> StreamReaders:
        if (readers := self._readers()) is None:
            raise ClosedError("neither the dataset nor its stream is referenced any more")
        return readers


class Idle:
    """Called every 50 ms while a thread of TensorFlow waits for a batch, since ``requested``: it
    frees a tiny tensor, and raises ClosedError if Ctrl-C came."""

    def __init__(self) -> None:
        import tensorflow as tf

        self._began = self.requested = time.monotonic()
        self._tf = tf

    def __call__(self) -> None:
        self._tf.constant(0)
        if interrupts.is_due(self._began, self.requested):
            raise ClosedError("interrupted by Ctrl-C")


def expect_reader(readers: StreamReaders) -> None:
    """A thread of TensorFlow may read the stream from now on."""
    interrupts.listen()
    _read_here.add(readers)


def _signature(
    readers: StreamReaders, spec: SampleSpec, rows: int | None, info: bool
) -> tuple[Any, ...]:
    """The shapes and types of a batch of such samples, as nested tf.TensorSpec: those of a batch of
    one, of which nothing is known."""
    import tensorflow as tf

    def declared(kind: Any) -> Any:
        if isinstance(kind, dict):
            return {name: declared(each) for name, each in kind.items()}
        shape, dtype = kind
        return tf.TensorSpec((rows, *shape), tf.string if dtype == "str" else dtype)

    def of_array(array: Any) -> Any:
        return declared((array.shape[1:], "str" if array.dtype.hasobject else array.dtype))

    known, targets = np.zeros(1, info_type(spec)), readers.catalog.targets
    known["of"], known["lasts"], known["wide"] = -1, np.nan, np.nan
    pixels, catalog = np.zeros((1, spec.clip_bytes), np.uint8), file_rows(readers.catalog)
    one, lengths = Sample(0, 0, 0, 0, 0, 0), Lengths(catalog, readers.spec)
    clips, _, *more = batch_of(0, [one], catalog, spec, pixels, known, lengths, info=info)
    kind: Any = ((), "int64") if targets is None else shapes(targets, frames_shape(spec))
    found = [tf.nest.map_structure(of_array, each) for each in (clips, *map(_as_dict, more))]
    return found[0], declared(kind), *found[1:]


def _as_dict(info: BatchInfo) -> dict[str, Any]:
    values = {**info._asdict(), "lengths": info.lengths, "mask": info.mask}
    return {
        name: value
        for name, value in values.items()
        if name not in ("step", "digest_of") and value is not None
    }


@atexit.register
def _leave_python() -> None:
    """Close what TensorFlow may be reading, and wait until its threads have left Python."""
    for readers in list(_read_here):
        readers.close_client()
    deadline = time.monotonic() + _LEAVE_S
    quiet = 0  # Checks in a row that found no thread inside.
    while quiet < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
        others = sys._current_frames()
        del others[threading.get_ident()]
        quiet = 0 if any(map(_is_inside, others.values())) else quiet + 1


def _is_inside(frame: FrameType) -> bool:
    """Whether the thread with this frame reads for TensorFlow."""
    return any(caller.f_code.co_filename == __file__ for caller, _ in walk_stack(frame))

"""A stream as a ``tf.data.Dataset``, without a copy of any batch.

TensorFlow takes a C-contiguous, 64-byte aligned uint8 array from a generator without a copy, which
is 20 times as fast. It releases the array when the tensor dies. But the release is only queued: the
queue is emptied when a py_func finishes or an eager tensor is freed. A generator that blocks for a
free slot therefore blocks the release that it waits for. So while it waits, it creates and drops a
tiny tensor every 50 ms.

Nothing reads ahead of the trainer: the batches are ready in their slots, and to hand one over takes
0.1 ms longer than to take it from a prefetch of TensorFlow's. So the generator sees each request,
wait and batch of the trainer.

The generator runs in a thread of TensorFlow. That thread must have left Python before the
interpreter ends: otherwise it is killed inside, and the destructor of its iterator never returns.
So at exit the clients are closed first, and then their threads are waited for.

Freeing an iterator waits for a thread that prefetches, where a user or a distribution strategy has
one. Python's garbage collector frees iterators in cycles (a caught exception makes one) in any
thread, also in the I/O thread, the only one that delivers batches. So the wait for a batch is a
loop in the graph, 50 ms each, that TensorFlow can break off. For the same reason, no lock is taken
that another thread may hold while it collects.
"""

from __future__ import annotations

import atexit
import itertools
import logging
import sys
import threading
import time
import weakref
from collections.abc import Callable, Generator
from dataclasses import dataclass
from traceback import walk_stack
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from videoload.catalog.joining import file_rows
from videoload.catalog.targets import shapes
from videoload.clips.sample_info import info_type
from videoload.clips.sample_spec import SampleSpec, frames_shape, with_shape
from videoload.engine.readers import ReadableStream
from videoload.errors import ClosedError, VideoloadError
from videoload.frameworks.interrupts import INTERRUPTS
from videoload.frameworks.python_datasets import PythonDatasets, itself
from videoload.logs import Log
from videoload.plan.batches import BatchInfo, Sample, collate
from videoload.plan.windows import Lengths

if TYPE_CHECKING:
    import tensorflow as tf

    from videoload.plan.epoch_cursor import EpochCursor

_log = Log(__name__)

_LEAVE_S = 2.0
_BEGINS_ANEW = (
    "you gave epochs= twice, to dataset() and to fit(epochs=%d): each epoch of fit trains on all "
    "epochs of the dataset. Leave it out of dataset(), and each epoch of fit is the next one"
)

_read_here: weakref.WeakSet[ReadableStream] = weakref.WeakSet()  # TensorFlow may be reading these.


def dataset(
    stream: ReadableStream,
    cursor: EpochCursor,
    *,
    info: bool = False,
    ends: Callable[[int], bool] | None = None,
) -> tf.data.Dataset:
    """Return the dataset of `Stream.dataset`: each iteration is one of the ``cursor``, and ends
    early as in `ReadableStream.read`. ``ends`` is a method, whose object the dataset does not hold.
    It holds the stream."""
    try:
        import tensorflow as tf
    except ImportError:
        raise VideoloadError(
            "stream.dataset needs TensorFlow: pip install tensorflow; or, with Keras on another "
            "backend, use stream.sequence()"
        ) from None

    stream.check_process()  # TensorFlow itself hangs in a forked process
    steps = cursor.begin().steps
    skips = stream.options["on_error"] == "skip"
    expect_reader(stream)
    reading = _Reading(stream, cursor, info=info, ends=ends)
    are_whole = stream.options["drop_remainder"] is True and not skips
    # Batches of several shapes: what they differ in is None.
    kinds = [
        _signature(stream, with_shape(stream.spec, shape), rows if are_whole else None, info)
        for shape, rows in stream.plan.sizes.items()
    ]
    signature = tf.nest.map_structure(
        lambda one, *others: one.most_specific_common_supertype(others), *kinds
    )
    number, python = tf.TensorSpec((), tf.int64), PythonDatasets()

    def iteration(reader: tf.Tensor) -> tf.data.Dataset:
        again_and_again = tf.data.Dataset.from_tensors(reader).repeat()
        batches = python.map(again_and_again, reading.next_batch, signature)
        error = python.generator([reader], itself, reading.error, itself, signature)
        return batches.concatenate(error)

    once = python.generator([], reading.begin, itself, reading.end, number).take(1)
    # AutoGraph would convert this function, and may leave the files that it writes for that.
    made = once.flat_map(tf.autograph.experimental.do_not_convert(iteration))
    made.stream, made.functions = stream, python  # They live as long as the dataset.
    if tf.inside_function():  # It forgets the dataset as soon as it is traced.
        reading.functions = python
    # Not in the middle of an epoch that a state was loaded for: the later ones are longer.
    if (
        not skips
        and ends is None
        and len(steps) == (len(stream.plan) if cursor.length is None else cursor.length)
    ):
        made = made.apply(tf.data.experimental.assert_cardinality(len(steps)))
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    # It would request before the trainer.
    options.experimental_optimization.inject_prefetch = False
    # There is nothing to tune. The tuning thread sleeps twice as long each time, up to a minute,
    # and an iteration that ends meanwhile often waits for it.
    options.autotune.enabled = False
    return made.with_options(options)


@dataclass
class _Iteration:
    """One iteration over the dataset."""

    batches: Generator[Any, None, None]  # None: none for 50 ms.
    idle: Idle
    waits: bool = False


def _never(_: int) -> bool:
    return False


class _Reading:
    """The callbacks of TensorFlow. It calls `begin` when an iteration begins, `next_batch` when the
    trainer asks for a batch, and `end` when the iterator is freed. TensorFlow never frees these
    methods, so only the dataset holds the stream and the graphs, and nothing here what ``ends`` is
    a method of.
    """

    def __init__(
        self,
        stream: ReadableStream,
        cursor: EpochCursor,
        *,
        info: bool,
        ends: Callable[[int], bool] | None,
    ) -> None:
        self._stream = weakref.ref(stream)
        self._cursor = cursor
        self._info = info
        self._ends = None if ends is None else weakref.WeakMethod(ends)
        self._first = cursor.start
        self._warned = False
        self._numbers = itertools.count()
        self._iterations: dict[int, _Iteration] = {}
        self._errors: dict[int, VideoloadError] = {}  # By iteration: what ended it.
        self.functions: PythonDatasets | None = None  # Held here if nothing else holds them.

    def begin(self) -> int:
        """Begin an iteration. Returns its number."""
        stream, own = self._stream_now(), self._cursor.begin()
        number, idle = next(self._numbers), Idle()
        ends = None if self._ends is None else self._ends()
        batches = stream.read(
            own.steps, idle, info=self._info, pauses=True,
            follows=self._cursor.length is None, taken=own.taken, ends=ends or _never,
        )  # fmt: skip
        self._iterations[number] = _Iteration(batches, idle)
        epochs = -(-(self._cursor.length or 0) // len(stream.plan))
        if epochs > 1 and own.steps.start > self._first and not self._warned:
            self._warned = True
            _log.warning(_BEGINS_ANEW, epochs)
        return number

    def end(self, number: np.int64) -> np.int64:
        """Note that the iterator was freed."""
        if (iteration := self._iterations.pop(int(number), None)) is not None:
            iteration.batches.close()
        self._errors.pop(int(number), None)
        return number

    def next_batch(self, number: np.int64) -> tuple[Any, ...] | None:
        """Return the next batch, or None if there is none within 50 ms."""
        iteration = self._iterations[int(number)]
        if not iteration.waits:
            iteration.idle.requested = time.monotonic()
        try:
            batch = next(iteration.batches)
        except VideoloadError as error:
            # It is no error to leave `with Client` while a dataset lives. The text is logged, not
            # the error: a stored log record would hold frames.
            level = logging.INFO if isinstance(error, ClosedError) else logging.ERROR
            _log.log(level, "the stream stopped: %s", str(error))
            self._errors[int(number)] = error.with_traceback(None)
            raise StopIteration from None
        iteration.waits = batch is None
        return batch if batch is None or len(batch) == 2 else (*batch[:2], _as_dict(batch[2]))

    def error(self, number: np.int64) -> NoReturn:
        """Raise the error that ended the iteration, if one did. Called after the last batch."""
        raise self._errors.pop(int(number), StopIteration())

    def _stream_now(self) -> ReadableStream:
        if (stream := self._stream()) is None:
            raise ClosedError("neither the dataset nor its stream is referenced any more")
        return stream


class Idle:
    """Called every 50 ms while a thread of TensorFlow waits for a batch, since ``requested``: it
    frees a tiny tensor, and raises ClosedError after Ctrl-C."""

    def __init__(self) -> None:
        import tensorflow as tf

        self._began = self.requested = time.monotonic()
        self._tf = tf

    def __call__(self) -> None:
        self._tf.constant(0)
        if INTERRUPTS.is_due(self._began, self.requested):
            raise ClosedError("interrupted by Ctrl-C")


def expect_reader(stream: ReadableStream) -> None:
    """Note that a thread of TensorFlow may read the stream from now on."""
    INTERRUPTS.listen()
    _read_here.add(stream)


def _signature(
    stream: ReadableStream, spec: SampleSpec, rows: int | None, info: bool
) -> tuple[Any, ...]:
    """Return the shapes and types of a batch of such samples, as nested tf.TensorSpec: those of a
    batch of one, of which nothing is known."""
    import tensorflow as tf

    def declared(kind: Any) -> Any:
        if isinstance(kind, dict):
            return {name: declared(each) for name, each in kind.items()}
        shape, dtype = kind
        return tf.TensorSpec((rows, *shape), tf.string if dtype == "str" else dtype)

    def of_array(array: Any) -> Any:
        return declared((array.shape[1:], "str" if array.dtype.hasobject else array.dtype))

    known, targets = np.zeros(1, info_type(spec)), stream.catalog.targets
    known["num_frames"], known["duration_s"], known["display_aspect_ratio"] = -1, np.nan, np.nan
    pixels, catalog = np.zeros((1, spec.clip_bytes), np.uint8), file_rows(stream.catalog)
    one, lengths = Sample(0, 0, 0, 0, 0, 0), Lengths(catalog, stream.spec)
    clips, _, *more = collate(0, [one], catalog, spec, pixels, known, lengths, info=info)
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
    for stream in list(_read_here):
        stream.close_client()
    deadline = time.monotonic() + _LEAVE_S
    quiet = 0  # Checks in a row that found no thread inside.
    while quiet < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
        others = sys._current_frames()
        del others[threading.get_ident()]
        quiet = 0 if any(map(_is_inside, others.values())) else quiet + 1


def _is_inside(frame: FrameType) -> bool:
    """Return whether the thread with this frame reads for TensorFlow."""
    return any(caller.f_code.co_filename == __file__ for caller, _ in walk_stack(frame))

"""A stream as a ``tf.data.Dataset``, without copying a batch.

TensorFlow takes a C-contiguous, 64-byte aligned uint8 array from a generator without a copy (which
is 20 times as fast) and releases it when the tensor dies. But the release is only queued: the queue
is emptied when a py_func finishes or an eager tensor is freed. A generator that blocks for a free
slot therefore blocks the very release that it waits for. So while it waits, it makes and drops a
tiny tensor every 50 ms.

The generator runs ahead of the trainer, in TensorFlow's prefetch: what it costs to hand a batch
over is no part of the trainer's step. But its waiting is not the trainer's either. So a small
function behind the prefetch notes when the trainer asks for a batch. It has got it when it has
asked and the batch is there, whichever comes last.

Such a generator runs in a thread of TensorFlow's, which must have left Python before the
interpreter ends: a thread that is still inside is killed there, and the destructor of its iterator
then never returns. So at exit the clients are closed first, and the threads are waited for.

To free an iterator is to wait for the thread that prefetches, and Python's garbage collector frees
those in cycles (a caught exception makes one) in whichever thread it runs: in the I/O thread, too,
which alone brings batches. So the wait for a batch is a loop in the graph, of 50 ms each, which
TensorFlow breaks off; and no lock is taken that another thread may hold while it collects.
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
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from videoload.catalog.targets import shapes
from videoload.clips.item_spec import Spec
from videoload.engine.readers import Readers
from videoload.errors import ClosedError, VideoloadError
from videoload.frameworks import interrupts
from videoload.frameworks.python_datasets import PythonDatasets, itself

if TYPE_CHECKING:
    import tensorflow as tf

    from videoload.plan.plan import Batch, BatchInfo, BatchWithInfo

_log = logging.getLogger(__name__)

_PREFETCH = 1  # more only takes slots: reading ahead is theirs
_LEAVE_S = 2.0
_FIRST = np.int64(0)
_BEGINS_ANEW = (
    "a dataset of more than one epoch begins anew: fit(dataset, epochs=%d) trains on all of it in "
    "each of its epochs; give steps_per_epoch=%d as well, or a dataset of one epoch"
)

_read_here: weakref.WeakSet[Readers] = weakref.WeakSet()  # those that TensorFlow may be reading


def dataset(
    readers: Readers, start_step: int, epochs: int, *, info: bool = False
) -> tf.data.Dataset:
    """A stream as a ``tf.data.Dataset``, without copying a batch; the same as `Stream.dataset`.

    Iterating again goes on where the last complete iteration ended, so that epochs differ; an
    iterator that was left early does not count. Cardinality is asserted, one batch is
    prefetched, and auto-sharding is off, since the stream has its own ``shard``.

    What goes wrong while it is read reaches the caller as TensorFlow's error; the original is
    `Stream.error`, and stands in the log.

    Args:
        stream: Made by `Client.stream`; the dataset keeps it alive.
        start_step: First batch, counted over all epochs from 0.
        epochs: Epoch at whose end to stop, counted from the stream's beginning.
        info: Say where each batch came from. Default False.

    Returns:
        A dataset of (clips, labels): tf.uint8 [B, *clip.shape] and tf.int64 [B]; with an ItemSpec,
        ``clips`` is [B, *shape] of its dtype, or a dict; of a catalog with targets, ``labels`` are
        those. With ``info`` (clips, labels, dict): the fields of BatchInfo but ``step``. B is
        static with ``drop_remainder``, else None. With ``on_error="skip"``, neither B nor the
        number of batches is known.

    Raises:
        SpecError: ``start_step`` lies after the end of epoch ``epochs``.
        VideoloadError: TensorFlow is not installed.
    """
    try:
        import tensorflow as tf
    except ImportError:
        raise VideoloadError(
            "stream.dataset needs TensorFlow: pip install 'videoload[tensorflow]'"
        ) from None

    steps = readers.steps(start_step, epochs)
    skips = readers.options.on_error == "skip"
    expect_reader(readers)
    reading = _Reading(readers, steps, info=info)
    rows = readers.options.batch_size if readers.options.drop_remainder and not skips else None
    signature: tuple[Any, ...] = (
        _signature(readers.spec, rows),
        _target_signature(readers, rows),
    )
    if info:
        signature = (*signature, _info_signature(readers.spec, rows))
    number, python = tf.TensorSpec((), tf.int64), PythonDatasets()

    def iteration(reader: tf.Tensor) -> tf.data.Dataset:
        again_and_again = tf.data.Dataset.from_tensors(reader).repeat()
        questions = python.map(again_and_again, reading.asked, number)
        batches = python.map(again_and_again, reading.next_batch, signature, again=True)
        error = python.generator([reader], itself, reading.error, itself, signature)
        ahead = batches.concatenate(error).prefetch(_PREFETCH)
        # The answer to each question is which dataset is to be asked. There is one.
        return tf.data.Dataset.choose_from_datasets([ahead], questions)

    turns = python.generator([], reading.begin, itself, reading.end, number).take(1)
    # No Python that AutoGraph would have to convert, into files that it may leave.
    made = turns.flat_map(tf.autograph.experimental.do_not_convert(iteration))
    made.readers, made.functions = readers, python  # as long as there is the dataset
    if tf.inside_function():  # which forgets the dataset as soon as it is traced
        reading.functions = python
    if not skips:
        made = made.apply(tf.data.experimental.assert_cardinality(len(steps)))
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    options.experimental_optimization.inject_prefetch = False  # it would ask in the trainer's place
    # There is nothing to tune. The thread that does sleeps for twice as long each time, up to a
    # minute, and an iteration that ends meanwhile often waits for it.
    options.autotune.enabled = False
    return made.with_options(options)


@dataclass
class _Iteration:
    """``turn``: how many were complete when it began. Of its batches so many were ``taken``, the
    last one that of ``step``; so many more are ``asked`` for; those ``there`` are of a step each,
    and have so many clips. ``over``: no more come; ``end``: the last step of all, where they came
    to it."""

    turn: int
    step: int
    batches: Generator[tuple[Any, ...] | None, None, None] = field(init=False)
    end: int = -1
    taken: int = 0
    asked: int = 0
    there: deque[tuple[int, int]] = field(default_factory=deque)
    over: bool = False
    # Questions and batches come in threads of their own.
    lock: threading.Lock = field(default_factory=threading.Lock)


class _Reading:
    """What TensorFlow calls: `begin` when an iteration begins and `end` when its iterator is freed,
    `next_batch` in the thread that prefetches, and `asked` when the trainer asks for a batch.
    TensorFlow never lets go of these; so only the dataset holds the stream, and the graphs."""

    def __init__(self, readers: Readers, steps: range, *, info: bool) -> None:
        self._readers = weakref.ref(readers)
        self._info = info
        self._steps = steps
        self._finished = 0  # iterations of which the trainer has got all
        self._warned = False
        self._iterations: dict[int, _Iteration] = {}
        self._errors: dict[int, VideoloadError] = {}  # that ended them
        self.functions: PythonDatasets | None = None  # those that nobody else holds

    def begin(self) -> int:
        """A new iteration; returns the number of its reader."""
        reader = self._readers_now().new_reader()
        first = self._steps.start + self._finished * len(self._steps)
        iteration = self._iterations[reader] = _Iteration(self._finished, first - 1)
        iteration.batches = self._batches(reader, iteration)
        return reader

    def end(self, reader: np.int64) -> np.int64:
        """Of an iteration, after that of its prefetch."""
        if (iteration := self._iterations.pop(int(reader), None)) is not None:
            iteration.batches.close()
        self._errors.pop(int(reader), None)
        return reader

    def next_batch(self, reader: np.int64) -> tuple[Any, ...] | None:
        """The next batch of an iteration; None if it does not come in 50 ms."""
        if (iteration := self._iterations.get(int(reader))) is None:
            raise StopIteration  # it has ended, and is asked again
        try:
            return next(iteration.batches)
        except VideoloadError as error:
            self._errors[int(reader)] = error.with_traceback(None)
            raise StopIteration from None

    def error(self, reader: np.int64) -> NoReturn:
        """Behind the last batch: raises what ended the iteration, if that was an error."""
        raise self._errors.pop(int(reader), StopIteration())

    def asked(self, reader: np.int64) -> np.int64:
        """The trainer asks for a batch, or whether there is one."""
        readers, iteration = self._readers(), self._iterations.get(int(reader))
        if readers is not None and iteration is not None:
            with iteration.lock:
                readers.meter.asked(int(reader))
                iteration.asked += 1
            self._match(readers, int(reader), iteration)
        return _FIRST

    def _match(self, readers: Readers, reader: int, iteration: _Iteration) -> None:
        """The trainer has got what it asked for, if that is there; or nothing is left to get."""
        with iteration.lock:
            before = iteration.step
            if iteration.asked and iteration.there:
                iteration.asked -= 1
                iteration.step, clips = iteration.there.popleft()
                readers.meter.got(reader, clips)
                iteration.taken += 1
                if iteration.taken == len(self._steps):  # who knows how many there are asks no more
                    self._finished = max(self._finished, iteration.turn + 1)
            if iteration.over and not iteration.there:
                iteration.step = max(iteration.step, iteration.end)
                self._iterations.pop(reader, None)
                readers.meter.left(reader)
            done = range(before + 1, iteration.step + 1)  # of some in between all was left out
        for step in done:
            readers.log_epoch(step)

    def _batches(
        self, reader: int, iteration: _Iteration
    ) -> Generator[tuple[Any, ...] | None, None, None]:
        readers, steps = self._readers_now(), self._steps
        before = iteration.turn * len(steps)
        idle, waits, step = Idle(), False, -1

        def taken(number: int) -> None:
            nonlocal step
            step = number

        def counted(batch: Batch | BatchWithInfo | None) -> tuple[Any, ...] | None:
            nonlocal waits
            if waits := batch is None:
                return None
            iteration.there.append((step, _rows(batch[1])))
            self._match(readers, reader, iteration)
            return batch if len(batch) == 2 else (*batch[:2], _as_dict(batch[2]))

        if iteration.turn and len(steps) > len(readers) and not self._warned:
            self._warned = True
            _log.warning(_BEGINS_ANEW, -(-len(steps) // len(readers)), len(readers))
        batches = readers.read(
            range(steps.start + before, steps.stop + before), idle, reader=reader, info=self._info,
            pauses=True, taken=taken,
        )  # fmt: skip
        try:
            with suppress(StopIteration):
                while True:
                    # No variable: it would hold on to the batch's slot.
                    yield counted(next(batches))
                    if not waits:
                        idle.asked = time.monotonic()
            iteration.end = step
            if readers.options.on_error == "skip":  # batches may be fewer than steps
                self._finished = max(self._finished, iteration.turn + 1)
        except VideoloadError as error:
            # To leave `with Client` while a dataset lives is no error. A kept record keeps no
            # frames: hence the text.
            level = logging.INFO if isinstance(error, ClosedError) else logging.ERROR
            _log.log(level, "the stream stopped: %s", str(error))
            raise
        except GeneratorExit:
            iteration.there.clear()  # nothing of it is taken any more
            raise
        finally:
            iteration.over = True
            self._match(readers, reader, iteration)

    def _readers_now(self) -> Readers:
        if (readers := self._readers()) is None:
            raise ClosedError("neither the dataset nor its stream is referenced any more")
        return readers


class Idle:
    """What is called every 50 ms while a thread of TensorFlow's waits for a batch, since ``asked``
    (of `time.monotonic`): it frees a tiny tensor, and raises ClosedError if Ctrl-C came."""

    def __init__(self) -> None:
        import tensorflow as tf

        self._began = self.asked = time.monotonic()
        self._tf = tf

    def __call__(self) -> None:
        self._tf.constant(0)
        if interrupts.is_due(self._began, self.asked):
            raise ClosedError("interrupted by Ctrl-C")


def expect_reader(readers: Readers) -> None:
    """From now on, a thread of TensorFlow's may be reading the stream."""
    interrupts.listen()
    _read_here.add(readers)


def _signature(spec: Spec, rows: int | None) -> Any:
    """Of a batch without its labels: a tf.TensorSpec, or a dict of them."""
    import tensorflow as tf

    shapes, types = spec.shape, spec.dtype
    if isinstance(shapes, dict) and isinstance(types, dict):
        return {name: tf.TensorSpec((rows, *shapes[name]), types[name]) for name in shapes}
    return tf.TensorSpec((rows, *shapes), types)


def _target_signature(readers: Readers, rows: int | None) -> Any:
    """Of a batch's labels, or of its targets."""
    import tensorflow as tf

    def spec(shape: tuple[int, ...], dtype: str) -> tf.TensorSpec:
        return tf.TensorSpec((rows, *shape), tf.string if dtype == "str" else dtype)

    targets = readers.catalog.targets
    if targets is None:
        return spec((), "int64")
    kinds = shapes(targets, readers.spec.frames_shape)
    if isinstance(kinds, dict):
        return {name: spec(*kind) for name, kind in kinds.items()}
    return spec(*kinds)


def _info_signature(spec: Spec, rows: int | None) -> dict[str, tf.TensorSpec]:
    import tensorflow as tf

    one, many = (rows,), (rows, *spec.frames_shape)
    return {
        "video": tf.TensorSpec(one, tf.int64),
        "path": tf.TensorSpec(one, tf.string),
        "clip": tf.TensorSpec(one, tf.int64),
        "crop": tf.TensorSpec(one, tf.int64),
        "frames": tf.TensorSpec(many, tf.int64),
        "times": tf.TensorSpec(many, tf.float64),
    }


def _rows(labels: Any) -> int:
    """How many of them: targets may be a dict."""
    return len(next(iter(labels.values())) if isinstance(labels, dict) else labels)


def _as_dict(info: BatchInfo) -> dict[str, Any]:
    return {name: value for name, value in info._asdict().items() if name not in ("step", "digest")}


@atexit.register
def _leave_python() -> None:
    """Close what TensorFlow may be reading, and wait until its threads have left Python."""
    for readers in list(_read_here):
        readers.close_client()
    deadline = time.monotonic() + _LEAVE_S
    quiet = 0  # checks in a row that found no thread inside
    while quiet < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
        quiet = 0 if any(map(_in_generator, sys._current_frames().values())) else quiet + 1


def _in_generator(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.endswith("script_ops.py"):  # TensorFlow's way into Python
            return True
        frame = frame.f_back
    return False

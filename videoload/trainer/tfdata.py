"""A stream as a ``tf.data.Dataset``, without copying a batch.

TensorFlow takes a C-contiguous, 64-byte aligned uint8 array from a generator without a copy (which
is 20 times as fast) and releases it when the tensor dies. But the release is only queued: the queue
is emptied when a py_func finishes or an eager tensor is freed. A generator that blocks for a free
slot therefore blocks the very release that it waits for. So while it waits, it makes and drops a
tiny tensor every 50 ms.

Such a generator runs in a thread of TensorFlow's, which must have left Python before the
interpreter ends: a thread that is still inside is killed there, and the destructor of its iterator
then never returns. So at exit the clients are closed first, and the threads are waited for.
"""

from __future__ import annotations

import atexit
import logging
import sys
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from videoload.errors import ClosedError, VideoloadError
from videoload.spec.items import Spec
from videoload.trainer import interrupts

if TYPE_CHECKING:
    import tensorflow as tf

    from videoload.trainer.stream import Stream

_log = logging.getLogger(__name__)

_PREFETCH = 2  # tf.data itself runs one further ahead
_LEAVE_S = 2.0
_BEGINS_ANEW = (
    "a dataset of more than one epoch begins anew: fit(dataset, epochs=%d) trains on all of it in "
    "each of its epochs; give steps_per_epoch=%d as well, or a dataset of one epoch"
)

_streams: weakref.WeakSet[Stream] = weakref.WeakSet()  # those that TensorFlow may be reading


def dataset(stream: Stream, start_step: int, epochs: int) -> tf.data.Dataset:
    """A stream as a ``tf.data.Dataset``, without copying a batch; the same as `Stream.dataset`.

    Iterating again goes on where the last complete iteration ended, so that epochs differ; an
    iterator that was left early does not count. Cardinality is asserted, two batches are
    prefetched, and auto-sharding is off, since the stream has its own ``shard``.

    What goes wrong while it is read reaches the caller as TensorFlow's error; the original is
    `Stream.error`, and stands in the log.

    Args:
        stream: Made by `Client.stream`; the dataset keeps it alive.
        start_step: First batch, counted over all epochs from 0.
        epochs: Epoch at whose end to stop, counted from the stream's beginning.

    Returns:
        A dataset of (clips, labels): tf.uint8 [B, *clip.shape] and tf.int64 [B]; with an ItemSpec,
        ``clips`` is [B, *shape] of its dtype, or a dict. B is static with ``drop_remainder``, else
        None. With ``on_error="skip"``, neither B nor the number of batches
        is known.

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

    steps = stream._steps(start_step, epochs)
    finished = 0  # iterations read to their end
    warned = False
    expect_reader(stream)

    # TensorFlow never frees `batches`, in its global graph; so only the dataset holds the stream.
    home = weakref.ref(stream)

    def batches() -> Iterator[tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]]:
        nonlocal finished, warned
        turn = finished
        ahead = turn * len(steps)
        idle = Idle()
        if (stream := home()) is None:
            raise ClosedError("neither the dataset nor its stream is referenced any more")
        if turn and len(steps) > len(stream) and not warned:
            warned = True
            _log.warning(_BEGINS_ANEW, -(-len(steps) // len(stream)), len(stream))
        reader = stream._read(range(steps.start + ahead, steps.stop + ahead), idle)
        try:
            with suppress(StopIteration):
                while True:
                    # No variable: it would hold on to the batch's slot.
                    yield next(reader)[:2]
                    idle.asked = time.monotonic()
        except VideoloadError as error:
            # To leave `with Client` while a dataset lives is no error. A kept record keeps no
            # frames: hence the text.
            level = logging.INFO if isinstance(error, ClosedError) else logging.ERROR
            _log.log(level, "the stream stopped: %s", str(error))
            raise
        finished = max(finished, turn + 1)

    skips = stream.options.on_error == "skip"
    rows = stream.options.batch_size if stream.options.drop_remainder and not skips else None
    made = tf.data.Dataset.from_generator(
        batches,
        output_signature=(_signature(stream.clip, rows), tf.TensorSpec((rows,), tf.int64)),
    )
    made.stream = stream
    if not skips:
        made = made.apply(tf.data.experimental.assert_cardinality(len(steps)))
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return made.prefetch(_PREFETCH).with_options(options)


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


def expect_reader(stream: Stream) -> None:
    """From now on, a thread of TensorFlow's may be reading the stream."""
    interrupts.listen()
    _streams.add(stream)


def _signature(spec: Spec, rows: int | None) -> Any:
    """Of a batch without its labels: a tf.TensorSpec, or a dict of them."""
    import tensorflow as tf

    shapes, types = spec.shape, spec.dtype
    if isinstance(shapes, dict) and isinstance(types, dict):
        return {name: tf.TensorSpec((rows, *shapes[name]), types[name]) for name in shapes}
    return tf.TensorSpec((rows, *shapes), types)


@atexit.register
def _leave_python() -> None:
    """Close what TensorFlow may be reading, and wait until its threads have left Python."""
    for stream in list(_streams):
        stream._close_client()
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

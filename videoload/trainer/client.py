"""`Client` and `Stream`: what a training script sees.

A `Client` owns the workers and the addresses; a `Stream` is one endless, reproducible sequence of
batches made of a catalog, a clip spec and the options of `videoload.spec.plan.StreamOptions`. Any
number of streams share a client's workers. Each way of reading a stream (a `for` loop, `batches`,
a `tf.data` iterator) is a pass of its own, read by one thread at a time.
"""

from __future__ import annotations

import itertools
import logging
import os
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from videoload.decoding.index_cache import cache_folder
from videoload.errors import BadVideo, SpecError, WorkerError
from videoload.native import cores
from videoload.spec.catalog import Catalog
from videoload.spec.clips import ClipSpec
from videoload.spec.plan import BatchInfo, Plan, StreamOptions
from videoload.spec.quarantine import Quarantine
from videoload.trainer.engine import Engine, OpenStream, ReaderQueue
from videoload.trainer.leases import Ready
from videoload.trainer.stats import Meter, StreamStats, WorkerStats
from videoload.transport.slots import Arena, aligned_copy
from videoload.transport.sockets import PIXEL_BYTES

if TYPE_CHECKING:
    import tensorflow as tf

_log = logging.getLogger(__name__)

_WAIT_S = 0.2  # a waiting consumer sees Ctrl-C at most so much later
# tf.data runs 3 batches ahead with prefetch(2); one is trained on, and workers fill the others.
_SLOTS = 8
# So many slots are never left in a consumer's hands: it then gets copies, and the stream goes on.
_KEPT = 2
_PAIR = itemgetter(0, 1)  # (clips, labels) of (clips, labels, info)
_MAX_BYTES = 2 << 30  # of slots that were not asked for


class Client:
    """The trainer's end: starts local workers, listens for others, and makes streams.

    workers   decoder processes on this host; "auto": one per core
    listen    address(es) for workers of other hosts, "tcp://0.0.0.0:5555"; port * picks one
    keys      folder with the trainer's CURVE keys, for addresses that other hosts can reach
    insecure  listen there without keys: whoever reaches the port may send pixels
    stall_s   a local worker that shows no progress for so many seconds is killed and replaced
    cache     folder in which the workers started here keep what they learn of videos; None:
              $VIDEOLOAD_CACHE, or else ~/.cache/videoload; False: nowhere

    Raises TransportError for an address that cannot be used, WorkerError if no process can be
    started. Use it in a ``with`` statement; `close` ends the workers.
    """

    def __init__(
        self,
        workers: int | Literal["auto"] = "auto",
        *,
        listen: str | Sequence[str] | None = None,
        keys: str | os.PathLike[str] | None = None,
        insecure: bool = False,
        stall_s: float = 10.0,
        cache: str | os.PathLike[str] | Literal[False] | None = None,
    ) -> None:
        count = cores() if workers == "auto" else workers
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise SpecError(f'workers must be a whole number or "auto", got {workers!r}')
        addresses = [listen] if isinstance(listen, str) else list(listen or ())
        if not count and not addresses:
            raise SpecError("a client with workers=0 needs an address to listen on: listen=")
        self._workers = count
        self._engine = Engine(
            workers=count,
            listen=addresses,
            keys=None if keys is None else os.fspath(keys),
            insecure=insecure,
            stall_s=stall_s,
            cache=cache_folder(cache),
        )
        # Also runs when the interpreter ends, so that no worker outlives a script without `with`.
        self._finalizer = weakref.finalize(self, self._engine.stop)
        self._streams = itertools.count()
        self.endpoints: tuple[str, ...] = tuple(self._engine.start())
        """The addresses that workers can dial, ports filled in."""

    def stream(
        self,
        catalog: Catalog,
        clip: ClipSpec,
        batch_size: int,
        *,
        shuffle: bool = False,
        seed: int = 0,
        shard: tuple[int, int] = (0, 1),
        drop_remainder: bool = True,
        ordered: bool = True,
        on_error: Literal["substitute", "raise"] = "substitute",
        max_bad: float = 0.01,
        slots: int | None = None,
    ) -> Stream:
        """The clips of a catalog in batches; see `StreamOptions` for the options.

        ``slots`` is the number of batches in memory at most (2 or more); by default 8, and more
        where the workers that are there by now need them. Raises SpecError, MemoryError.
        """
        self._engine.check()
        options = StreamOptions(
            batch_size, shuffle, seed, shard, drop_remainder, ordered, on_error, max_bad
        )
        if catalog.root is None and self._workers:
            raise SpecError("local workers need the catalog's root: give root= when it is made")
        plan = Plan.of(catalog, clip, options)
        if clip.size is None:
            from videoload.decoding.decoder import (
                native_size,  # FFmpeg, in a trainer that asks for it only
            )

            clip = native_size(catalog, clip)
        if self.endpoints and clip.clip_bytes > PIXEL_BYTES:
            raise SpecError(
                f"a clip of {clip.clip_bytes / 1e9:.1f} GB: no more than {PIXEL_BYTES / 1e9:.1f} "
                "are taken from workers that dial in; make clips smaller, or let listen= out"
            )
        batch_bytes = batch_size * clip.clip_bytes
        there = self._engine.wait_for_workers(0, timeout_s=0)
        workers = max(self._workers, there)
        source = OpenStream(
            next(self._streams),
            catalog,
            clip,
            plan,
            Quarantine(catalog, plan, options),
            Arena(_slots(slots, batch_size, batch_bytes, workers), batch_bytes),
            ordered,
            str(catalog.root),
        )
        return Stream(self, self._engine, source, options)

    @property
    def workers(self) -> tuple[WorkerStats, ...]:
        """The workers that are connected now: name, host, pid, clips, clips a second."""
        return self._engine.worker_stats()

    def wait_for_workers(self, count: int, timeout_s: float = 60.0) -> None:
        """Wait until ``count`` workers are connected. Raises WorkerError if time runs out."""
        there = self._engine.wait_for_workers(count, timeout_s)
        if there < count:
            where = ", ".join(self.endpoints) or "this host"
            raise WorkerError(f"{there} of {count} workers came within {timeout_s:g} s ({where})")

    def close(self) -> None:
        """End the workers and all streams. Idempotent; takes two seconds at most."""
        self._finalizer()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._engine.stopped else f"workers={self._workers}"
        return f"Client({', '.join((state, *self.endpoints))})"


class Stream:
    """An endless sequence of batches, ``len(stream)`` an epoch. Made by `Client.stream`.

    ``for clips, labels in stream`` reads one epoch, the next loop the next one. ``clips`` is uint8
    [B, *clip.shape], ``labels`` int64 [B]; both are the reader's for as long as it keeps them.
    """

    def __init__(
        self, client: Client, engine: Engine, source: OpenStream, options: StreamOptions
    ) -> None:
        self._client = client  # keeps the workers alive
        self._engine = engine
        self._source = source
        self._epoch = 0
        self._reader_ids = itertools.count()
        self._meter = Meter()
        self._held = _Held(source.arena.slots)
        self.options = options
        self.catalog = source.catalog
        self.clip = source.spec
        engine.post(lambda: engine.add(source))
        weakref.finalize(self, engine.post, lambda: engine.drop(source)).atexit = False

    def __len__(self) -> int:
        """Batches an epoch."""
        return len(self._source.plan)

    def __iter__(self) -> Iterator[tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]]:
        """One epoch. A loop that is left early does not count: the next one reads it again."""
        epoch = self._epoch
        # Mapped, not looped over: a variable here would hold on to the batch's slot.
        yield from map(_PAIR, self._read(range(epoch * len(self), (epoch + 1) * len(self))))
        self._epoch = max(self._epoch, epoch + 1)

    def batches(self, start_step: int = 0, epochs: int = 1, *, info: bool = False) -> Iterator[Any]:
        """The batches from ``start_step`` to the end of epoch number ``epochs`` (counted from the
        stream's beginning): (clips, labels), with ``info`` also a BatchInfo."""
        batches = self._read(self._steps(start_step, epochs))
        yield from batches if info else map(_PAIR, batches)

    def dataset(self, start_step: int = 0, epochs: int = 1) -> tf.data.Dataset:
        """The same as a ``tf.data.Dataset`` of (clips, labels), see `videoload.trainer.tfdata`."""
        from videoload.trainer.tfdata import dataset

        return dataset(self, start_step, epochs)

    @property
    def quarantine(self) -> list[BadVideo]:
        """The videos that could not be decoded so far, each once, with the reason."""
        return self._source.quarantine.videos

    def stats(self) -> StreamStats:
        """What the stream did so far: rates, the trainer's waiting, the workers, a verdict."""
        return self._meter.read(self._engine.worker_stats(), tuple(self.quarantine))

    def _steps(self, start_step: int, epochs: int) -> range:
        """The steps from ``start_step`` to the end of epoch number ``epochs``."""
        stop = epochs * len(self)
        if not 0 <= start_step <= stop:
            raise SpecError(f"start_step must be in 0..{stop} ({epochs} epochs), got {start_step}")
        return range(start_step, stop)

    def _read(
        self, steps: range, idle: Callable[[], None] | None = None
    ) -> Generator[tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], BatchInfo], None, None]:
        """The batches of ``steps``. ``idle`` is called every 50 ms of a wait, and before it
        where a worker waits for a slot.

        Raises ClosedError, WorkerError, VideoError (on_error="raise"), TooManyBadVideos.
        """
        engine, source, queue = self._engine, self._source, ReaderQueue()
        # One number space for all streams of the client.
        reader_id = source.id << 32 | next(self._reader_ids)
        engine.check()
        engine.post(lambda: engine.begin(source, reader_id, queue, steps))
        try:
            for _ in steps:
                asked = self._meter.asked()
                batch = queue.take(0)
                if batch is None:
                    batch = self._wait(queue, reader_id, idle)
                self._meter.got(asked, len(batch.samples))
                yield self._hand_over(batch, idle)
        finally:
            engine.post(lambda: engine.end(source, reader_id))

    def _close_client(self) -> None:
        """End this stream and all others of its client."""
        self._client.close()

    def __repr__(self) -> str:
        return (
            f"Stream({len(self)} batches of {self.options.batch_size}, clips {self.clip.shape}, "
            f"{self.catalog!r})"
        )

    def _wait(self, queue: ReaderQueue, reader_id: int, idle: Callable[[], None] | None) -> Ready:
        engine = self._engine
        starved = engine.has_credit  # some worker waits as well: for a slot, it may be
        while True:
            # Said again while it lasts: what was ready may go back when another pass has its turn.
            engine.post(lambda: engine.want(reader_id), about_leases=True)
            if idle is not None and starved:
                idle()
            batch = queue.take(_WAIT_S if idle is None else 0.05)
            starved = True  # after so long, or so it seems
            if batch is None and engine.stopped:
                batch = queue.take(_WAIT_S)  # it may just have come, or the reason why none will
            if batch is not None:
                return batch
            engine.check()

    def _hand_over(
        self, batch: Ready, idle: Callable[[], None] | None
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], BatchInfo]:
        """A batch in the consumer's hands: its slot, or a copy where it holds too many."""
        source, engine, held = self._source, self._engine, self._held
        shape = (len(batch.samples), *source.spec.shape)
        slot = batch.slot

        def give_back() -> None:
            held.slots.discard(slot)
            engine.post(lambda: engine.give_back(source, slot), about_leases=True)

        if held.full and idle is not None:
            idle()
        if held.full:
            clips = aligned_copy(source.arena.view(slot, 0, shape))
            give_back()
            self._meter.copied += 1
            if self._meter.copied == 1:
                _log.warning(
                    "%d of %d batches in memory are still referenced; the stream goes on with "
                    "copies (keep fewer, or give more slots=)",
                    len(held.slots), source.arena.slots,
                )  # fmt: skip
        else:
            held.slots.add(slot)
            clips = source.arena.lend(slot, shape, give_back)
        video = np.array([sample.video for sample in batch.samples], np.int64)
        labels = source.catalog.labels[video]
        return clips, labels, BatchInfo(batch.step, video, batch.frames)


class _Held:
    """The slots that consumers hold."""

    def __init__(self, slots: int) -> None:
        self.slots: set[int] = set()
        self._most = slots - min(_KEPT, slots // 2)

    @property
    def full(self) -> bool:
        """Whether the next batch has to be copied."""
        return len(self.slots) >= self._most


def _slots(asked: int | None, batch_size: int, batch_bytes: int, workers: int) -> int:
    if asked is not None:
        if asked < 2:
            raise SpecError(f"slots must be at least 2, got {asked}")
        return asked
    wanted = _SLOTS + 4 * workers // batch_size
    return max(4, min(wanted, _MAX_BYTES // batch_bytes))

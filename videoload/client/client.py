"""`Client`: the trainer's end of the workers.

A client owns the workers that it started and the addresses that other workers connect to. Any
number of streams share them.
"""

from __future__ import annotations

import itertools
import math
import os
import secrets
import sys
import weakref
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, NoReturn, Unpack, overload

import numpy as np

from videoload import host, native
from videoload.arguments import MAX_PROCESSES, real, suggests, whole
from videoload.catalog.catalog import Catalog, table_of
from videoload.catalog.joining import check_numbers, file_rows
from videoload.catalog.table import Ints
from videoload.client.fresh_import import checked_code
from videoload.client.planning import given_as, planned
from videoload.client.ranks import check_ranks, ranks_here
from videoload.client.stream import NO_COPY, Stream
from videoload.clips.clip_spec import ClipSpec
from videoload.clips.sample_info import matrices
from videoload.clips.sample_spec import (
    GivenSpec,
    SampleSpec,
    reported_shape,
    sample_spec,
    transforms_of,
    with_shape,
)
from videoload.clips.tasks import Count, FoundT_co, Report, Task, TaskOfFiles, functions_of
from videoload.engine.engine import Engine
from videoload.engine.meter import Meter
from videoload.engine.open_streams import BatchLayout, OpenStream
from videoload.engine.readers import results
from videoload.engine.stats import WorkerStats
from videoload.errors import SpecError, VideoError, WorkerError
from videoload.host import cores
from videoload.patched import check_threads
from videoload.plan.batches import Clips
from videoload.plan.options import CheckedOptions, StreamOptions, checked_options, takes_options
from videoload.plan.plan import Plan
from videoload.plan.quarantine import Quarantine
from videoload.scheduler import records
from videoload.scheduler.files import Files
from videoload.storage.cache_directories import CacheDirectories, cache_folder
from videoload.storage.files import status_of
from videoload.storage.roots import copy_name, index_of, is_url, open_storage
from videoload.wire.metrics_port import MetricsPort
from videoload.wire.slots import Slots
from videoload.wire.sockets import PIXEL_BYTES

# The trainer holds one slot, tf.data may run a few ahead, and workers fill the others.
_SLOTS = 8
_MAX_FRAMES = 100_000  # of a sample, and matrices: their metadata fits into a message
_CLIPS, _FETCHED_CLIPS = 4, 16  # Slots per worker, in clips; with files on another host.
# Without slots=, the limits of their memory: bytes, share of what is left, and number.
_MAX_BYTES, _SHARE, _FEWEST = 2 << 30, 0.75, 4
_ROWS = 8  # of a batch: one alone costs as much again as to read a small file
_MAX_SHARE = 0.9  # The limit with slots=. With 0.98 of 3 GB, the kernel killed the trainer.


class Client:
    """Starts workers on this host, admits those of other hosts, and creates streams.

    Examples:
        >>> with vl.Client(workers=2) as client:
        ...     stream = client.stream(catalog, clip, batch_size=4)
        ...     for clips, labels in stream:
        ...         pass  # train on a batch

    Use it in a ``with`` statement, or call `close`, which ends the workers. They also end with the
    trainer's process, however it ends.

    Three folders cache results that workers would otherwise compute again. No batch depends on
    them, all training runs of a host may share them, and you may delete them, or a part, at any
    time:

    - ``cache``: the *index* of each file. Small, without a limit, always there.
    - ``file_cache``: parts of the files below a URL; a worker checks once in a training run whether
      they are unchanged. What exceeds ``file_cache_gb`` is fetched in each epoch.
    - ``frame_store``: the scaled frames, so that no frame is decoded twice, with the same pixels;
      on a disk or in memory (``/dev/shm/...``). Videos that exceed ``frame_store_gb``, the limit of
      all training runs together, are decoded in each epoch.

    With ``listen``, the first batch changes malloc for the whole process: it retains the pages of
    large buffers. libzmq allocates memory for each message, and the page faults cost a third of a
    millisecond per clip. ``videoload.native.switch_off("malloc")`` before that prevents it.

    Args:
        workers: Worker processes to start on this host, 0 or more. None, the default: one per core
            that this process may use (affinity and cgroup quota), divided by torchrun's
            ``LOCAL_WORLD_SIZE``.
        listen: Address or addresses that workers of other hosts connect to, ``"tcp://0.0.0.0:5555"``;
            ``"tcp://0.0.0.0:*"`` takes a free port. None, the default: no other hosts.
        keys: Folder with the trainer's CURVE keys, as created by ``videoload keygen``. An address
            that other hosts can reach needs them. None, the default: no keys.
        insecure: Listen there without keys: anybody who reaches the port may send pixels. Default
            False.
        allow_version_mismatch: Admit workers of other hosts even if their FFmpeg or processor gives
            other pixels than this host's. Batches then depend on which worker decoded them. Default
            False: such a worker is rejected, and both logs give the reason.
        stall_s: Seconds after which a worker of this host that sends no heartbeat is killed and
            replaced. Heartbeats are sent between two packets of a video, so this must be longer
            than the slowest packet or transform takes. Workers on other hosts end themselves, or
            are replaced, after the same time at one clip; their leases go to others after 2 s, or
            while they call a slow transform after this time. Default 10.
        storage_timeout_s: Seconds after which streams end with StorageError if the storage of the
            videos refuses all workers or does not respond, as after credentials have expired or a
            folder was unmounted. They count from when the first worker gave up, which tries a URL
            for 30 s. None, the default: streams wait until it responds; the log and the verdict
            name the file.
        cache: Folder of the indexes. None, the default: ``$VIDEOLOAD_CACHE``, or else
            ``~/.cache/videoload``. False: none.
        file_cache: Folder of files from below a URL. None, the default: each epoch fetches them
            again.
        file_cache_gb: Limit of ``file_cache`` in GB. None, the default: a tenth of the free and
            already used space on its disk; the log names it.
        frame_store: Folder of scaled frames. None, the default: each epoch decodes them again.
        frame_store_gb: Limit of ``frame_store`` in GB. None, the default: as for ``file_cache``.
        index: What ``videoload index`` has written about the videos: a file, or the URL of one. A
            row of it is valid only for one version of a file. None, the default: what lies in the
            root of a catalog. False: none.
        metrics_port: TCP port of the live page for browsers (``/``), of ``/metrics`` for Prometheus
            and of the probes ``/healthz`` and ``/readyz``; 0 takes a free one, and prints where the
            page is. It is on loopback; ``"0.0.0.0:9464"`` serves other hosts, without paths and
            pixels. Needs the extra ``[metrics]``. None, the default: no port.
        metrics_token: Only who adds ``?token=...`` to the page's address sees paths and pixels.
            None, the default: all users of this host do, if the port is on loopback.

    Attributes:
        endpoints: The addresses that workers can connect to, with their ports: tuple of str, empty
            without ``listen``.
        metrics_port: The port of ``/metrics``: int, or None.

    Raises:
        SpecError: ``workers`` is not a count, or 0 without ``listen``; ``file_cache_gb`` without
            ``file_cache``, or ``frame_store_gb`` without ``frame_store``; a folder cannot be
            created or written to; there is no such ``index``.
        TransportError: An address cannot be bound, or needs keys and has none.
        WorkerError: No worker process can be started.
        VideoloadError: gevent or eventlet has replaced the threads of this process.
    """

    @suggests
    def __init__(
        self,
        workers: int | None = None,
        *,
        listen: str | Sequence[str] | None = None,
        keys: str | os.PathLike[str] | None = None,
        insecure: bool = False,
        allow_version_mismatch: bool = False,
        stall_s: float = 10.0,
        storage_timeout_s: float | None = None,
        cache: str | os.PathLike[str] | Literal[False] | None = None,
        file_cache: str | os.PathLike[str] | None = None,
        file_cache_gb: float | None = None,
        frame_store: str | os.PathLike[str] | None = None,
        frame_store_gb: float | None = None,
        index: str | os.PathLike[str] | Literal[False] | None = None,
        metrics_port: int | str | None = None,
        metrics_token: str | None = None,
    ) -> None:
        if native.is_worker:
            raise SpecError(
                "Client() ran inside a worker, which imports the module of your transform: put "
                "the training code under if __name__ == '__main__', or into another module"
            )
        check_threads()
        own = max(1, cores() // ranks_here())
        count = own if workers is None else whole("workers", workers, 0, MAX_PROCESSES)
        addresses = [listen] if isinstance(listen, str) else listen or ()
        if isinstance(addresses, int) or not all(isinstance(a, str) for a in addresses):
            raise SpecError(f"listen must be like 'tcp://0.0.0.0:5555', got {listen!r}")
        if not count and not addresses:
            raise SpecError("a client with workers=0 needs an address to listen on: listen=")
        self._workers = count
        self._stall_s = real("stall_s", stall_s, 0.1)
        self._cache = cache_folder(cache)
        self._index = index
        self._folders = CacheDirectories.of(
            self._cache, file_cache, file_cache_gb, frame_store, frame_store_gb, index_of(index)
        )
        self._engine = Engine(
            workers=count,
            listen=addresses,
            keys=None if keys is None else os.fspath(keys),
            insecure=insecure,
            allow_version_mismatch=allow_version_mismatch,
            stall_s=self._stall_s,
            folders=self._folders,
            storage_timeout_s=storage_timeout_s and real("storage_timeout_s", storage_timeout_s, 0),
        )
        self._open: list[weakref.ref[Stream[Any]]] = []
        scrapes: list[MetricsPort] = []
        # It also runs when the interpreter ends, so no worker outlives a script without `with`.
        self._finalizer = weakref.finalize(self, _end, self._engine, scrapes)
        self._streams = itertools.count()
        try:
            if metrics_port is not None:
                from videoload.client.live_page import serve_metrics  # it draws images

                scrapes.append(serve_metrics(metrics_port, self._engine, metrics_token))
            self.metrics_port: int | None = scrapes[0].port if scrapes else None
            self.endpoints: tuple[str, ...] = tuple(self._engine.start())
            if metrics_port == 0:
                print(f"videoload shows itself at {self._live_page}", file=sys.stderr)
        except BaseException:
            self._finalizer()
            raise

    @overload
    def stream(
        self,
        catalog: Catalog,
        clip: ClipSpec,
        batch_size: int | None = None,
        *,
        slots: int | None = None,
        **options: Unpack[StreamOptions],
    ) -> Stream[Clips]: ...

    @overload
    def stream(
        self,
        catalog: Catalog,
        clip: Mapping[str, ClipSpec],
        batch_size: int | None = None,
        *,
        slots: int | None = None,
        **options: Unpack[StreamOptions],
    ) -> Stream[dict[str, Any]]: ...

    @takes_options
    def stream(
        self,
        catalog: Catalog,
        clip: GivenSpec,
        batch_size: int | None = None,
        *,
        slots: int | None = None,
        **options: Unpack[StreamOptions],
    ) -> Stream[Any]:
        """Create a stream: the clips of a catalog in batches.

        Examples:
            >>> stream = client.stream(catalog, clip, batch_size=4, shuffle=True, seed=0)
            >>> clips, labels = next(iter(stream))
            >>> clips.shape, labels.shape
            ((4, 16, 112, 112, 3), (4,))

        The clips of each batch and their pixels follow from the arguments alone: not from the
        number of workers, their hosts, their speed or their end. Nothing is decoded before the
        stream is read. If ``clip.size`` is None, a worker reports the size of a first video. With
        ``sampling="dense"``, the workers read the index of each video and count its windows, if the
        catalog does not have them (``videoload scan --output``), or for ``fps`` and ``hop_s``; with
        ``buckets`` they count its frames.

        Args:
            catalog: Which videos, which labels. Workers of this host need its ``root``.
            clip: How clips are cut from a video; or a dict with a spec for each part of the catalog
                (`Catalog.side_by_side`).
            batch_size: Clips in a batch (B), at least 1. Default None: determined by
                ``batch_frames``.
            slots: Batches in memory at most, 2 or more. None, the default: 8, and more if connected
                workers need them, also later ones; but at most what 2 GB or three quarters of the
                free memory hold, and at least 4. Each takes the memory of the largest batch: with
                ``buckets`` and ``batch_size`` that of ``max_frames``, and with ``batch_frames``
                all batches take about as much. Each further loop over the stream at the same time
                adds half as many, as far as these limits allow, and two at least.
            **options: As in `StreamOptions`.

        Returns:
            The stream, which shares the client's workers with its other streams.

        Raises:
            SpecError: The arguments contradict each other, or the catalog cannot give such clips.
            TransformError: The transform is another one here than workers import.
            StorageError: The catalog's root is a URL, and the extra ``[remote]`` is not installed.
            TooManyBadVideos: ``clip.size`` is None, and no video of the catalog has a native
                size.
            MemoryError: There is no shared memory for the slots, or they need more than nine
                tenths of what is left on this host or within the limit of its container.
            ClosedError: The client is closed.
            VideoloadError: The client's I/O thread has ended with this error.
        """
        self._engine.check()
        own = checked_options(batch_size, **options)
        spec = given_as(catalog, clip, shuffle=own["shuffle"])
        if catalog.root is None and self._workers:
            raise SpecError("local workers need a root: give root= to the catalog")
        self._folders.beside(catalog.root)
        code = checked_code(
            transforms_of(spec), listens=bool(self.endpoints), stall_s=self._stall_s
        )
        check_ranks(own)
        check_numbers(catalog, [each.catalog for ref in self._open if (each := ref()) is not None])

        seen: list[tuple[Ints, OpenStream]] = []
        count, size = partial(self._look, seen), partial(self._look, [])
        catalog, spec, plan = planned(catalog, spec, own, count, size)
        source = self._open_stream(catalog, spec, plan, own, slots=slots, code=code)
        for rows, others in seen:
            source.use_files_of(others, rows)
        stream: Stream[Any] = Stream(self._engine, source, own, self.close)
        self._open[:] = [each for each in self._open if each() is not None]
        self._open.append(weakref.ref(stream))
        return stream

    def run(
        self, task: TaskOfFiles[FoundT_co], rows: Catalog
    ) -> Generator[tuple[int, FoundT_co | VideoError], None, None]:
        """Run a task on every row of a catalog: count windows, report files or identify them.

        Examples:
            >>> for row, found in client.run(vl.Count(clip), catalog):
            ...     if not isinstance(found, vl.VideoError):
            ...         print(catalog[row].path, found.windows, found.displayed)

        All workers of the client take part. Results are delivered as they arrive, in any order,
        once per row. A run that was stopped resumes with the rows that are left:
        ``catalog.subset(left)``. To stop early, close the iterator, or drop it.

        Args:
            task: `videoload.Count`, `videoload.Report` or `videoload.Identify`.
            rows: The catalog. Workers of this host need its ``root``.

        Yields:
            (row, result): the number of the row in ``rows``, and a `WindowCount`, `FileReport` or
            `Fingerprint`; or a VideoError, if its file cannot be read or decoded, or ended or hung
            the workers that tried. The other rows continue.

        Raises:
            SpecError: The catalog has no root, or is no catalog of such a task.
            StorageError: The storage does not respond for ``storage_timeout_s``.
            ClosedError: The client is closed.
            VideoloadError: The client's I/O thread has ended with this error.
        """
        self._engine.check()
        if not isinstance(task, TaskOfFiles) or not isinstance(rows, Catalog):
            raise SpecError(
                f"run takes a Count, Report or Identify, and a Catalog, not {task!r} and {rows!r}"
            )
        own: Any = task
        if isinstance(task, Count):
            own = Count(sample_spec(table_of(rows).sample_parts, task.spec.given))
        if rows.root is None and self._workers:
            raise SpecError("local workers need a root: give root= to the catalog")
        self._folders.beside(rows.root)
        return results(self._engine, self._stream_of(own, rows))

    def _stream_of(self, task: Any, rows: Catalog, *, local_only: bool = False) -> OpenStream:
        """Return a stream that shows each row once. ``local_only``: only workers of this host
        count."""
        options = checked_options(1 if isinstance(task, Report) else _ROWS, ordered=False,
                                  on_error="skip")  # fmt: skip
        rows, plan = file_rows(rows), Plan(len(rows), 1, options)
        return self._open_stream(rows, task, plan, options, local_only=local_only)

    def _open_stream(
        self, catalog: Catalog, task: Task, plan: Plan, options: CheckedOptions, *,
        slots: int | None = None, code: Mapping[str, str] = MappingProxyType({}),
        local_only: bool = False,
    ) -> OpenStream:  # fmt: skip
        """Return the engine's record of a stream. Raises SpecError, MemoryError."""
        storage = open_storage(catalog.root) if catalog.root else None
        if isinstance(task, SampleSpec):
            self._check_clips(task)
        batch_bytes = max(
            rows * (with_shape(task, shape).clip_bytes if isinstance(task, SampleSpec) else 1)
            for shape, rows in plan.sizes.items()
        )
        ahead = _FETCHED_CLIPS if storage is not None and storage.fetches else _CLIPS
        fewest = min(plan.sizes.values())

        def slots_for(workers: int) -> int:
            wanted = _SLOTS + ahead * workers // fewest
            return _slots(slots, wanted, batch_bytes, host.memory_left())

        workers = max(self._workers, self._engine.wait_for_workers(0, timeout_s=0))
        memory = Slots(slots_for(workers), batch_bytes)
        root, function = str(catalog.root or ""), " or ".join(functions_of(task))
        state = records.Stream(
            next(self._streams),
            plan,
            Quarantine(catalog, plan, options, judges=isinstance(task, SampleSpec)),
            slots=memory.slots,
            most_slots=_most_slots(batch_bytes, host.memory_left()) if slots is None else slots,
            ordered=options["ordered"],
            lease_clips=BatchLayout.of(task).lease_clips,
            fetched=storage is not None and storage.fetches,
            function=function,
            files=self._files(catalog, has_own=storage is not None),
            copy=None if storage is None else copy_name(storage.root),
            root=root,
            local_only=local_only,
        )
        look, membership = partial(self._engine.storage_of, root), self._engine.membership
        meter = Meter(
            lambda video: catalog[video].path, look, function, membership.lost, membership.alone_s
        )
        return OpenStream(
            state, catalog, task, memory, storage, meter, code,
            slots_for=slots_for if slots is None else lambda workers: 0,
        )  # fmt: skip

    def _check_clips(self, spec: SampleSpec) -> None:
        if self.endpoints and spec.clip_bytes > PIXEL_BYTES:
            raise SpecError(
                f"a clip has {spec.clip_bytes / 1e9:.1f} GB, but remote workers can send at most "
                f"{PIXEL_BYTES / 1e9:.1f} GB: use smaller clips, or omit listen="
            )
        if (frames := max(math.prod(reported_shape(spec)), matrices(spec))) > _MAX_FRAMES:
            raise SpecError(
                f"a clip has {frames} frames, but the limit is {_MAX_FRAMES}: reduce frames= or "
                f"views="
            )

    def _look(
        self, seen: list[tuple[Ints, OpenStream]], task: Count, rows: Catalog
    ) -> Iterator[tuple[int, Any]]:
        """Run a task, as `run`, for a plan. Local workers read the files that this host has, so
        that the plan does not depend on a remote worker. Their streams are added to ``seen``, with
        the rows of each."""
        is_own = np.zeros(len(rows), bool)
        if self.endpoints and rows.root is not None and not is_url(str(rows.root)):
            is_own[:] = [status_of(rows.root, path) is not None for path in rows.paths]
        for at in (np.flatnonzero(is_own), np.flatnonzero(~is_own)):
            if not len(at):
                continue
            local_only = bool(is_own[at[0]])
            source = self._stream_of(task, rows.subset(at), local_only=local_only)
            seen.append((at, source))
            with self._engine.children(min(cores(), len(at)) if local_only else 0):
                for row, found in results(self._engine, source):
                    yield int(at[row]), found

    def _files(self, catalog: Catalog, *, has_own: bool) -> Files | None:
        """Return the files that workers of other hosts must have; None if there can be no such
        worker. A scan computes fingerprints with salt 0."""
        if not self.endpoints:
            return None
        found = table_of(catalog).column("fingerprint")  # by a scan
        salt = 0 if (found > 0).any() else secrets.randbits(63)
        files = Files(len(catalog), has_own=has_own, salt=salt)
        files.give(np.maximum(found, 0))
        return files

    @property
    def workers(self) -> tuple[WorkerStats, ...]:
        """The workers of this host and of others that are connected now."""
        return self._engine.worker_stats()

    @property
    def closed(self) -> bool:
        """Whether its workers have ended: after `close`, or after an error of its I/O thread."""
        return self._engine.stopped

    def wait_for_workers(self, count: int, timeout_s: float = 60.0) -> None:
        """Wait until ``count`` workers are connected.

        A stream does not need this: it starts with the first worker.

        Args:
            count: Number of workers, of this host and of others together.
            timeout_s: Seconds to wait at most. Default 60.

        Raises:
            WorkerError: Fewer workers connected in that time.
            ClosedError: The client is closed.
        """
        self._engine.check()
        count, timeout_s = whole("count", count, 0), real("timeout_s", timeout_s, 0)
        connected = self._engine.wait_for_workers(count, timeout_s)
        if connected < count:
            self._engine.check()
            where = ", ".join(self.endpoints) or "this host"
            raise WorkerError(
                f"only {connected} of {count} workers connected within {timeout_s:g} s ({where})"
            )

    def close(self) -> None:
        """End the workers of this host and all streams; workers of other hosts look for another
        trainer.

        It may be called more than once, and takes two seconds at most. Batches that were handed
        over stay valid.
        """
        self._finalizer()
        for each in list(self._open):
            if (stream := each()) is not None:
                stream.closed()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def _live_page(self) -> str | None:
        """Return the URL of the live page on this host; None without ``metrics_port``."""
        return None if self.metrics_port is None else f"http://127.0.0.1:{self.metrics_port}/"

    def __reduce__(self) -> NoReturn:
        raise TypeError(NO_COPY.format("Client"))

    def __repr__(self) -> str:
        state = "closed" if self._engine.stopped else f"workers={self._workers}"
        shown = () if self._live_page is None else (self._live_page,)
        return f"Client({', '.join((state, *self.endpoints, *shown))})"


def _end(engine: Engine, scrapes: Sequence[MetricsPort]) -> None:
    for port in scrapes:
        port.close()
    engine.stop()


def _most_slots(batch_bytes: int, left: int | None) -> int:
    most = _MAX_BYTES if left is None else min(_MAX_BYTES, int(_SHARE * left))
    return most // batch_bytes


def _slots(requested: int | None, wanted: int, batch_bytes: int, left: int | None) -> int:
    """Return the number of batches to hold: ``wanted`` if none was ``requested`` for. Raises
    MemoryError if they need more than the memory that is ``left``: the kernel would kill this
    process."""
    if requested is not None:
        slots = whole("slots", requested, 2)
    else:
        slots = max(_FEWEST, min(wanted, _most_slots(batch_bytes, left)))
    if left is not None and slots * batch_bytes > _MAX_SHARE * left:
        fewer = "" if slots == 2 else f", or give fewer slots= than {slots}"
        raise MemoryError(
            f"{slots} batches of {batch_bytes / 1e9:.2f} GB need {slots * batch_bytes / 1e9:.2f} "
            f"GB, and of the memory of this host or container {_MAX_SHARE * left / 1e9:.2f} GB may "
            f"be used: make batch_size= or the clips smaller{fewer}"
        )
    return slots

"""Does the task of a lease: decodes its clips, one run of clips of the same video after the other,
or finds something of each of its rows. Prefetches what the leases that wait need."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import cast

import numpy as np
import numpy.typing as npt

from videoload.clips.sample_info import info_type
from videoload.clips.sample_spec import SampleSpec
from videoload.decoding.decoder import Decoder
from videoload.decoding.one_pass import OnePass
from videoload.errors import (
    OtherCopyError,
    RewrittenError,
    StorageError,
    TransformError,
    VideoError,
    VideoloadError,
    WorkerError,
    fault_of,
    named,
)
from videoload.logs import Log
from videoload.wire.messages import Failed, Lease, Result, commitment
from videoload.worker.trainers import TrainerConnection

_log = Log(__name__)

_DESCRIPTORS = 8  # that a worker needs to open a file


class LeaseRuns:
    """Runs one lease. `at` is the current clip. `result` describes the finished ones."""

    def __init__(
        self, decoder: Decoder, lease: Lease, out: npt.NDArray[np.uint8], tick: Callable[[], None]
    ) -> None:
        """``out``: the rows of the lease's place, or of its clips."""
        self._decoder, self._lease, self._out, self._tick = decoder, lease, out, tick
        self.at, self.result = 0, Result(lease.lease)
        self._spec = cast("SampleSpec", lease.task)  # of its clips, if it has some
        self._versions: dict[str, int] = {}  # of the files of decoded clips

    def do(self) -> None:
        """Do the task. Raises what the decoder raises, about clip `at`."""
        if isinstance(self._lease.task, SampleSpec):
            self._decode_all()
            return
        for at, clip in enumerate(self._lease.clips):
            self.at, since = at, time.perf_counter()
            self.result.found.append(self._decoder.run(self._lease.task, clip.row, self._tick))
            self.result.clip_s.append(time.perf_counter() - since)

    def _decode_all(self) -> None:
        self._info = np.empty(len(self._lease.clips), info_type(self._spec))
        started: dict[tuple[int, int], OnePass | None] = dict.fromkeys(runs(self._lease))
        seconds: list[float] = []
        for run in started:  # all of them first: files from other hosts are then on their way
            since = time.perf_counter()
            try:
                started[run] = self._start(*run)
            except StorageError:
                raise
            except Exception:  # `_decode` raises it again when the clips before are done
                pass
            seconds.append(time.perf_counter() - since)
        for (first, last), started_s in zip(list(started), seconds, strict=True):
            since = time.perf_counter()
            # Popped, so that it and its file go as soon as it is done.
            self._decode(first, last, started.pop((first, last)))
            clip_s = (started_s + time.perf_counter() - since) / (last - first)
            self.result.clip_s += [clip_s] * (last - first)
        self.result.info = self._info.tobytes()

    def look_at_files(self) -> None:
        """Find out which file each clip is of, before it is decoded and after. Raises
        OtherCopyError, about clip `at`, if the lease is for another file."""
        lease, files = self._lease, list[int]()
        self.result.files = files
        known = self._versions.copy()
        for self.at, clip in enumerate(lease.clips):
            if clip.row.path not in known:
                self._tick()
                expected = lease.files[self.at] if lease.files else 0
                self._decoder.expect(clip.row.path, clip.row.places)
                known[clip.row.path] = self._file(clip.row.path, expected)
            files.append(known[clip.row.path])
        self.at = 0

    @property
    def file(self) -> int:
        """The fingerprint of the file of clip `at`, if the lease requests it and it was found."""
        files = self.result.files if self._lease.files else []
        return files[self.at] if self.at < len(files) else 0

    def _file(self, path: str, expected: int) -> int:
        salt = self._lease.salt
        try:
            if salt is None:
                return self._decoder.videos.version(path)
            found = self._decoder.videos.fingerprint(path, salt)
        except (VideoError, RewrittenError) as error:
            if expected:
                reason = error.reason if isinstance(error, VideoError) else str(error)
                raise self._other_copy(path, reason) from None
            return 0  # the decoder reports what is wrong
        if expected not in (0, commitment(found)):
            self.result.files.append(found)
            raise self._other_copy(path, "differs from the one that this training uses")
        return found

    def _other_copy(self, path: str, why: str) -> OtherCopyError:
        return OtherCopyError(
            path, f"its copy of {named(path)} in {self._decoder.storage.root} {why}"
        )

    def _start(self, first: int, last: int) -> OnePass:
        self.at = first
        clips, row = self._lease.clips[first:last], _row(self._lease, first)
        out = self._out[row : row + last - first]
        return self._decoder.start(clips[0].row.path, self._spec, clips, out, self._tick)

    def _decode(self, first: int, last: int, run: OnePass | None = None) -> None:
        """Decode the clips [first, last), all of one video, in one pass over it."""
        try:
            self.at = first
            decoded = (run or self._start(first, last)).finish(self._tick)
        except VideoError:
            if last - first == 1:
                raise
            for at in range(first, last):  # one at a time: which clip is it?
                self._decode(at, at + 1)
            return
        decoded.write_metadata(self._info[first:last])
        if self._lease.salt is None and decoded.version is not None:
            self._versions[self._lease.clips[first].row.path] = decoded.version
        if decoded.from_frame_store:
            self.result.kept += last - first
        elif decoded.frame_store_full:
            self.result.no_room += last - first


def runs(lease: Lease) -> Iterator[tuple[int, int]]:
    """Runs [first, last) of clips of the same video, in consecutive rows."""
    first = 0
    for _, run in groupby(
        range(len(lease.clips)),
        lambda at: (lease.clips[at].row.path, _row(lease, at) - at),
    ):
        last = first + sum(1 for _ in run)
        yield first, last
        first = last


def _row(lease: Lease, at: int) -> int:
    """Return the row that clip ``at`` is written to."""
    return lease.place.rows[at] if lease.place is not None and lease.place.rows else at


def look_ahead(
    trainers: Iterable[TrainerConnection], decoder_of: Callable[[Lease], Decoder | None]
) -> None:
    """Start to fetch what waiting leases need, if their files are on another host."""
    for trainer in trainers:
        for lease in trainer.leases:
            if lease.lease <= trainer.expected:
                continue
            trainer.expected = lease.lease
            decoder = decoder_of(lease)
            if decoder is None or not decoder.storage.fetches:
                continue
            for first, last in runs(lease):
                clips = lease.clips[first:last]
                decoder.prefetch(clips[0].row.path, lease.task, clips)


def failure(lease: Lease, at: int, error: Exception, file: int = 0) -> Failed:
    """Return the message about a clip that cannot be decoded. ``file``: which file that is, if it
    was found out. Raises WorkerError if the clip may be fine, because this process cannot open
    files any more."""
    fault = fault_of(error)
    if isinstance(error, TransformError):
        return Failed(lease.lease, at, str(error), fault, file)
    if _lacks_descriptors():
        raise WorkerError(
            "this worker cannot open files any more: raise its limit of open files (ulimit -n), or "
            f"see what a transform leaves open ({error})"
        )
    if isinstance(error, VideoError):
        return Failed(lease.lease, at, error.reason, fault, file)
    if not isinstance(error, VideoloadError):
        _log.exception("lease %d, clip %r", lease.lease, lease.clips[at].row.path)
    return Failed(lease.lease, at, f"{type(error).__name__}: {error}", fault, file)


def _lacks_descriptors() -> bool:
    opened: list[int] = []
    try:
        for _ in range(_DESCRIPTORS):
            opened.append(os.dup(2))  # noqa: PERF401 - what was opened before an error is closed
    except OSError:
        return True
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return False

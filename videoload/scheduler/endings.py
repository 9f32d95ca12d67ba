"""The endings of a stream: at which batch, and with which error. `Scheduler` ends it, in one place:
the error is `Stream.ended`, all its batches are cancelled, and its consumers get the error.

    what happens                                     the stream ends  with
    -----------------------------------------------  ---------------  ------------------------------
    too many videos are bad, or none is left         at the batch     TooManyBadVideos, SpecError
    ... one is, with on_error="raise"                at the batch     VideoError
    the user's function fails, or no worker has it   at the batch     TransformError
    a file of many was rewritten, says a worker      at the batch     StorageError
    the plan raises something                        at the batch     VideoloadError
    the function hangs, or is slow at several clips  at once          TransformError
    a file of many was rewritten, sees the trainer   at once          RewrittenError
    no worker reads its root for `storage_timeout_s`  at once          StorageError
    a call or a command about the stream raises      at once          this error, or VideoloadError

*At the batch* means: after all batches before it were handed over, once a consumer waits for it. So
read-ahead decides nothing. Which videos are bad is decided in `blame`, and how many may be, in
`plan.quarantine`.
"""

from __future__ import annotations

from videoload.errors import Fault, StorageError, TransformError, VideoloadError
from videoload.scheduler.blame import Decision
from videoload.scheduler.records import Batch


def error_at(batch: Batch) -> VideoloadError | None:
    """Return the error with which the stream ends at this complete batch, None if it does not."""
    last, error = batch.error or (len(batch.samples), None)
    samples = [batch.samples[row] for row in batch.rows if row <= last]
    quarantine = batch.reader.stream.quarantine
    return quarantine.due(batch.step, samples, complete=error is None) or error


def error_before(batch: Batch) -> VideoloadError | None:
    """Return the error with which the stream ends at a batch whose first clips, as far as they are
    decided on, show already that too many videos are bad. If all are bad, it would never be
    complete."""
    quarantine, samples = batch.reader.stream.quarantine, batch.samples
    open_rows = [chunk.rows[0] for chunk in batch.chunks] + [*batch.left][:1]
    end = min(open_rows, default=len(samples))
    decided = [*samples[:end], *map(quarantine.replace, samples[end:][:1])]
    return quarantine.due(batch.step, decided, complete=False)


def of_clip(decision: Decision) -> VideoloadError:
    """Return a clip ends the stream, as `Blame` decided."""
    kind = StorageError if decision.fault is Fault.REWRITTEN else TransformError
    return kind(decision.reason)


def of_root(says: str, seconds: float) -> VideoloadError:
    """Return the error of a root that has not responded for so long."""
    return StorageError(f"{says}; no worker has read a video for {seconds:g} s since")


def of_plan(step: int, cause: Exception) -> VideoloadError:
    """Return a batch cannot be planned."""
    return _of_defect(f"batch {step} cannot be planned: {cause!r}", cause)


def of_call(cause: Exception) -> VideoloadError:
    """Return a call or a command about the stream raised this."""
    if isinstance(cause, VideoloadError):
        return cause
    return _of_defect(f"this stream broke in the I/O thread of videoload: {cause!r}", cause)


def _of_defect(text: str, cause: Exception) -> VideoloadError:
    """Return a defect of ours. The I/O thread logs the cause."""
    error = VideoloadError(text)
    error.__cause__ = cause
    return error

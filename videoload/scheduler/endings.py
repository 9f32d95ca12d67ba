"""What ends a stream, at which batch, and with which error. `Scheduler._end` is the only place that
ends one: it writes ``Stream.ended``, cancels all batches, and sends the error to all consumers.

    what happens                                     the stream ends  with
    -----------------------------------------------  ---------------  ------------------------------
    too many videos are bad, or none is left         at the batch     TooManyBadVideos, SpecError
    one video is bad, with on_error="raise"          at the batch     VideoError
    the user's function fails, or no worker has it   at the batch     TransformError
    a worker finds that many files were rewritten    at the batch     StorageError
    the plan raises an exception                     at the batch     VideoloadError
    the function is too slow at several clips        at once          TransformError
    the trainer finds that files were rewritten      at once          RewrittenError
    no worker reads its root (`storage_timeout_s`)   at once          StorageError
    a call or a command about the stream raises      at once          that error, or VideoloadError

*At the batch* means: after all batches before it were handed over, once a consumer waits for it. So
read-ahead decides nothing. `blame` decides which videos are bad, and `plan.quarantine` how many may
be. The end of the client ends no stream: its consumers get the client's error.
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
    """Return the error with which the stream ends at an incomplete batch, whose first clips show
    already that too many videos are bad. If all are bad, the batch would never be complete."""
    quarantine, samples = batch.reader.stream.quarantine, batch.samples
    open_rows = [chunk.rows[0] for chunk in batch.chunks] + [*batch.left][:1]
    end = min(open_rows, default=len(samples))
    decided = [*samples[:end], *map(quarantine.replace, samples[end:][:1])]
    return quarantine.due(batch.step, decided, complete=False)


def of_clip(decision: Decision) -> VideoloadError:
    """Return the error of a clip that ends the stream, as `Blame` decided."""
    kind = StorageError if decision.fault is Fault.REWRITTEN else TransformError
    return kind(decision.reason)


def of_root(says: str, seconds: float) -> VideoloadError:
    """Return the error of a root that no worker has read for so long, which ``says`` why."""
    return StorageError(f"{says}; no worker has read a video for {seconds:g} s")


def of_plan(step: int, cause: Exception) -> VideoloadError:
    """Return the error of a batch that cannot be planned."""
    return _of_defect(f"batch {step} cannot be planned: {cause!r}", cause)


def of_call(cause: Exception) -> VideoloadError:
    """Return the error of a call or a command about the stream that raised ``cause``."""
    if isinstance(cause, VideoloadError):
        return cause
    return _of_defect(f"this stream broke in the I/O thread of videoload: {cause!r}", cause)


def _of_defect(text: str, cause: Exception) -> VideoloadError:
    """Return the error of a defect of ours, whose cause the I/O thread logs."""
    error = VideoloadError(text)
    error.__cause__ = cause
    return error

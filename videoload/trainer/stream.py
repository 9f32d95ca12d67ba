"""`Stream`: an endless, reproducible sequence of batches, and the ways to read it."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, overload

from videoload.arguments import real, whole
from videoload.catalog.catalog import Catalog
from videoload.clips.item_spec import Spec
from videoload.engine.readers import Readers
from videoload.errors import BadVideo, VideoloadError
from videoload.plan.identity import Identity
from videoload.plan.options import StreamOptions
from videoload.plan.plan import Batch, BatchWithInfo
from videoload.stats.stats import StreamStats
from videoload.trainer.receipts import Receipts, with_digest

if TYPE_CHECKING:
    import tensorflow as tf

    from videoload.frameworks.sequence import StreamSequence


class Stream:
    """An endless sequence of batches, ``len(stream)`` per epoch. Made by `Client.stream`.

    ``for clips, labels in stream`` reads one epoch, the next loop the next one. ``clips`` is uint8
    [B, *clip.shape], [B, T, H, W, 3] for ``pixels="rgb24"``; ``labels`` is int64 [B], indices into
    ``catalog.classes``, or the targets that `Catalog.with_targets` was given. B is ``batch_size``,
    or less in the last batch of an epoch without ``drop_remainder`` and where ``on_error="skip"``
    leaves clips out. With an `ItemSpec`, ``clips``
    is an array [B, *shape] of its dtype, or a dict of them.

    Both arrays are the caller's and stay valid for as long as they are referenced, also after the
    client is closed. While they are, their slot is not filled anew: who keeps nearly all slots gets
    copies from then on, a warning says so once, and the stream goes on.

    Attributes:
        options: What the stream was asked for: `StreamOptions`.
        catalog: Its videos and labels: `Catalog`.
        clip: Its clips: `ClipSpec`, with the native size where ``size`` was None; or `ItemSpec`.
        readers: What adapters to other frameworks read it by. Their interface may change.
    """

    def __init__(self, readers: Readers) -> None:
        """Streams are made by `Client.stream`.

        Args:
            readers: How they are read.
        """
        self.readers = readers
        self.options: StreamOptions = readers.options
        self.catalog: Catalog = readers.catalog
        self.clip: Spec = readers.spec
        self._epoch = 0

    def __len__(self) -> int:
        """Batches per epoch.

        Returns:
            The same number on every rank of ``shard``.
        """
        return len(self.readers)

    def __iter__(self) -> Iterator[Batch]:
        """Read one epoch: the one after the last that a loop read to its end.

        A loop that is left before it got the last batch does not count: the next one reads the same
        epoch again.

        Yields:
            (clips, labels): uint8 [B, *clip.shape] and int64 [B].

        Raises:
            VideoError: A clip cannot be decoded, with ``on_error="raise"``.
            TooManyBadVideos: More videos are bad than ``max_bad`` allows.
            TransformError: The transform, or the load function, cannot be imported, is not allowed,
                or failed.
            WorkerError: The workers of this host end as soon as they are started.
            ClosedError: The client is closed.
        """
        epoch = self._epoch
        steps = range(epoch * len(self), (epoch + 1) * len(self))

        def taken(step: int) -> None:
            if step == steps[-1]:  # `zip`, and who counts, asks for no more
                self._epoch = max(self._epoch, epoch + 1)

        yield from self.readers.read(steps, taken=taken)

    @overload
    def batches(
        self, start_step: int = 0, epochs: int = 1, *, info: Literal[False] = False
    ) -> Iterator[Batch]: ...

    @overload
    def batches(
        self, start_step: int = 0, epochs: int = 1, *, info: Literal[True]
    ) -> Iterator[BatchWithInfo]: ...

    @overload
    def batches(
        self, start_step: int = 0, epochs: int = 1, *, info: bool
    ) -> Iterator[Batch | BatchWithInfo]: ...

    def batches(
        self, start_step: int = 0, epochs: int = 1, *, info: bool = False
    ) -> Iterator[Batch | BatchWithInfo]:
        """Read from any step to the end of any epoch.

        To resume, pass the number of batches already trained on as ``start_step``: nothing before
        it is decoded. With ``on_error="skip"`` some have no batch: pass ``info.step + 1`` of the
        last one.

        Args:
            start_step: First batch to read, counted over all epochs from 0. Default 0.
            epochs: Epoch at whose end to stop, counted from the stream's beginning and not from
                ``start_step``: ``batches(start_step, epochs=3)`` ends with batch
                ``3 * len(stream) - 1``. Default 1.
            info: Say where each batch came from, and its digest, which takes about 1 ms per MB.
                Default False.

        Yields:
            (clips, labels): uint8 [B, *clip.shape] and int64 [B]; with ``info`` (clips, labels,
            BatchInfo).

        Raises:
            SpecError: ``start_step`` lies after the end of epoch ``epochs``.
            VideoError: A clip cannot be decoded, with ``on_error="raise"``.
            TooManyBadVideos: More videos are bad than ``max_bad`` allows.
            TransformError: The transform, or the load function, cannot be imported, is not allowed,
                or failed.
            WorkerError: The workers of this host end as soon as they are started.
            ClosedError: The client is closed.
        """
        batches = self.readers.read(self.readers.steps(start_step, epochs), info=info)
        # Mapped, not looped over: a variable here would hold on to the batch's slot.
        return map(with_digest, batches) if info else batches

    def dataset(
        self, start_step: int = 0, epochs: int = 1, *, info: bool = False
    ) -> tf.data.Dataset:
        """The stream as a ``tf.data.Dataset``, without copying a batch.

        Its cardinality is known, it prefetches by itself, and auto-sharding is off, since the
        stream has its own ``shard``. Each iteration goes on where the last complete one ended, so
        that epochs differ; an iterator that was left early does not count. What goes wrong arrives
        as TensorFlow's error; `error` is the original.

        Args:
            start_step: First batch, counted over all epochs from 0: the number of batches already
                trained on, as in `batches`. Default 0.
            epochs: Epoch at whose end to stop, counted from the stream's beginning. Default 1.
            info: Say where each batch came from. Default False.

        Returns:
            A dataset of (clips, labels): tf.uint8 [B, *clip.shape] and tf.int64 [B]; with an
            `ItemSpec`, ``clips`` is [B, *shape] of its dtype, or a dict; of a catalog with targets,
            ``labels`` are those (text is tf.string). With ``info`` (clips, labels, dict): the
            fields of `BatchInfo` but ``step``. B is static with ``drop_remainder``, else None. With
            ``on_error="skip"``, neither B nor the number of batches is known.

        Raises:
            SpecError: ``start_step`` lies after the end of epoch ``epochs``.
            VideoloadError: TensorFlow is not installed.
        """
        from videoload.frameworks.tfdata import dataset

        return dataset(self.readers, start_step, epochs, info=info)

    def sequence(self) -> StreamSequence:
        """One epoch of the stream as a ``keras.utils.PyDataset``: ``len(it)`` batches, ``it[i]``.

        ``it[i]`` is step i of the epoch, in whatever order it is asked for; each Keras epoch takes
        the stream's next one. In order, batches are made ahead; another number is a seek, which
        nothing is made ahead of. So leave the shuffling to the stream: ``fit(it, shuffle=False)``.

        Returns:
            A sequence whose items are (clips, labels), as those of a loop.

        Raises:
            SpecError: ``on_error="skip"`` or ``ordered=False``: batches have no number.
            VideoloadError: Keras is not installed.
        """
        from videoload.frameworks.sequence import StreamSequence

        return StreamSequence(self.readers)

    def keep_receipts(self, path: str | os.PathLike[str]) -> None:
        """Keep a line of each batch that is handed over from now on: its step and a digest.

        With them, ``videoload replay`` makes any past batch again and says whether it is the same.
        The file also holds what the stream was asked for and its list of videos; where it is there
        already, it goes on. The digest takes about 1 ms per MB, ahead of the trainer behind
        `dataset`.

        Args:
            path: The file, JSON lines. Its folder is made if it is not there.

        Raises:
            VideoloadError: It is another stream's, or cannot be written.
        """
        receipts = Receipts(os.fspath(path), self.catalog, self.clip, self.options)
        self.readers.on_batch = receipts.add

    def preview(
        self, path: str | os.PathLike[str], batches: int = 1, *, start_step: int = 0
    ) -> None:
        """Draw batches as the trainer gets them: a contact sheet, or an animation.

        In a sheet, each clip is a row of its frames, with the number of the source frame above
        each and the class and the file beside it. In an animation, all clips move, side by side.
        Nothing of it counts in `stats`, nor as an epoch. Needs the extra ``[preview]``.

        Args:
            path: The file to write: ``.png`` for a sheet, ``.webp`` for an animation.
            batches: How many to show, at least 1. Default 1.
            start_step: The first of them, counted over all epochs from 0. Default 0.

        Raises:
            SpecError: Another kind of file, or items that are no clips.
            VideoloadError: Pillow is not installed, or the file cannot be written; or what ends
                the stream, as in `batches`.
        """
        from videoload.trainer import contact_sheet

        spec = contact_sheet.check(os.fspath(path), self.clip)
        start = whole("start_step", start_step, 0)
        stop = start + whole("batches", batches)
        shown = self.readers.read(range(start, stop), counts=False, info=True)
        contact_sheet.save(os.fspath(path), shown, self.catalog, spec)

    @property
    def fingerprint(self) -> str:
        """What this stream is, 64 bits in hex. It is equal on all ranks that agree: on the videos
        and labels, on the clip spec and on every option but ``shard``."""
        return Identity.of(self.catalog, self.clip, self.options).fingerprint

    @property
    def quarantine(self) -> list[BadVideo]:
        """The videos that could not be decoded so far, each once, as `BadVideo` (path, reason)."""
        return self.readers.quarantine.videos

    @property
    def error(self) -> VideoloadError | None:
        """What ended the last reading of this stream, or None.

        Behind a dataset an error arrives as one of TensorFlow's, with pages around its text. This
        is the error itself:

            try:
                model.fit(stream.dataset())
            except Exception as error:
                raise stream.error or error from None
        """
        return copy.copy(self.readers.error)  # one that was raised holds its consumer's frames

    def stats(self, window_s: float | None = None, *, since_last: bool = False) -> StreamStats:
        """What the stream did so far.

        Args:
            window_s: Count only what was handed over in the last so many seconds. None, the
                default: all that was.
            since_last: Count only what was since the last call with this. Default False.

        Returns:
            Clips per second, the share of the time that the trainer waited, the workers, the bad
            videos, and one sentence on what that means. ``print`` shows it in one line.

        Raises:
            SpecError: ``window_s`` is not a positive number.
        """
        window_s = math.inf if window_s is None else real("window_s", window_s, 0.001)
        if since_last:
            window_s = min(window_s, self.readers.meter.since("stats"))
        return self.readers.stats(window_s)

    def __repr__(self) -> str:
        return (
            f"Stream({len(self)} batches of {self.options.batch_size}, clips {self.clip.shape}, "
            f"{self.catalog!r})"
        )

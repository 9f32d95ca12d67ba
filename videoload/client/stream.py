"""`Stream`: an endless, reproducible sequence of batches, and the ways to read it."""

from __future__ import annotations

import copy
import json
import math
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Generic, Literal, NoReturn, overload

from videoload.arguments import real, whole
from videoload.engine.readers import ReadableStream
from videoload.engine.stats import StreamStats
from videoload.errors import BadVideo, SpecError, VideoloadError
from videoload.plan.batches import Batch, BatchWithInfo, C, with_digest
from videoload.plan.epoch_cursor import EpochCursor

if TYPE_CHECKING:
    import tensorflow as tf

    from videoload.frameworks.sequence import StreamSequence


# KerasTuner makes deep copies of callbacks, and other libraries pickle what they send to a process.
NO_COPY = (
    "a {} cannot be copied or pickled, nor can a callback that holds one, such as Position: make "
    "one where it is used, in each process (with KerasTuner, in the fit method of a HyperModel)"
)


class Stream(ReadableStream, Generic[C]):
    """An endless sequence of batches, ``len(stream)`` per epoch. Created by `Client.stream`.

    Examples:
        >>> for epoch in range(2):
        ...     for clips, labels in stream:
        ...         pass  # train on a batch

    ``for clips, labels in stream`` reads one epoch, and the next loop the next epoch. ``clips`` is
    uint8 [B, *clip.shape], [B, T, H, W, 3] for ``pixels="rgb24"``; for a dict of specs, or with
    audio, a dict of arrays. ``labels`` is int64 [B], indices into ``catalog.classes``, or the
    targets of `Catalog.with_targets`. B is ``batch_size``. It is smaller in the last batch of an
    epoch without ``drop_remainder``, and where ``on_error="skip"`` leaves clips out. With
    ``buckets``, T differs from batch to batch, and with ``batch_frames`` B does as well.

    The arrays stay valid for as long as they are referenced, also after the client is closed. Until
    then their slot is not filled again. A consumer that holds nearly all slots gets copies from
    then on, and one warning. A process created by ``fork`` shares their memory and does not hold
    it: give it ``clips.copy()``.

    Attributes:
        options: Its options, by their names in `Client.stream`: dict.
        catalog: Its videos and labels: `Catalog`.
        clip: Its clips: `ClipSpec`, with the native size if ``size`` was None; or a dict of
            them.
    """

    def __len__(self) -> int:
        """Return batches per epoch, the same number on all ranks of ``shard``."""
        return len(self.plan)

    def __iter__(self) -> Iterator[Batch[C]]:
        """Read the next epoch.

        Every pass is the next epoch: of a loop, of `batches`, `dataset`, `sequence` and
        `videoload.torch.batches`, also after a pass that was left early. A pass that took less than
        three batches does not count, since frameworks look at a batch or two before they begin.

        Yields:
            (clips, labels): uint8 [B, *clip.shape] and int64 [B].

        Raises:
            VideoloadError: As in `batches`.
        """
        return self.batches()

    @overload
    def batches(
        self,
        start_step: int | None = None,
        epochs: int | None = None,
        *,
        info: Literal[False] = False,
    ) -> Iterator[Batch[C]]: ...

    @overload
    def batches(
        self, start_step: int | None = None, epochs: int | None = None, *, info: Literal[True]
    ) -> Iterator[BatchWithInfo[C]]: ...

    @overload
    def batches(
        self, start_step: int | None = None, epochs: int | None = None, *, info: bool
    ) -> Iterator[Batch[C] | BatchWithInfo[C]]: ...

    def batches(
        self, start_step: int | None = None, epochs: int | None = None, *, info: bool = False
    ) -> Iterator[Batch[C] | BatchWithInfo[C]]:
        """Read the next epoch; or, with ``start_step`` or ``epochs``, a range of batches by number.

        Examples:
            >>> for clips, labels, info in stream.batches(start_step=2, epochs=1, info=True):
            ...     print(info.step, clips.shape)
            2 (4, 16, 112, 112, 3)

        To resume, pass the number of batches already trained on as ``start_step``: nothing before
        it is decoded. With ``on_error="skip"``, pass ``info.step + 1`` of the last batch, since
        some steps have none. A range is the same each time, and is no pass: the next loop reads the
        epoch that it would have read.

        Args:
            start_step: First batch to read, counted over all epochs from 0. None, the default: the
                next epoch; or 0, if ``epochs`` is given.
            epochs: Epoch at whose end to stop, counted from the stream's beginning and not from
                ``start_step``: ``batches(start_step, epochs=3)`` ends with batch
                ``3 * len(stream) - 1``. None, the default: the epoch that ``start_step`` is in.
            info: Add the origin of each batch. Default False.

        Yields:
            (clips, labels): uint8 [B, *clip.shape] and int64 [B]; with ``info`` (clips, labels,
            BatchInfo).

        Raises:
            SpecError: ``start_step`` lies after the end of epoch ``epochs``.
            VideoError: A clip cannot be decoded, with ``on_error="raise"``.
            TooManyBadVideos: More videos are bad than ``max_bad`` allows.
            TransformError: The transform cannot be imported, is not allowed, or failed.
            WorkerError: The workers of this host end at their start.
            ClosedError: The client is closed.
        """
        if start_step is None and epochs is None:
            own = self.cursor.begin()
            batches = self.read(own.steps, info=info, follows=True, taken=own.taken)
        else:
            steps = self.plan.steps(start_step or 0, epochs)
            batches = self.read(steps, info=info)
        # `map`, since the variable of a loop here would hold the batch's slot.
        return map(with_digest, batches) if info else batches

    def dataset(
        self, start_step: int | None = None, epochs: int | None = None, *, info: bool = False
    ) -> tf.data.Dataset:
        """Return the stream as a ``tf.data.Dataset``, without copying a batch.

        Examples:
            >>> history = model.fit(stream.dataset(), epochs=2, shuffle=False, verbose=0)

        Each iteration is the next epoch, as in a loop, and the next epoch is prefetched. So
        ``fit(stream.dataset(), epochs=10)`` trains on ten epochs. With ``start_step`` or ``epochs``
        it is one pass over that range; each further iteration is a range of the same length behind
        it.

        Its cardinality is known. It needs no ``prefetch``: the batches are ready. Auto-sharding is
        off, since the stream has its own ``shard``. An error arrives as TensorFlow's; `error` is
        the original.

        Args:
            start_step: First batch, counted over all epochs from 0: the number of batches already
                trained on, as in `batches`. None, the default: the next epoch; or 0, if ``epochs``
                is given.
            epochs: Epoch at whose end to stop, counted from the stream's beginning. None, the
                default: the epoch that ``start_step`` is in.
            info: Add the origin of each batch. Default False.

        Returns:
            A dataset of (clips, labels): tf.uint8 [B, *clip.shape] and tf.int64 [B]. With targets,
            ``labels`` are the targets; text is tf.string. With ``info`` (clips, labels, dict): the
            fields of `BatchInfo` but ``step``, and its ``lengths`` and ``mask``. B is static with
            ``drop_remainder``, else None; and what batches of several ``buckets`` differ in is
            None. With ``on_error="skip"``, neither B nor the number of batches is known.

        Raises:
            SpecError: ``start_step`` lies after the end of epoch ``epochs``.
            VideoloadError: TensorFlow is not installed.
        """
        from videoload.frameworks.tfdata import dataset

        cursor = self.cursor
        if start_step is not None or epochs is not None:
            steps = self.plan.steps(start_step or 0, epochs)
            cursor = EpochCursor(len(self), steps.start, len(steps))
        return dataset(self, cursor, info=info)

    def sequence(self) -> StreamSequence:
        """Return one epoch of the stream as a ``keras.utils.PyDataset``: ``len(it)`` batches,
        ``it[i]``.

        Examples:
            >>> history = model.fit(stream.sequence(), shuffle=False, verbose=0)

        ``it[i]`` is step i of the epoch, at any time. Each Keras epoch takes the stream's next one;
        one that requested fewer than three batches does not count. Batches requested in order are
        prefetched; another number is a seek. So leave the shuffling to the stream: ``fit(it,
        shuffle=False)``.

        Returns:
            A sequence whose items are (clips, labels), as in a loop.

        Raises:
            SpecError: ``on_error="skip"`` or ``ordered=False``: batches have no number. Or batches
                of several ``buckets``: they have no one shape.
            VideoloadError: Keras is not installed.
        """
        from videoload.frameworks.sequence import StreamSequence

        return StreamSequence(self)

    def state_dict(self) -> dict[str, int | str]:
        """Return the position of the last pass over the stream, by the protocol of torchdata.

        It counts what loops and `videoload.torch.batches` have taken, not what is read by number
        (``start_step``). All ranks of ``shard`` stand at the same step, so the state of one resumes
        each of them.

        Returns:
            ``step``, the number of batches over all epochs; ``fingerprint`` and ``world``, the
            number of ranks; ``all_ranks``, what they give together; ``copies``, which copies were
            used of files that only workers of other hosts have; ``stream``, the settings, for
            messages. They can be pickled, and written as JSON.
        """
        return {
            "step": self.cursor.step, "fingerprint": self.fingerprint,
            "world": self.options["shard"][1], "copies": self.copies,
            "all_ranks": self.identity.of_all_ranks,
            "stream": json.dumps({**self.identity.settings, "shard": ""}),
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, int | str]) -> None:
        """Make the next pass over the stream continue at the position of `state_dict`, in the
        middle of its epoch.

        The number of ranks may be another one, where ranks times ``batch_size`` is the same: each
        step has the same samples, shared out again. That needs ``drop_remainder``, a ``batch_size``
        that the crops of a clip divide, and no mixture, ``balance="class"`` or
        ``batch_frames``.

        Args:
            state: What `state_dict` returned, on any rank of a stream of the same arguments.

        Raises:
            VideoloadError: It is of another stream, or of a number of ranks that cannot resume
                here.
            SpecError: It is incomplete, or with ``ordered=False`` of the middle of an epoch.
        """
        own = self.state_dict()
        found = state if isinstance(state, Mapping) else {}
        needed = ("step", "fingerprint", "world", "stream")
        if missing := [name for name in needed if name not in found]:
            raise SpecError(
                f"this state has no {missing[0]!r}: pass the result of a stream's state_dict()"
            )
        is_same = all(state[name] == own[name] for name in ("fingerprint", "world"))
        if not is_same and not (own["all_ranks"] and state.get("all_ranks") == own["all_ranks"]):
            why = self.identity.obstacle(json.loads(str(state["stream"])), int(state["world"]))
            raise VideoloadError(f"this state belongs to another stream ({why})")
        if (step := whole("step", state.get("step"), 0)) % len(self):
            self.plan.check_resume(step)
        try:
            self.use_copies(str(state.get("copies", "")))
        except ValueError as error:
            raise VideoloadError(f"this state is damaged: {error}") from None
        self.cursor.go_to(step)

    def preview(
        self, path: str | os.PathLike[str], batches: int = 1, *, start_step: int = 0
    ) -> None:
        """Draw batches as the trainer gets them: a contact sheet.

        Each clip is a row of its frames. The number of the source frame is above each frame, the
        class and the file are beside the row. Of several files as one sample, each part has
        its row, the parts of a sample below each other. `Points` and `Boxes` among the
        targets are drawn into the clips. These batches count neither in `stats` nor as an epoch.
        Needs the extra ``[preview]``.

        Args:
            path: The file to write: ``.png``.
            batches: How many to show, at least 1. Default 1.
            start_step: The first one, counted over all epochs from 0. Default 0.

        Raises:
            SpecError: The file has another suffix, or a transform does not return images.
            VideoloadError: Pillow is not installed, or the file cannot be written; or an error of
                the stream, as in `batches`.
        """
        from videoload.client import contact_sheet

        spec = self.spec
        contact_sheet.check(os.fspath(path), spec)
        start = whole("start_step", start_step, 0)
        stop = start + whole("batches", batches)
        shown = self.read(range(start, stop), counts=False, info=True)
        contact_sheet.save(os.fspath(path), shown, self.catalog, spec)

    @property
    def fingerprint(self) -> str:
        """64 bits in hex that are equal on all ranks that agree on the videos, the labels, the clip
        spec, the source of its functions, and every option but ``shard``."""
        return self.identity.fingerprint

    @property
    def quarantine(self) -> list[BadVideo]:
        """The videos that could not be decoded so far, each once: `BadVideo` (path, reason)."""
        return self.source.state.quarantine.videos

    @property
    def changed(self) -> list[str]:
        """The files that were replaced while this stream ran, or since the catalog's scan, each
        once: paths relative to its root. The new versions are used, so a second run has other
        batches."""
        return list(self.source.changed.copy())  # it may grow meanwhile

    @property
    def error(self) -> VideoloadError | None:
        """The error that ended the last reading of this stream, or None.

        Behind a dataset, an error arrives as one of TensorFlow's, with pages around its text. This
        is the original:

            try:
                model.fit(stream.dataset())
            except Exception as error:
                raise stream.error or error from None
        """
        return copy.copy(self._error)  # A raised error holds the frames of its consumer.

    def stats(self, window_s: float | None = None, *, since_last: bool = False) -> StreamStats:
        """Return statistics of the stream.

        Examples:
            >>> stats = stream.stats(window_s=60)
            >>> wait_ratio, verdict = stats.wait_ratio, stats.verdict

        Args:
            window_s: Count only the last seconds, this many. None, the default: all.
            since_last: Count only the time after the last such call. Default False.

        Returns:
            Clips per second, the share of the time that the trainer waited, the workers, the bad
            videos, and one sentence on what this means. ``print`` shows it in one line.

        Raises:
            SpecError: ``window_s`` is not a positive number.
        """
        window_s = math.inf if window_s is None else real("window_s", window_s, 0.001)
        if since_last:
            window_s = min(window_s, self.source.meter.since("stats"))
        return self.record(window_s).stats

    def __getitem__(self, index: object) -> NoReturn:
        raise TypeError(
            "streams have no [i]: use a loop (in PyTorch, over vl.torch.batches(stream)), or "
            "stream.sequence()[i]. For a part of the videos, give catalog.subset(numbers)"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(NO_COPY.format("Stream"))

    def __repr__(self) -> str:
        of = self.options["batch_size"] or f"{self.options['batch_frames']} frames"
        shape = self.spec.shape
        return f"Stream({len(self)} batches of {of}, clips {shape}, {self.catalog!r})"

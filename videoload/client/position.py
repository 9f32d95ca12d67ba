"""Resume with Keras's ``fit``: model and position in one folder, saved and loaded together.

The stream is a pure function of its arguments, so to resume, the number of batches trained on is
enough. But it is right only with the weights of the same moment, and only for the same stream. So a
`Position` saves all three: the model, the number, and the identity of the stream.
"""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import time
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event
from typing import Any, ClassVar
from weakref import WeakValueDictionary, finalize

import keras

from videoload.arguments import whole
from videoload.client.stream import Stream
from videoload.errors import SpecError, VideoloadError
from videoload.frameworks.interrupts import INTERRUPTS
from videoload.plan.batches import with_digest
from videoload.plan.epoch_cursor import EpochCursor
from videoload.plan.identity import Identity
from videoload.plan.options import check_numbered
from videoload.storage.new_files import new_file


class Position(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """A Keras callback that saves the position of a training run, and restores it.

    Examples:
        >>> position = vl.keras.Position("runs/first", stream, every=50)
        >>> model = position.load_model() if position.batches else build_model()
        >>> for part in position.remaining(epochs=2):
        ...     history = model.fit(**part, callbacks=[position], verbose=0)

    It saves the model and the number of batches that it was trained on, every ``every`` batches and
    at the end of a ``fit``. The file with the number is replaced last and in one step, so at any
    moment it names a complete model. While a position exists, no other process can use its folder.

    An epoch's end is saved only after its validation and after all callbacks' ``on_epoch_end``. If
    the process is killed before, the resumed ``fit`` repeats the epoch's last batches, validates
    the epoch, and calls all callbacks.

    Args:
        folder: Folder of ``position.json`` and the model. It is created if it does not exist.
        stream: The stream that the model is trained on.
        every: Batches from one saving to the next. Default 100.
        stop: Once it is set, the training ends after the current batch, or where it waits for one,
            and is saved. A SIGTERM whose handler sets it counts while TensorFlow waits in the main
            thread, where no handler runs. On PyTorch and JAX, ``fit`` raises ValueError if it ends
            before its first batch. Default None: nothing stops it.

    Attributes:
        batches: How many batches the model was trained on so far.

    Raises:
        VideoloadError: ``folder`` belongs to a stream of other videos, another clip spec or other
            options; or another process uses it; or it cannot be created.
        SpecError: The stream leaves out bad clips or has no order, so that batches have no number.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        stream: Stream,
        every: int = 100,
        *,
        stop: Event | None = None,
    ) -> None:
        super().__init__()
        self._every = whole("every", every)
        check_numbered(stream.options, "a position")
        self._folder = Path(folder)
        self._stream = stream
        self._stop, self._began = stop, math.inf
        self._file = self._folder / "position.json"
        self._unfinished = self._folder / "unfinished.keras"
        self._identity = self._stream.identity
        self.batches = 0
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = _Lock.of(self._folder)
            saved = _content(self._file)
        except OSError as error:
            raise VideoloadError(f"{error.filename or folder}: {error.strerror}") from None
        self._known = [saved]  # Any other content was saved by another position.
        if saved is not None:
            self.batches, copies = _read(self._file, saved, self._identity)
            try:
                self._stream.use_copies(copies)
            except ValueError:
                raise VideoloadError(f"{self._file} is damaged: use another folder") from None
        self._saved = self._epoch_began = self._fitted = self.batches

    @property
    def model_file(self) -> Path:
        """The file of the model that was saved last."""
        return self._model_after(self._saved)

    def load_model(self, **options: Any) -> Any:
        """Return the model that was saved last, with its optimizer.

        `remaining` continues after the batches of this model, whatever was trained since.

        Args:
            **options: As in ``keras.saving.load_model``, for example ``custom_objects``.

        Returns:
            The compiled ``keras.Model``.

        Raises:
            VideoloadError: No model was saved yet, or its file is missing or damaged.
        """
        if not self._file.exists():
            raise VideoloadError(f"no model was saved in {self._folder} yet")
        if not zipfile.is_zipfile(self.model_file):
            raise VideoloadError(f"{self.model_file} is missing or damaged: use another folder")
        model = keras.saving.load_model(self.model_file, **options)
        self.batches = self._saved  # A fit that runs meanwhile has its own count.
        return model

    def remaining(self, epochs: int, *, info: bool = False) -> Iterator[dict[str, Any]]:
        """Yield the rest of a training run, as arguments of ``fit``.

        There are two parts at most: the rest of an interrupted epoch, and the whole epochs after
        it. Call ``fit`` with each part, and with this callback, before you take the next one.

        Args:
            epochs: Epochs in all, including those trained before.
            info: Whether ``x`` has batches with their info, for a ``map`` of yours. Default False.

        Yields:
            ``x``, ``steps_per_epoch``, ``initial_epoch``, ``epochs`` and ``shuffle`` of ``fit``.
            ``x`` is a dataset, or with Keras on PyTorch or JAX an iterator of NumPy arrays.
        """
        size, epochs = len(self._stream), whole("epochs", epochs, 0)
        while self.batches < epochs * size and not self._is_stopped():
            before = self.batches
            done, rest = divmod(before, size)
            until = done + 1 if rest else epochs
            yield {
                "x": self._read(range(before, until * size), info=info), "initial_epoch": done,
                "epochs": until, "steps_per_epoch": size - rest, "shuffle": False,
            }  # fmt: skip
            if self._is_stopped():
                return
            if self.batches == before:
                raise VideoloadError(
                    "no batch was trained on since the last part: pass the position to fit, in "
                    "callbacks=[...], with all that remaining() yields"
                )
            if self.model.stop_training:  # EarlyStopping sets it.
                return

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Refuse a ``fit`` that would train on other batches than are counted."""
        at_once = getattr(self.model, "steps_per_execution", 1)
        steps = (self.params or {}).get("steps") or len(self._stream)
        if steps % at_once:  # Keras would take the missing ones from the next epoch.
            raise SpecError(
                f"steps_per_execution={at_once} does not divide the {steps} batches to train on: "
                "compile the model with another one"
            )
        self._fitted = self.batches
        try:
            with TemporaryFile(dir=self._folder):
                pass  # Raise an error now, not after the first batches.
        except OSError as error:
            raise VideoloadError(f"{self._folder}: {error.strerror}") from None

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Keras counts the batches of an epoch from here. Save the end of the one before, if it is
        time: it is validated now, and every callback knows of it."""
        self._epoch_began = self._fitted
        self._save_if_due(self._every)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Count the batch, and save when it is time."""
        at_once = getattr(self.model, "steps_per_execution", 1)
        batch -= batch % at_once  # some versions of Keras pass its first batch, others its last
        self.batches = self._fitted = self._epoch_began + batch + at_once
        if self._is_stopped():
            self.model.stop_training = True
        elif self.batches % len(self._stream):
            self._save_if_due(self._every)

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Save the middle of an epoch before a validation if the training is to end: it may wait
        for its batches, too."""
        if self._is_stopped() and self.batches % len(self._stream):
            self._save_if_due(1)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """End the training also if it was stopped while it waited for a batch."""
        if self._is_stopped():
            self.model.stop_training = True

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Save if any batch was trained on since the last saving."""
        self.batches = self._fitted
        self._save_if_due(1)  # Otherwise this model is saved already.

    def _is_stopped(self) -> bool:
        return self._stop is not None and self._stop.is_set()

    def _read(self, steps: range, *, info: bool) -> Any:
        """Return the batches of ``steps``, as `remaining` yields them."""
        self._began, self._fitted = time.monotonic(), steps.start
        if keras.config.backend() == "tensorflow":
            from videoload.frameworks.tfdata import dataset

            cursor = EpochCursor(len(self._stream), steps.start, len(steps))
            return dataset(self._stream, cursor, info=info, ends=self._ends_wait)
        batches = self._stream.read(steps, info=info, ends=self._ends_wait)
        return map(with_digest, batches) if info else batches

    def _ends_wait(self, step: int) -> bool:
        """Return whether to end the training here, where it waits for the batch of ``step``."""
        if self._stop is None:
            return False
        if not (self._stop.is_set() or INTERRUPTS.was_terminated(self._began)):
            return False
        if step != self._fitted:  # in the middle of `steps_per_execution`
            return False
        # Keras would warn that the data has too few batches.
        warnings.filterwarnings("ignore", "Your input ran out of data")
        return True

    def _save_if_due(self, every: int) -> None:
        if self.batches - self._saved >= every:
            self._save()

    def _save(self) -> None:
        # The file gets the name of a model only when it is complete.
        values = {
            "batches": self.batches, "stream": self._identity.settings,
            "copies": self._stream.copies,
        }  # fmt: skip
        content = json.dumps(values).encode() + b"\n"
        try:
            if (here := _content(self._file)) not in self._known:
                raise VideoloadError(
                    f"{self._folder}: another training run has saved here meanwhile: give each "
                    "its own folder"
                )
            before = None if here is None else self.model_file
            self._known = [here, content]
            self._unfinished.unlink(missing_ok=True)
            self.model.save(self._unfinished)
            with self._unfinished.open("rb") as written:
                os.fsync(written.fileno())  # Otherwise a power failure may leave it empty.
            self._unfinished.replace(self._model_after(self.batches))
            with new_file(self._file, alone=True) as number:
                number.write(content)
                number.flush()
                os.fsync(number.fileno())
        except OSError as error:
            with suppress(OSError):
                self._unfinished.unlink()  # The disk may be full.
            why = error.strerror or error
            raise VideoloadError(f"{self._folder}: the model cannot be saved: {why}") from None
        self._saved = self.batches
        if before not in (None, self.model_file):
            before.unlink(missing_ok=True)

    def _model_after(self, batches: int) -> Path:
        return self._folder / f"model-{batches}.keras"


class _Lock:
    """A folder that this process alone trains in, for as long as a `Position` holds this."""

    _held: ClassVar[WeakValueDictionary[Path, _Lock]] = WeakValueDictionary()

    @classmethod
    def of(cls, folder: Path) -> _Lock:
        """Return the lock of a folder; all positions of this process share it. Raises
        VideoloadError."""
        key = folder.resolve()
        if (lock := cls._held.get(key)) is None:
            lock = cls._held[key] = cls(folder)
        return lock

    def __init__(self, folder: Path) -> None:
        try:
            file = os.open(folder / "position.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise VideoloadError(f"{folder}/position.lock is a link: delete it") from None
            return  # Nothing can be saved here; see `on_train_begin`.
        finalize(self, os.close, file)  # This unlocks it, and so does the end of the process.
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(file, 20).decode(errors="replace") or "another process"
            raise VideoloadError(
                f"{folder} is in use by {holder}: wait for its end, or use another folder"
            ) from None
        except OSError:
            return  # This file system knows no locks.
        os.ftruncate(file, 0)
        os.write(file, f"process {os.getpid()}".encode())


def _content(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


def _read(file: Path, content: bytes, identity: Identity) -> tuple[int, str]:
    """Return how many batches of this stream were trained on, and which copies of files it uses.
    Raises VideoloadError."""
    try:
        saved = json.loads(content)
        batches, settings = saved["batches"], dict(saved["stream"])
    except (ValueError, TypeError, KeyError):
        batches, settings = None, {}
    if type(batches) is not int or batches < 0:
        raise VideoloadError(f"{file} is damaged: use another folder")
    if difference := identity.difference(settings):
        raise VideoloadError(
            f"{file} belongs to another stream ({difference}): use the old settings, or another "
            "folder"
        )
    return batches, str(saved.get("copies", ""))

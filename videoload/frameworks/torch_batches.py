"""The batches of a stream as PyTorch's models want them: on the device, floats, channels first."""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Sized
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from videoload.clips.clip_spec import ClipSpec
from videoload.clips.sample_spec import Spec
from videoload.engine.readers import Readers
from videoload.errors import SpecError, VideoloadError
from videoload.frameworks import yuv

if TYPE_CHECKING:
    import torch

T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")
Numbered = tuple[tuple[int, ...], Any]  # steps, and the batch of the last one
Finish = Callable[[Any], Any]

_log = logging.getLogger(__name__)


def batches(
    readers: Readers, where: torch.device | str | None, finish: Finish, *, info: bool
) -> Iterator[tuple[Any, ...]]:
    """The next epoch, on a device; None: the CPU."""
    import torch

    device = torch.device("cpu" if where is None else where)
    own = readers.passes.begin()
    read: deque[int] = deque()
    made = _counted(readers.read(own.steps, info=info, follows=True, taken=read.append), read)
    if device.type == "cuda":
        copies = _Copies(device)
        copied = one_ahead(made, copies.begin, copies.end)
    else:
        copied = _plain(made, device)
    for steps, (clips, *rest) in copied:
        for step in steps:
            own.taken(step)
        finished = finish(clips)
        del clips
        yield finished, *rest
        del finished, rest  # they would keep the batch's slot
    for step in read:  # empty batches at the end
        own.taken(step)


def _counted(batches: Iterator[Any], read: deque[int]) -> Iterator[Numbered]:
    """Each batch, and its step with those of the empty batches before it."""
    for batch in batches:
        steps = tuple(read)
        read.clear()
        yield steps, batch
        del batch


def _plain(batches: Iterator[Numbered], device: torch.device) -> Iterator[Numbered]:
    import torch

    def moved(array: Any) -> Any:
        return torch.from_numpy(array).to(device)

    for steps, (clips, targets, *info) in batches:
        made = [_each(moved, part) for part in (clips, targets)]
        del clips, targets
        yield steps, (*made, *info)
        del made


class Buffers:
    """Pinned memory for each array of a batch, as much as the largest took; or plain memory where
    the system allows no more of the other."""

    def __init__(self) -> None:
        self._tensors: list[Any] = []
        self._pins = True

    def fill(self, at: int, source: Any) -> Any:
        """The values of ``source`` in memory ``at``, which is made anew if they do not fit."""
        if at == len(self._tensors):
            self._tensors.append(source.new_empty(0))
        if self._tensors[at].numel() < source.numel():
            self._tensors[at] = self._empty(source.flatten())
        filled = self._tensors[at][: source.numel()].view(source.shape)
        # In this thread: those of PyTorch would wait for each other, beside busy workers. On 16
        # cores with 16 workers, a GPU then got 1.4 times fewer batches.
        np.copyto(filled.numpy(), source.numpy())
        return filled

    def _empty(self, like: Any) -> Any:
        import torch

        if self._pins:
            try:
                return torch.empty_like(like, pin_memory=True)
            except RuntimeError as error:
                _log.warning("no pinned memory, so copies wait for the model: %s", error)
                self._pins = False
        return torch.empty_like(like)


class _Copies:
    """Copies of batches to a GPU, through two buffers in pinned memory for each array: without
    these, the copy would wait for the model. Each buffer is filled again when its last copy has
    ended. PyTorch itself keeps memory that is dropped until the copies from it have ended, so a
    loop may be left at any time."""

    def __init__(self, device: torch.device) -> None:
        import torch

        # A caller may choose another device meanwhile.
        number = torch.cuda.current_device() if device.index is None else device.index
        self._device = torch.device("cuda", number)
        self._stream = torch.cuda.Stream(self._device)
        self._copied = [torch.cuda.Event(), torch.cuda.Event()]
        self._buffers = Buffers(), Buffers()
        self._turn = 0

    def begin(self, numbered: Numbered) -> tuple[Numbered, torch.cuda.Event]:
        """Begin to copy a batch. Its own arrays are not used any more."""
        import torch

        steps, (clips, targets, *info) = numbered
        self._turn = 1 - self._turn
        buffers, event = self._buffers[self._turn], self._copied[self._turn]
        event.synchronize()
        at = itertools.count()

        def moved(array: Any) -> Any:
            pinned = buffers.fill(next(at), torch.from_numpy(array))
            return pinned.to(self._device, non_blocking=True)

        with torch.cuda.stream(self._stream):  # it also chooses the device
            parts = [_each(moved, part) for part in (clips, targets)]
            event.record(self._stream)
        return (steps, (*parts, *info)), event

    def end(self, begun: tuple[Numbered, torch.cuda.Event]) -> Numbered:
        """Hand a batch over to the stream that the caller uses now."""
        import torch

        numbered, event = begun
        using = torch.cuda.current_stream(self._device)
        using.wait_event(event)
        for part in numbered[1][:2]:  # their memory is not used again before that stream is done
            _each(lambda tensor: tensor.record_stream(using), part, of=torch.Tensor)
        return numbered


def one_ahead(items: Iterator[T], begin: Callable[[T], U], end: Callable[[U], V]) -> Iterator[V]:
    """``end(begin(item))`` for each of ``items``; the next item has begun by then. An error of
    ``items`` comes after all items before it."""
    begun: deque[U] = deque()
    failed: Exception | None = None
    while failed is None:
        try:
            begun.append(begin(next(items)))
        except StopIteration:
            break
        except Exception as error:
            failed = error
        if len(begun) > 1:
            yield end(begun.popleft())
    while begun:
        yield end(begun.popleft())
    try:
        if failed is not None:
            raise failed
    finally:
        del failed  # it would keep this frame


def _each(function: Callable[[Any], Any], part: Any, of: type = np.ndarray) -> Any:
    """``part`` with all arrays in it replaced, those of text by lists."""
    if isinstance(part, dict):
        return {name: _each(function, value, of) for name, value in part.items()}
    if isinstance(part, np.ndarray) and part.dtype.kind in "OSU":
        return part.tolist()
    return function(part) if isinstance(part, of) else part


def finishing(
    spec: Spec,
    layout: str,
    dtype: torch.dtype | None,
    mean: Sequence[float] | None,
    std: Sequence[float] | None,
) -> Finish:
    """What is done with clips on the device. Raises SpecError, and VideoloadError if PyTorch is not
    installed."""
    try:
        import torch
    except ImportError:
        raise VideoloadError("PyTorch is not installed: pip install torch") from None
    dtype = torch.float32 if dtype is None else dtype
    if not isinstance(spec, ClipSpec):
        if mean is not None or std is not None:
            raise SpecError("mean= and std= are for clips alone, not for samples of several files")
        return lambda clips: clips
    axes = "BTHWC" if spec.views == 1 else "BVTHWC"
    wanted = layout.replace("N", "B")
    wanted = wanted if spec.views == 1 or "V" in layout else wanted.replace("B", "BV", 1)
    if sorted(wanted) != sorted(axes):
        raise SpecError(f"layout must have each letter of {axes} once, got {layout!r}")
    order = [axes.index(letter) for letter in wanted]
    channels = 1 if spec.pixels in ("gray", "gray16") else 3
    most = 65535 if spec.pixels == "gray16" else 255
    for name, values in (("mean", mean), ("std", std)):
        if values is not None and (not isinstance(values, Sized) or len(values) != channels):
            raise SpecError(f"{name} needs {channels} numbers, one for a channel, got {values!r}")
        if values is not None and max(values) > 1:
            raise SpecError(f"{name} is of values from 0 to 1: divide {values!r} by {most}")
    if std is not None and not all(value > 0 for value in std):
        raise SpecError(f"std divides, so its numbers must be above 0, got {std!r}")
    if not dtype.is_floating_point and (mean is not None or std is not None):
        raise SpecError(f"mean= and std= need a dtype of floats, got {dtype}")

    # On the device, once: a copy from plain memory waits for all that the device has to do.
    constants: dict[str, Any] = {}

    def constant(name: str, values: Sequence[float], device: torch.device) -> Any:
        if name not in constants:
            constants[name] = torch.tensor(values, dtype=dtype, device=device)
        return constants[name]

    def finish(clips: Any) -> Any:
        if isinstance(clips, dict):  # the sound keeps its type
            return {**clips, "video": finish(clips["video"])}
        if spec.pixels == "yuv420p":
            clips = torch_to_rgb(clips)
        if dtype.is_floating_point:
            clips = clips.to(dtype) / most
            if mean is not None:
                clips -= constant("mean", mean, clips.device)
            if std is not None:
                clips /= constant("std", std, clips.device)
        else:
            clips = clips.to(dtype)
        return clips.permute(order).contiguous()

    return finish


def torch_to_rgb(clips: torch.Tensor) -> torch.Tensor:
    """See `videoload.torch.to_rgb`."""
    import torch

    *lead, rows, width = clips.shape
    arrays = yuv.Arrays(
        lambda x: x.to(torch.int32),
        lambda x, shape: x.reshape(shape),
        lambda x, shape: x.expand(-1, *shape),
        lambda x, bits: x >> bits,
        lambda parts: torch.stack(parts, dim=-1),
        lambda x: x.clamp(0, 255).to(torch.uint8),
    )
    rgb: torch.Tensor = yuv.to_rgb(clips, lead, rows, width, arrays)
    return rgb

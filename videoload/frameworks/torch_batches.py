"""Batches of a stream for PyTorch models: on the device, floats, channels first."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from videoload.clips.clip_spec import pixel_format
from videoload.clips.sample_spec import SampleSpec
from videoload.engine.readers import ReadableStream
from videoload.errors import SpecError, VideoloadError
from videoload.frameworks import yuv
from videoload.logs import Log
from videoload.plan.batches import BatchInfo, with_digest

if TYPE_CHECKING:
    import torch

T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")
Numbered = tuple[tuple[int, ...], Any]  # steps, and the batch of the last one
Finish = Callable[[Any], Any]
ByPart = Sequence[float] | Mapping[str, Sequence[float] | None] | None

_AXES = "BTHWC"
_MOST = {"torch.uint8": 255, "torch.uint16": 65535}
_VIDEO = "video"  # the frames of a clip with audio

_log = Log(__name__)


def batches(
    stream: ReadableStream, where: torch.device | str | None, finish: Finish, *, info: bool
) -> Iterator[tuple[Any, ...]]:
    """Yield the next epoch, on a device; None: the CPU."""
    import torch

    device = torch.device("cpu" if where is None else where)
    own = stream.cursor.begin()
    read: deque[int] = deque()
    made = _counted(stream.read(own.steps, info=info, follows=True, taken=read.append), read)
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
        del finished, rest  # they would hold the batch's slot
        stream.check_process()  # a copy to a GPU is a batch ahead
    for step in read:  # empty batches at the end
        own.taken(step)


def _counted(batches: Iterator[Any], read: deque[int]) -> Iterator[Numbered]:
    """Yield each batch, and its step with those of the empty batches before it."""
    for batch in batches:
        steps = tuple(read)
        read.clear()
        yield steps, _with_digest(*batch)
        del batch


def _with_digest(clips: Any, labels: Any, *info: BatchInfo) -> tuple[Any, ...]:
    """Return the batch. If it has an info, compute its digest now, because the clips' slot is
    reused once they are on the device."""
    if not info:
        return clips, labels
    digest = with_digest((clips, labels, *info))[2].digest
    return clips, labels, info[0]._replace(digest_of=partial(str, digest))


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
        """Return the values of ``source`` in memory ``at``, which is rebuilt if they do not fit."""
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
    ended. PyTorch itself holds dropped memory until the copies from it have ended, so a loop may
    end at any time."""

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
    ``items`` is raised after all items before it."""
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
        del failed  # it would hold this frame


def _each(function: Callable[[Any], Any], part: Any, of: type = np.ndarray) -> Any:
    """Return ``part`` with all arrays in it replaced, those of text by lists."""
    if isinstance(part, dict):
        return {name: _each(function, value, of) for name, value in part.items()}
    if isinstance(part, np.ndarray) and part.dtype.kind in "OSU":
        return part.tolist()
    return function(part) if isinstance(part, of) else part


class Numbers:
    """The conversion of clips to floats on the device, with the options of
    `videoload.torch.batches`. Raises SpecError, and VideoloadError if PyTorch is not installed."""

    def __init__(
        self,
        layout: str,
        dtype: torch.dtype | None,
        mean: Sequence[float] | None,
        std: Sequence[float] | None,
    ) -> None:
        try:
            import torch
        except ImportError:
            raise VideoloadError("PyTorch is not installed: pip install torch") from None
        self.layout = layout.replace("N", "B")
        self.dtype = torch.float32 if dtype is None else dtype
        self._scale = {"mean": _floats("mean", mean), "std": _floats("std", std)}
        if sorted(self.layout.replace("V", "", 1)) != sorted(_AXES):
            raise SpecError(f"layout must have each letter of {_AXES} once, got {layout!r}")
        for name, values in self.given():
            if max(values) > 1:
                raise SpecError(
                    f"{name} is of values from 0 to 1: divide {values!r} by the largest of a "
                    "pixel, 255 for uint8"
                )
            if not self.dtype.is_floating_point:
                raise SpecError(f"{name}= needs a dtype of floats, got {self.dtype}")
        if (by := self._scale["std"]) is not None and not all(value > 0 for value in by):
            raise SpecError(f"std divides, so its numbers must be above 0, got {std!r}")
        # On the device, once: a copy from plain memory waits for all that the device has to do.
        self._constants: dict[Any, Any] = {}

    def given(self) -> list[tuple[str, Sequence[float]]]:
        """Return ``mean`` and ``std``, as far as they are given."""
        return [(name, values) for name, values in self._scale.items() if values is not None]

    def check(self, axes: str, channels: int) -> None:
        """Raise SpecError if these clips have other axes or channels."""
        if "V" in self.layout and "V" not in axes:
            raise SpecError(f"layout={self.layout!r} is of several views, and the clips have one")
        for name, values in self.given():
            if len(values) != channels:
                raise SpecError(f"{name} needs {channels} numbers, one for a channel")

    def finish(self, clips: Any, *, is_yuv: bool) -> Any:
        """Return clips of uint8 or uint16, or the results of the user's function, as floats. Arrays
        with other axes are unchanged."""
        import torch

        clips = torch_to_rgb(clips) if is_yuv else clips
        axes = {5: _AXES, 6: _AXES.replace("B", "BV")}.get(clips.ndim)
        if axes is None:
            return clips
        self.check(axes, clips.shape[-1])
        wanted = self.layout if "V" in self.layout else self.layout.replace("B", axes[:-4])
        most = _MOST.get(str(clips.dtype), 1)
        clips = clips.permute([axes.index(letter) for letter in wanted])
        if not self.dtype.is_floating_point:
            return clips.to(self.dtype).contiguous()
        # In their last order from the beginning: on a CPU, three channels at a time take three
        # times as long.
        made = torch.empty(clips.shape, dtype=self.dtype, device=clips.device)
        # PyTorch's threads wait for each other beside busy workers, on the cores that these need.
        is_numpy = made.device.type == "cpu" and self.dtype in (torch.float32, torch.float64)
        view = torch.Tensor.numpy if is_numpy else torch.Tensor.detach
        to = view(made)
        to[...] = view(clips)
        to /= most
        for name, values in self.given():
            constant = self._constant(name, values, clips.device)
            constant = constant.view([-1 if letter == "C" else 1 for letter in wanted])
            if name == "mean":
                to -= view(constant)
            else:
                to /= view(constant)
        return made

    def _constant(self, name: str, values: Sequence[float], device: torch.device) -> Any:
        import torch

        if (name, device) not in self._constants:
            made = torch.tensor(values, dtype=self.dtype, device=device)
            self._constants[name, device] = made
        return self._constants[name, device]


def _floats(name: str, values: Sequence[float] | None) -> list[float] | None:
    """Return a number for each channel, of a list, a tuple or an array. Raises SpecError."""
    if values is None:
        return None
    try:
        found = [float(value) for value in values]
    except (TypeError, ValueError):
        found = []
    if len(found) not in (1, 3) or not all(map(math.isfinite, found)):
        raise SpecError(
            f"{name} needs a number for each channel, such as (0.5, 0.5, 0.5), got {values!r:.200}"
        )
    return found


def finishing(
    spec: SampleSpec,
    layout: str,
    dtype: torch.dtype | None,
    mean: ByPart,
    std: ByPart,
) -> Finish:
    """Return the conversion of clips, or of the parts of a sample, on the device. Raises as
    `Numbers` does."""
    parts = {name or _VIDEO: clip for name, clip in spec.clips.items()}
    for argument, values in (("mean", mean), ("std", std)):
        if not isinstance(values, Mapping):
            continue
        if unknown := {*values} - {*parts}:
            raise SpecError(
                f"{argument}= names {min(unknown)!r}, which is not a part: there are {[*parts]}"
            )
        if left_out := [name for name in parts if name not in values]:
            raise SpecError(
                f"{argument}= leaves out {left_out[0]!r}: give its numbers, or None to leave this "
                "part as it is"
            )

    def of(values: ByPart, name: str) -> Sequence[float] | None:
        return values.get(name) if isinstance(values, Mapping) else values

    numbers = {name: Numbers(layout, dtype, of(mean, name), of(std, name)) for name in parts}
    yuvs = set()
    for name, clip in parts.items():
        if clip.output is None:
            axes = _AXES if clip.views == 1 else _AXES.replace("B", "BV")
            numbers[name].check(axes, pixel_format(clip).channels or 3)
            yuvs |= {name} if pixel_format(clip).is_halved else set()

    def finish(clips: Any) -> Any:
        if not isinstance(clips, dict):
            return numbers[_VIDEO].finish(clips, is_yuv=_VIDEO in yuvs)
        return {  # the audio type is unchanged
            name: numbers[name].finish(part, is_yuv=name in yuvs) if name in numbers else part
            for name, part in clips.items()
        }

    return finish


class NumpyModel:
    """A PyTorch module that takes and returns NumPy's arrays: see `videoload.torch.as_model`."""

    def __init__(self, net: torch.nn.Module, device: Any, numbers: Numbers) -> None:
        if not hasattr(net, "named_parameters"):
            raise SpecError(f"net must be a torch.nn.Module, got a {type(net).__name__}")
        self._net = net if device is None else net.to(device)
        self._numbers = numbers

    def __call__(self, clips: Any, mask: npt.NDArray[np.bool_] | None = None) -> Any:
        """Return the module's output for a batch, in evaluation mode and without gradients."""
        import torch

        device = next((value.device for value in self._net.parameters()), torch.device("cpu"))

        def moved(array: Any) -> Any:
            # Batches may be read-only, which tensors cannot be.
            given = torch.from_numpy(array if array.flags.writeable else array.copy()).to(device)
            is_yuv = array.dtype == np.uint8 and array.ndim > 3 and array.shape[-1] not in (1, 3)
            return self._numbers.finish(given, is_yuv=is_yuv)

        given = [_each(moved, clips)]
        if mask is not None:
            given.append(torch.from_numpy(mask).to(device))
        modes = [(module, module.training) for module in self._net.modules()]
        self._net.eval()
        try:
            with torch.inference_mode():
                said = self._net(*given)
        finally:
            for module, is_training in modes:
                module.training = is_training
        said = getattr(said, "logits", said)
        if not isinstance(said, torch.Tensor):
            return said
        return (said.float() if said.is_floating_point() else said).cpu().numpy()

    def state_dict(self) -> dict[str, Any]:
        """Return the weights of the module, and what is done with its input: which identifies
        it."""
        import torch

        numbers = self._numbers
        given = {name: torch.tensor(values) for name, values in numbers.given()}
        how = f"{self._net!r} {numbers.layout} {numbers.dtype}"
        return {**self._net.state_dict(), **given, how: torch.zeros(())}


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

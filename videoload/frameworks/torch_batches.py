"""The batches of a stream as PyTorch's models want them: on the device, floats, channels first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from videoload.clips.clip_spec import ClipSpec
from videoload.clips.sample_spec import Spec
from videoload.engine.readers import Readers
from videoload.errors import SpecError, VideoloadError
from videoload.frameworks import yuv

if TYPE_CHECKING:
    import torch


def batches(
    readers: Readers,
    device: torch.device | str | None,
    layout: str,
    dtype: torch.dtype | None,
    mean: Sequence[float] | None,
    std: Sequence[float] | None,
) -> Iterator[tuple[Any, Any]]:
    """See `videoload.torch.batches`."""
    torch = _torch()
    where = torch.device("cpu" if device is None else device)
    finish = _finish(readers.spec, layout, torch.float32 if dtype is None else dtype, mean, std)
    taken: deque[int] = deque()
    made = _counted(readers.read(readers.next_epoch(), taken=taken.append), taken)
    copied = _through_pinned(made, where) if where.type == "cuda" else _plain(made, where)
    for last, clips, targets in copied:
        readers.taken(last)
        yield finish(clips), targets
        del clips, targets  # they would keep the batch's slot
    if taken:  # empty batches at the end
        readers.taken(taken[-1])


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise VideoloadError("PyTorch is not installed: pip install torch") from None
    return torch


def _counted(batches: Iterator[Any], taken: deque[int]) -> Iterator[tuple[int, Any]]:
    """Each batch, and its step."""
    for batch in batches:
        last = taken[-1]
        taken.clear()
        yield last, batch
        del batch


def _plain(
    batches: Iterator[tuple[int, Any]], device: torch.device
) -> Iterator[tuple[int, Any, Any]]:
    import torch

    def moved(array: Any) -> Any:
        return torch.from_numpy(array).to(device)

    for last, batch in batches:
        clips, targets = (_each(moved, part) for part in batch)
        del batch
        yield last, clips, targets
        del clips, targets


def _through_pinned(
    batches: Iterator[tuple[int, Any]], device: torch.device
) -> Iterator[tuple[int, Any, Any]]:
    """Copies each batch to the GPU while the model works on the one before it. There are two
    buffers in pinned memory for each array: without them, the copy would wait for the model."""
    import torch

    copying = torch.cuda.Stream(device)
    buffers: list[dict[int, Any]] = [{}, {}]
    copied = [torch.cuda.Event(), torch.cuda.Event()]
    ahead: tuple[int, Any, torch.cuda.Event] | None = None

    def handed_over(last: int, parts: Any, event: torch.cuda.Event) -> tuple[int, Any, Any]:
        using = torch.cuda.current_stream(device)
        using.wait_event(event)
        for part in parts:
            _each(lambda tensor: tensor.record_stream(using), part, of=torch.Tensor)
        clips, targets = parts
        return last, clips, targets

    for at, (last, batch) in enumerate(batches):
        buffer, event = buffers[at % 2], copied[at % 2]
        event.synchronize()  # this buffer's last copy has ended
        names = iter(range(1 << 20))

        def moved(array: Any, buffer: dict[int, Any] = buffer, names: Any = names) -> Any:
            source, name = torch.from_numpy(array), next(names)
            if name not in buffer or buffer[name].shape[1:] != source.shape[1:]:
                buffer[name] = torch.empty_like(source, pin_memory=True)
            pinned = buffer[name][: len(source)].copy_(source)
            return pinned.to(device, non_blocking=True)

        with torch.cuda.stream(copying):
            parts = [_each(moved, part) for part in batch]
            event.record(copying)
        del batch
        if ahead is not None:
            yield handed_over(*ahead)
        ahead = last, parts, event
    if ahead is not None:
        yield handed_over(*ahead)


def _each(function: Callable[[Any], Any], part: Any, of: type = np.ndarray) -> Any:
    """``part`` with all arrays in it replaced. Text stays what it is."""
    if isinstance(part, dict):
        return {name: _each(function, value, of) for name, value in part.items()}
    if isinstance(part, of) and not (isinstance(part, np.ndarray) and part.dtype.kind in "OSU"):
        return function(part)
    return part


def _finish(
    spec: Spec,
    layout: str,
    dtype: torch.dtype,
    mean: Sequence[float] | None,
    std: Sequence[float] | None,
) -> Callable[[Any], Any]:
    """What is done with clips on the device. Raises SpecError."""
    import torch

    if not isinstance(spec, ClipSpec):
        if mean is not None or std is not None:
            raise SpecError(
                "mean= and std= are for clips alone, not for items or samples of several files"
            )
        return lambda clips: clips
    axes = "NTHWC" if spec.views == 1 else "NVTHWC"
    wanted = layout if spec.views == 1 or "V" in layout else layout.replace("N", "NV", 1)
    if sorted(wanted) != sorted(axes):
        raise SpecError(f"layout must have each letter of {axes} once, got {layout!r}")
    order = [axes.index(letter) for letter in wanted]
    channels = 1 if spec.pixels in ("gray", "gray16") else 3
    most = 65535 if spec.pixels == "gray16" else 255
    for name, values in (("mean", mean), ("std", std)):
        if values is not None and len(values) != channels:
            raise SpecError(f"{name} needs {channels} numbers, one for a channel, got {values!r}")
    if not dtype.is_floating_point and (mean is not None or std is not None):
        raise SpecError(f"mean= and std= need a dtype of floats, got {dtype}")

    def finish(clips: Any) -> Any:
        if isinstance(clips, dict):  # the sound keeps its type
            return {**clips, "video": finish(clips["video"])}
        if spec.pixels == "yuv420p":
            clips = torch_to_rgb(clips)
        if dtype.is_floating_point:
            clips = clips.to(dtype) / most
            if mean is not None:
                clips -= torch.tensor(mean, dtype=dtype, device=clips.device)
            if std is not None:
                clips /= torch.tensor(std, dtype=dtype, device=clips.device)
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

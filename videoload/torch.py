"""PyTorch: the batches of a stream on the device that trains.

import videoload as vl

for clips, labels in vl.torch.batches(stream, device="cuda"):
    ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from videoload.frameworks import torch_batches

if TYPE_CHECKING:
    import torch

    from videoload.trainer.stream import Stream

__all__ = ["batches", "to_rgb"]


def batches(
    stream: Stream,
    device: torch.device | str | None = None,
    *,
    layout: str = "NCTHW",
    dtype: torch.dtype | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Iterator[tuple[Any, Any]]:
    """Read one epoch, as a loop over the stream does: the next one each time.

    The bytes travel to the device as uint8, a quarter of the floats, and become floats there. With
    CUDA, each batch is copied while the model works on the one before it, through two buffers in
    pinned memory. ``pixels="yuv420p"`` halves the traffic once more and becomes RGB on the device.

    Args:
        stream: The stream. Its `Stream.state_dict` counts the batches that this loop has yielded.
        device: Where the tensors are wanted. Default None: the CPU.
        layout: Order of the axes: N, T, H, W, C, and with ``views`` V behind N. Default
            ``"NCTHW"``, as 3D convolutions want it.
        dtype: Type of the clips. Floats are 0 to 1. Default None: ``torch.float32``.
        mean: Of each channel, 0 to 1; it is subtracted. Default None.
        std: Of each channel; it divides. Default None.

    Yields:
        (clips, labels): tensors on the device, clips of [B, C, T, H, W] and labels int64 [B]. Items
        of an `ItemSpec` keep their shape and type. Targets are tensors, or dicts of them; text
        stays NumPy's.

    Raises:
        SpecError: ``layout``, ``mean`` or ``std`` do not fit the clips.
        VideoloadError: PyTorch is not installed; or as in `Stream.batches`.
    """
    return torch_batches.batches(stream.readers, device, layout, dtype, mean, std)


def to_rgb(clips: torch.Tensor) -> torch.Tensor:
    """Clips of ``pixels="yuv420p"`` in RGB, on their device.

    Args:
        clips: uint8 [..., H * 3 // 2, W].

    Returns:
        uint8 [..., H, W, 3]: the pixels that ``pixels="rgb24"`` has.

    Raises:
        SpecError: The shape is another one.
    """
    return torch_batches.torch_to_rgb(clips)

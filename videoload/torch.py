"""PyTorch: the batches of a stream on the device that trains.

import videoload as vl

for clips, labels in vl.torch.batches(stream, device="cuda"):
    ...
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from videoload.client.stream import Stream
from videoload.errors import SpecError
from videoload.frameworks import torch_batches

if TYPE_CHECKING:
    import torch

__all__ = ["as_model", "batches", "to_rgb"]


class _Batches:
    """The batches of a stream as tensors; created by `videoload.torch.batches`. Each loop over them
    is the stream's next epoch. Trainers accept them instead of a ``DataLoader``."""

    def __init__(self, stream: Stream, device: Any, finish: Any, *, info: bool) -> None:
        self._stream, self._device, self._finish, self._info = stream, device, finish, info

    def __len__(self) -> int:
        """Return batches per epoch."""
        return len(self._stream)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Read the next epoch, as described in `videoload.torch.batches`."""
        return torch_batches.batches(self._stream, self._device, self._finish, info=self._info)

    def __next__(self) -> NoReturn:
        """Raise a SpecError that explains how to take one batch."""
        raise SpecError("next() is of one loop over these batches: give next(iter(batches))")

    def __getitem__(self, at: object) -> NoReturn:
        """Raise a SpecError that explains why a ``DataLoader`` does not work here."""
        raise SpecError(
            "these are the batches of a stream, in its order: loop over them without a "
            "DataLoader, and give shuffle= and batch_size= to client.stream"
        )

    def state_dict(self) -> dict[str, int | str]:
        """Return the position, as `Stream.state_dict`."""
        return self._stream.state_dict()

    def load_state_dict(self, state: Mapping[str, int | str]) -> None:
        """Set the position, as `Stream.load_state_dict`.

        Args:
            state: The result of `state_dict`, on any rank.
        """
        self._stream.load_state_dict(state)


def batches(
    stream: Stream,
    device: torch.device | str | None = None,
    *,
    layout: str = "BCTHW",
    dtype: torch.dtype | None = None,
    mean: torch_batches.ByPart = None,
    std: torch_batches.ByPart = None,
    info: bool = False,
) -> _Batches:
    """Return the batches of a stream as tensors on the device. Each loop over them is the next
    epoch.

    Examples:
        >>> for clips, labels in vl.torch.batches(stream, "cpu", mean=(0.45,) * 3):
        ...     loss = torch.nn.functional.cross_entropy(net(clips), labels)

    The bytes travel to the device as uint8, a quarter of the floats, and become floats there. With
    CUDA, each batch is copied while the model works on the one before it, through two buffers in
    pinned memory. ``pixels="yuv420p"`` halves the traffic once more and becomes RGB on the device.

    Args:
        stream: The stream. Its `Stream.state_dict` counts the batches that such a loop has yielded.
        device: The device of the tensors. Default None: the CPU.
        layout: Order of the axes: B, T, H, W, C, and with ``views`` V behind B. Default
            ``"BCTHW"``, for 3D convolutions. N means B.
        dtype: Type of the clips. Floats are 0 to 1. Default None: ``torch.float32``.
        mean: Of each channel, 0 to 1; it is subtracted. Of several files as one sample, the same
            for all parts, or a dict that has each part; None: this part is left as it is. Default
            None.
        std: Of each channel; it divides. As ``mean``. Default None.
        info: Add the origin of each batch. Default False.

    Returns:
        What a loop reads again and again, with a ``len``, and ``state_dict`` and
        ``load_state_dict`` as a stream has. It yields (clips, labels), or with ``info`` (clips,
        labels, BatchInfo): tensors on the device, clips of [B, C, T, H, W] and labels int64 [B]; of
        several files as one sample, a dict of such clips. Audio, and results of a ``transform``
        with other axes than clips, are unchanged. Targets are tensors, or dicts of them; text is a
        list.

    Raises:
        SpecError: ``stream`` is none; ``layout``, ``mean`` or ``std`` do not fit the clips.
        VideoloadError: PyTorch is not installed; or as in `Stream.batches`.
    """
    if not isinstance(stream, Stream):
        raise SpecError(
            f"vl.torch.batches takes a stream, got a {type(stream).__name__}: give "
            "client.stream(catalog, clip, batch_size)"
        )
    finish = torch_batches.finishing(stream.spec, layout, dtype, mean, std)
    return _Batches(stream, device, finish, info=info)


def as_model(
    net: torch.nn.Module,
    device: torch.device | str | None = None,
    *,
    layout: str = "BCTHW",
    dtype: torch.dtype | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> torch_batches.NumpyModel:
    """Return a module as a model for `videoload.evaluate` and `videoload.predict`.

    Examples:
        >>> model = vl.torch.as_model(net, "cpu", mean=(0.45,) * 3, std=(0.225,) * 3)
        >>> found = vl.evaluate(model, client, test, clip)

    It takes clips of a stream, converts them as `batches` does, with the same arguments, and calls
    the module without gradients and in evaluation mode.

    Args:
        net: The module. It gets clips, and those of any length with their mask, bool [B, T]. Of an
            output with ``logits``, as Hugging Face's models have it, these are taken.
        device: The module is moved there. Default None: it stays where it is.
        layout: As in `batches`. Default ``"BCTHW"``.
        dtype: As in `batches`. Default None.
        mean: As in `batches`, the same for all parts. Default None.
        std: As ``mean``. Default None.

    Returns:
        A function of NumPy's arrays [B, T, H, W, C] that returns an array, with a ``state_dict``,
        by which `videoload.predict` knows it.

    Raises:
        SpecError: ``net`` is no module; ``layout``, ``mean`` or ``std`` are none, or do not fit the
            clips.
        VideoloadError: PyTorch is not installed.
    """
    numbers = torch_batches.Numbers(layout, dtype, mean, std)
    return torch_batches.NumpyModel(net, device, numbers)


def to_rgb(clips: torch.Tensor) -> torch.Tensor:
    """Return clips of ``pixels="yuv420p"`` in RGB, on their device.

    Examples:
        >>> vl.torch.to_rgb(torch.zeros((4, 16, 168, 112), dtype=torch.uint8)).shape
        torch.Size([4, 16, 112, 112, 3])

    Args:
        clips: uint8 [..., H * 3 // 2, W].

    Returns:
        uint8 [..., H, W, 3]: the pixels that ``pixels="rgb24"`` has of this part of the frame.

    Raises:
        SpecError: The shape is another one.
    """
    return torch_batches.torch_to_rgb(clips)

"""JAX: clips of ``pixels="yuv420p"`` become RGB on the device.

import videoload as vl

clips = vl.jax.to_rgb(jnp.asarray(clips))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from videoload.errors import VideoloadError
from videoload.frameworks import yuv

if TYPE_CHECKING:
    import jax

__all__ = ["to_rgb"]


def to_rgb(clips: jax.Array) -> jax.Array:
    """Return clips of ``pixels="yuv420p"`` in RGB, on their device. It works under ``jax.jit``.

    Args:
        clips: uint8 [..., H * 3 // 2, W].

    Returns:
        uint8 [..., H, W, 3]: the pixels that ``pixels="rgb24"`` has of this part of the frame.

    Raises:
        SpecError: The shape is another one.
        VideoloadError: JAX is not installed.
    """
    try:
        import jax.numpy as jnp
    except ImportError:
        raise VideoloadError("JAX is not installed: pip install jax") from None

    *lead, rows, width = clips.shape
    arrays = yuv.Arrays(
        lambda x: x.astype(jnp.int32),
        jnp.reshape,
        lambda x, shape: jnp.broadcast_to(x, (len(x), *shape)),
        lambda x, bits: x >> bits,
        lambda parts: jnp.stack(parts, axis=-1),
        lambda x: jnp.clip(x, 0, 255).astype(jnp.uint8),
    )
    rgb: jax.Array = yuv.to_rgb(clips, lead, rows, width, arrays)
    return rgb

"""A callback for ``fit(callbacks=[...])``: `Position` resumes. A layer: `ToRGB` turns clips of
``pixels="yuv420p"`` into RGB on the device. For clips of any length: `with_mask`.

from videoload.keras import Position, ToRGB, with_mask
"""

from videoload.errors import VideoloadError

try:
    from videoload.client.position import Position
    from videoload.frameworks.keras_layers import ToRGB, with_mask
except ModuleNotFoundError as error:
    if (error.name or "").startswith("videoload"):
        raise
    raise VideoloadError(
        f"videoload.keras needs Keras and its backend ({error}): pip install tensorflow, or set "
        "KERAS_BACKEND to one that is installed"
    ) from None

__all__ = ["Position", "ToRGB", "with_mask"]

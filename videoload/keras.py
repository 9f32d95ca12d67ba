"""Callbacks for ``fit(callbacks=[...])``: `Position` resumes, `StreamMonitor` logs. A layer:
`ToRGB` turns clips of ``pixels="yuv420p"`` into RGB on the device.

from videoload.keras import Position, StreamMonitor, ToRGB
"""

from videoload.frameworks.keras_layers import ToRGB
from videoload.trainer.monitor import StreamMonitor
from videoload.trainer.position import Position

__all__ = ["Position", "StreamMonitor", "ToRGB"]

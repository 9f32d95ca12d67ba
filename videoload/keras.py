"""What goes into ``fit(callbacks=[...])``: `Position` resumes, `StreamMonitor` logs.

from videoload.keras import Position, StreamMonitor
"""

from videoload.trainer.keras import Position
from videoload.trainer.keras_monitor import StreamMonitor

__all__ = ["Position", "StreamMonitor"]

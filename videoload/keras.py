"""Callbacks for ``fit(callbacks=[...])``: `Position` resumes, `StreamMonitor` logs.

from videoload.keras import Position, StreamMonitor
"""

from videoload.trainer.monitor import StreamMonitor
from videoload.trainer.position import Position

__all__ = ["Position", "StreamMonitor"]

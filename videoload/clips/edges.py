"""Numbers for frames of a clip beyond the ends of its video or segment.

A clip's frame numbers: n is a frame of the video, and -1 is a missing one, which is black. ``-2 -
n`` is frame n in the place of one beyond the ends, which ``edges="hold"`` repeats. So one number
determines the decoded frame, the reported one (-1: not a frame of the video), and the label.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def held(frames: Ints) -> Ints:
    """Return the numbers of these frames in the place of others."""
    return -2 - frames


def pictures(frames: Ints) -> Ints:
    """Return the frames whose pictures are shown; -1: a missing one."""
    return np.where(frames < -1, -2 - frames, frames)


def reported(frames: Ints) -> Ints:
    """Return the frames without those that only repeat; -1: no frame of the video."""
    return np.maximum(frames, -1)

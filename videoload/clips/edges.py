"""Frames of a clip that lie beyond the ends of its video or segment, as numbers.

A clip says which frames it shows: n is a frame of the video, and -1 is a missing one, which is
black. ``-2 - n`` is frame n in the place of one beyond the ends, which ``edges="hold"`` repeats. So
one number says what is decoded, what is reported (-1: not a frame of the video), and whose label it
is.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def held(frames: Ints) -> Ints:
    """The numbers of these frames in the place of others."""
    return -2 - frames


def pictures(frames: Ints) -> Ints:
    """The frames whose pictures are shown; -1: a missing one."""
    return np.where(frames < -1, -2 - frames, frames)


def reported(frames: Ints) -> Ints:
    """The frames without those that only repeat; -1: no frame of the video."""
    return np.maximum(frames, -1)

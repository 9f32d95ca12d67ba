"""A worker process whose decoding is free: `python -m benchmarks.free FD`, started by a supervisor.

It is the worker as it is, but for its `Decoder`, which returns at once. From its environment it
takes

    VIDEOLOAD_PACKETS=N      calls ``tick`` so often for each clip, as a decoder does at each packet
    VIDEOLOAD_PROFILE=FILE   leaves what cProfile saw in FILE.PID
"""

from __future__ import annotations

import cProfile
import logging
import os
import sys
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from unittest import mock

import numpy as np
import numpy.typing as npt

from videoload.clips.affine import Matrices
from videoload.clips.rows import Clip
from videoload.clips.sample_spec import SampleSpec
from videoload.clips.video_info import VideoInfo
from videoload.decoding.decoder import Decoder
from videoload.decoding.prepared import Made, Make, Ordinals
from videoload.storage.files import Tick
from videoload.worker import worker

_INFO = VideoInfo(186, Fraction(25), 320, 240)  # as a mean video of UCF-101
_PACKETS = int(os.environ.get("VIDEOLOAD_PACKETS", "0"))


class _Free(Made):
    @property
    def affine(self) -> Matrices:
        return np.zeros((len(self.frames), 1, 2, 3), np.float32)


class FreeDecoder(Decoder):
    """Decodes nothing."""

    def prepare(
        self,
        path: str,
        spec: SampleSpec,
        requests: Sequence[Clip],
        out: npt.NDArray[np.uint8],
        tick: Tick = lambda: None,
    ) -> Make:
        """Reads no file, leaves ``out`` as it is, and makes up some frame numbers."""
        clips, frames = len(requests), spec.leader.frames

        def make(tick: Tick) -> Made:
            for _ in range(clips * _PACKETS):
                tick()
            return _Free(_ordinals(clips, frames), _INFO)

        return make

    def fingerprint(self, path: str, salt: int = 0) -> int:
        """The same for all files."""
        return 1

    def version(self, path: str) -> int:
        """The same for all files."""
        return 1


@lru_cache
def _ordinals(clips: int, frames: int) -> Ordinals:
    return np.tile(np.arange(100, 100 + 2 * frames, 2), (clips, 1))


def main() -> int:
    """The worker's own entry, with the free decoder instead of the real one."""
    logging.disable(logging.INFO)
    with mock.patch("videoload.worker.decoders.Decoder", FreeDecoder):
        file = os.environ.get("VIDEOLOAD_PROFILE")
        if file is None:
            return worker.main()
        profile = cProfile.Profile()
        status = profile.runcall(worker.main)
        profile.dump_stats(f"{file}.{os.getpid()}")
        return status


if __name__ == "__main__":
    sys.exit(main())

"""A work: which files, which clip, and the list of (file, first frame) that every loader gets.

The list is drawn once from a seed: distinct pairs, repeated if a run needs more than there are.
"""

from __future__ import annotations

import itertools
import random
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from videoload.clips.clip_spec import ClipSpec
from videoload.clips.regions import scaled_size

SEED = 0


class Item(NamedTuple):
    """One clip of the list: ``number`` is its place, ``file`` an index into the work's files."""

    number: int
    file: int
    start: int


class File(msgspec.Struct, frozen=True):
    """One file, and what decoding it found.

    ``frames``: of those that were looked at; ``timed``: each frame's time stamp is its ordinal by
    the rate; ``keys``: (ordinal, time to seek to) of key frames; ``pictures``: a .npy file of its
    frames as `benchmarks.check` compares them, if they are kept.
    """

    path: str
    codec: str
    width: int
    height: int
    frames: int
    fps: float
    timed: bool
    keys: tuple[tuple[int, int], ...]
    pictures: str = ""

    def key_before(self, ordinal: int) -> tuple[int, int]:
        """The last key frame at or before a frame: its ordinal, and the time to seek to."""
        return self.keys[bisect_right(self.keys, ordinal, key=itemgetter(0)) - 1]


@dataclass(frozen=True)
class Clip:
    """``frames`` frames, ``stride`` apart; short side ``resize``, of that the middle ``crop``."""

    frames: int
    stride: int
    resize: int
    crop: int

    @property
    def span(self) -> int:
        """Source frames from the first to the last, both included."""
        return (self.frames - 1) * self.stride + 1

    def ordinals(self, start: int) -> range:
        """The source frames of the clip that begins at ``start``."""
        return range(start, start + self.span, self.stride)

    def scaled(self, file: File) -> tuple[int, int]:
        """(width, height) of a file's frames before the crop."""
        return scaled_size(file.width, file.height, self.resize)

    def corner(self, file: File) -> tuple[int, int]:
        """(x, y) of the crop in a scaled frame."""
        width, height = self.scaled(file)
        return (width - self.crop) // 2, (height - self.crop) // 2

    def spec(self, **more: Any) -> ClipSpec:
        """The same in videoload's words; ``more`` of its fields."""
        size = (self.crop, self.crop)
        return ClipSpec(self.frames, self.stride, resize=self.resize, size=size, **more)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of a clip's uint8 array."""
        return self.frames, self.crop, self.crop, 3


@dataclass(frozen=True)
class Work:
    """Files under ``root``, the clip to take from them, and the items."""

    name: str
    root: Path
    files: tuple[File, ...]
    clip: Clip
    batch: int

    def __str__(self) -> str:
        """What it is, for a title."""
        size = Counter(f"{file.codec} {file.width}x{file.height}" for file in self.files)
        return (
            f"{len(self.files)} files of {size.most_common(1)[0][0]}, clips of "
            f"{self.clip.frames} frames x {self.clip.stride} at {self.clip.crop}x{self.clip.crop} "
            f"in batches of {self.batch}"
        )

    def path(self, file: File) -> str:
        """Where the file lies."""
        return str(self.root / file.path)

    @cached_property
    def distinct(self) -> list[Item]:
        """The distinct items, a multiple of the batch size."""
        return [Item(i, *pair) for i, pair in enumerate(self._rounds())]

    def _rounds(self) -> list[tuple[int, int]]:
        """All pairs, until too few are left.

        They are rounds through all files, each in a new order, since a shuffled epoch of a large
        data set has no file twice in a row. They end when too few files have a start that was not
        used yet. Very few short files are repeated until a batch is full.
        """
        draw = random.Random(SEED)
        starts = [list(range(file.frames - self.clip.span + 1)) for file in self.files]
        for left in starts:
            draw.shuffle(left)
        pairs: list[tuple[int, int]] = []
        enough = min(self.batch, len(starts))
        while len(files := [n for n, left in enumerate(starts) if left]) >= enough:
            draw.shuffle(files)
            while pairs and len(files) > 1 and files[0] == pairs[-1][0]:
                draw.shuffle(files)
            pairs += [(file, starts[file].pop()) for file in files]
        whole = max(1, len(pairs) // self.batch) * self.batch
        return list(itertools.islice(itertools.cycle(pairs), whole))

    def items(self, count: int) -> list[Item]:
        """The first ``count`` of the list, repeated if it ends."""
        return list(itertools.islice(itertools.cycle(self.distinct), count))

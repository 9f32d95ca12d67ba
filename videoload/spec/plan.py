"""Which clip stands where in the stream, by random access.

``plan[step]`` is the step-th batch of an endless stream of epochs: a pure function of (catalog,
clip spec, batch size, seed, shard). Nothing is drawn in advance and nothing is remembered, so
resuming at a step costs nothing and a million videos need no array of a million.

An epoch's order is a seeded permutation: a Feistel network over the pairs (left, right) with
left < a, right < b, where a*b is just above the number of samples; a result past the end is put
through again until it falls inside (cycle walking), which keeps the map one to one (Black and
Rogaway 2002, Ciphers with Arbitrary Finite Domains).

Rank r of a world of w takes the positions r, r+w, r+2w, ... of the epoch, so batch k of all ranks
together covers a contiguous run of positions. Every rank has the same number of batches: without
``drop_remainder`` the last ones may differ in size by one clip, and where a further clip would
need a batch that other ranks do not have (at most w-1 clips per epoch), it is left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.errors import SpecError
from videoload.spec.arguments import real, whole
from videoload.spec.catalog import Catalog
from videoload.spec.items import ItemSpec, Spec

_ROUNDS = 8  # four passes over each half
_NOISES_KEPT = 1 << 16  # 10 MB; all there are of 67 million positions


class Sample(NamedTuple):
    """One clip to be decoded: clip number ``clip`` of ``video``, its parameters drawn by ``seed``.

    ``origin`` is the sample's number in the epoch, ``attempt`` how often it was substituted.
    """

    epoch: int
    origin: int
    attempt: int
    video: int
    clip: int
    seed: int


class BatchInfo(NamedTuple):
    """Where a batch came from.

    Attributes:
        step: Number of the batch in the stream, counted over all epochs from 0.
        video: Index of each clip's video in the catalog, int64 [B]: of the video that was decoded,
            where it took the place of a bad one.
        frames: Source frame that each frame of each clip shows, int64 [B, T]: its ordinal in the
            whole file, counted from 0 in display order.
        digest: 64 bits of SHA-256 over clips and labels, in hex: the same batch has the same one,
            in every run. Default "": not worked out.
    """

    step: int
    video: npt.NDArray[np.int64]
    frames: npt.NDArray[np.int64]
    digest: str = ""


Clips = npt.NDArray[np.uint8]  # [B, *clip.shape]; of an ItemSpec, what that says
Labels = npt.NDArray[np.int64]  # [B]
Batch = tuple[Clips, Labels]
BatchWithInfo = tuple[Clips, Labels, BatchInfo]


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What a stream is, beside catalog and clip spec. `Client.stream` makes it of its arguments.

    Attributes:
        batch_size: Clips in a batch (B), at least 1.
        shuffle: A new order of the clips each epoch, drawn from ``seed``; else the catalog's order.
        seed: Of the order, the windows, the crops, the flips and the transform's generator.
        shard: (rank, world): this trainer's share of each epoch, with 0 <= rank < world.
        drop_remainder: Leave out the last batch of an epoch if it is smaller than the others.
        ordered: Batches come in the order of their steps; else as they get ready.
        on_error: ``"substitute"`` another clip for one that cannot be decoded, ``"skip"`` it, or
            ``"raise"``.
        max_bad: Share of the catalog's files, 0 to 1, that may be bad before the stream ends with
            TooManyBadVideos; 3 files always may.

    Raises:
        SpecError: A value is out of its range.
    """

    batch_size: int
    shuffle: bool
    seed: int
    shard: tuple[int, int]
    drop_remainder: bool
    ordered: bool
    on_error: Literal["substitute", "skip", "raise"]
    max_bad: float

    def __post_init__(self) -> None:
        try:
            rank, world = (whole("shard", part, None) for part in self.shard)
        except (TypeError, ValueError):  # SpecError is one
            rank = world = -1
        if not 0 <= rank < world:
            raise SpecError(
                f"shard must be (rank, world) with 0 <= rank < world, got {self.shard!r}"
            )
        if self.on_error not in ("substitute", "skip", "raise"):
            raise SpecError(
                f'on_error must be "substitute", "skip" or "raise", got {self.on_error!r}'
            )
        for name, value in (
            ("batch_size", whole("batch_size", self.batch_size)),
            ("seed", whole("seed", self.seed, None)),
            ("shard", (rank, world)),
            ("max_bad", real("max_bad", self.max_bad, 0, 1, what="a share")),
        ):
            object.__setattr__(self, name, value)
        for name in ("shuffle", "drop_remainder", "ordered"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise SpecError(f"{name} must be True or False, got {getattr(self, name)!r}")
            object.__setattr__(self, name, bool(getattr(self, name)))


class Plan:
    """The stream's batches by number: ``len(plan)`` per epoch, ``plan[step]`` for any step >= 0."""

    def __init__(
        self, videos: int, clips: int | npt.NDArray[np.int64], options: StreamOptions
    ) -> None:
        """``clips`` from each video, or from each its own number (int64 [videos])."""
        self._clips = clips if isinstance(clips, int) else 0
        self._ends = None if isinstance(clips, int) else np.cumsum(clips, dtype=np.int64)
        self.samples = videos * self._clips if self._ends is None else int(self._ends[-1])
        self.videos = videos if self._ends is None else int(np.count_nonzero(clips))
        """How many videos there are clips of."""
        self._options = options
        self._rank, self._world = options.shard
        batch = options.batch_size
        share = self.samples // self._world
        if options.drop_remainder:
            self._batches, self._share = share // batch, share
        else:
            ceiling = -(-(self.samples - self._rank) // self._world)
            self._batches = -(-share // batch)
            self._share = min(ceiling, self._batches * batch)
        if self._batches == 0:
            raise SpecError(
                f"{self.samples} clips over {self._world} shard(s) do not fill one batch of "
                f"{batch}: lower batch_size" + (" or set drop_remainder=False" if share else "")
            )

    @classmethod
    def of(cls, catalog: Catalog, spec: Spec, options: StreamOptions) -> Plan:
        """The plan of a catalog's clips. Raises SpecError where "dense" lacks frame counts."""
        if isinstance(spec, ItemSpec):
            return cls(len(catalog), 1, options)
        if spec.sampling != "dense":
            return cls(len(catalog), spec.clips_per_video, options)
        frames = catalog.segment_frames
        if (frames < 0).any():
            raise SpecError(
                f'sampling="dense" needs frame counts, and {catalog[frames.argmin()].path} has '
                "none: make them with 'videoload scan DIR --output videos.csv' and use "
                "Catalog.from_csv"
            )
        lengths, length_of = np.unique(frames, return_inverse=True)
        counts = np.array([spec.windows(length) for length in lengths.tolist()])[length_of]
        if not counts.any():
            raise SpecError(f'short="drop" leaves none of the {len(catalog)} videos')
        return cls(len(catalog), counts, options)

    def __len__(self) -> int:
        return self._batches

    def __getitem__(self, step: int) -> list[Sample]:
        """The samples of batch ``step``, counted over all epochs."""
        if step < 0:
            raise IndexError(f"step must be at least 0, got {step}")
        epoch, batch = divmod(step, self._batches)
        first = batch * self._options.batch_size
        mine = range(first, min(first + self._options.batch_size, self._share))
        order = _order(self.samples, self._options.seed, epoch) if self._options.shuffle else None
        positions = (self._rank + self._world * i for i in mine)
        return [self._sample(epoch, order[at] if order else at) for at in positions]

    def steps(self, start_step: int, epochs: int) -> range:
        """The steps from ``start_step`` to the end of epoch number ``epochs``. Raises SpecError."""
        epochs = whole("epochs", epochs, 0)
        stop = epochs * self._batches
        start = whole("start_step", start_step, 0)
        if start > stop:
            raise SpecError(f"start_step must be in 0..{stop} ({epochs} epochs), got {start}")
        if start and not self._options.ordered:
            raise SpecError("start_step needs ordered=True: else nobody knows which steps are done")
        return range(start, stop)

    def substitute(self, sample: Sample) -> Sample:
        """The substitute for a sample that cannot be decoded; the same in every run."""
        options, attempt = self._options, sample.attempt + 1
        other = _hash(options.seed, "substitute", sample.epoch, sample.origin, attempt)
        video, clip = self._locate(other % self.samples)
        seed = _hash(options.seed, "clip", sample.epoch, sample.origin, attempt)
        return Sample(sample.epoch, sample.origin, attempt, video, clip, seed)

    def _sample(self, epoch: int, origin: int) -> Sample:
        video, clip = self._locate(origin)
        seed = _hash(self._options.seed, "clip", epoch, origin, 0)
        return Sample(epoch, origin, 0, video, clip, seed)

    def _locate(self, sample: int) -> tuple[int, int]:
        """(video, clip) of a sample, in the catalog's order."""
        if self._ends is None:
            return divmod(sample, self._clips)
        video = int(np.searchsorted(self._ends, sample, side="right"))
        return video, sample - (int(self._ends[video - 1]) if video else 0)


class Permutation:
    """A one-to-one map of 0..size-1 onto itself, decided by ``seed``: ``permutation[i]``."""

    def __init__(self, size: int, seed: bytes) -> None:
        self._size = size
        self._left = max(1, math.isqrt(size))
        self._right = max(1, -(-size // self._left))
        # A half takes a thousand values where there are a million positions, so most of the noise
        # was drawn before: a position takes a quarter of the time.
        self._noise = lru_cache(_NOISES_KEPT)(partial(_noise, seed))

    def __getitem__(self, at: int) -> int:
        if not 0 <= at < self._size:
            raise IndexError(f"{at} is not in 0..{self._size - 1}")
        while True:
            left, right = divmod(at, self._right)
            for turn in range(0, _ROUNDS, 2):
                left = (left + self._noise(turn, right)) % self._left
                right = (right + self._noise(turn + 1, left)) % self._right
            at = left * self._right + right
            if at < self._size:
                return at


def _noise(seed: bytes, turn: int, half: int) -> int:
    text = turn.to_bytes(1, "little") + half.to_bytes(8, "little")
    return int.from_bytes(blake2b(text, digest_size=8, key=seed).digest(), "little")


@lru_cache(maxsize=4)  # streams that are read by turns, at the end of an epoch
def _order(size: int, seed: int, epoch: int) -> Permutation:
    return Permutation(size, _hash(seed, "order", epoch).to_bytes(8, "little"))


def _hash(*parts: object) -> int:
    """64 bits out of the parts, the same on every machine."""
    text = ":".join(map(str, parts)).encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")

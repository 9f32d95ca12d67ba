"""Which clip stands where in the stream, by random access.

``plan[step]`` is the step-th batch of an endless stream of epochs: a pure function of (catalog,
clip spec, batch size, seed, shard). Nothing is drawn in advance and nothing is remembered, so
resuming at a step costs nothing and a million videos need no array of a million. An epoch's order
is a seeded `Permutation`.

Rank r of a world of w takes the positions r, r+w, r+2w, ... of the epoch, so batch k of all ranks
together covers a contiguous run of positions. Every rank has the same number of batches: without
``drop_remainder`` the last ones may differ in size by one clip, and where a further clip would
need a batch that other ranks do not have (at most w-1 clips per epoch), it is left out. Where a
clip has several crops, it is the clips that are permuted and shared out, and the rows of a rank are
the crops of its clips.

The parts of a mixture, and classes that are balanced, are *pools* of samples that take turns
(`turns`). The n-th turn of a pool is the n-th of its endless passes over its own samples, each in
an order of its own, so that none is repeated before all had their turn; the n-th of rank r of w
ranks is number n*w + r. Whose turn it is, is counted over all epochs, so nothing is passed over
where one epoch ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.arguments import whole
from videoload.catalog.catalog import Catalog
from videoload.catalog.joining import clip_of
from videoload.catalog.table import Ints
from videoload.catalog.turns import Turns, weights
from videoload.clips.item_spec import ItemSpec, Spec
from videoload.errors import SpecError
from videoload.plan.options import StreamOptions
from videoload.plan.permutation import Permutation, hash64

_OWN_SUBSTITUTES = 8  # of a bad clip, drawn from its own pool before those of others are


class Sample(NamedTuple):
    """One row of a batch: clip number ``clip`` of ``video``, and of several crops of it that number
    ``crop``; its parameters are drawn by ``seed``.

    ``origin`` is the clip's number in the epoch, ``attempt`` how often it was substituted: crops of
    a clip have both in common, and so the seed.
    """

    epoch: int
    origin: int
    attempt: int
    video: int
    clip: int
    seed: int
    crop: int = 0


class BatchInfo(NamedTuple):
    """Where a batch came from.

    Attributes:
        step: Number of the batch in the stream, counted over all epochs from 0.
        video: Index of each clip's video in the catalog, int64 [B]: of the video that was decoded,
            where it took the place of a bad one.
        frames: Source frame that each frame of each clip shows, int64 [B, T] (of several views [B,
            k, T]): its ordinal in the whole file, counted from 0 in display order.
        path: Of each clip's video, relative to the root: array of str [B].
        clip: Number of each clip among those of its video, from 0, int64 [B].
        crop: Number of each clip's crop among those of its frames, from 0, int64 [B].
        times: When a player shows each of ``frames``, in seconds from the video's first, by the
            rate that the file declares: float64, shaped like ``frames``; NaN where it declares
            none.
        digest: 64 bits of SHA-256 over clips and labels, in hex: the same batch has the same one,
            in every run. Default "": not worked out.
    """

    step: int
    video: Ints
    frames: Ints
    path: npt.NDArray[np.object_]
    clip: Ints
    crop: Ints
    times: npt.NDArray[np.float64]
    digest: str = ""


def batch_info(
    step: int,
    samples: Sequence[Sample],
    catalog: Catalog,
    frames: Ints,
    rates: npt.NDArray[np.float64],
) -> BatchInfo:
    """Where a batch of these samples came from; ``rates``: frames a second of each one's file, 0
    where it is not known."""
    video = np.array([sample.video for sample in samples], np.int64)
    clip = np.array([sample.clip for sample in samples], np.int64)
    paths = catalog._table.paths
    path = np.array([paths[sample.video] for sample in samples], object)
    rate = np.where(rates > 0, rates, np.nan).reshape(-1, *[1] * (frames.ndim - 1))
    crop = np.array([sample.crop for sample in samples], np.int64)
    return BatchInfo(step, video, frames, path, clip, crop, frames / rate)


Clips = npt.NDArray[np.uint8]  # [B, *clip.shape]; of an ItemSpec, what that says
Labels = npt.NDArray[np.int64]  # [B]; of a catalog with targets, what those are
Batch = tuple[Clips, Labels]
BatchWithInfo = tuple[Clips, Labels, BatchInfo]


class Pool:
    """Samples of some videos, numbered one after the other: ``clips`` of each video, or of each its
    own number (int64 [videos])."""

    def __init__(self, videos: range | Ints, clips: int | Ints) -> None:
        self._videos = videos
        self._clips = clips if isinstance(clips, int) else 0
        self._ends = None if isinstance(clips, int) else np.cumsum(clips, dtype=np.int64)
        self.samples = len(videos) * self._clips if self._ends is None else int(self._ends[-1])

    def __getitem__(self, sample: int) -> tuple[int, int]:
        """(video, clip) of a sample."""
        if self._ends is None:
            at, clip = divmod(sample, self._clips)
        else:
            at = int(np.searchsorted(self._ends, sample, side="right"))
            clip = sample - (int(self._ends[at - 1]) if at else 0)
        return int(self._videos[at]), clip


class Plan:
    """The stream's batches by number: ``len(plan)`` per epoch, ``plan[step]`` for any step >= 0."""

    def __init__(
        self,
        videos: int,
        clips: int | Ints,
        options: StreamOptions,
        *,
        crops: int = 1,
        pools: Sequence[Pool] = (),
        weights: Sequence[int] = (),
    ) -> None:
        """``clips`` from each video, or from each its own number (int64 [videos]); each clip makes
        so many rows, one after the other, as it has ``crops``. With ``pools``, of all those videos,
        they take turns by ``weights``."""
        self._all = Pool(range(videos), clips)
        self._pools = pools or (self._all,)
        self._turns: Turns | None = None
        self.samples = self._all.samples
        self.videos = videos if isinstance(clips, int) else int(np.count_nonzero(clips))
        """How many videos there are clips of."""
        self._options = options
        self._crops = crops
        self._rank, self._world = options.shard
        batch = options.batch_size
        share = self.samples // self._world
        if pools:
            key = hash64(options.seed, "turns", self._rank).to_bytes(8, "little")
            self._turns = Turns(weights, key if options.shuffle else None)
            even = len(pools) if options.balance else 1
            share = even * -(-self.samples // (even * self._world))
            rows = share * crops
            self._batches = rows // batch if options.drop_remainder else -(-rows // batch)
            self._rows = min(rows, self._batches * batch)
        elif options.drop_remainder:
            self._batches, self._rows = share * crops // batch, share * crops
        else:
            ceiling = -(-(self.samples - self._rank) // self._world)
            self._batches = -(-share * crops // batch)
            self._rows = min(ceiling * crops, self._batches * batch)
        self._share = -(-self._rows // crops)
        if self._batches == 0:
            raise SpecError(
                f"{self.samples * crops} clips over {self._world} shard(s) do not fill one batch "
                f"of {batch}: lower batch_size" + (" or set drop_remainder=False" if share else "")
            )

    @classmethod
    def of(cls, catalog: Catalog, spec: Spec, options: StreamOptions) -> Plan:
        """The plan of a catalog's clips. Raises SpecError where "dense" lacks frame counts."""
        if catalog.parts:
            return cls._of_parts(catalog, spec, options)
        clips, crops = _clips(catalog, spec, range(len(catalog))), _crops(spec)
        if options.balance is None:
            return cls(len(catalog), clips, options, crops=crops)
        ends = np.cumsum(np.bincount(catalog.labels))[:-1]
        classes = np.split(np.argsort(catalog.labels, kind="stable"), ends)
        pools = [
            Pool(videos, clips if isinstance(clips, int) else clips[videos])
            for videos in classes
            if len(videos)
        ]
        pools = [pool for pool in pools if pool.samples]
        equal = [1] * len(pools)
        return cls(len(catalog), clips, options, crops=crops, pools=pools, weights=equal)

    @classmethod
    def _of_parts(cls, catalog: Catalog, spec: Spec, options: StreamOptions) -> Plan:
        if options.balance is not None:
            raise SpecError("a mixture has shares: leave balance= out")
        pools = []
        counts = np.zeros(len(catalog), np.int64)
        for part in catalog.parts:
            videos = range(part.start, part.stop)
            clips = _clips(catalog, clip_of(catalog, spec, part.start), videos)
            counts[part.start : part.stop] = clips
            pools.append(Pool(videos, clips))
        shares = weights([part.share for part in catalog.parts])
        crops = _crops(spec)
        return cls(len(catalog), counts, options, crops=crops, pools=pools, weights=shares)

    def __len__(self) -> int:
        return self._batches

    def __getitem__(self, step: int) -> list[Sample]:
        """The samples of batch ``step``, counted over all epochs."""
        if step < 0:
            raise IndexError(f"step must be at least 0, got {step}")
        epoch, batch = divmod(step, self._batches)
        first = batch * self._options.batch_size
        mine = range(first, min(first + self._options.batch_size, self._rows))
        if self._turns is not None:
            return [self._turn(epoch, *divmod(row, self._crops)) for row in mine]
        order = _order(self.samples, self._options.seed, epoch) if self._options.shuffle else None
        samples = []
        for row in mine:
            at, crop = divmod(row, self._crops)
            position = self._rank + self._world * at
            samples.append(self._sample(epoch, order[position] if order else position, crop))
        return samples

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
        pool = 0
        if self._turns is not None:
            pool, _ = self._turns[sample.epoch * self._share + sample.origin // self._world]
        pool += max(0, attempt - _OWN_SUBSTITUTES)  # where all of its own are bad
        samples = self._pools[pool % len(self._pools)]
        other = hash64(options.seed, "substitute", sample.epoch, sample.origin, attempt)
        video, clip = samples[other % samples.samples]
        seed = hash64(options.seed, "clip", sample.epoch, sample.origin, attempt)
        return Sample(sample.epoch, sample.origin, attempt, video, clip, seed, sample.crop)

    def _sample(self, epoch: int, origin: int, crop: int) -> Sample:
        video, clip = self._all[origin]
        seed = hash64(self._options.seed, "clip", epoch, origin, 0)
        return Sample(epoch, origin, 0, video, clip, seed, crop)

    def _turn(self, epoch: int, at: int, crop: int) -> Sample:
        """A crop of the clip at place ``at`` of this rank's epoch, of the pool whose turn it is."""
        assert self._turns is not None
        options = self._options
        pool, turn = self._turns[epoch * self._share + at]
        samples = self._pools[pool]
        turn, number = divmod(turn * self._world + self._rank, samples.samples)
        if options.shuffle:
            number = _pool_order(samples.samples, options.seed, pool, turn)[number]
        origin = self._rank + self._world * at
        video, clip = samples[number]
        seed = hash64(options.seed, "clip", epoch, origin, 0)
        return Sample(epoch, origin, 0, video, clip, seed, crop)


def _clips(catalog: Catalog, spec: Spec, videos: range) -> int | Ints:
    """How many clips each of these videos gives, one number where it is the same. Raises SpecError
    where "dense" lacks frame counts."""
    if isinstance(spec, ItemSpec):
        return 1
    if spec.sampling != "dense":
        return spec.clips_per_video
    frames = catalog.segment_frames[videos.start : videos.stop]
    if (frames < 0).any():
        raise SpecError(
            f'sampling="dense" needs frame counts, and {catalog[videos[frames.argmin()]].path} has '
            "none: make them with 'videoload scan DIR --output videos.csv' and use "
            "Catalog.from_csv"
        )
    lengths, length_of = np.unique(frames, return_inverse=True)
    counts = np.array([spec.windows(length) for length in lengths.tolist()])[length_of]
    if not counts.any():
        raise SpecError(f'short="drop" leaves none of the {len(videos)} videos')
    return counts


def _crops(spec: Spec) -> int:
    return 1 if isinstance(spec, ItemSpec) else spec.crops


@lru_cache(maxsize=4)  # streams that are read by turns, at the end of an epoch
def _order(size: int, seed: int, epoch: int) -> Permutation:
    return Permutation(size, hash64(seed, "order", epoch).to_bytes(8, "little"))


@lru_cache(maxsize=64)  # a mixture's parts, by turns
def _pool_order(size: int, seed: int, pool: int, turn: int) -> Permutation:
    return Permutation(size, hash64(seed, "pool", pool, turn).to_bytes(8, "little"))

"""Which clip stands where in the stream, by random access.

``plan[step]`` is the step-th batch of an endless stream of epochs: a pure function of catalog, clip
spec, batch size, seed and shard. No other step has to be drawn before it, so it costs nothing to
resume, and a million videos need no array of a million. An epoch's order is a seeded `Permutation`.

Rank r of w ranks takes the positions r, r+w, r+2w, ... of the epoch, so batch k of all ranks
together covers a contiguous run of positions. Every rank has the same number of batches. Without
``drop_remainder``, the last batches may differ in size by one clip. A clip that would need a batch
which other ranks do not have is left out: at most w-1 clips per epoch; or with ``"repeat"``, ranks
that have fewer clips show some of another rank. If a clip has several crops, clips are permuted and
shared out, and the crops of a clip are consecutive rows of one rank.

The parts of a mixture, and the classes of a balanced stream, are *pools* of samples that take turns
(`interleaving`). A pool goes through all its samples, in a new order each time, before it repeats
one. (Other weights are in `weighted`.) Rank r of w ranks takes the turns r, r+w, ... of a pool.
Turns are counted over all epochs, so no sample is passed over where an epoch ends.

Clips of one length and one size are a *bucket* of the epoch (see `buckets`). Each has its clips
and its batches, shared out as above, and an epoch has the batches of all buckets, shuffled in an
order that is the same on all ranks. So the batches of a step have the same shape on all ranks. A
stream without buckets and several sizes has one bucket.

In a shuffled batch, the clips of a file stand together, so that a worker decodes them in one pass:
single labelled frames of ten files, 20 in a batch, take 18 % less of its time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from videoload.arguments import whole
from videoload.catalog.catalog import Catalog, table_of
from videoload.catalog.crop_boxes import check_boxes
from videoload.catalog.interleaving import Interleaving, weights
from videoload.catalog.table import Ints
from videoload.clips.clip_spec import ClipSpec, crops_of
from videoload.clips.sample_spec import (
    SampleSpec,
    Shape,
    shape_of,
)
from videoload.errors import SpecError
from videoload.plan.batches import Sample
from videoload.plan.options import CheckedOptions, DropRemainder, clips_in_batch
from videoload.plan.permutation import Permutation, hash64
from videoload.plan.weighted import Weighted
from videoload.plan.windows import buckets_of, windows_of

_ONE = Shape()
_MAX_STEPS = 1 << 62  # Python and TensorFlow count no more.
_AT_ONCE = 128  # Samples; in cold caches, a single batch takes three times as long.
_REMEMBERED = 4  # So many times, since several readers may take turns.
_MOST_COME = 0.95  # of the clips of all buckets: fewer are named
_NAMED = 3  # shapes of clips that are left out
_OWN_SUBSTITUTES = 8  # Drawn from the pool of a bad clip before other pools are tried.


class Pool:
    """Samples of some videos, numbered one after the other. ``clips`` is the number of clips of
    each video, or of all of them."""

    def __init__(self, videos: range | Ints, clips: int | Ints) -> None:
        self._videos = videos
        self._clips = clips if isinstance(clips, int) else 0
        self._ends = None if isinstance(clips, int) else np.cumsum(clips, dtype=np.int64)
        self.samples = len(videos) * self._clips if self._ends is None else int(self._ends[-1])

    def __getitem__(self, sample: int) -> tuple[int, int]:
        """Return (video, clip) of a sample."""
        if self._ends is None:
            at, clip = divmod(sample, self._clips)
        else:
            at = int(np.searchsorted(self._ends, sample, side="right"))
            clip = sample - (int(self._ends[at - 1]) if at else 0)
        return int(self._videos[at]), clip


class Bucket(NamedTuple):
    """Clips of an epoch whose batches have one shape.

    Attributes:
        shape: Of the clips.
        pool: The clips.
        size: Rows of a batch.
        first: The number of the first clip in the epoch.
        begin: The number of the first batch in the epoch, before they are shuffled.
        batches: Their number, the same on all ranks.
        rows: Of this rank.
    """

    shape: Shape
    pool: Pool
    size: int
    first: int
    begin: int
    batches: int
    rows: int


class _Epoch(NamedTuple):
    """The size of an epoch on all ranks together: steps, and rows. ``left_out``: rows by shape."""

    batches: int
    delivered: int
    repeated: int
    left_out: dict[Shape, int]


class Plan:
    """The stream's batches by number: ``len(plan)`` per epoch, ``plan[step]`` for any step >= 0."""

    def __init__(
        self,
        videos: int,
        clips: int | Ints,
        options: CheckedOptions,
        *,
        crops: int = 1,
        pools: Sequence[Pool] = (),
        weights: Sequence[int] = (),
        weighted: Weighted | None = None,
        shape: Shape = _ONE,
        buckets: Mapping[Shape, Pool] | None = None,
    ) -> None:
        """``clips`` is as in `Pool`. Each clip makes ``crops`` rows; the largest has this
        ``shape``. With ``pools``, of all these videos, the pools take turns by ``weights``.
        ``weighted`` draws the clips instead. With ``buckets``, they have these shapes."""
        if buckets is None:
            buckets = {shape: Pool(range(videos), clips)}
        self._pools = pools or tuple(buckets.values())
        self._weighted = weighted
        self._pool_at: Interleaving | None = None
        self._files: Sequence[str] = ()  # of each video; those of one stand together in a batch
        self.samples = sum(pool.samples for pool in buckets.values())
        self.videos = videos if isinstance(clips, int) else int(np.count_nonzero(clips))
        """The number of videos that have clips."""
        self._seed = options["seed"]
        self.shuffles = options["shuffle"]
        """Whether each epoch has an order of its own."""
        self._ordered = options["ordered"]
        self._crops, self._drop = crops, options["drop_remainder"]
        self._rank, self._world = options["shard"]
        if pools:
            key = hash64(options["seed"], "turns", self._rank).to_bytes(8, "little")
            self._pool_at = Interleaving(weights, key if options["shuffle"] else None)
        self._buckets: list[Bucket] = []
        first = self._batches = 0
        for each, pool in buckets.items():
            size = clips_in_batch(options, each, shape)
            drop = options["drop_remainder"]
            batches, shares = _shares(pool.samples, size, crops, self._world, drop)
            rows = shares[self._rank]
            if pools:
                even = len(pools) if options["balance"] else 1
                rows = even * -(-pool.samples // (even * self._world)) * crops
                batches = rows // size if drop is True else -(-rows // size)
                rows = min(rows, batches * size)
            bucket = Bucket(each, pool, size, first, self._batches, batches, rows)
            self._buckets.append(bucket)
            first, self._batches = first + pool.samples, self._batches + batches
        self._firsts = [bucket.first for bucket in self._buckets]
        self._begins = [bucket.begin for bucket in self._buckets]
        self.sizes = {each.shape: each.size for each in self._buckets if each.batches}
        """Rows of a whole batch, by the shape of its clips."""
        if self._batches == 0:
            fewest = min(each.size for each in self._buckets)
            where = " in any bucket" if len(self._buckets) > 1 else ""
            too_large = "batch_frames" if options["batch_size"] is None else "batch_size"
            raise SpecError(
                f"{self.samples * crops} clips do not fill one batch "
                f"of {fewest}{where}{self._over()}: lower {too_large}"
                + (" or set drop_remainder=False" if any(map(self._fills, self._buckets)) else "")
            )
        self._share = -(-self._buckets[0].rows // crops)
        self._at_once = max(1, _AT_ONCE // max(self.sizes.values()))  # steps
        self._drawn: dict[int, list[list[Sample]]] = {}  # by their first step

    @classmethod
    def of(cls, catalog: Catalog, spec: SampleSpec, options: CheckedOptions) -> Plan:
        """Return the plan of a catalog's clips. For "dense" and buckets, the catalog is
        `windows.counted`. Raises SpecError."""
        plan = cls._of(catalog, spec, options)
        if options["shuffle"]:
            plan._files = catalog.paths
        return plan

    @classmethod
    def _of(cls, catalog: Catalog, spec: SampleSpec, options: CheckedOptions) -> Plan:
        leader, shape = spec.leader, shape_of(spec)
        plan = partial(cls, len(catalog), options=options, crops=crops_of(leader), shape=shape)
        if catalog.parts:
            if options["balance"] is not None:
                raise SpecError("a mixture has shares: omit balance=")
            counts = np.zeros(len(catalog), np.int64)
            pools = []
            for part in catalog.parts:
                videos = range(part.start, part.stop)
                own = _clips(catalog, leader, videos)
                counts[part.start : part.stop] = own
                pools.append(Pool(videos, own))
            shares = weights([part.share for part in catalog.parts])
            return plan(counts, pools=pools, weights=shares)
        clips = _clips(catalog, leader, range(len(catalog)))
        if (rows := buckets_of(catalog, spec, options)) is not None:
            counts, buckets = np.zeros(len(catalog), np.int64), {}
            for shape, of in rows.items():
                counts[of] = each = clips if isinstance(clips, int) else clips[of]
                if np.any(each):
                    buckets[shape] = Pool(of, each)
            return plan(counts, buckets=buckets)
        if options["balance"] is None:
            return plan(clips)
        if options["balance"] != "class":
            given, seed = np.broadcast_to(clips, len(catalog)), options["seed"]
            drawn = Weighted(
                options["balance"], given, catalog.labels, seed if options["shuffle"] else None
            )
            of_drawn = np.where(np.isin(np.arange(len(catalog)), drawn.videos), given, 0)
            return plan(of_drawn, weighted=drawn)
        labels = catalog.labels
        if labels.max() < 0:
            raise SpecError('balance="class" needs labels: all are -1')
        if labels.min() < 0:
            clips = np.where(labels < 0, 0, clips)
        ends = np.cumsum(np.bincount(labels + 1))
        classes = np.split(np.argsort(labels, kind="stable"), ends[:-1])[1:]
        pools = [
            Pool(videos, clips if isinstance(clips, int) else clips[videos])
            for videos in classes
            if len(videos)
        ]
        pools = [pool for pool in pools if pool.samples]
        equal = [1] * len(pools)
        return plan(clips, pools=pools, weights=equal)

    def __len__(self) -> int:
        return self._batches

    def __getitem__(self, step: int) -> list[Sample]:
        """Return the samples of batch ``step``, counted over all epochs."""
        if step < 0:
            raise IndexError(f"step must be at least 0, got {step}")
        first = step - step % self._at_once
        if (drawn := self._drawn.get(first)) is None:
            drawn = list(map(self._batch, range(first, first + self._at_once)))
            if len(self._drawn) >= _REMEMBERED:
                self._drawn = {}
            self._drawn[first] = drawn
        return list(drawn[step - first])

    def shape_of(self, sample: Sample) -> Shape:
        """Return the shape of the clips in the batch of a sample."""
        return self._buckets[self._bucket_of(sample)].shape

    def left_out(self) -> str:
        """Return a sentence for the log if buckets leave out many clips of each epoch, otherwise
        "": which clips, why, and what other values of ``drop_remainder`` would change."""
        if len(self._buckets) < 2:
            return ""
        every, now = self.samples * self._crops, self._epoch(self._drop)
        empty = [each for each in self._buckets if not each.batches]
        if now.delivered >= _MOST_COME * every and not empty:
            return ""
        sizes = sorted({each.size for each in self._buckets})
        text = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        never = {each.shape: each.pool.samples * self._crops for each in empty}
        cut = {shape: n for shape, n in now.left_out.items() if n and shape not in never}
        values: tuple[DropRemainder, ...] = (False, "repeat")
        others = [(value, self._epoch(value)) for value in values]
        return (
            f"{now.delivered} of {every} clips are delivered in an epoch "
            f"({len(self._buckets)} buckets, batches of "
            f"{text}{f' x {self._world} ranks' * (self._world > 1)})"
            + (f"; never delivered, as they fill no batch: {_most(never)}" if never else "")
            + (f"; too few for another batch: {_most(cut)}" if cut else "")
            + "".join(
                f"; drop_remainder={value!r} delivers {other.delivered}"
                + f" and repeats {other.repeated}" * bool(other.repeated)
                + f", in {other.batches} steps instead of {now.batches}"
                for value, other in others
                if other.delivered > now.delivered
            )
            + "; fewer buckets or sizes, or smaller batches, deliver more too"
        )

    def _epoch(self, drop: DropRemainder | None) -> _Epoch:
        """Return what an epoch would be with this ``drop_remainder``, on all ranks together."""
        batches = delivered = repeated = 0
        left_out = {}
        for each in self._buckets:
            samples = each.pool.samples
            steps, rows = _shares(samples, each.size, self._crops, self._world, drop)
            more = sum(rows) - samples * self._crops
            batches, repeated = batches + steps, repeated + max(0, more)
            delivered += sum(rows) - max(0, more)
            left_out[each.shape] = max(0, -more)
        return _Epoch(batches, delivered, repeated, left_out)

    def _over(self) -> str:
        return f" in each of {self._world} shards" if self._world > 1 else ""

    def _fills(self, bucket: Bucket) -> bool:
        """Return whether a bucket has clips for each rank, if smaller batches are allowed."""
        return bucket.pool.samples >= self._world

    def _bucket_of(self, sample: Sample) -> int:
        return bisect_right(self._firsts, sample.origin) - 1

    def _batch(self, step: int) -> list[Sample]:
        epoch, batch = divmod(step, self._batches)
        if len(self._buckets) > 1 and self.shuffles:
            batch = _order(self._batches, self._seed, epoch)[batch]
        bucket = self._buckets[bisect_right(self._begins, batch) - 1]
        first = (batch - bucket.begin) * bucket.size
        mine = range(first, min(first + bucket.size, bucket.rows))
        samples = [self._planned(epoch, bucket, *divmod(row, self._crops)) for row in mine]
        if self._files:
            turn: dict[str, int] = {}
            for sample in samples:
                turn.setdefault(self._files[sample.video], len(turn))
            samples.sort(key=lambda sample: turn[self._files[sample.video]])
        return samples

    def _planned(self, epoch: int, bucket: Bucket, at: int, crop: int) -> Sample:
        """Return a crop of the clip at place ``at`` of this rank's part of a bucket."""
        origin = self._rank + self._world * at
        if self._pool_at is None:
            origin %= bucket.pool.samples  # a rank may repeat clips
            if self.shuffles:
                origin = self._order_in(bucket, epoch)[origin]
            if self._weighted is not None:
                first = hash64(self._seed, "first", epoch) / 2**64 if self.shuffles else 0.5
                drawn = self._weighted.at((origin + first) / self.samples, epoch)
                return self._sample(epoch, origin, 0, drawn, crop)
            return self._sample(epoch, bucket.first + origin, 0, bucket.pool[origin], crop)
        pool, turn = self._pool_at[epoch * self._share + at]
        samples = self._pools[pool]
        turn, number = divmod(turn * self._world + self._rank, samples.samples)
        if self.shuffles:
            number = _pool_order(samples.samples, self._seed, pool, turn)[number]
        return self._sample(epoch, origin, 0, samples[number], crop)

    def _order_in(self, bucket: Bucket, epoch: int) -> Permutation:
        if len(self._buckets) == 1:
            return _order(self.samples, self._seed, epoch)
        return _pool_order(bucket.pool.samples, self._seed, bucket.first, epoch)

    def _sample(
        self, epoch: int, origin: int, attempt: int, found: tuple[int, int], crop: int
    ) -> Sample:
        seed = hash64(self._seed, "clip", epoch, origin, attempt)
        return Sample(epoch, origin, attempt, *found, seed, crop)

    def steps(self, start_step: int, epochs: int | None) -> range:
        """Return the steps from ``start_step`` to the end of epoch number ``epochs``; None: to the
        end of the epoch that ``start_step`` is in. Raises SpecError."""
        start = whole("start_step", start_step, 0, _MAX_STEPS)
        if epochs is None:
            epochs = start // self._batches + 1
        epochs = whole("epochs", epochs, 0, _MAX_STEPS // self._batches + 1)
        stop = epochs * self._batches
        if start > stop:
            raise SpecError(f"start_step must be in 0..{stop} ({epochs} epochs), got {start}")
        if start:
            self.check_resume(start)
        return range(start, stop)

    def check_resume(self, step: int) -> None:
        """Raise SpecError if the steps before this one need not be those that were read first."""
        if not self._ordered:
            raise SpecError(
                f"start_step={step} needs ordered=True: otherwise it is unknown which steps are "
                f"done"
            )

    def substitute(self, sample: Sample) -> Sample:
        """Return the substitute for a sample that cannot be decoded. It is the same in every
        run."""
        epoch, origin, attempt = sample.epoch, sample.origin, sample.substitution + 1
        pool = self._bucket_of(sample)
        if self._pool_at is not None:
            pool, _ = self._pool_at[epoch * self._share + origin // self._world]
        pool += max(0, attempt - _OWN_SUBSTITUTES)  # All of its own may be bad.
        samples = self._pools[pool % len(self._pools)]
        other = hash64(self._seed, "substitute", epoch, origin, attempt)
        drawn = samples[other % samples.samples]
        if self._weighted is not None:
            few = attempt <= _OWN_SUBSTITUTES
            line = self._weighted
            drawn = line.at(other / 2**64, epoch) if few else line.any(other)
        return self._sample(epoch, origin, attempt, drawn, sample.crop)


def _most(counts: Mapping[Shape, int]) -> str:
    """Return the largest counts of clips with their buckets, as text."""
    rows = sorted(counts.items(), key=lambda each: -each[1])
    listed = ", ".join(f"{n} in bucket {shape}" for shape, n in rows[:_NAMED])
    rest = rows[_NAMED:]
    return listed + (f", {sum(n for _, n in rest)} in {len(rest)} more" if rest else "")


def _shares(
    samples: int, size: int, crops: int, world: int, drop: DropRemainder | None
) -> tuple[int, list[int]]:
    """Return the batches of a bucket, which all ranks have, and the rows of each rank in them."""
    clips = [-(-(samples - rank) // world) for rank in range(world)]
    if drop == "repeat":
        clips = clips[:1] * world
    batches = clips[-1] * crops // size if drop is True else -(-(clips[-1] * crops) // size)
    return batches, [min(own * crops, batches * size) for own in clips]


def _clips(catalog: Catalog, spec: ClipSpec, videos: range) -> int | Ints:
    """Return how many clips these videos give: each of them, or all the same. Raises SpecError."""
    if spec.sampling == "at" and not table_of(catalog).has_moments:
        raise SpecError('sampling="at" needs moments: give the catalog at= or at_s=')
    if spec.crop == "box":
        check_boxes(catalog, videos)
    if spec.sampling != "dense":
        return spec.clips_per_video
    counts, _ = windows_of(catalog, spec, videos)
    if not counts.any():
        raise SpecError(f'short="drop" leaves none of the {len(videos)} videos')
    return counts


@lru_cache(maxsize=4)  # Several streams may be read in turn.
def _order(size: int, seed: int, epoch: int) -> Permutation:
    return Permutation(size, hash64(seed, "order", epoch).to_bytes(8, "little"))


@lru_cache(maxsize=64)  # The pools of a stream are read in turn.
def _pool_order(size: int, seed: int, pool: int, turn: int) -> Permutation:
    return Permutation(size, hash64(seed, "pool", pool, turn).to_bytes(8, "little"))

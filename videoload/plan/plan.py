"""Which clip comes where in the stream, by random access.

``plan[step]`` is the step-th batch of an endless stream of epochs: a pure function of catalog, clip
spec, batch size, seed and shard. No other step has to be drawn before it, so it costs nothing to
resume, and a million videos need no array of a million. An epoch's order is a seeded `Permutation`.

Rank r of w ranks takes the positions r, r+w, r+2w, ... of the epoch, so batch k of all ranks
together covers a contiguous run of positions. Every rank has the same number of batches. Without
``drop_remainder``, the last batches may differ in size by one clip. A clip that would need a batch
which other ranks do not have is left out: at most w-1 clips per epoch. If a clip has several crops,
clips are permuted and shared out, and the crops of a clip are consecutive rows of one rank.

The parts of a mixture, and the classes of a balanced stream, are *pools* of samples that take turns
(`turns`). A pool goes through all its samples, in a new order each time, before it repeats one.
(Other weights are in `weighted`.)
Rank r of w ranks takes the turns r, r+w, ... of a pool. Turns are counted over all epochs, so no
sample is passed over where an epoch ends.

In a shuffled batch, the clips of a file stand together, so that a worker decodes them in one pass:
single labelled frames of ten files, 20 in a batch, take 18 % less of its time.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from videoload.arguments import whole
from videoload.catalog.catalog import Catalog
from videoload.catalog.crop_boxes import boxes_of, check_boxes
from videoload.catalog.joining import targets_of
from videoload.catalog.table import Ints
from videoload.catalog.turns import Turns, weights
from videoload.clips.affine import Matrices
from videoload.clips.clip_spec import ClipSpec, crops_of
from videoload.clips.edges import told
from videoload.clips.facts import Facts, affine_of
from videoload.clips.sample_spec import Spec, arrays_of, heard_in, leader_of
from videoload.errors import SpecError
from videoload.plan.lengths import Lengths
from videoload.plan.options import StreamOptions
from videoload.plan.permutation import Permutation, hash64
from videoload.plan.weighted import Drawn, Weighted, of_frames, of_rows
from videoload.plan.windows import windows_of

_AT_ONCE = 128  # Samples; in cold caches, a single batch takes three times as long.
_REMEMBERED = 4  # So many times, since several readers may take turns.
_OWN_SUBSTITUTES = 8  # Drawn from the pool of a bad clip before other pools are tried.


class Sample(NamedTuple):
    """One row of a batch: crop number ``crop`` of clip number ``clip`` of ``video``. Its parameters
    are drawn from ``seed``, and perhaps the frame ``at`` of its moment.

    ``origin`` is the clip's number in the epoch, ``attempt`` how often it was substituted. The
    crops of a clip share both, and therefore the seed.
    """

    epoch: int
    origin: int
    attempt: int
    video: int
    clip: int
    seed: int
    crop: int = 0
    at: int | None = None


class BatchInfo(NamedTuple):
    """Where a batch came from.

    Attributes:
        step: Number of the batch in the stream, counted over all epochs from 0.
        video: Index in the catalog of the video that each clip was decoded from, int64 [B].
        frames: Source frame that each frame of each clip shows, int64 [B, T], with several views
            [B, k, T]: its ordinal in the whole file, counted from 0 in display order. -1: a frame
            that the video does not have (``short="zero"``, ``edges``).
        path: Path of each clip's video, relative to the root: array of str [B].
        clip: Number of each clip among those of its video, from 0, int64 [B].
        crop: Number of each clip's crop among those of its frames, from 0, int64 [B].
        times: When a player shows each of ``frames``, in seconds from the video's first frame:
            float64, shaped like ``frames``. NaN if the file does not say, and where ``frames`` has
            -1.
        has_sound: Whether each clip's file has sound, bool [B]. Default None: the spec asks for
            none.
        affine: From (x, y, 1) of a decoded frame to the pixels of each clip, through every crop,
            scale, rotation and flip: float32 [B, 2, 3], with several views [B, k, 2, 3]. Centres of
            pixels are whole numbers. Of several parts, a dict. Default None: of items.
        digest_of: Makes the `digest`. Default ``str``: "".
    """

    step: int
    video: Ints
    frames: Ints
    path: npt.NDArray[np.object_]
    clip: Ints
    crop: Ints
    times: npt.NDArray[np.float64]
    has_sound: npt.NDArray[np.bool_] | None = None
    affine: Matrices | dict[str, Matrices] | None = None
    digest_of: Callable[[], str] = str

    @property
    def digest(self) -> str:
        """64 bits of XXH3 over clips and labels, in hex: the same in every run. It is computed when
        it is asked for, so the clips must still be referenced. "": there are no clips.

        Raises:
            VideoloadError: Nobody refers to the clips any more.
        """
        return self.digest_of()


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    C = TypeVar("C", default=Any)
else:
    C = typing.TypeVar("C")

# [B, *clip.shape], of the type that the clip's pixels or its transform have. A stream of a dict of
# specs, or of items, may have dicts.
Clips = npt.NDArray[Any]
Labels = Any  # int64 [B]; or the targets of the catalog, which may be a dict of arrays
Batch = tuple[C, Labels]
BatchWithInfo = tuple[C, Labels, BatchInfo]


def asked(catalog: Catalog, spec: Spec, sample: Sample) -> tuple[Any, ...]:
    """What a worker has to know of a sample: the fields of `transport.messages.Clip`."""
    video, leader = catalog[sample.video], leader_of(spec)
    has_box = isinstance(leader, ClipSpec) and leader.crop == "box"
    boxes = boxes_of(catalog, sample.video) if has_box else b""
    return (
        video.path, sample.seed, sample.clip, video.start, video.end, sample.crop, video.start_s,
        video.end_s, video.at if sample.at is None else sample.at, video.at_s, boxes,
    )  # fmt: skip


def batch_of(
    step: int,
    samples: Sequence[Sample],
    catalog: Catalog,
    spec: Spec,
    rows: npt.NDArray[np.uint8],
    facts: Facts,
    lengths: Lengths,
    *,
    info: bool,
) -> Batch | BatchWithInfo:
    """What a trainer gets of these samples, whose bytes are ``rows`` [B, clip_bytes]: clips and
    targets, and with ``info`` where they came from. Raises SpecError if targets do not fit."""
    video, clip, crop = np.array([(s.video, s.clip, s.crop) for s in samples], np.int64).T.copy()
    lengths.note(video, facts["of"], facts["lasts"])
    frames, affine = np.ascontiguousarray(facts["frames"]), affine_of(facts, spec)
    clips, targets = arrays_of(spec, rows), targets_of(catalog, video, frames, affine)
    if not info:
        return clips, targets
    path = np.array([catalog.paths[sample.video] for sample in samples], object)
    times, heard = np.ascontiguousarray(facts["times"]), heard_in(spec, rows)
    come_from = BatchInfo(step, video, told(frames), path, clip, crop, times, heard, affine)
    return clips, targets, come_from


class Pool:
    """Samples of some videos, numbered one after the other. ``clips`` is the number of clips of
    each video, or of all of them."""

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
        weighted: Weighted | None = None,
    ) -> None:
        """``clips`` is as in `Pool`. Each clip makes ``crops`` rows. With ``pools``, of all these
        videos, the pools take turns by ``weights``. ``weighted`` draws the clips instead."""
        self._all = Pool(range(videos), clips)
        self._pools = pools or (self._all,)
        self._weighted = weighted
        self._turns: Turns | None = None
        self._files: Sequence[str] = ()  # of each video; those of one stand together in a batch
        self.samples = self._all.samples
        self.videos = videos if isinstance(clips, int) else int(np.count_nonzero(clips))
        """The number of videos that have clips."""
        self._options = options
        self._crops = crops
        self._rank, self._world = options.shard
        batch = options.batch_size
        share = own = self.samples // self._world  # Clips that every rank has, and this one.
        if pools:
            key = hash64(options.seed, "turns", self._rank).to_bytes(8, "little")
            self._turns = Turns(weights, key if options.shuffle else None)
            even = len(pools) if options.balance else 1
            share = own = even * -(-self.samples // (even * self._world))
        elif not options.drop_remainder:
            own = -(-(self.samples - self._rank) // self._world)
        rows = share * crops
        self._at_once = max(1, _AT_ONCE // batch)  # steps
        self._drawn: dict[int, list[list[Sample]]] = {}  # by their first step
        self._batches = rows // batch if options.drop_remainder else -(-rows // batch)
        self._rows = min(own * crops, self._batches * batch)
        self._share = -(-self._rows // crops)
        if self._batches == 0:
            raise SpecError(
                f"{self.samples * crops} clips over {self._world} shard(s) do not fill one batch "
                f"of {batch}: lower batch_size" + (" or set drop_remainder=False" if share else "")
            )

    @classmethod
    def of(cls, catalog: Catalog, spec: Spec, options: StreamOptions) -> Plan:
        """The plan of a catalog's clips. For "dense", the catalog is `windows.counted`. Raises
        SpecError."""
        leader = leader_of(spec)
        plan = cls._of(catalog, leader, options)
        if options.shuffle:
            plan._files = catalog.paths
        return plan

    @classmethod
    def _of(cls, catalog: Catalog, spec: Spec, options: StreamOptions) -> Plan:
        crops = crops_of(spec) if isinstance(spec, ClipSpec) else 1
        if catalog.parts:
            if options.balance is not None:
                raise SpecError("a mixture has shares: leave balance= out")
            counts = np.zeros(len(catalog), np.int64)
            pools = []
            for part in catalog.parts:
                videos = range(part.start, part.stop)
                own = _clips(catalog, spec, videos)
                counts[part.start : part.stop] = own
                pools.append(Pool(videos, own))
            shares = weights([part.share for part in catalog.parts])
            return cls(len(catalog), counts, options, crops=crops, pools=pools, weights=shares)
        if isinstance(options.balance, str) and options.balance != "class":
            drawn, given = of_frames(catalog, options.balance), _drawn(catalog, spec)
            return cls._weighing(drawn, given, options, crops)
        clips = _clips(catalog, spec, range(len(catalog)))
        if options.balance is None:
            return cls(len(catalog), clips, options, crops=crops)
        if options.balance != "class":
            given = np.broadcast_to(clips, len(catalog))
            return cls._weighing(of_rows(options.balance, given), given, options, crops)
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
        return cls(len(catalog), clips, options, crops=crops, pools=pools, weights=equal)

    @classmethod
    def _weighing(cls, drawn: Weighted, clips: Ints, options: StreamOptions, crops: int) -> Plan:
        """An epoch has as many clips as the rows that are drawn give."""
        clips = np.where(np.isin(np.arange(len(clips)), drawn.videos), clips, 0)
        return cls(len(clips), clips, options, crops=crops, weighted=drawn)

    def __len__(self) -> int:
        return self._batches

    def __getitem__(self, step: int) -> list[Sample]:
        """The samples of batch ``step``, counted over all epochs."""
        if step < 0:
            raise IndexError(f"step must be at least 0, got {step}")
        first = step - step % self._at_once
        if (drawn := self._drawn.get(first)) is None:
            drawn = list(map(self._batch, range(first, first + self._at_once)))
            if len(self._drawn) >= _REMEMBERED:
                self._drawn = {}
            self._drawn[first] = drawn
        return list(drawn[step - first])

    def _batch(self, step: int) -> list[Sample]:
        epoch, batch = divmod(step, self._batches)
        first = batch * self._options.batch_size
        mine = range(first, min(first + self._options.batch_size, self._rows))
        samples = [self._planned(epoch, *divmod(row, self._crops)) for row in mine]
        if self._files:
            turn: dict[str, int] = {}
            for sample in samples:
                turn.setdefault(self._files[sample.video], len(turn))
            samples.sort(key=lambda sample: turn[self._files[sample.video]])
        return samples

    def _planned(self, epoch: int, at: int, crop: int) -> Sample:
        """A crop of the clip at place ``at`` of this rank's epoch."""
        options, origin = self._options, self._rank + self._world * at
        if self._turns is None:
            if options.shuffle:
                origin = _order(self.samples, options.seed, epoch)[origin]
            if self._weighted is not None:
                first = hash64(options.seed, "first", epoch) / 2**64 if options.shuffle else 0.5
                drawn = self._weighted.at((origin + first) / self.samples)
                return self._sample(epoch, origin, 0, drawn, crop)
            return self._sample(epoch, origin, 0, Drawn(*self._all[origin]), crop)
        pool, turn = self._turns[epoch * self._share + at]
        samples = self._pools[pool]
        turn, number = divmod(turn * self._world + self._rank, samples.samples)
        if options.shuffle:
            number = _pool_order(samples.samples, options.seed, pool, turn)[number]
        return self._sample(epoch, origin, 0, Drawn(*samples[number]), crop)

    def _sample(self, epoch: int, origin: int, attempt: int, found: Drawn, crop: int) -> Sample:
        seed = hash64(self._options.seed, "clip", epoch, origin, attempt)
        return Sample(epoch, origin, attempt, found.video, found.clip, seed, crop, found.at)

    def steps(self, start_step: int, epochs: int | None) -> range:
        """The steps from ``start_step`` to the end of epoch number ``epochs``; None: to the end of
        the epoch that ``start_step`` is in. Raises SpecError."""
        start = whole("start_step", start_step, 0)
        if epochs is None:
            epochs = start // self._batches + 1
        epochs = whole("epochs", epochs, 0)
        stop = epochs * self._batches
        if start > stop:
            raise SpecError(f"start_step must be in 0..{stop} ({epochs} epochs), got {start}")
        if start and not self._options.ordered:
            raise SpecError("start_step needs ordered=True: else nobody knows which steps are done")
        return range(start, stop)

    def substitute(self, sample: Sample) -> Sample:
        """The substitute for a sample that cannot be decoded. It is the same in every run."""
        epoch, origin, attempt = sample.epoch, sample.origin, sample.attempt + 1
        pool = 0
        if self._turns is not None:
            pool, _ = self._turns[epoch * self._share + origin // self._world]
        pool += max(0, attempt - _OWN_SUBSTITUTES)  # All of its own may be bad.
        samples = self._pools[pool % len(self._pools)]
        other = hash64(self._options.seed, "substitute", epoch, origin, attempt)
        drawn = Drawn(*samples[other % samples.samples])
        if self._weighted is not None:
            few = attempt <= _OWN_SUBSTITUTES
            drawn = self._weighted.at(other / 2**64) if few else self._weighted.any(other)
        return self._sample(epoch, origin, attempt, drawn, sample.crop)


def _clips(catalog: Catalog, spec: Spec, videos: range) -> int | Ints:
    """How many clips these videos give: each of them, or all the same. Raises SpecError."""
    if not isinstance(spec, ClipSpec):
        return 1
    if spec.sampling == "at" and not catalog._table.has_moments:
        raise SpecError('sampling="at" needs moments: give the catalog at= or at_s=')
    if spec.crop == "box":
        check_boxes(catalog, videos)
    if spec.sampling != "dense":
        return spec.clips_per_video
    counts, _ = windows_of(catalog, spec, videos)
    if not counts.any():
        raise SpecError(f'short="drop" leaves none of the {len(videos)} videos')
    return counts


def _drawn(catalog: Catalog, spec: Spec) -> Ints:
    """How many clips each video gives around moments that are drawn. Raises SpecError."""
    if not isinstance(spec, ClipSpec) or spec.sampling != "at" or spec.edges is None:
        raise SpecError(
            'balance= by frames draws the moments of windows: give sampling="at" and edges='
        )
    if catalog._table.has_moments:
        raise SpecError("balance= by frames draws moments: leave at and at_s out of the catalog")
    if spec.crop == "box":
        check_boxes(catalog, range(len(catalog)))
    return np.full(len(catalog), spec.clips_per_video)


@lru_cache(maxsize=4)  # Several streams may be read in turn.
def _order(size: int, seed: int, epoch: int) -> Permutation:
    return Permutation(size, hash64(seed, "order", epoch).to_bytes(8, "little"))


@lru_cache(maxsize=64)  # The pools of a stream are read in turn.
def _pool_order(size: int, seed: int, pool: int, turn: int) -> Permutation:
    return Permutation(size, hash64(seed, "pool", pool, turn).to_bytes(8, "little"))

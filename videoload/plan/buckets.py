"""Which shape the clips of each row of a catalog have: how many frames, and which size. Pure.

Clips of one shape are a bucket of the stream: a batch has one shape. The frames follow from the
length of a video and the buckets, the size from the shape of its frames.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from videoload.catalog.catalog import Catalog
from videoload.catalog.table import Ints
from videoload.clips.clip_spec import ClipSpec, has_any_length, sizes_of
from videoload.clips.regions import nearest_aspect
from videoload.clips.sample_spec import SampleSpec, Shape, has_sizes
from videoload.errors import SpecError
from videoload.plan.options import CheckedOptions
from videoload.plan.windows import sizes_in, windows_of


def buckets_of(
    catalog: Catalog, spec: SampleSpec, options: CheckedOptions
) -> dict[Shape, Ints] | None:
    """The rows of each shape that has any, from few frames to many; those that fill no bucket have
    none. None: the stream has one shape. Raises SpecError if no row has a shape."""
    leader, several = spec.leader, [*filter(None, map(sizes_of, spec.clips.values()))]
    if options["buckets"] is None and not several:
        return None
    frames = np.full(len(catalog), leader.frames)
    if options["buckets"] is not None:
        frames = _bucketed(catalog, leader, options["buckets"])
    shown = sizes_in(catalog, spec) if several else ()
    numbers = [_nearest(own, sizes) for own, sizes in zip(shown, several, strict=True)]
    shapes, of = np.unique(np.stack([frames, *numbers]), axis=1, return_inverse=True)
    rows = np.split(np.argsort(of.ravel(), kind="stable"), np.cumsum(np.bincount(of.ravel()))[:-1])
    found = {}
    for (length, *chosen), own in zip(shapes.T.tolist(), rows, strict=True):
        if length:
            picked = (sizes[number] for sizes, number in zip(several, chosen, strict=True))
            found[Shape(length, tuple(picked))] = own
    return found


def _bucketed(catalog: Catalog, leader: ClipSpec, buckets: Sequence[int]) -> Ints:
    """The bucket of each row: the smallest that holds its frames; or with ``short="cut"`` the
    largest that they fill, 0: they fill none."""
    lengths, _ = windows_of(catalog, leader, range(len(catalog)))
    if leader.short == "cut":
        if lengths.max() < buckets[0]:
            raise SpecError(f"none of the {len(catalog)} rows fills one of buckets={buckets}")
        return np.array([0, *buckets])[np.searchsorted(buckets, lengths, side="right")]
    return np.array(buckets)[np.searchsorted(buckets, lengths)]


def _nearest(shown: Ints, sizes: tuple[tuple[int, int], ...]) -> Ints:
    """The number of the size of each row, of what its frames are shown as: (width, height), int64
    [2, N]."""
    kinds, of = np.unique(shown, axis=1, return_inverse=True)
    wide = [size[::-1] for size in sizes]
    numbers = [nearest_aspect((width, height), wide) for width, height in kinds.T.tolist()]
    return np.array(numbers)[of.ravel()]


def check_lengths(catalog: Catalog, clip: SampleSpec, options: CheckedOptions) -> None:
    """Raises SpecError if clips of any length or of several sizes, buckets and other options
    contradict each other."""
    spec, buckets = clip.leader, options["buckets"]
    sized = has_sizes(clip)
    if (buckets is not None or sized) and (catalog.parts or options["balance"] is not None):
        what = "a mixture has shares" if catalog.parts else "balance= has weights"
        which = "several sizes" if buckets is None else "buckets"
        raise SpecError(f"{what}, and with {which} each clip comes once: leave {which} out")
    if spec.short == "cut" and buckets is None:
        raise SpecError('short="cut" cuts clips to the largest of buckets= that they fill: give it')
    if not has_any_length(spec):
        if buckets is not None or (options["batch_frames"] is not None and not sized):
            raise SpecError(
                "buckets and batch_frames are for clips of any length: give "
                'ClipSpec(frames="all", max_frames=...), or for clips of one length batch_size='
            )
    elif spec.frames != spec.max_frames:
        raise SpecError(
            f'give frames="all" with max_frames={spec.max_frames}, or frames={spec.frames} alone'
        )
    elif buckets is not None and buckets[-1] != spec.max_frames:
        raise SpecError(f"the last of buckets must be max_frames={spec.max_frames}, got {buckets}")

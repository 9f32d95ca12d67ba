"""How many windows ``sampling="dense"`` takes of each video, how many frames a clip of any length
has, as which size frames are shown, which size the clips have if the spec names none, and what is
worth a warning. Pure.

A catalog often does not know: its files have other rates, or were never scanned. Then one pass over
the indexes of all videos counts, before the stream is planned. `Read` is that pass: through a
client's workers, or in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from videoload.catalog.catalog import Catalog, table_of
from videoload.catalog.joining import (
    do_lengths_decide,
    file_rows,
    lengths_of,
    shown_as,
    whole_files,
    with_windows,
)
from videoload.catalog.table import Ints
from videoload.catalog.targets import look_like_marks
from videoload.clips.choices import MOVED_CROPS, TRIED_FOR_SIZE
from videoload.clips.clip_spec import (
    ClipSpec,
    at_native_size,
    has_any_length,
    hop_seconds,
    sizes_of,
)
from videoload.clips.sample_spec import SampleSpec, has_sizes, one_clip, one_frame
from videoload.clips.tasks import Count, WindowCount
from videoload.errors import BadVideo, SpecError, TooManyBadVideos, VideoError, named
from videoload.plan import bucket_search as padding
from videoload.plan.lengths import needed_frames, windows_in

_NAMED = 3  # rows in a sentence
_MOST = 1 << 32  # windows of a video, whoever counts them: 4 years of frames

# Does a task with each row, in any order. Gives (row, result, or why there is none).
Read = Callable[[Count, Catalog], Iterator[tuple[int, WindowCount | VideoError]]]


def counted(
    catalog: Catalog, spec: SampleSpec, read: Read, buckets: Sequence[int] | None = None
) -> Catalog:
    """The catalog, with what `count_windows` gives of each video if it does not follow from its
    frame counts, and with the sizes of its frames if they decide and it does not have them. A video
    that cannot be read counts as one window, or one frame, of a square: the stream will name it."""
    decide, sized = do_lengths_decide(spec, buckets), has_sizes(spec)
    if not decide and not sized:
        return catalog
    if table_of(catalog).windows is not None:  # another stream's
        catalog = with_windows(catalog, None)
    leader, several = spec.leader, len(spec.clips) > 1  # all of them decide
    suffice = not several and _lengths_suffice(catalog, range(len(catalog)), leader)
    unknown = several or not leader.rotate or shown_as(catalog).min() < 1
    if (suffice or not decide) and not (sized and unknown):
        return catalog
    counts = np.ones((2 + 2 * len(spec.clips), len(catalog)), np.int64)
    counts[:2] = [[1], [0]] if decide else -1  # -1: not known
    for row, found in read(Count(spec if decide else one_frame(spec)), file_rows(catalog)):
        if isinstance(found, VideoError):
            continue
        if decide:
            most = leader.frames if has_any_length(leader) else _MOST
            counts[:2, row] = np.clip([found.windows, found.left], 0, most)
        counts[2:, row] = np.clip(np.ravel(found.displayed), 1, _MOST)
    return with_windows(catalog, counts)


def with_native_size(catalog: Catalog, spec: SampleSpec, read: Read) -> SampleSpec:
    """The spec with the size of the catalog's first good video, if it has no size; of several files
    as one sample, each clip with that of its part. Raises TooManyBadVideos if none of the first is
    good.
    """
    if spec.leader.size is not None:
        return spec

    def native(side: int, clip: ClipSpec) -> ClipSpec:
        rows, bad = file_rows(catalog, side), list[BadVideo]()
        files = whole_files(rows, rows.paths[:TRIED_FOR_SIZE])
        for video in files:
            [(_, found)] = read(Count(one_frame(one_clip(clip))), whole_files(files, [video.path]))
            if not isinstance(found, VideoError):
                return at_native_size(clip, *found.size)
            bad.append(BadVideo(found.path, found.reason))
        raise TooManyBadVideos(bad, len(bad), len(files))

    clips = {name: native(side, clip) for side, (name, clip) in enumerate(spec.clips.items())}
    return replace(spec, clips=clips)


def sizes_in(catalog: Catalog, spec: SampleSpec) -> Ints:
    """As which (width, height) the frames of each part that has one of several sizes are shown, in
    each row: int64 [parts, 2, N]."""
    shown, counts = shown_as(catalog)[None], table_of(catalog).windows
    if counts is not None:
        shown = counts[2:].reshape(-1, 2, len(catalog))
    if shown.min() < 1:
        raise SpecError("the sizes of this catalog were not counted")
    return shown[[bool(sizes_of(clip)) for clip in spec.clips.values()]]


def windows_of(catalog: Catalog, spec: ClipSpec, videos: range) -> tuple[Ints, Ints]:
    """The number of windows of these videos, and how many frames come after the last of each. For
    clips of any length: how many frames those of each video have, and 0."""
    if (counts := table_of(catalog).windows) is not None:
        windows, left = counts[:2, videos.start : videos.stop]
        return windows, left
    if not _lengths_suffice(catalog, videos, spec):
        raise SpecError("the windows of this catalog are not counted yet")
    frames = lengths_of(catalog)[videos.start : videos.stop]
    windows, left = windows_in(spec, frames)
    return windows, left


def warnings_of(
    catalog: Catalog, clip: SampleSpec, buckets: Sequence[int] | None = None
) -> list[str]:
    """What a user may not mean by this catalog, this spec and these buckets: sentences for the
    log."""
    spec, found = clip.leader, []
    if buckets is not None:
        lengths, _ = windows_of(catalog, spec, range(len(catalog)))
        if spec.short != "cut":
            found += padding.warnings_of(lengths, buckets)
        elif len(out := np.flatnonzero(lengths < buckets[0])):
            some = ", ".join(named(catalog.paths[row]) for row in out[:_NAMED].tolist())
            found.append(
                f"{len(out)} of {len(catalog)} rows are left out, as they fill no bucket: {some}"
                + (", ..." if len(out) > _NAMED else "")
            )
    moves = spec.flip or spec.crop in MOVED_CROPS
    if moves and (names := look_like_marks(catalog.targets)):
        found.append(
            f"{names[0]} looks like points or boxes, which crop and flip move: give "
            "vl.Points or vl.Boxes to with_targets, and they follow it"
        )
    table = table_of(catalog)
    starts, ends, _ = table.segments
    lengths, needed = ends - starts, needed_frames(spec)
    if table.has_moments and spec.sampling != "at":
        found.append(
            f'the catalog has moments (at, at_s), and sampling="{spec.sampling}" does not use them'
        )
    if "box" in table.columns and spec.crop != "box":
        found.append(f'the catalog has boxes, and crop="{spec.crop}" does not use them')
    if needed > 1 and (ends > 0).all() and lengths.max() < needed:
        found.append(
            f"all {len(catalog)} segments of the catalog are shorter than a clip: they have "
            f"{lengths.max()} frames at most, and a clip takes {needed}. start and end are "
            "source frames: if yours are seconds, name these columns start_s and end_s"
        )
    elif needed > 1 and spec.short == "loop":
        known = table.segment_frames
        if few := np.count_nonzero((ends < 0) & (known >= 0) & (known < needed)):
            found.append(
                f"{few} of {len(catalog)} videos are shorter than a clip, which takes {needed} "
                'frames, and repeat theirs (short="loop")'
            )
    if spec.sampling == "dense":
        _, left = windows_of(catalog, spec, range(len(catalog)))
        if left.any():
            found.append(
                f"the last frames of {np.count_nonzero(left)} of {len(catalog)} videos are in "
                f'no window of sampling="dense" ({left.max()} frames at most). A smaller hop '
                'leaves fewer frames out; edges="hold" leaves out none'
            )
    return found


def _lengths_suffice(catalog: Catalog, videos: range, spec: ClipSpec) -> bool:
    """Whether frame counts decide the number of windows, and the catalog knows them."""
    lengths = lengths_of(catalog)[videos.start : videos.stop]
    return hop_seconds(spec) is None and bool((lengths >= 0).all())

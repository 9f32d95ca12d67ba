"""What is known of the rows of a catalog before a stream is planned, and whether it was true. Pure.

How many windows ``sampling="dense"`` takes of each video, how many frames a clip of any length has,
and as which size frames are shown: a catalog often does not know. Its files have other rates, or
were never scanned. Then one pass over the indexes of all videos counts. `Read` is that pass:
through a client's workers, or in this process. Clips of one shape are a bucket of the stream, since
a batch has one shape: the frames follow from the length of a video and the buckets, the size from
the shape of its frames.

A catalog contains the values of its table: ends of segments, numbers of frames, a label for each
frame. Only an opened file shows whether they are right. So each clip carries the length of its
file, which `Lengths` compares with its row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from videoload.catalog import targets
from videoload.catalog.catalog import Catalog, catalog_of, table_of
from videoload.catalog.joining import file_rows, whole_files
from videoload.catalog.table import Ints
from videoload.clips.choices import MOVED_CROPS, TRIED_FOR_SIZE
from videoload.clips.clip_spec import (
    ClipSpec,
    at_native_size,
    fits_any_video,
    has_any_length,
    hop_seconds,
    nearest_aspect,
    sizes_of,
)
from videoload.clips.sample_spec import SampleSpec, Shape, has_sizes, one_clip, one_frame
from videoload.clips.tasks import Count, WindowCount
from videoload.clips.video_info import VideoInfo
from videoload.clips.windows import count_windows
from videoload.errors import BadVideo, SpecError, TooManyBadVideos, VideoError, named
from videoload.logs import Log
from videoload.plan import bucket_search as padding
from videoload.plan.options import CheckedOptions

_log = Log(__name__)

_ROUNDED = 0.02  # by how much whole numbers of pixels may change a shape
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
_NAMED = 3  # rows in a sentence
_MOST = 1 << 32  # windows of a video, by any count: 4 years of frames

# Does a task with each row, in any order. Gives (row, result, or why there is none).
Read = Callable[[Count, Catalog], Iterator[tuple[int, WindowCount | VideoError]]]


# Before a stream


def counted(
    catalog: Catalog, spec: SampleSpec, read: Read, buckets: Sequence[int] | None = None
) -> Catalog:
    """Return the catalog, with what `count_windows` gives of each video if it does not follow from
    its frame counts, and with the sizes of its frames if they decide and it does not have them. A
    video that cannot be read counts as one window, or one clip of the smallest bucket, of a square:
    the stream will name it."""
    decide, sized = _do_lengths_decide(spec, buckets), has_sizes(spec)
    if not decide and not sized:
        return catalog
    if table_of(catalog).windows is not None:  # another stream's
        catalog = with_windows(catalog, None)
    leader, several = spec.leader, len(spec.clips) > 1  # all of them decide
    suffice = not several and _lengths_suffice(catalog, range(len(catalog)), leader)
    unknown = several or not leader.rotate or _shown_as(catalog).min() < 1
    if (suffice or not decide) and not (sized and unknown):
        return catalog
    counts = np.ones((2 + 2 * len(spec.clips), len(catalog)), np.int64)
    unread = buckets[0] if buckets is not None and leader.short == "cut" else 1
    counts[:2] = [[unread], [0]] if decide else -1  # -1: not known
    for row, found in read(Count(spec if decide else one_frame(spec)), file_rows(catalog)):
        if isinstance(found, VideoError):
            continue
        if decide:
            most = leader.frames if has_any_length(leader) else _MOST
            counts[:2, row] = np.clip([found.windows, found.left], 0, most)
        counts[2:, row] = np.clip(np.ravel(found.displayed), 1, _MOST)
    return with_windows(catalog, counts)


def with_native_size(catalog: Catalog, spec: SampleSpec, read: Read) -> SampleSpec:
    """Return the spec with the size of the catalog's first good video, if it has no size; of
    several files as one sample, each clip with that of its part. Raises TooManyBadVideos if none of
    the first is good.
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


def deciding(
    catalog: Catalog, spec: SampleSpec, buckets: Sequence[int] | None = None
) -> list[Ints]:
    """Return the values of rows that determine the batches: the counted ones, or those of the
    catalog says; [] if nothing does."""
    if not _do_lengths_decide(spec, buckets) and not has_sizes(spec):
        return []
    table = table_of(catalog)
    if table.windows is not None:
        return [table.windows]
    return [table.column("frames"), *([_sizes_in(catalog, spec)] if has_sizes(spec) else [])]


def windows_of(catalog: Catalog, spec: ClipSpec, videos: range) -> tuple[Ints, Ints]:
    """Return the number of windows of these videos, and how many frames follow the last of each.
    For clips of any length: the frames of each video's clip, and 0."""
    if (counts := table_of(catalog).windows) is not None:
        windows, left = counts[:2, videos.start : videos.stop]
        return windows, left
    if not _lengths_suffice(catalog, videos, spec):
        raise SpecError("the windows of this catalog are not counted yet")
    frames = _lengths_of(catalog)[videos.start : videos.stop]
    windows, left = _windows_in(spec, frames)
    return windows, left


def warnings_of(
    catalog: Catalog, clip: SampleSpec, buckets: Sequence[int] | None = None
) -> list[str]:
    """Return warnings about this catalog, spec and buckets: sentences for the log."""
    spec, found = clip.leader, []
    if buckets is not None:
        lengths, _ = windows_of(catalog, spec, range(len(catalog)))
        if spec.short != "cut":
            found += padding.warnings_of(lengths, buckets)
        elif len(out := np.flatnonzero(lengths < buckets[0])):
            some = ", ".join(
                f"{named(catalog.paths[row])} ({lengths[row]})" for row in out[:_NAMED].tolist()
            )
            found.append(
                f"{len(out)} of {len(catalog)} rows are left out, as they have fewer frames than "
                f"the smallest bucket, {buckets[0]}: {some}"
                + ", ..." * (len(out) > _NAMED)
                + f'. A bucket of {lengths[out].min()} or short="hold" would keep them all'
            )
    moves = spec.flip or spec.crop in MOVED_CROPS
    if moves and (names := targets.look_like_marks(catalog.targets)):
        found.append(
            f"{names[0]} looks like points or boxes, which crop and flip move: give "
            "vl.Points or vl.Boxes to with_targets, and they follow it"
        )
    table = table_of(catalog)
    starts, ends, _ = table.segments
    lengths, needed = ends - starts, _needed_frames(spec)
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
    """Return whether frame counts decide the number of windows, and the catalog knows them."""
    lengths = _lengths_of(catalog)[videos.start : videos.stop]
    return hop_seconds(spec) is None and bool((lengths >= 0).all())


def _lengths_of(catalog: Catalog) -> Ints:
    """Return the frames of each row, or its steps if it has times of them; -1: not known."""
    table = table_of(catalog)
    if table.steps is not None:
        return np.array([steps.count for steps in table.steps], np.int64)
    return table.segment_frames


def with_windows(catalog: Catalog, windows: Ints | None) -> Catalog:
    """Return the catalog, with what was counted of each video."""
    return catalog_of(table_of(catalog).replaced(windows=windows))


def _shown_as(catalog: Catalog, rows: Ints | slice = slice(None)) -> Ints:
    """Return the display size (width, height) of some rows, int64 [2, n]; -1: not in the
    catalog."""
    return np.stack([table_of(catalog).column(name)[rows] for name in ("width", "height")])


def _sizes_in(catalog: Catalog, spec: SampleSpec) -> Ints:
    """Return the display size (width, height) of each part with several sizes, in each row: int64
    [parts, 2, N]."""
    shown, counts = _shown_as(catalog)[None], table_of(catalog).windows
    if counts is not None:
        shown = counts[2:].reshape(-1, 2, len(catalog))
    if shown.min() < 1:
        raise SpecError("the sizes of this catalog were not counted")
    return shown[[bool(sizes_of(clip)) for clip in spec.clips.values()]]


def _do_lengths_decide(spec: SampleSpec, buckets: Sequence[int] | None = None) -> bool:
    """Return whether the batches depend on the known lengths of the videos."""
    return spec.leader.sampling == "dense" or buckets is not None


# Buckets


def buckets_of(
    catalog: Catalog, spec: SampleSpec, options: CheckedOptions
) -> dict[Shape, Ints] | None:
    """Return the rows of each shape that has any, from few frames to many; those that fill no
    bucket have none. None: the stream has one shape. Raises SpecError if no row has a shape."""
    leader, several = spec.leader, [*filter(None, map(sizes_of, spec.clips.values()))]
    if options["buckets"] is None and not several:
        return None
    frames = np.full(len(catalog), leader.frames)
    if options["buckets"] is not None:
        frames = _bucketed(catalog, leader, options["buckets"])
    shown = _sizes_in(catalog, spec) if several else ()
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
    """Return the bucket of each row: the smallest that holds its frames; or with ``short="cut"``
    the largest that they fill, 0: they fill none."""
    lengths, _ = windows_of(catalog, leader, range(len(catalog)))
    if leader.short == "cut":
        if lengths.max() < buckets[0]:
            raise SpecError(f"none of the {len(catalog)} rows fills one of buckets={buckets}")
        return np.array([0, *buckets])[np.searchsorted(buckets, lengths, side="right")]
    return np.array(buckets)[np.searchsorted(buckets, lengths)]


def _nearest(shown: Ints, sizes: tuple[tuple[int, int], ...]) -> Ints:
    """Return the number of the size of each row, of what its frames are shown as: (width, height),
    int64 [2, N]."""
    kinds, of = np.unique(shown, axis=1, return_inverse=True)
    wide = [size[::-1] for size in sizes]
    numbers = [nearest_aspect((width, height), wide) for width, height in kinds.T.tolist()]
    return np.array(numbers)[of.ravel()]


def check_lengths(catalog: Catalog, clip: SampleSpec, options: CheckedOptions) -> None:
    """Raise SpecError if clips of any length or of several sizes, buckets and other options
    contradict each other."""
    spec, buckets = clip.leader, options["buckets"]
    sized = has_sizes(clip)
    if (buckets is not None or sized) and (catalog.parts or options["balance"] is not None):
        what = "a mixture has shares" if catalog.parts else "balance= has weights"
        which = "several sizes" if buckets is None else "buckets"
        raise SpecError(f"{what}, and with {which} each clip is delivered once: omit {which}")
    if spec.short == "cut" and buckets is None:
        raise SpecError(
            'short="cut" needs buckets=: it cuts clips to the largest one that they fill'
        )
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


# What the files say


class Lengths:
    """The lengths of a stream's files, as far as they are known."""

    def __init__(self, catalog: Catalog, clip: SampleSpec) -> None:
        self._catalog, self._clip = catalog, clip
        self._table = table_of(catalog)
        self._known = self._table.column("frames")
        self._expected = targets.rows_per_frame(catalog.targets)
        self._frames = np.full(len(catalog), -1, np.int64)
        self._seconds = np.full(len(catalog), np.nan)
        self._was_reported = self._has_other = self._has_other_shape = False

    def note(self, videos: Ints, frames: Ints, seconds: Floats, wide: Floats) -> None:
        """Note the frame counts, int64 [B], ends in seconds, and display aspect ratios, float64
        [B], of the files of these videos, int64 [B]; -1 and NaN: unknown. Log the first one whose
        frame count or shape contradicts the catalog. Raises SpecError if targets per frame do not
        fit."""
        self._frames[videos], self._seconds[videos] = frames, seconds
        known = self._known[videos]
        other = (frames >= 0) & (known >= 0) & (known != frames)
        if other.any() and not self._has_other:
            self._has_other, at = True, int(other.argmax())
            _log.warning(
                "%s has %d frames, but %d in the catalog, which determines the windows",
                self._name(int(videos[at])), frames[at], known[at],
            )  # fmt: skip
        if has_sizes(self._clip) and self._table.windows is None and not self._has_other_shape:
            said = np.divide(*_shown_as(self._catalog, videos))
            odd = abs(np.log(wide / said)) > _ROUNDED
            if odd.any():
                self._has_other_shape, at = True, int(odd.argmax())
                _log.warning(
                    "%s is %.3g times as wide as high, and by width and height of the catalog, "
                    "which decide the size of its clips, %.3g times", self._name(int(videos[at])),
                    wide[at], said[at],
                )  # fmt: skip
        for name, expected in self._expected.items():
            wrong = (frames >= 0) & (expected[videos] != frames)
            if wrong.any():
                at = int(wrong.argmax())
                video = int(videos[at])
                raise SpecError(
                    f"{self._name(video)}: {name} has {expected[video]} rows, and the file has "
                    f"{frames[at]} frames: give a row for each frame (videoload scan reports "
                    "true counts)"
                )

    def warnings(self) -> list[str]:
        """Return sentences for the log about the rows that do not fit, once."""
        if self._was_reported:
            return []
        seen, frames = self._frames >= 0, self._frames
        _, ends, known = self._table.segments
        counted, windows = self._other_windows(seen)
        rows = len(seen)
        takes, whole = self._whole(seen)
        is_short = whole & (frames - self._table.column("start") < takes)
        ends_s = self._table.column("end_s")
        late = ends_s > self._seconds + 1.001 * self._seconds / frames  # a table may round by one
        late &= self._clip.leader.seconds == "picture"  # else it is unknown when the picture begins
        found: tuple[tuple[Flags, int, str, Callable[[int], str]], ...] = (
            (seen & (ends > frames), rows,
             "rows end after the last frame of their file; they are shortened",
             lambda at: f"ends at {ends[at]}, and has {frames[at]} frames"),
            (seen & (known >= 0) & (known != frames), rows,
             "files have other frame counts than the catalog, by which windows were counted",
             lambda at: f"should have {known[at]}, and has {frames[at]} frames"),
            (windows, rows,
             "rows were counted to have other windows, or frames of a clip, than they have",
             lambda at: f"was counted to have {counted[at]}, and has {frames[at]} frames"),
            (late, rows, "rows end after their file's last frame; they are shortened",
             lambda at: f"ends at {ends_s[at]:g} s, and its file at {self._seconds[at]:.3g} s"),
            (is_short, int(whole.sum()),
             'videos are shorter than a clip, and repeat their frames (short="loop")',
             lambda at: f"has {frames[at]} frames, and a clip takes {takes[at]:.0f}"),
        )  # fmt: skip
        texts = [
            f"{np.count_nonzero(wrong)} of {of} {what}: {self._name(at)} {says(at)}"
            for wrong, of, what, says in found
            for at in np.flatnonzero(wrong)[:1].tolist()
        ]
        self._was_reported = bool(texts)
        return texts

    def _name(self, video: int) -> str:
        return named(self._catalog.paths[video])

    def _other_windows(self, seen: Flags) -> tuple[Ints, Flags]:
        """Return the numbers counted before the first clip, perhaps by a worker of another host;
        and the rows with another number."""
        table, counted, clip = self._table, self._table.windows, self._clip.leader
        wrong = np.zeros(len(seen), bool)
        if counted is None:
            return self._frames, wrong
        # Where time decides, the rates of files do, and they are unknown.
        by_time = table.seconds is not None or clip.fps is not None or clip.hop_s is not None
        if len(self._clip.clips) == 1 and not by_time:
            starts, ends, _ = table.segments
            frames = np.where(ends < 0, self._frames, np.minimum(ends, self._frames)) - starts
            rows = np.flatnonzero(seen & (frames > 0) & (counted[0] >= 0))
            wrong[rows] = _windows_in(clip, frames[rows])[0] != counted[0, rows]
        return counted[0], wrong

    def _whole(self, seen: Flags) -> tuple[Any, Flags]:
        """Return how many frames a clip takes of each row, and which are whole videos that would
        repeat theirs; `warnings_of` knows the other rows."""
        spec, table = self._clip.leader, self._table
        with np.errstate(divide="ignore"):  # all frames of a file may have one time
            fps = self._frames / self._seconds
        takes = np.broadcast_to(_needed_frames(spec, fps), len(seen))
        in_frames = np.isnan(table.column("start_s")) & np.isnan(table.column("end_s"))
        repeats = spec.short == "loop" and spec.frames > 1
        return takes, seen & in_frames & (table.segment_frames < 0) & repeats


def _needed_frames(spec: ClipSpec, fps: Floats | float = np.nan) -> Any:
    """Return the source frames that a clip takes; with ``fps=``, of videos with these rates."""
    if fits_any_video(spec):
        return 1
    if spec.span == "video" or (spec.fps is not None and np.isnan(fps).all()):
        return spec.frames
    if spec.fps is None:
        return (spec.frames - 1) * spec.stride + 1
    return np.floor(np.nan_to_num((spec.frames - 1) * fps / spec.fps)) + 1


def _windows_in(spec: ClipSpec, frames: Ints) -> Ints:
    """Return the results of `count_windows` for segments of so many ``frames``, int64 [2, N]."""
    lengths, length_of = np.unique(frames, return_inverse=True)
    found = [
        count_windows(spec, VideoInfo(length, Fraction(1), 1, 1), (0, length))
        for length in lengths.tolist()
    ]
    return np.array(found).reshape(-1, 2).T[:, length_of]

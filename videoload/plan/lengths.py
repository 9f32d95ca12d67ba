"""What the true lengths of files say about the rows of a catalog. Pure.

A catalog says what its table says: where segments end, how many frames a file has, a label for each
frame. Whether that fits is known once a file was opened. So each clip comes with the length of its
file, which is compared with its row.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from videoload.catalog import targets
from videoload.catalog.catalog import Catalog, table_of
from videoload.catalog.joining import shown_as
from videoload.catalog.table import Ints
from videoload.clips.clip_spec import ClipSpec, fits_any_video
from videoload.clips.sample_spec import SampleSpec, has_sizes
from videoload.clips.video_info import VideoInfo
from videoload.clips.windows import count_windows
from videoload.errors import SpecError, named
from videoload.logs import Log

_log = Log(__name__)

_ROUNDED = 0.02  # by how much whole numbers of pixels may change a shape
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


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
        """The files of these videos, int64 [B], have so many frames, int64 [B], end at these
        seconds, and are shown so many times as wide as high, float64 [B]; -1 and NaN: not known.
        The first that has another frame count or shape than the catalog says is in the log. Raises
        SpecError if targets per frame do not fit."""
        self._frames[videos], self._seconds[videos] = frames, seconds
        known = self._known[videos]
        other = (frames >= 0) & (known >= 0) & (known != frames)
        if other.any() and not self._has_other:
            self._has_other, at = True, int(other.argmax())
            _log.warning(
                "%s has %d frames, and the catalog says %d, by which windows are counted",
                self._name(int(videos[at])), frames[at], known[at],
            )  # fmt: skip
        if has_sizes(self._clip) and self._table.windows is None and not self._has_other_shape:
            said = np.divide(*shown_as(self._catalog, videos))
            odd = abs(np.log(wide / said)) > _ROUNDED
            if odd.any():
                self._has_other_shape, at = True, int(odd.argmax())
                _log.warning(
                    "%s is %.3g times as wide as high, and by width and height of the catalog, "
                    "which say the size of its clips, %.3g times", self._name(int(videos[at])),
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
        """Sentences for the log about the rows that do not fit, once."""
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
        """What was counted before any clip came, by a worker of another host perhaps; and which
        rows have another number."""
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
            wrong[rows] = windows_in(clip, frames[rows])[0] != counted[0, rows]
        return counted[0], wrong

    def _whole(self, seen: Flags) -> tuple[Any, Flags]:
        """How many frames a clip takes of each row, and which are whole videos that would repeat
        theirs; `windows.warnings_of` knows the other rows."""
        spec, table = self._clip.leader, self._table
        with np.errstate(divide="ignore"):  # all frames of a file may have one time
            fps = self._frames / self._seconds
        takes = np.broadcast_to(needed_frames(spec, fps), len(seen))
        in_frames = np.isnan(table.column("start_s")) & np.isnan(table.column("end_s"))
        repeats = spec.short == "loop" and spec.frames > 1
        return takes, seen & in_frames & (table.segment_frames < 0) & repeats


def needed_frames(spec: ClipSpec, fps: Floats | float = np.nan) -> Any:
    """The source frames that a clip takes; with ``fps=``, of videos with these rates."""
    if fits_any_video(spec):
        return 1
    if spec.span == "video" or (spec.fps is not None and np.isnan(fps).all()):
        return spec.frames
    if spec.fps is None:
        return (spec.frames - 1) * spec.stride + 1
    return np.floor(np.nan_to_num((spec.frames - 1) * fps / spec.fps)) + 1


def windows_in(spec: ClipSpec, frames: Ints) -> Ints:
    """What `count_windows` gives of segments of so many ``frames``, int64 [2, N]."""
    lengths, length_of = np.unique(frames, return_inverse=True)
    found = [
        count_windows(spec, VideoInfo(length, Fraction(1), 1, 1), (0, length))
        for length in lengths.tolist()
    ]
    return np.array(found).reshape(-1, 2).T[:, length_of]

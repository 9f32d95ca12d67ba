"""Advice from a scan for training: the amount of video, and what to correct first."""

from __future__ import annotations

import hashlib
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import numpy as np

from videoload.catalog import splitting
from videoload.clips.regions import scaled_size
from videoload.errors import count
from videoload.plan.bucket_search import fewest_buckets, fewest_sizes
from videoload.storage.paths import pieces_of
from videoload.tools.scan import ScanRow

CLIP_FRAMES = 16  # of a usual clip
FAR = 250  # frames between keyframes; beyond that, seeking to a clip is slow
_STRIDE = 2  # of a usual clip
_WORTH = 1.5  # times fewer frames: then an option that changes which windows exist is proposed
_OUT_OF_BALANCE = 3  # the largest class has this many times the files of the smallest
_WHOLE = 0.95  # of the frames in a header: files with B-frames may claim one more
_NAMED = 3  # files that a line names
_RESIZES = (128, 256)
_HALVED = ("yuv420p", "yuvj420p")  # a stored frame is as large as in 4:2:0; otherwise it is RGB


def size(rows: Sequence[ScanRow]) -> str:
    """Return a line with the amount of video."""
    seconds = sum(row.frames / row.fps for row in rows if row.good and row.fps > 0)
    if seconds < 60:
        return f"{seconds:.0f} s of video"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min of video"
    return f"{seconds / 3600:.1f} h of video"


def store(rows: Sequence[ScanRow]) -> str:
    """Return the size of a frame store of all frames, at the most usual sizes."""
    files = {row.path: row for row in rows if row.good}.values()
    parts = []
    for resize in _RESIZES:
        total = 0.0
        for row in files:
            across, down = scaled_size(row.width, row.height, resize)
            of_a_pixel = 1.5 if row.pixels in _HALVED else 3
            total += row.frames * across * down * of_a_pixel
        parts.append(f"{bytes_text(total)} at resize={resize}")
    return f"all frames in a frame store (frame_store=) take {' or '.join(parts)}" if files else ""


def buckets(segments: Sequence[ScanRow]) -> list[str]:
    """Return the buckets with the least padding for clips of whole segments, for a script."""
    found = np.array([row.length for row in segments if row.good], np.int64)
    if not len(found):
        return []
    most = int(np.percentile(found, 99, method="higher"))
    sizes, padding = fewest_buckets(np.minimum(found, most))
    cut = f", which cuts the {longer} longest" if (longer := np.count_nonzero(found > most)) else ""
    return [
        f'whole clips (ClipSpec(frames="all", max_frames={most}){cut}); a stride divides these '
        "numbers:",
        f"  buckets={sizes}  # padding {padding:.0%}",
    ]


def sizes(segments: Sequence[ScanRow]) -> list[str]:
    """Return the sizes that cut away the least of the frames, for a script, if they have several
    shapes."""
    shown = [(row.width, row.height) for row in segments if row.good and row.width and row.height]
    if len({Fraction(*each) for each in shown}) < 2:
        return []
    found = fewest_sizes(shown)
    return [
        "clips of the size of the nearest aspect, in batches of one size:",
        f"  size={[*found.sizes]}  # {found.cut:.0%} of a frame is cut away",
    ]


def bytes_text(size: float) -> str:
    unit, name = (1e9, "GB") if size >= 1e9 else (1e6, "MB")
    return f"{size / unit:.3g} {name}"


def remarks(row: ScanRow) -> list[str]:
    """Return the problems of a file, or of a segment of it."""
    if not row.good:
        return [row.damage or "its segment begins behind its end"]
    found = [row.damage] if row.damage else []
    if row.frames < CLIP_FRAMES:
        found.append(f"short: {count(row.frames, 'frame')}")
    if row.frames < _WHOLE * row.header_frames and not row.damage:
        found.append(
            f"truncated: {row.header_frames} frames in its header, but {row.frames} in the file"
        )
    if row.key_frames <= 1 and row.frames > FAR:
        found.append("at most one keyframe: seeking is slow")
    if row.fps <= 0:
        found.append("has no frame rate")
    return found


def long_groups(rows: Sequence[ScanRow], root: Path | None) -> list[str]:
    """Return a line with the number of files that are slow to seek in, and the command that
    corrects the slowest."""
    slow = [row for row in rows if row.good and (row.mean_gop_frames or row.frames) > FAR]
    if not slow:
        return []
    worst = max(slow, key=lambda row: row.mean_gop_frames or row.frames)
    first = pieces_of(worst.path)[0]
    source = first if root is None else str(root / first)
    codec = "libx264 -crf 18 -bf 0" if worst.codec == "h264" else "mpeg4 -q:v 3"
    new = Path(first).with_suffix(".avi").name
    return [
        f"{count(len(slow), 'file')} with keyframes more than {FAR} frames apart, or without any "
        "to seek to: random clips are slow. Re-encode them with a keyframe every "
        "12 to 50 frames:",
        f"  ffmpeg -i {shlex.quote(source)} -c:v {codec} -g 12 -an {shlex.quote(new)}",
    ]


def aligned(segments: Sequence[ScanRow]) -> list[str]:
    """Return a line if windows that begin at keyframes decode far fewer frames than random ones."""
    span, saved, left = (CLIP_FRAMES - 1) * _STRIDE + 1, 0.0, 0.0
    for row in (row for row in segments if row.good):
        apart, places = row.mean_gop_frames or row.frames, max(1, row.length - span + 1)
        saved += (min(apart, places) - 1) / 2
        left += min(row.length, span) + (max(0.0, apart - places) / 2 if row.first else 0.0)
    if not left or 1 + saved / left <= _WORTH:
        return []
    return [
        f"a random clip ({CLIP_FRAMES} frames, every {_STRIDE}nd) takes {1 + saved / left:.1f} "
        'times as many frames as one that begins at a keyframe: ClipSpec(..., align="keyframe"); '
        "fewer windows exist then"
    ]


def balance(rows: Sequence[ScanRow]) -> str:
    """Return a line if some classes have many more files than others."""
    found = Counter(row.label for row in rows if row.good).most_common()
    if len(found) < 2 or found[0][1] < _OUT_OF_BALANCE * found[-1][1]:
        return ""
    (most, many), (least, few) = found[0], found[-1]
    share = many / sum(number for _, number in found)
    return (
        f"classes out of balance: {many} of {most}, {few} of {least}; a model that always predicts "
        f"{most} is right {share:.0%} of the time"
    )


def recordings(rows: Sequence[ScanRow]) -> str:
    """Return a line if the files are clips of recordings, by their names."""
    good = [row for row in rows if row.good]
    pattern = splitting.recordings(good) if good else None
    if pattern is None:
        return ""
    found = {splitting.recording(row.path) for row in good}
    return (
        f"{count(len(good), 'clip')} of {count(len(found), 'recording')}, by their names: put "
        f"those of one together when you split: catalog.split(0.8, by={pattern!r})"
    )


def groups_of_copies(rows: Sequence[ScanRow], root: Path) -> list[list[ScanRow]]:
    """Return the files that are equal, byte by byte; it reads some. A model knows a test video by
    heart if it was also trained on."""
    alike: dict[tuple[object, ...], list[ScanRow]] = defaultdict(list)
    for row in rows:
        if row.good:
            alike[row.file_bytes, row.frames, row.codec].append(row)
    return [group for same in alike.values() if len(same) > 1 for group in _same(same, root)]


def copies_lines(groups: Sequence[Sequence[ScanRow]]) -> list[str]:
    """Return the results of `groups_of_copies` as lines, the first one for all."""
    if not groups:
        return []
    copies = sum(len(group) - 1 for group in groups)
    verb = "is" if copies == 1 else "are"
    lines = [f"{count(copies, 'file')} {verb} the same as another one, byte by byte:"]
    for group in groups[:_NAMED]:
        classes = {row.label for row in group}
        several = f", in {count(len(classes), 'class', 'es')}" if len(classes) > 1 else ""
        lines.append("  " + " = ".join(row.path for row in group[:_NAMED]) + several)
    if len(groups) > _NAMED:
        lines.append(f"  and {len(groups) - _NAMED} more")
    return lines


def _same(rows: Sequence[ScanRow], root: Path) -> Iterator[list[ScanRow]]:
    by_content: dict[bytes, list[ScanRow]] = defaultdict(list)
    for row in rows:
        with suppress(OSError), (root / row.path).open("rb") as file:
            by_content[hashlib.file_digest(file, "sha256").digest()].append(row)
    return (group for group in by_content.values() if len(group) > 1)

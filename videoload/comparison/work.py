"""The works: which files, which clip, and the list of (file, first frame) that every loader gets.

A work's files are made once and kept in a folder, with what a complete decode found: frame counts
and key frames. The list of items is drawn once from a seed: distinct pairs, repeated if a run needs
more than there are. A work of epochs has a warm-up with other files, and then in each epoch a clip
of each file, with the same clips in each epoch.
"""

from __future__ import annotations

import itertools
import random
import shutil
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import av
import msgspec
from msgspec.structs import replace

from videoload.clips.clip_spec import ClipSpec
from videoload.clips.regions import scaled_size
from videoload.comparison.videos import Recipe, make_video
from videoload.errors import CatalogError
from videoload.storage.keep import Keep

FOLDER = Path.home() / ".cache" / "videoload-bench"  # where files are kept by default
_SEED = 0


class Item(NamedTuple):
    """One clip of the list: ``number`` is its place, ``file`` an index into the work's files."""

    number: int
    file: int
    start: int


class File(msgspec.Struct, frozen=True):
    """One file, and what a complete decode found.

    ``keys``: (ordinal, dts) of key frames; ``timed``: each frame's time stamp is its ordinal.
    """

    path: str
    codec: str
    width: int
    height: int
    frames: int
    fps: float
    timed: bool
    keys: tuple[tuple[int, int], ...]

    def key_before(self, ordinal: int) -> tuple[int, int]:
        """The last key frame at or before a frame: its ordinal, and the dts to seek to."""
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


class _Facts(msgspec.Struct):
    """What is kept about a work's files, and how they were made."""

    made_by: str
    files: tuple[File, ...]


class Kind(NamedTuple):
    """A work before its files are there. ``clips`` of a run take about 6 s on two cores."""

    clip: Clip
    clips: int
    recipe: Recipe | None  # None: files of the user, <folder>/**/*.avi
    files: int = 32
    batch: int = 8
    # Names that each file has (hard links). With eight there are more than a loader keeps open
    # (videoload: 64), as in a large data set, whose files are not met again so soon.
    names: int = 1
    # In a work of epochs, the number of copies of each file, so that the first epoch reads new
    # files.
    copies: int = 0


EPOCHS = 3  # of a work of epochs
_WARM_ROUNDS = 3  # through the files that are no copies
_SMALL, _LARGE = Clip(16, 2, resize=128, crop=112), Clip(16, 4, resize=256, crop=224)
WORKS = {
    "ucf": Kind(_SMALL, 3200, Recipe("mpeg4")),
    "hd": Kind(_LARGE, 240, Recipe("mpeg4", 1280, 720, frames=150), files=6),
    "many": Kind(_SMALL, 3200, Recipe("mpeg4"), names=8),
    "many-hmdb": Kind(
        _SMALL, 3200, Recipe("mpeg4", frames=95, key_every=600, b_frames=1, packed=True), names=8
    ),
    "mjpeg": Kind(_SMALL, 2400, Recipe("mjpeg")),
    "h264": Kind(_SMALL, 1200, Recipe("libx264", key_every=24, b_frames=2)),
    "first": Kind(_SMALL, 1024, Recipe("mpeg4"), copies=32),
    "first-hmdb": Kind(
        _SMALL, 1024, Recipe("mpeg4", frames=95, key_every=600, b_frames=1, packed=True), copies=32
    ),
    "real": Kind(_SMALL, 1600, None),
    "own": Kind(_SMALL, 1600, None),
    "tiny": Kind(Clip(8, 2, resize=64, crop=56), 64, Recipe("mpeg4", 160, 120, 60), 8, 4),
    "tiny-first": Kind(
        Clip(8, 2, resize=64, crop=56), 64, Recipe("mpeg4", 160, 120, 60), 8, 4, copies=10
    ),
}


@dataclass(frozen=True)
class Work:
    """Files under ``root``, the clip to take from them, and the items.

    ``met``: the number of files that the warm-up reads (the first ones) in a work of epochs,
    otherwise 0. ``frame_store`` is for the loader that has one.
    """

    name: str
    root: Path
    files: tuple[File, ...]
    clip: Clip
    batch: int
    clips: int
    met: int = 0
    frame_store: Keep | None = None

    def __str__(self) -> str:
        """What it is, for a title."""
        size = Counter(f"{file.codec} {file.width}x{file.height}" for file in self.files)
        seen = f", never seen before (copies of {self.met})" if self.met else ""
        return (
            f"{len(self.files) - self.met} files of {size.most_common(1)[0][0]}{seen}, clips of "
            f"{self.clip.frames} frames x {self.clip.stride} at {self.clip.crop}x{self.clip.crop}"
        )

    def path(self, file: File) -> str:
        """Where the file lies."""
        return str(self.root / file.path)

    @cached_property
    def distinct(self) -> list[Item]:
        """The distinct items, or those of all epochs; a multiple of the batch size.

        They are rounds through all files, each in a new order, since a shuffled epoch of a large
        data set has no file twice in a row. They end when too few files have a start that was not
        used yet.
        """
        draw = random.Random(_SEED)
        if self.met:
            return self._epochs(draw)
        starts = [list(range(file.frames - self.clip.span + 1)) for file in self.files]
        for left in starts:
            draw.shuffle(left)
        pairs: list[tuple[int, int]] = []
        enough = min(self.batch, len(starts))
        while len(files := [n for n, left in enumerate(starts) if left]) >= enough:
            draw.shuffle(files)
            while pairs and files[0] == pairs[-1][0]:
                draw.shuffle(files)
            pairs += [(file, starts[file].pop()) for file in files]
        del pairs[len(pairs) // self.batch * self.batch :]
        return [Item(i, *pair) for i, pair in enumerate(pairs)]

    def _epochs(self, draw: random.Random) -> list[Item]:
        """In each epoch, each copy of a file shows what another copy showed in the epoch before."""
        copies = len(self.files) // self.met  # and the file itself
        starts = [
            draw.sample(range(file.frames - self.clip.span + 1), copies)
            for file in self.files[: self.met]
        ]
        pairs: list[tuple[int, int]] = []
        for number in range(_WARM_ROUNDS + EPOCHS):
            warm = number < _WARM_ROUNDS
            files = list(range(self.met) if warm else range(self.met, len(self.files)))
            draw.shuffle(files)
            pairs += [
                (file, starts[file % self.met][(file // self.met + number) % copies])
                for file in files[: len(files) // self.batch * self.batch]
            ]
        return [Item(i, *pair) for i, pair in enumerate(pairs)]

    @property
    def epoch_batches(self) -> int:
        """Of a work of epochs."""
        return (len(self.files) - self.met) // self.batch

    def items(self, count: int) -> list[Item]:
        """The first ``count`` of the list, repeated if it ends."""
        return list(itertools.islice(itertools.cycle(self.distinct), count))


def missing(name: str, videos: str = "") -> str:
    """Why a work cannot be made here; empty if it can."""
    recipe = WORKS[name].recipe
    if recipe is None:
        return "" if videos else "no folder of videos is given"
    return "" if recipe.codec in av.codecs_available else f"this FFmpeg has no {recipe.codec}"


def load(
    name: str,
    folder: Path,
    clips: int | None = None,
    on_file: Callable[[str], None] = lambda path: None,
    *,
    videos: str = "",
) -> Work:
    """The work; its files are made if they are missing. ``clips`` replaces its own number for a
    run. ``videos`` is the folder of files that are there. Raises CatalogError if there are none."""
    kind = WORKS[name]
    root = folder / name
    if kind.recipe is None:
        root = Path(videos)
    facts = folder / f"{name}.json"
    made_by = f"{root} {kind.files} x {kind.names} {kind.copies} {kind.recipe}"
    if kind.recipe is None:  # somebody else's folder, which may have changed
        seen = ((path, path.stat()) for path in sorted(root.rglob("*.avi")))
        made_by += "".join(f"\n{path} {stat.st_size} {stat.st_mtime_ns}" for path, stat in seen)
    try:
        known = msgspec.json.decode(facts.read_bytes(), type=_Facts)
    except (FileNotFoundError, msgspec.ValidationError):
        known = _Facts("", ())
    if known.made_by != made_by:
        root.mkdir(parents=True, exist_ok=True)
        known = _Facts(made_by, tuple(_make(root, kind, on_file)))
        facts.write_bytes(msgspec.json.encode(known))
    met = kind.files if kind.copies else 0
    return Work(name, root, known.files, kind.clip, kind.batch, clips or kind.clips, met)


def _make(root: Path, kind: Kind, on_file: Callable[[str], None]) -> list[File]:
    if kind.recipe is None:
        paths = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.avi"))
        files = [look_at(root, path) for path in paths]
        files = [file for file in files if file.frames >= kind.clip.span]
        if not files:
            raise CatalogError(f"no AVI file of {kind.clip.span} frames or more under {root}")
        return files
    files = []
    for number in range(kind.files):
        path = f"{number:03d}.avi"
        on_file(path)
        make_video(root / path, kind.recipe, seed=number)
        files.append(look_at(root, path))
        for name in range(1, kind.names):
            link = f"{number:03d}-{name:02d}.avi"
            (root / link).unlink(missing_ok=True)
            (root / link).hardlink_to(root / path)
            files.append(replace(files[-1], path=link))
    for copy, file in itertools.product(range(kind.copies), tuple(files)):
        path = f"copies-{copy:02d}/{file.path}"
        (root / path).parent.mkdir(exist_ok=True)
        shutil.copyfile(root / file.path, root / path)
        files.append(replace(file, path=path))
    return files


def look_at(root: Path, path: str) -> File:
    """Decode a file once from start to end."""
    keys: list[int] = []
    dts: list[int] = []
    frames, timed = 0, True
    with av.open(str(root / path)) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_type = "NONE"
        for packet in container.demux(stream):
            if packet.is_keyframe and packet.dts is not None:
                dts.append(packet.dts)
            for frame in packet.decode():
                if frame.key_frame:
                    keys.append(frames)
                timed = timed and frame.pts == frames
                frames += 1
        size = stream.codec_context.width, stream.codec_context.height
        fps = float(stream.average_rate or 0)
    # A stray key packet without a picture, and only the file's start can be trusted.
    table = zip(keys, dts, strict=True) if len(keys) == len(dts) else [(0, dts[0])]
    return File(path, stream.codec.name, *size, frames, fps, timed, tuple(table))

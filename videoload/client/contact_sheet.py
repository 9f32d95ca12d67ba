"""Draw contact sheets of batches: each clip is a row of its frames. A sample of several files has a
row for each part that is a clip.

It shows the pixels of the batch one to one. Rows that are wider than a screen are scaled down, and
small frames up, by an integer, and the title states it. Points and boxes among the targets are
drawn into it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from videoload.catalog import targets
from videoload.catalog.catalog import Catalog
from videoload.catalog.table import class_name
from videoload.catalog.targets import Marks, PerFrame, values_of
from videoload.clips.clip_spec import ClipSpec, clip_shape, is_padded
from videoload.clips.sample_spec import SampleSpec, Shape, with_shape
from videoload.errors import SpecError, VideoloadError, count, named
from videoload.plan.batches import BatchWithInfo
from videoload.storage.new_files import new_file, writing
from videoload.storage.paths import parts_of

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

_PAPER, _INK, _GREY = (255, 255, 255), (20, 20, 20), (120, 120, 120)
_MARGIN, _GAP, _LINE, _FONT = 8, 2, 15, 12
_TEXT, _LETTERS = 260, 36  # Pixels and letters of a line for the label and file beside a row.
# Of points and boxes, by their number.
_COLORS = [
    (255, 60, 60), (60, 220, 60), (80, 140, 255), (255, 220, 0), (255, 0, 255), (0, 230, 230),
]  # fmt: skip
_WIDEST = 4096  # If the frames of a row are wider, they are scaled down.
_LOWEST = 96  # If all frames are lower, they are scaled up.

Floats = npt.NDArray[np.float32]


class SheetRow(NamedTuple):
    """A clip to draw: uint8 ``pictures`` [T, H, W, 3], and the words beside them. ``frames``: the
    numbers above them, -1 for a frame that the video does not have, and none for a part that
    follows another one. ``marks``: points [T, K, 2] and boxes [T, K, 4] in them; T is 1 if all
    frames share them."""

    pictures: npt.NDArray[np.uint8]
    label: str
    path: str
    frames: tuple[int, ...]
    place: str
    marks: tuple[Floats, ...] = ()

    def marks_at(self, at: int) -> list[Floats]:
        """Return the marks in picture number ``at``."""
        return [marks[at % len(marks)] for marks in self.marks]

    def is_padding(self, at: int) -> bool:
        """Return whether picture number ``at`` shows no frame of the video, or one for a second
        time."""
        return at < len(self.frames) and self.frames[at] < 0


def check(path: str | Path, spec: SampleSpec) -> None:
    """Raise SpecError if clips cannot be drawn into ``path``, or VideoloadError if Pillow is
    missing."""
    check_drawable(spec)
    if Path(path).suffix.lower() != ".png":
        raise SpecError(f"a preview is a .png, not {path}")
    try:
        import PIL  # noqa: F401
    except ImportError:
        raise VideoloadError("a preview needs Pillow: pip install pillow") from None


def check_drawable(spec: SampleSpec) -> None:
    """Raise SpecError if clips are no pictures."""
    for clip in spec.clips.values():
        if clip.output is None:
            continue
        shape, dtype = clip.output
        if dtype != "uint8" or len(shape) != 4 or shape[-1] != 3:
            raise SpecError(
                "a preview needs frames, uint8 [T, H, W, 3], and the transform returns "
                f"{dtype} {list(shape)}"
            )


def save(
    path: str | Path, batches: Iterable[BatchWithInfo], catalog: Catalog, spec: SampleSpec
) -> int:
    """Draw ``batches`` into a file. Returns the number of clips. Raises VideoloadError if the file
    cannot be written."""
    rows = [row for batch in batches for row in rows_of(batch, catalog, spec)]
    if not rows:
        raise VideoloadError("there is no batch to show")
    file = Path(path)
    with writing(file), new_file(file) as out:
        sheet(rows, title(rows, spec)).save(out, "PNG")
    return len(rows)


def rows_of(batch: BatchWithInfo, catalog: Catalog, spec: SampleSpec) -> Iterator[SheetRow]:
    """Yield the rows of a batch: one for each clip, for each view of a clip, and for each part."""
    clips, labels, info = batch
    spec = with_shape(spec, Shape(info.mask.shape[-1]))
    drawn = targets.marks_in(catalog.targets)
    words = labels
    if drawn:
        words = {name: each for name, each in targets.named(labels).items() if name not in drawn}

    def marks(clip: ClipSpec, part: str) -> list[Floats]:
        return [
            found
            for name, column in drawn.items()
            if targets.part_of(column, spec.clips) == part
            and (found := _by_clip(targets.named(labels)[name], column, clip)) is not None
        ]

    parts = {"": clips} if "" in spec.clips else cast("dict[str, Any]", clips)
    rows = [
        _rows_of(
            (parts[name], words, info),
            catalog,
            clip,
            file,
            name,
            marks(clip, name),
        )
        for file, (name, clip) in enumerate(spec.clips.items())
    ]
    for those in zip(*rows, strict=True):
        for name, row in zip(spec.clips, those, strict=True):
            yield row if name == spec.leading or spec.has_offsets else row._replace(frames=())


def _by_clip(array: Floats, column: Marks, spec: ClipSpec) -> Floats | None:
    """Return points [n, T, K, 2] or boxes [n, T, K, 4] of all clips of a batch. None if a part has
    other frames than the leader, by which they are counted."""
    of_frames = isinstance(values_of(column), PerFrame)
    frames = array.shape[1 + (spec.views > 1)] if of_frames else 1
    if frames not in (1, spec.frames):
        return None
    return array.reshape(len(array) * spec.views, frames, -1, array.shape[-1])


def _rows_of(
    batch: BatchWithInfo, catalog: Catalog, spec: ClipSpec, file: int, part: str,
    marks: Sequence[Floats],
) -> Iterator[SheetRow]:  # fmt: skip
    """Yield the rows of one part, which is file number ``file`` of a sample."""
    clips, labels, info = batch
    clips = clips["video"] if isinstance(clips, dict) else clips
    flat = clips.reshape(-1, *clips.shape[-len(clip_shape(spec)) :])
    frames = info.frames[part] if isinstance(info.frames, dict) else np.asarray(info.frames)
    frames = frames.reshape(-1, frames.shape[-1])
    views = len(flat) // len(info.video)
    tells = is_padded(spec)
    for at, clip in enumerate(flat):
        sample, view = divmod(at, views)
        shown = frames[at * len(frames) // len(flat)]
        video = catalog[int(info.video[sample])]
        yield SheetRow(
            _rgb(clip),
            label_text(labels, sample, catalog.classes) or class_name(catalog.classes, video.label),
            named(parts_of(video.path)[file]),
            tuple(shown.tolist()),
            f"step {info.step}, clip {sample}"
            + (f", view {view}" if views > 1 else "")
            + (f", {part}" if part else "")
            + (
                f", {(shown >= 0).sum()} of {len(shown)} frames" if tells or shown.min() < 0 else ""
            ),
            tuple(each[at] for each in marks),
        )


def label_text(labels: Any, sample: int, classes: Sequence[str]) -> str:
    """Return the name of a sample's class, or its targets in short."""
    if isinstance(labels, dict):
        return ", ".join(
            f"{name} {label_text(values, sample, classes if name == 'label' else ())}"
            for name, values in labels.items()
        )
    value = labels[sample]
    if np.ndim(value) == 0 and np.issubdtype(labels.dtype, np.integer) and value < len(classes):
        return class_name(classes, int(value))
    return np.array2string(np.asarray(value), precision=3, threshold=6, edgeitems=2)


def title(rows: Sequence[SheetRow], spec: SampleSpec) -> str:
    """Return the line at the top."""
    if "" not in spec.clips:
        samples = count(len(rows) // len(spec.clips), "sample")
        parts = [f"{samples} of {', '.join(spec.clips)}"]
    else:
        sizes = dict.fromkeys(f"{w}x{h}" for _, h, w, _ in (row.pictures.shape for row in rows))
        lengths = [len(row.pictures) for row in rows]
        several = f"{min(lengths)} to " if min(lengths) < max(lengths) else ""
        parts = [f"{count(len(rows), 'clip')} of {several}{count(max(lengths), 'frame')}"]
        parts.append(f"{' and '.join(sizes)} {spec.leader.pixels}")
    shrunk = _shrunk(rows)
    factor = f"{1 / shrunk} times" if shrunk < 1 else f"1/{shrunk} of"
    return ", ".join(parts) + (f", shown at {factor} their size" if shrunk != 1 else "")


def sheet(rows: Sequence[SheetRow], head: str) -> Image:
    """Return the contact sheet: the label and file beside each row, the source frame's number above
    each picture."""
    shrunk = _shrunk(rows)
    sizes = [_size(row, shrunk) for row in rows]
    heights = [
        max(_LINE + height, len(_lines(row)) * _LINE) + 3 * _GAP
        for row, (_, height, _) in zip(rows, sizes, strict=True)
    ]
    image, draw, font = _paper(
        2 * _MARGIN + _TEXT + max(frames * (width + _GAP) for frames, _, width in sizes),
        2 * _MARGIN + 2 * _LINE + sum(heights),
    )
    draw.text((_MARGIN, _MARGIN), head, _INK, font)
    top = _MARGIN + 2 * _LINE
    for row, (_, _, width), tall in zip(rows, sizes, heights, strict=True):
        _write(draw, font, (_MARGIN, top), _lines(row))
        for at, picture in enumerate(row.pictures):
            left = _MARGIN + _TEXT + at * (width + _GAP)
            if at < len(row.frames):
                number = "-" if row.is_padding(at) else str(row.frames[at])
                draw.text((left, top), number, _GREY, font)
            shown = _picture(
                _faded(picture) if row.is_padding(at) else picture, shrunk, row.marks_at(at)
            )
            image.paste(shown, (left, top + _LINE))
        top += tall
    return image


def _lines(row: SheetRow) -> list[str]:
    """Return label, file and place, in lines that fit beside the pictures."""
    return [line for text in (row.label, row.path, row.place) for line in wrap(text, _LETTERS)]


@cache
def _font() -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(_FONT)


def _shrunk(rows: Sequence[SheetRow]) -> Fraction:
    """Return the divisor of the pictures' size: an integer, or 1 by an integer."""
    widest = max(row.pictures.shape[0] * row.pictures.shape[2] for row in rows)
    if widest > _WIDEST:
        return Fraction(-(-widest // _WIDEST))
    highest = max(row.pictures.shape[1] for row in rows)
    return Fraction(1, min(-(-_LOWEST // highest), _WIDEST // widest))


def _size(row: SheetRow, shrunk: Fraction) -> tuple[int, int, int]:
    """Return frames of a clip, height and width as they are drawn."""
    frames, height, width, _ = row.pictures.shape
    return frames, math.ceil(height / shrunk), math.ceil(width / shrunk)


def _faded(picture: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return the picture, faded."""
    return picture // 4 + 191


def _picture(pixels: npt.NDArray[np.uint8], shrunk: Fraction, marks: Sequence[Floats]) -> Image:
    from PIL import Image

    larger = int(1 / shrunk)
    pixels = pixels.repeat(larger, 0).repeat(larger, 1) if shrunk < 1 else pixels
    image = Image.fromarray(np.ascontiguousarray(pixels))
    image = image.reduce(int(shrunk)) if shrunk > 1 else image
    return Image.fromarray(marked(np.array(image), marks, shrunk)) if marks else image


def marked(
    picture: npt.NDArray[np.uint8], marks: Iterable[Floats], shrunk: Fraction | int
) -> npt.NDArray[np.uint8]:
    """Draw points [K, 2] and boxes [K, 4] into a picture [H, W, 3] whose size was divided by
    ``shrunk``."""

    def fill(left: int, top: int, right: int, bottom: int) -> None:
        picture[max(0, top) : max(0, bottom), max(0, left) : max(0, right)] = color

    for of_column in marks:
        for number, mark in enumerate(of_column.tolist()):
            color = _COLORS[number % len(_COLORS)]
            if not all(map(math.isfinite, mark)):
                continue
            if len(mark) == 2:
                left, top = (round((centre + 0.5) / shrunk - 2.5) for centre in mark)
                fill(left, top, left + 5, top + 5)
                continue
            left, top, right, bottom = (round(edge / shrunk) for edge in mark)
            fill(left, top, right, top + 1)
            fill(left, bottom - 1, right, bottom)
            fill(left, top, left + 1, bottom)
            fill(right - 1, top, right, bottom)
    return picture


def _paper(width: int, height: int) -> tuple[Image, ImageDraw, Any]:
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (width, height), _PAPER)
    return image, ImageDraw.Draw(image), _font()


def _write(draw: ImageDraw, font: Any, at: tuple[int, int], lines: Sequence[str]) -> None:
    for number, line in enumerate(lines):
        draw.text((at[0], at[1] + number * _LINE), line, _INK if not number else _GREY, font)


def _rgb(clip: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return a clip in red, green and blue: uint8 [T, H, W, 3]."""
    if clip.dtype == np.uint16:  # the brightest value of the clip is white
        clip = (clip / max(1, clip.max()) * 255).astype(np.uint8)
    if clip.ndim == 4:
        return clip if clip.shape[-1] == 3 else np.repeat(clip, 3, axis=-1)
    frames, rows, width = clip.shape
    height = rows * 2 // 3
    chroma = clip[:, height:].reshape(frames, 2, height // 2, width // 2).astype(np.float32) - 128
    blue, red = chroma.repeat(2, axis=2).repeat(2, axis=3).transpose(1, 0, 2, 3)
    luma = 1.164 * (clip[:, :height].astype(np.float32) - 16)  # ITU-R BT.601, 16 to 235
    planes = (luma + 1.596 * red, luma - 0.392 * blue - 0.813 * red, luma + 2.017 * blue)
    return np.stack(planes, axis=-1).round().clip(0, 255).astype(np.uint8)

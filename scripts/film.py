"""Makes docs/clips.webp, preview.png and points.png: clips that a stream cuts out of videos drawn
here, and points and boxes that follow them.

python scripts/film.py
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import av
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

import videoload as vl

DOCS = Path(__file__).parents[1] / "docs"
_WIDTH, _HEIGHT, _FINE, _FRAMES = 320, 240, 2, 96
_HORIZON = 150
_COLORS = ("#e5484d", "#ffb224", "#30a46c", "#3e8ed0", "#8e4ec6", "#f2f2f2")
_ROOMS = {"bounce": "#b9d7ea", "roll": "#f3d9b1", "spin": "#cfe5c4", "swing": "#e3cfe8"}

Draw = Any  # ImageDraw.ImageDraw
Point = tuple[float, float]


def _turned(point: Point, angle: float, centre: Point, scale: float = 1.0) -> Point:
    (x, y), c, s = point, math.cos(angle), math.sin(angle)
    return centre[0] + scale * (c * x - s * y), centre[1] + scale * (s * x + c * y)


def _wheel(draw: Draw, centre: Point, radius: float, angle: float, parts: int = 6) -> list[Point]:
    """Four points of the rim that turn with it, and the whole rim."""
    (x, y), step = centre, 360 / parts
    for part in range(parts):
        begin = math.degrees(angle) + part * step
        box = (x - radius, y - radius, x + radius, y + radius)
        draw.pieslice(box, begin, begin + step, fill=_COLORS[part], outline="#333333", width=2)
    turns = [angle + n * math.pi / 2 for n in range(4)] + [n * math.pi / 2 for n in range(4)]
    return [_turned((radius, 0), turn, centre) for turn in turns]


def _shadow(draw: Draw, x: float, width: float) -> None:
    draw.ellipse((x - width, 396, x + width, 416), fill="#7d8590")


def _bounce(draw: Draw, t: float) -> list[Point]:
    x, high = 320 + 120 * math.sin(2 * t), abs(math.sin(2.2 * t))
    _shadow(draw, x, 64 - 24 * high)
    return _wheel(draw, (x, 346 - 230 * high), 58, 2.5 * math.sin(2 * t))


def _roll(draw: Draw, t: float) -> list[Point]:
    x = 320 + 130 * math.sin(2 * t)
    _shadow(draw, x, 80)
    rim = _wheel(draw, (x, 320), 84, (x - 320) / 84, parts=4)
    draw.ellipse((x - 18, 302, x + 18, 338), fill="#333333")
    return rim


def _spin(draw: Draw, t: float) -> list[Point]:
    _shadow(draw, 320, 130)
    corners, turn = [], 1.5 * t
    for x, y, z in [(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]:
        a, b = (
            x * math.cos(turn) - z * math.sin(turn),
            x * math.sin(turn) + z * math.cos(turn),
        )
        c, d = y * math.cos(0.5) - b * math.sin(0.5), y * math.sin(0.5) + b * math.cos(0.5)
        corners.append((320 + 480 * a / (5 + d), 240 + 480 * c / (5 + d), d))
    faces = [(0, 1, 3, 2), (4, 5, 7, 6), (0, 1, 5, 4), (2, 3, 7, 6), (0, 2, 6, 4), (1, 3, 7, 5)]
    order = sorted(range(6), key=lambda n: -sum(corners[corner][2] for corner in faces[n]))
    for n in order:
        draw.polygon([corners[k][:2] for k in faces[n]], fill=_COLORS[n], outline="#333333")
    return [corner[:2] for corner in corners]


def _swing(draw: Draw, t: float) -> list[Point]:
    angle = 0.9 * math.sin(2 * t)
    x, y = _turned((0, 250), -angle, (320, 40))
    _shadow(draw, x, 50)
    draw.line((320, 40, x, y), fill="#333333", width=6)
    star = [(0, -70 if n % 2 else -32) for n in range(10)]
    turned = [_turned(p, n * math.pi / 5 + 3 * angle, (x, y)) for n, p in enumerate(star)]
    draw.polygon(turned, fill=_COLORS[1], outline="#333333")
    return turned[1::2] + turned[::2]


# Each draws a moment, and tells an outline, whose first four points are the points of a pose.
_SCENES: dict[str, Callable[[Draw, float], list[Point]]] = {
    "bounce": _bounce, "roll": _roll, "spin": _spin, "swing": _swing,
}  # fmt: skip


def _pictures(name: str, frames: int) -> Iterator[npt.NDArray[np.uint8]]:
    """The frames of a video: uint8 [H, W, 3]."""
    for number in range(frames):
        picture = Image.new("RGB", (_FINE * _WIDTH, _FINE * _HEIGHT), _ROOMS[name])
        draw = ImageDraw.Draw(picture)
        for row in range(6):
            top, below = (_FINE * (_HORIZON + 90 * (n / 6) ** 1.6) for n in (row, row + 1))
            for column in range(-8, 8):
                sides = ((top, column), (top, column + 1), (below, column + 1), (below, column))
                ends = [320 + side * (40 + 0.62 * (y - 290)) for y, side in sides]
                floor = "#d7dce2" if (row + column) % 2 else "#eef1f4"
                draw.polygon(list(zip(ends, (top, top, below, below), strict=True)), fill=floor)
        _SCENES[name](draw, 2 * math.pi * number / _FRAMES)
        yield np.asarray(picture.resize((_WIDTH, _HEIGHT), Image.Resampling.BOX))


def _marked(name: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """In each frame's pixels: four points [frames, 4, 2], and the box around all [frames, 4]."""
    blank = ImageDraw.Draw(Image.new("RGB", (_FINE * _WIDTH, _FINE * _HEIGHT)))
    moments = 2 * np.pi * np.arange(_FRAMES) / _FRAMES
    fine = np.array([_SCENES[name](blank, t) for t in moments], np.float32)
    box = np.concatenate([fine.min(1), fine.max(1)], 1) / _FINE
    return (fine[:, :4] + 0.5) / _FINE - 0.5, box


def film(path: Path, frames: int = _FRAMES, rate: int = 25) -> None:
    """Write a video of the class that its folder names, as recorders do: MPEG-4 in an AVI."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate)
        stream.width, stream.height, stream.pix_fmt = _WIDTH, _HEIGHT, "yuv420p"
        stream.bit_rate = 2_000_000
        for picture in _pictures(path.parent.name, frames):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
        container.mux(stream.encode())


def main() -> None:
    """Film, read a batch, and show it moving."""
    clip = vl.ClipSpec(
        frames=24, stride=2, resize=128, size=(112, 112),
        sampling="random", crop="random", flip=True,
    )  # fmt: skip
    shown = []
    with TemporaryDirectory() as folder:
        for name in _SCENES:
            film(Path(folder, name, "film.avi"))
        catalog = vl.Catalog.from_folder(folder)
        batches = vl.decode_serially(catalog, clip, 4, shuffle=True, seed=5, info=True)
        clips, labels, info = next(iter(batches))
        assert isinstance(labels, np.ndarray)
        assert isinstance(info.affine, np.ndarray)
        sources = [vl.open(Path(folder, path)) for path in info.path]
        for t in range(clip.frames):
            sheet = Image.new("RGB", (4 * 172 + 12, 306), "#ffffff")
            draw = ImageDraw.Draw(sheet)
            for n, source in enumerate(sources):
                left, number = 12 + 172 * n, int(info.frames[n, t])
                whole = Image.fromarray(source[number])
                back = np.linalg.inv(np.vstack([info.affine[n], [0, 0, 1]]))
                box = [tuple(back[:2] @ (x, y, 1)) for x, y in
                       ((0, 0), (111, 0), (111, 111), (0, 111), (0, 0))]  # fmt: skip
                ImageDraw.Draw(whole).line(box, fill="#d6006c", width=4)
                sheet.paste(whole.resize((160, 120)), (left, 4))
                sheet.paste(Image.fromarray(clips[n, t]), (left + 24, 166))
                draw.rectangle((left + 23, 165, left + 136, 278), outline="#d6006c", width=2)
                draw.line((left + 80, 144, left + 80, 160), fill="#d6006c", width=2)
                draw.text((left + 80, 126), f"film.avi, frame {number}", "#57606a", anchor="ma")
                name = catalog.classes[labels[n]]
                draw.text((left + 80, 284), f"clip {n}: {name}", "#1f2328", anchor="ma")
            shown.append(sheet)
        for source in sources:
            source.close()
        sheet_of = vl.ClipSpec(
            frames=8, stride=4, resize=72, size=(64, 64),
            sampling="random", crop="random", flip=True,
        )  # fmt: skip
        with vl.Client(workers=1) as client:
            client.stream(catalog, sheet_of, 4, shuffle=True, seed=3).preview(DOCS / "preview.png")
            points, boxes = zip(*(_marked(Path(p).parent.name) for p in catalog.paths), strict=True)
            marks = {"pose": vl.Points(list(points)), "box": vl.Boxes(list(boxes))}
            poses = vl.ClipSpec(
                frames=5, stride=6, resize=128, size=(112, 112),
                sampling="random", crop="random", flip=True,
            )  # fmt: skip
            posed = client.stream(catalog.with_targets(marks), poses, 4, shuffle=True, seed=3)
            posed.preview(DOCS / "points.png")
    shown[0].save(
        DOCS / "clips.webp",
        save_all=True,
        append_images=shown[1:],
        duration=80,
        loop=0,
        quality=60,
        method=6,
    )


if __name__ == "__main__":
    main()

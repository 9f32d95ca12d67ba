"""A confusion matrix as a picture."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from videoload.errors import SpecError, VideoloadError

if TYPE_CHECKING:
    from PIL.Image import Image

_PAPER, _INK, _DARK = (255, 255, 255), (20, 20, 20), (20, 60, 140)
_CELL, _FONT, _MARGIN = 18, 12, 8
_MOST = 64  # classes that are named; more have cells of fewer pixels, and no names
_PIXELS = 1600  # of such a picture


def draw(matrix: npt.NDArray[np.int64], names: Sequence[str], path: str | os.PathLike[str]) -> None:
    """Draw a matrix [n, n] of counts, by rows. Raises SpecError, VideoloadError."""
    file = Path(path)
    if file.suffix.lower() != ".png":
        raise SpecError(f"a confusion matrix is drawn into a .png, not {path}")
    try:
        from PIL import Image as Images
        from PIL import ImageDraw, ImageFont
    except ImportError:
        raise VideoloadError("a picture needs Pillow: pip install 'videoload[preview]'") from None
    count = len(matrix)
    named = count <= _MOST
    cell = _CELL if named else max(2, _PIXELS // count)
    font = ImageFont.load_default(_FONT)
    left = _MARGIN + (int(max(map(font.getlength, names))) + _MARGIN if named else 0)
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    ink = np.array(_DARK) - np.array(_PAPER)
    colours = (np.array(_PAPER) + shares[..., None] * ink).astype(np.uint8)
    cells = Images.fromarray(colours.repeat(cell, axis=0).repeat(cell, axis=1))
    image = Images.new(
        "RGB", (left + count * cell + _MARGIN, left + count * cell + _MARGIN), _PAPER
    )
    image.paste(cells, (left, left))
    drawn = ImageDraw.Draw(image)
    drawn.rectangle((left - 1, left - 1, left + count * cell, left + count * cell), outline=_INK)
    if named:
        for number, name in enumerate(names):
            at = left + number * cell + (cell - _FONT) // 2 - 1
            drawn.text((left - _MARGIN // 2, at), name, _INK, font, anchor="ra")
        _write_upwards(image, names, left, cell, font)
    try:
        image.save(file)
    except OSError as error:
        raise VideoloadError(f"cannot write {file}: {error.strerror or error}") from None


def _write_upwards(image: Image, names: Sequence[str], left: int, cell: int, font: Any) -> None:
    """The names above the columns, from below to above."""
    from PIL import Image as Images
    from PIL import ImageDraw

    text = Images.new("RGB", (left, len(names) * cell), _PAPER)
    drawn = ImageDraw.Draw(text)
    for number, name in enumerate(names):
        drawn.text((_MARGIN // 2, number * cell + (cell - _FONT) // 2 - 1), name, _INK, font)
    image.paste(text.rotate(90, expand=True), (left, 0))

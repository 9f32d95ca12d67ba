"""The picture of a confusion matrix."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from videoload.errors import SpecError, VideoloadError
from videoload.predictions.confusion_picture import draw

Image = pytest.importorskip("PIL.Image")


def cells(path: Path, count: int, cell: int) -> list[list[int]]:
    """How dark the middle of each cell is."""
    with Image.open(path) as opened:
        image = np.asarray(opened).astype(int)[..., 0]
    left = image.shape[1] - 8 - count * cell
    middles = left + cell // 2 + cell * np.arange(count)
    dark: list[list[int]] = (255 - image[np.ix_(middles, middles)]).tolist()
    return dark


def test_a_cell_is_darker_the_more_of_its_class_went_there(tmp_path: Path) -> None:
    draw(np.array([[8, 0, 0], [2, 2, 0], [0, 0, 0]]), ["run", "sit", "a long name"],
         tmp_path / "a.png")  # fmt: skip
    dark = cells(tmp_path / "a.png", 3, 18)
    assert dark[0] == [235, 0, 0]
    assert dark[1][:2] == [117, 117] or dark[1][:2] == [118, 118]
    assert dark[2] == [0, 0, 0]


def test_many_classes_have_small_cells_and_no_names(tmp_path: Path) -> None:
    draw(np.eye(400, dtype=np.int64), [str(n) for n in range(400)], tmp_path / "a.png")
    dark = np.array(cells(tmp_path / "a.png", 400, 4))
    assert (dark > 0).tolist() == np.eye(400, dtype=bool).tolist()


def test_what_cannot_be_drawn_is_said(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"drawn into a \.png, not a\.jpg"):
        draw(np.eye(2, dtype=np.int64), ["a", "b"], "a.jpg")
    with pytest.raises(VideoloadError, match="cannot write"):
        draw(np.eye(2, dtype=np.int64), ["a", "b"], tmp_path / "none" / "a.png")

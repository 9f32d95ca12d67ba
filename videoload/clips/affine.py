"""Map pixels of a decoded frame to pixels of a clip: one 2x3 matrix per clip. Pure.

Centers of pixels have integer coordinates. The scaler maps edges to edges, which are half a pixel
away from the centers.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from videoload.clips.clip_params import ClipParams

Matrices = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float32]
Row = tuple[float, float, float]


def affine(params: ClipParams) -> tuple[Row, Row]:
    """Return the matrix [2, 3] from (x, y, 1) of a decoded frame to the pixels of the clip."""
    across = _scaled(params.region, params.scaled, params.part, params.size, 0)
    down = _scaled(params.region, params.scaled, params.part, params.size, 1)
    x: Row = (across[0], 0.0, across[1])
    y: Row = (0.0, down[0], down[1])
    width, height = params.size
    for _ in range(params.turns):  # clockwise: the left side becomes the top
        x, y = (-y[0], -y[1], height - y[2]), x
        width, height = height, width
    if params.flip:
        x = -x[0], -x[1], width - x[2]
    left, top = params.place or (0, 0)
    return (x[0], x[1], x[2] + left - 0.5), (y[0], y[1], y[2] + top - 0.5)


def _scaled(
    region: tuple[int, ...], scaled: tuple[int, int], part: tuple[int, ...], size: tuple[int, int],
    axis: int,
) -> tuple[float, float]:  # fmt: skip
    """Return factor and summand that map a coordinate to the clip."""
    first, again = scaled[axis] / region[2 + axis], size[axis] / part[2 + axis]
    return first * again, ((0.5 - region[axis]) * first - part[axis]) * again


def points_in(points: Floats, matrices: Matrices) -> Floats:
    """Return points [*n, ..., 2] of decoded frames, in pixels of clips with the matrices [*n, 2,
    3]."""
    by, x, y = _beside(matrices, points), points[..., 0], points[..., 1]
    # By element: a matrix product may round otherwise on another CPU.
    moved = (
        row[..., 0] * x + row[..., 1] * y + row[..., 2] for row in (by[..., 0, :], by[..., 1, :])
    )
    return np.stack([*moved], -1)


def boxes_in(boxes: Floats, matrices: Matrices) -> Floats:
    """Return boxes [*n, ..., 4], left, top, right, bottom, in the pixels of clips with the matrices
    [*n, 2, 3]: axis-parallel again. Their numbers count the edges of pixels, not centers."""
    one, other = (points_in(boxes[..., at] - 0.5, matrices) for at in (slice(2), slice(2, 4)))
    return np.concatenate([np.minimum(one, other), np.maximum(one, other)], -1) + np.float32(0.5)


def are_mirrored(matrices: Matrices, points: Floats) -> npt.NDArray[np.bool_]:
    """Return whether clips show left as right, [*n, ..., 1], to choose between arrays like
    ``points``."""
    by = _beside(matrices, points)
    (xx, xy), (yx, yy) = np.moveaxis(by[..., :2], (-2, -1), (0, 1))
    found: npt.NDArray[np.bool_] = (xx * yy < xy * yx)[..., None]
    return found


def _beside(matrices: Matrices, points: Floats) -> Matrices:
    """Return the matrices, with a dimension of 1 for each that the points have more."""
    *n, _, _ = matrices.shape
    return matrices.reshape(*n, *(1,) * (points.ndim - 1 - len(n)), 2, 3)


def affines(params: Iterable[ClipParams]) -> Matrices:
    """Return the matrices of n clips, float32 [n, 2, 3]."""
    return np.array([affine(each) for each in params], np.float32).reshape(-1, 2, 3)

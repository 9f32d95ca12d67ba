"""yuv420p becomes the RGB that swscale makes."""

import av
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from videoload.errors import SpecError
from videoload.frameworks.yuv import Arrays, to_rgb

NUMPY = Arrays(
    lambda x: x.astype(np.int32),
    lambda x, shape: x.reshape(shape),
    lambda x, shape: np.broadcast_to(x, (len(x), *shape)),
    lambda x, bits: x >> bits,
    lambda parts: np.stack(parts, axis=-1),
    lambda x: x.clip(0, 255).astype(np.uint8),
)


def converted(clips: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    *lead, rows, width = clips.shape
    rgb: npt.NDArray[np.uint8] = to_rgb(clips, lead, rows, width, NUMPY)
    return rgb


@settings(max_examples=30)
@given(height=st.integers(1, 40), width=st.integers(1, 40), seed=st.integers(0, 99))
def test_random_planes_become_the_rgb_of_swscale_within_one_level(
    height: int, width: int, seed: int
) -> None:
    height, width = 2 * height, 2 * width
    noise = np.random.default_rng(seed).integers(0, 256, (2, 3, height * 3 // 2, width), np.uint8)
    rgb = converted(noise)
    assert rgb.shape == (2, 3, height, width, 3)
    for planes, made in zip(
        noise.reshape(6, -1, width), rgb.reshape(6, height, width, 3), strict=True
    ):
        frame = av.VideoFrame.from_ndarray(planes, "yuv420p").to_ndarray(format="rgb24")
        assert np.abs(made.astype(int) - frame).max() <= 1


@pytest.mark.parametrize("shape", [(2, 110, 98), (2, 48, 7)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(SpecError, match="yuv420p"):
        converted(np.zeros(shape, np.uint8))

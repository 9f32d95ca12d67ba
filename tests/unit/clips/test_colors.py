"""What is drawn of colors, and the maths on pixels."""

import math
import random
import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from videoload.clips.colors import (
    Colors,
    Jitter,
    Plane,
    draw_colors,
    recolor_planes,
    recolor_rgb,
)

SAME = Colors(1.0, 1.0, 1.0, 0.0)
PIXELS = np.random.default_rng(0).integers(0, 256, (3, 2, 16, 16), dtype=np.uint8)
RGB = np.moveaxis(PIXELS, 0, -1).copy()

colors = st.builds(Colors, st.floats(0, 2), st.floats(0, 2), st.floats(0, 2), st.floats(-0.5, 0.5))


def drawn(seeds: int, jitter: Jitter | None, grayscale: float) -> list[Colors]:
    return [draw_colors(jitter, grayscale, random.Random(seed).random) for seed in range(seeds)]


def planes_with(planes: list[Plane], by: Colors, *, full_range: bool) -> list[Plane]:
    copies = [plane.copy() for plane in planes]
    recolor_planes(copies, by, full_range=full_range)
    return copies


def rgb_with(pixels: Plane, by: Colors) -> Plane:
    copy = pixels.copy()
    recolor_rgb(copy, by)
    return copy


def rounding(by: Colors) -> float:
    """In levels: strong changes leave fewer bits after the point."""
    return max(0.0, by.brightness * by.contrast * max(1.0, by.saturation) - 2)


def changed(y: Any, u: Any, v: Any, by: Colors, half: float) -> tuple[Any, Any, Any]:
    """The formulas of the module, as they stand there, where grey of ``half`` is in the middle."""
    k, angle = by.brightness * by.contrast * by.saturation, 2 * math.pi * by.hue
    y = by.contrast * (by.brightness * y - half) + half
    u, v = (
        k * (math.cos(angle) * u - math.sin(angle) * v),
        k * (math.sin(angle) * u + math.cos(angle) * v),
    )
    return y, u, v


@pytest.mark.parametrize("most", [0.0, 0.4, 1.0])
def test_a_factor_is_uniform_around_one_and_never_negative(most: float) -> None:
    brightness, contrast, saturation, hue = zip(
        *drawn(1000, (most, most, most, most / 2), 0.0), strict=True
    )
    for factor in (brightness, contrast, saturation):
        assert 1 - most <= min(factor) <= max(factor) <= 1 + most
        assert statistics.mean(factor) == pytest.approx(1, abs=0.04 * most + 1e-9)
        # A uniform draw of width 2 * most has the variance (2 * most) ** 2 / 12.
        assert statistics.pvariance(factor) == pytest.approx(most**2 / 3, rel=0.08)
    assert statistics.mean(hue) == pytest.approx(0, abs=0.02 * most + 1e-9)
    assert statistics.pvariance(hue) == pytest.approx((most / 2) ** 2 / 3, rel=0.08)


def test_the_share_of_grey_clips_is_the_one_asked_for() -> None:
    grey = [made.saturation == 0 for made in drawn(1000, None, 0.2)]
    assert sum(grey) / 1000 == pytest.approx(0.2, abs=0.04)
    assert all(made == SAME for made in drawn(20, None, 0.0))
    with_jitter = drawn(50, (0.4, 0.4, 0.4, 0.1), 0.5)
    without = drawn(50, (0.4, 0.4, 0.4, 0.1), 0.0)
    assert [made[:2] for made in with_jitter] == [made[:2] for made in without]


@settings(deadline=None, max_examples=30)
@given(by=colors, full=st.booleans())
def test_planes_follow_the_formulas_within_a_level(by: Colors, full: bool) -> None:
    made = planes_with(list(PIXELS), by, full_range=full)
    low, high = (0, 255) if full else (16, 235)
    y, u, v = PIXELS.astype(float)
    y, u, v = changed((y - low) / (high - low), (u - 128) / 255, (v - 128) / 255, by, 0.5)
    wanted = np.clip([low + (high - low) * y, 128 + 255 * u, 128 + 255 * v], 0, 255)
    apart = np.abs(np.array(made, float) - wanted)
    assert apart.max() < 4 + 2 * rounding(by)
    assert apart.mean() < 1 + rounding(by) / 2
    assert np.array_equal(planes_with([PIXELS[0]], by, full_range=full), made[:1]), "luma alone"


@settings(deadline=None, max_examples=30)
@given(by=colors)
def test_rgb_follows_the_same_formulas_as_planes(by: Colors) -> None:
    r, g, b = np.moveaxis(RGB, -1, 0).astype(float)
    y = 0.299 * r + 0.587 * g + 0.114 * b
    y, u, v = changed(y, (b - y) / 1.772, (r - y) / 1.402, by, 127.5)
    red, blue = y + 1.402 * v, y + 1.772 * u
    green = (y - 0.299 * red - 0.114 * blue) / 0.587
    wanted = np.clip(np.stack([red, green, blue], -1), 0, 255)
    apart = np.abs(rgb_with(RGB, by) - wanted)
    assert apart.max() < 6.5 + 3.5 * rounding(by)  # three products are rounded
    assert apart.mean() < 1 + rounding(by) / 2

"""A stretch gives what the whole gives, whatever was resampled before."""

import numpy as np
import pytest

from videoload.decoding.audio_resampling import Resampler, floats, mixed
from videoload.decoding.audio_timeline import stretch

RATES = [(44_100, 16_000), (8_000, 16_000), (48_000, 44_100), (44_056, 16_000), (16_000, 16_000)]


@pytest.mark.parametrize(("source", "rate"), RATES)
def test_a_stretch_is_a_part_of_the_whole_to_the_bit(source: int, rate: int) -> None:
    noise = np.random.default_rng(0).uniform(-1, 1, (1, 4 * source)).astype(np.float32)
    used = Resampler("mono", source, 1, rate)

    def cut(first: int, samples: int, resample: Resampler) -> np.ndarray:
        part = stretch(first, samples, rate, source)
        sound = np.zeros((1, part.length), np.float32)
        begin, end = max(0, part.begin), min(part.end, noise.shape[1])
        sound[:, begin - part.first : end - part.first] = noise[:, begin:end]
        return resample(sound, part.skip, samples)

    whole = cut(0, 4 * rate, Resampler("mono", source, 1, rate))
    assert whole.shape == (1, 4 * rate)
    assert whole.std() > 0.1
    for first, samples in ((0, 100), (7, rate), (2 * rate + 1, 1), (rate, 2 * rate), (5, 9)):
        for resample in (used, Resampler("mono", source, 1, rate)):
            part = cut(first, samples, resample)
            np.testing.assert_array_equal(part, whole[:, first : first + samples])


def test_samples_lie_between_minus_one_and_one() -> None:
    damaged = np.array([[0.5, -1.5, np.nan, 1e300, -np.inf]])
    assert floats(damaged, 0).tolist() == [[0.5, -1.0, 0.0, 1.0, -1.0]]
    assert floats(np.array([[-32768, 16384]], np.int16), 0).tolist() == [[-1.0, 0.5]]
    assert floats(np.array([[128, 0]], np.uint8), 128).tolist() == [[0.0, -1.0]]


def test_mono_is_the_mean_and_stereo_has_mono_twice() -> None:
    left, right = np.float32(0.5), np.float32(-0.1)
    stereo = np.array([[left], [right]], np.float32)
    assert mixed(stereo, 1).tolist() == [[pytest.approx(0.2)]]
    assert mixed(stereo[:1], 2).tolist() == [[0.5], [0.5]]
    assert mixed(stereo, 2) is stereo


@pytest.mark.parametrize("layout", [("5.1", 6), ("7.1", 8), ("2.1", 3)])
def test_a_mixture_of_many_channels_is_not_louder_than_they_are(layout: tuple[str, int]) -> None:
    name, channels = layout
    made = Resampler(name, 48_000, 2, 16_000)(np.ones((channels, 9_000), np.float32), 100, 2_000)
    assert made.shape == (2, 2_000)
    assert 0.5 < np.abs(made).max() < 1.01

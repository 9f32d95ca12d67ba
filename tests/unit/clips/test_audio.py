"""The fields of a spec that ask for sound, and what a sample is then."""

from typing import Any

import numpy as np
import pytest

from videoload import ClipSpec, SpecError
from videoload.clips.clip_spec import silent
from videoload.clips.sample_spec import SampleParts, arrays_of, has_audio_in, one_clip, sample_spec

CLIP: dict[str, Any] = {"frames": 16, "fps": 12.5, "size": (32, 40)}


def test_the_sound_lasts_as_long_as_the_frames_of_the_clip() -> None:
    assert ClipSpec(**CLIP, audio_rate=16_000, audio_channels=2).shape["audio"] == (2, 20_480)
    third = ClipSpec(frames=10, fps=30, size=(32, 40), audio_rate=16_000)
    assert third.shape["audio"] == (5_333,)
    views = ClipSpec(**CLIP, audio_rate=8_000, views=2, sampling="random")
    assert views.shape == {"video": (2, 16, 32, 40, 3), "audio": (2, 10_240)}
    assert views.dtype == {"video": "uint8", "audio": "float32"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"frames": 16, "audio_rate": 16_000}, "fps="),
        ({"frames": 16, "span": "video", "audio_rate": 16_000}, "fps="),
        ({**CLIP, "audio_rate": 999}, "audio_rate"),
        ({**CLIP, "audio_rate": 384_001}, "audio_rate"),
        ({**CLIP, "audio_rate": True}, "audio_rate"),
        ({**CLIP, "audio_rate": 16_000, "audio_channels": 3}, "audio_channels"),
        ({**CLIP, "audio_channels": 2}, "audio_rate="),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(given: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        ClipSpec(**given)


def test_pixels_and_sound_lie_aligned_in_a_row_and_share_no_byte() -> None:
    spec = ClipSpec(frames=3, fps=10, size=(3, 5), audio_rate=16_000, audio_channels=2)
    rows = np.zeros((2, spec.clip_bytes), np.uint8)
    arrays = arrays_of(one_clip(spec), rows)
    arrays["video"][...] = 255
    arrays["audio"][1] = 1.5
    assert arrays["video"].shape == (2, 3, 3, 5, 3)
    assert (arrays["audio"][0] == 0).all()
    assert (arrays["video"] == 255).all()
    heard = has_audio_in(one_clip(spec), rows)
    assert heard is not None
    assert heard.tolist() == [False, False]
    assert spec.clip_bytes % 64 == 0
    assert has_audio_in(one_clip(silent(spec)), rows) is None


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"a": {"audio_rate": 16_000}, "b": {"audio_rate": 16_000}}, r"\ba\b.* b$"),
        ({"a": {"audio_rate": 16_000}, "audio": {}}, "'audio'"),
        ({"a": {}, "b": {"frames": 8, "audio_rate": 16_000}}, "'a'"),
    ],
)
def test_a_sample_has_one_sound(parts: dict[str, dict[str, Any]], words: str) -> None:
    specs = {name: ClipSpec(**{**CLIP, **more}) for name, more in parts.items()}
    with pytest.raises(SpecError, match=words):
        sample_spec(SampleParts(tuple(parts)), specs)

"""Resample audio to the rate and channels of a clip, with FFmpeg's resampler."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from av.audio.frame import AudioFrame
from av.filter import Graph

from videoload.decoding.audio_timeline import reach, whole_steps

Samples = npt.NDArray[np.float32]  # [channels, samples]

_LAYOUTS = ("mono", "stereo")


def floats(sound: npt.NDArray[Any], silence: int) -> Samples:
    """Return samples from -1 to 1, of integers around ``silence``, or of a decoder's floats. These
    are anything where a file is damaged: 1e38, or no number."""
    if sound.dtype.kind == "f":
        return limited(np.nan_to_num(sound)).astype(np.float32, copy=False)
    loudest = np.float32(1 << (8 * sound.dtype.itemsize - 1))
    return (sound.astype(np.float32) - np.float32(silence)) / loudest


def limited(sound: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Clip samples to 1, as a sound card does."""
    quiet: npt.NDArray[Any] = np.clip(sound, np.float32(-1), np.float32(1))
    return quiet


def mixed(sound: Samples, channels: int) -> Samples:
    """Convert one or two channels to ``channels``: mono is the mean of left and right, and stereo
    has mono twice. FFmpeg mixes more channels."""
    if len(sound) == channels or len(sound) > len(_LAYOUTS):
        return sound
    if channels == 1:
        left, right = sound[:1], sound[1:]
        return (left + right) * np.float32(0.5)  # a third of the time of np.mean
    return np.repeat(sound, channels, axis=0)


class Resampler:
    """Resamples stretches of audio, each as if it were alone. A new resampler takes as long as to
    decode a second of audio, so this one is reused. Silence separates the stretches, and each has
    whole steps (see `audio_timeline`): so each begins where a new resampler would begin.
    """

    def __init__(self, layout: str, source_rate: int, channels: int, rate: int) -> None:
        self._layout, self._source_rate = layout, source_rate
        self._graph = Graph()
        self._source = self._graph.add_abuffer(
            sample_rate=source_rate, format="flt", layout=layout,
            time_base=Fraction(1, source_rate),
        )  # fmt: skip
        # A mixture of channels does not become louder than the loudest of them.
        convert = self._graph.add(
            "aresample",
            f"{rate}:out_sample_fmt=fltp:out_chlayout={_LAYOUTS[channels - 1]}:rematrix_maxval=1",
        )
        self._sink = self._graph.add("abuffersink")
        self._source.link_to(convert)
        convert.link_to(self._sink)
        self._graph.configure()
        self._made, self._of = whole_steps(rate, source_rate)
        self._silence = 2 * -(-reach(rate, source_rate) // self._of)  # whole steps
        self._fed = self._got = 0  # whole steps, samples

    def __call__(self, sound: Samples, skip: int, samples: int) -> Samples:
        """Return ``samples`` samples of what becomes of ``sound``, after ``skip`` others. Its
        length is in whole steps."""
        skip += self._fed * self._made - self._got
        silence = np.zeros((len(sound), self._silence * self._of), np.float32)
        made = self._feed(np.concatenate((sound, silence), axis=1))
        while sum(piece.shape[1] for piece in made) < skip + samples:  # until all of it is out
            made += self._feed(silence)
        return np.concatenate(made, axis=1)[:, skip : skip + samples]

    def _feed(self, sound: Samples) -> list[Samples]:
        frame = AudioFrame.from_ndarray(sound.T.reshape(1, -1), format="flt", layout=self._layout)
        frame.sample_rate = self._source_rate
        self._source.push(frame)
        made: list[Samples] = []
        while True:
            try:
                made.append(cast(Any, self._sink.pull()).to_ndarray())
            except BlockingIOError:
                break
        self._fed += sound.shape[1] // self._of
        self._got += sum(piece.shape[1] for piece in made)
        return made

"""Files with sound: a click at each frame whose picture is white; and how a player decodes them."""

from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import av
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

FPS = 25
WHITE = (3, 10)  # each tenth frame, from the third on
WIDTH, HEIGHT = 64, 48


def is_white(number: int) -> bool:
    """Whether frame ``number`` is white."""
    return number % WHITE[1] == WHITE[0]


def clicks(rate: int, frames: int) -> Floats:
    """A soft click at the time of each white frame, [samples]."""
    sound = np.zeros(frames * rate // FPS, np.float32)
    reach = np.arange(-rate // 100, rate // 100 + 1)
    for number in filter(is_white, range(frames)):
        at = round(number * rate / FPS)
        sound[at + reach[0] : at + reach[-1] + 1] += 0.7 * np.exp(-((reach * 1600 / rate) ** 2))
    return sound


def make(
    path: Path,
    *,
    video: str = "mpeg4",
    sound: str | None = "pcm_s16le",
    rate: int = 44_100,
    layout: str = "stereo",
    frames: int = 100,
    samples: Floats | None = None,
    late_s: float = 0.0,
    bit_rate: int = 128_000,
    key_every: int = 12,
) -> Path:
    """A file, by its suffix, with the sound ``samples`` [samples], the same in all channels; None:
    `clicks`. ``late_s``: the first frame is shown so much later than the first sample."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = {".mkv": "matroska", ".ts": "mpegts"}.get(path.suffix, path.suffix[1:])
    with av.open(str(path), "w", format=kind) as container:
        pictures = cast(Any, container.add_stream(video, rate=FPS))
        pictures.width, pictures.height, pictures.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        pictures.codec_context.gop_size = key_every
        made = []
        heard: Any = None
        if sound is not None:
            heard = container.add_stream(sound, rate=rate, layout=layout)
            heard.bit_rate = bit_rate
        for number in range(frames):
            luma = np.full((HEIGHT * 3 // 2, WIDTH), 235 if is_white(number) else 16, np.uint8)
            luma[HEIGHT:] = 128
            frame = av.VideoFrame.from_ndarray(luma, "yuv420p")
            frame.pts = number + round(late_s * FPS)
            frame.time_base = Fraction(1, FPS)
            made += pictures.encode(frame)
        made += pictures.encode(None)
        if heard is not None:
            made += coded(heard, clicks(rate, frames) if samples is None else samples)
        made.sort(key=lambda packet: float((packet.dts or 0) * packet.time_base))
        for packet in made:
            container.mux(packet)
    return path


def coded(stream: Any, samples: Floats) -> list[Any]:
    """The packets of these samples, the same in all channels."""
    context = stream.codec_context
    context.open()
    channels = context.layout.nb_channels
    whole = av.AudioFrame.from_ndarray(
        samples.repeat(channels)[None], format="flt", layout=context.layout.name
    )
    whole.sample_rate, whole.pts, whole.time_base = context.sample_rate, 0, context.time_base
    pieces = av.AudioResampler(
        context.format.name, context.layout.name, context.sample_rate, context.frame_size or 1024
    )
    frames = [*pieces.resample(whole), *pieces.resample(None)]
    return [packet for frame in (*frames, None) for packet in stream.encode(frame)]


def decoded(path: Path) -> tuple[Floats, int, Fraction]:
    """The sound of a file, decoded from its beginning to its end without a seek, [channels,
    samples]; its rate; and its first sample's time in seconds. The file has no gaps."""
    with av.open(str(path), metadata_errors="replace") as container:
        stream = container.streams.audio[0]
        frames = []
        for packet in container.demux(stream):
            try:
                frames += stream.codec_context.decode(packet if packet.size else None)
            except av.error.FFmpegError:
                continue
    to_floats = av.AudioResampler("fltp", frames[0].layout.name, frames[0].sample_rate)
    first = (frames[0].pts or 0) * (frames[0].time_base or Fraction(1))
    floats = [made.to_ndarray() for frame in frames for made in to_floats.resample(frame)]
    return np.concatenate(floats, axis=1).astype(np.float32), frames[0].sample_rate, first


def whole(path: Path, rate: int, channels: int = 1) -> Floats:
    """The sound of a file from time 0 of its container on, at another rate: decoded as a whole and
    resampled as a whole, [channels, samples]."""
    sound, own_rate, first = decoded(path)
    begin = round(first * own_rate)
    before = np.zeros((len(sound), own_rate), np.float32)  # a second: whole steps of each rate
    cut = sound[:, max(0, -begin) :]
    silence = np.zeros((len(sound), max(0, begin)), np.float32)
    line = np.concatenate([before, silence, cut, before], axis=1)
    if len(line) == 2 and channels == 1:
        line = line.mean(axis=0, keepdims=True)
    line = line.repeat(channels // len(line), axis=0) if len(line) < channels else line
    layout = ("mono", "stereo")[len(line) - 1]
    frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(line), format="fltp", layout=layout)
    frame.sample_rate = own_rate
    resample = av.AudioResampler("fltp", layout, rate)
    made = [each.to_ndarray() for each in (*resample.resample(frame), *resample.resample(None))]
    return np.concatenate(made, axis=1)[:, rate:].astype(np.float32).clip(-1, 1)

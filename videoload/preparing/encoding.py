"""One video written again as AVI: smaller frames, and a key frame every few of them.

What is written are the frames that a clip shows: frame i is the i-th frame that a complete decode
outputs, turned as a player turns it. The new file is read back before it gets its name: it must
have as many frames, in the same order. So a file with its name is whole, whenever the process was
killed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

import av
import numpy as np
import numpy.typing as npt
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from videoload import native
from videoload.decoding.decoder import Decoder
from videoload.errors import SpecError, StorageError, VideoError, VideoloadError
from videoload.processes.child import inherited
from videoload.processes.inspector import Work, serve
from videoload.recordings.recording import Frames, Recording
from videoload.storage.paths import pieces_of

CODECS = {"mpeg4": "mpeg4", "h264": "libx264"}  # -> FFmpeg's encoder
_QUALITIES = {"mpeg4": (3, 1, 31), "h264": (18, 0, 51)}  # the default, the best, the worst
_BLOCKS = 8  # a frame is compared by the mean luma of 8x8 blocks, which compression hardly changes
_UNLIKE = 16.0  # grey levels of difference that no compression makes in them
_CLOSER = 1.5  # a frame that is so much closer to the one before or behind is in its place
_NO_RATE = Fraction(25)

Look = npt.NDArray[np.float32]  # mean luma of the blocks of a frame


@dataclass(frozen=True)
class Settings:
    """How videos are written."""

    resize: int  # short side in pixels; smaller videos keep their size
    gop: int  # frames from one key frame to the next
    codec: str  # one of `CODECS`
    quality: int  # the quantiser of MPEG-4, or the constant rate factor of H.264

    @classmethod
    def of(cls, resize: int, gop: int, codec: str, quality: int | None) -> Settings:
        """Checked. Raises SpecError."""
        if resize < 2 or resize % 2:
            raise SpecError(f"--resize must be even, got {resize}")
        if gop < 1:
            raise SpecError(f"--gop must be at least 1, got {gop}")
        default, best, worst = _QUALITIES[codec]
        if quality is not None and not best <= quality <= worst:
            raise SpecError(f"--quality of {codec} is from {best} (best) to {worst}, got {quality}")
        try:
            av.codec.Codec(CODECS[codec], "w")
        except av.codec.codec.UnknownCodecError:
            raise SpecError(
                f"FFmpeg in this installation has no encoder {CODECS[codec]}: use --codec mpeg4"
            ) from None
        return cls(resize, gop, codec, default if quality is None else quality)


def write_again(
    root: str, path: str, out: Path, settings: Settings, tick: Callable[[], None]
) -> dict[str, Any]:
    """Write the video ``path`` below ``root`` to ``out``. Returns its ``frames``, with their
    ``fps`` and ``times`` in the source; the ``bytes`` of the new file; and a ``remark`` if
    something is lost. Raises VideoError, StorageError; and
    VideoloadError if it cannot be written."""
    info = Decoder(root).info(path, tick)
    side = min(settings.resize, min(info.width, info.height) & ~1)
    remarks = []
    if info.times is not None:
        remarks.append("its frames come at uneven distances, and are written at their mean rate")
    elif not info.fps:
        remarks.append(f"it does not tell its rate; {_NO_RATE} frames per second are written")
    files = [os.path.join(root, piece) for piece in pieces_of(path)]
    if any(map(_has_sound, files)):
        remarks.append("its sound is left out")
    aspect = 1 / info.aspect if info.turns % 2 else info.aspect
    new = out.with_name(f".{out.name}.new")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with Recording(files, resize=side, pixels="yuv420p") as video:
            looks = _write(video, new, settings, info.fps or _NO_RATE, aspect, tick)
        difference = _compare(looks, new, tick)
        if difference:
            raise VideoError(path, f"cannot be written again: {difference}")
        new.replace(out)
        return {
            "frames": len(looks), "fps": str(info.fps), "times": info.times and list(info.times),
            "bytes": out.stat().st_size, "remark": "; ".join(remarks),
        }  # fmt: skip
    except OSError as error:
        raise VideoloadError(f"cannot write {out}: {error.strerror or error}") from None
    except av.error.FFmpegError as error:
        raise VideoError(path, f"cannot be written again: {error}") from None
    finally:
        with suppress(OSError):
            new.unlink(missing_ok=True)


def _has_sound(file: str) -> bool:
    with suppress(av.error.FFmpegError, OSError), av.open(file) as container:
        return bool(container.streams.audio)
    return False


def _write(
    video: Recording,
    new: Path,
    settings: Settings,
    rate: Fraction,
    aspect: Fraction,
    tick: Callable[[], None],
) -> list[Look]:
    looks = []
    with av.open(str(new), "w", format="avi", options={"fflags": "+bitexact"}) as container:
        stream = cast(VideoStream, container.add_stream(CODECS[settings.codec], rate=rate))
        stream.height, stream.width = video.size
        stream.pix_fmt = "yuv420p"
        codec = stream.codec_context
        codec.gop_size, codec.max_b_frames, codec.thread_count = settings.gop, 0, 1
        codec.sample_aspect_ratio = aspect
        if settings.codec == "mpeg4":
            codec.codec_tag = "xvid"
            codec.options = {
                "flags": "+bitexact", "qmin": str(settings.quality), "qmax": str(settings.quality),
                "sc_threshold": "1000000000",  # no key frames but every ``gop``
            }  # fmt: skip
        else:
            codec.options = {
                "crf": str(settings.quality), "preset": "medium",
                "x264-params": f"keyint={settings.gop}:min-keyint={settings.gop}:scenecut=0",
            }  # fmt: skip
        for number, pixels in enumerate(video):
            looks.append(_look(pixels, video.size[0]))
            frame = VideoFrame.from_ndarray(pixels, "yuv420p")
            frame.pts = number
            container.mux(stream.encode(frame))
            tick()
        container.mux(stream.encode(None))
    return looks


def _compare(looks: list[Look], new: Path, tick: Callable[[], None]) -> str:
    """What is wrong with the new file; empty if nothing is."""
    with Recording(new, pixels="yuv420p", cache=False) as video:
        found = []
        for pixels in video:
            found.append(_look(pixels, video.size[0]))
            tick()
    return difference_of(looks, found)


def difference_of(source: list[Look], written: list[Look]) -> str:
    """How the frames that were written differ from those of the source, in number or order; empty
    if they do not."""
    if len(source) != len(written):
        return f"the new file has {len(written)} frames instead of {len(source)}"
    for at, look in enumerate(written):
        apart = _apart(look, source[at])
        beside = [_apart(look, each) for each in source[max(0, at - 1) : at + 2]]
        if apart > _UNLIKE or apart > min(beside) + _CLOSER:
            return f"frame {at} of the new file shows another picture"
    return ""


def _apart(one: Look, other: Look) -> float:
    return float(np.abs(one - other).mean())


def _look(pixels: Frames, height: int) -> Look:
    """``pixels``: [height * 3 // 2, width], 4:2:0."""
    across = pixels.shape[1]
    down, wide = max(1, height // _BLOCKS), max(1, across // _BLOCKS)
    luma = pixels[: height // down * down, : across // wide * wide]
    blocks = luma.reshape(height // down, down, -1, wide)
    look: Look = blocks.mean((1, 3), dtype=np.float32)
    return look


def begin(root: str, out: str, settings: dict[str, Any]) -> Work:
    """For `serve`: what is done with each path. The answer is that of `write_again`; or
    ``damage``."""
    how, names = Settings(**settings["how"]), settings["names"]

    def work(path: str, tick: Callable[[], None]) -> dict[str, Any]:
        try:
            return write_again(root, path, Path(out) / names.get(path, path), how, tick)
        except (VideoError, StorageError):
            raise
        except VideoloadError as error:
            raise StorageError(str(error)) from None

    return work


if __name__ == "__main__":
    [descriptor] = inherited()
    native.limit_memory()
    native.silence_ffmpeg()
    serve(Connection(descriptor), begin)

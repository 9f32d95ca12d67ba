"""Frames of a video, as pixels in the caller's buffer.

The truth about an AVI file is in none of its headers: frame counts lie, time stamps are made up
and run backwards, key frame flags and indexes are wrong or missing. What holds is the decoder's
output: **frame i is the i-th frame that a complete sequential decode of the file outputs.** So the
first visit to a file decodes it once from end to end and notes its frame count and, for each key
frame, where its packet lies and which ordinal it came out as (its `VideoIndex`). Later visits seek
to the last key frame at or before the frame wanted, make sure that the packet found there is the
one noted, and count from its key frame on. Where that is not known to be safe (an unlisted codec
or container, key frames that do not add up, a seek that lands elsewhere), the file is decoded from
its start: slower, never wrong.

Damage: a packet that the decoder refuses is skipped, a frame that it repairs is kept, the end of
what can be read is the end of the video. Everything runs in one thread with pinned options,
because on damaged files the number of threads changes the pixels.
"""

from __future__ import annotations

import os
import platform
import stat
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple, cast

import av
import numpy as np
import numpy.typing as npt
from av.container import InputContainer
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter
from av.video.stream import VideoStream

from videoload.clips import Choice, ClipSpec, Facts, UnfitError, choose
from videoload.errors import VideoError

Buffer = npt.NDArray[np.uint8]
_Decoded = Iterator[tuple["Packet[VideoStream]", list[VideoFrame]]]

# Containers that hold their own pictures; playlists and scripts that name other files are not here.
_CONTAINERS = "avi,mov,mp4,matroska,webm,mpeg,mpegvideo,mjpeg,mpegts"
_MAX_PIXELS = 8192 * 8192
# Codecs whose key frames can be decoded without what came before, tried frame by frame.
_SEEKABLE_CODECS = frozenset({
    "mpeg4", "msmpeg4v1", "msmpeg4v2", "msmpeg4v3", "h263", "h264", "wmv1", "wmv2", "vp8",
    "mjpeg", "dvvideo", "ffv1", "ffvhuff", "huffyuv", "utvideo", "rawvideo",
})  # fmt: skip
# A seek costs about as much as decoding a few frames (0.1 ms at 320x240).
_SEEK_WORTH_FRAMES = 4
_INDEXES_KEPT = 100_000
_SCALERS_KEPT = 16

# swscale widens the bilinear filter when it shrinks, so there is no aliasing. 320x240 to 170x128:
# 74 microseconds a frame; with ACCURATE_RND 105 for half a grey level, BICUBIC 91.
_SCALING = int(Interpolation.BILINEAR | Interpolation.BITEXACT)
_DECODER_OPTIONS = {"flags": "+bitexact"}

av.logging.set_level(None)  # FFmpeg's own log lines can deadlock with the GIL, and name no file


# What decides the pixels: workers tell it, so that a mixed fleet is noticed.
SOFTWARE = "av {} libavcodec {} {}".format(
    av.__version__, ".".join(map(str, av.library_versions["libavcodec"])), platform.machine()
)


class KeyFrame(NamedTuple):
    """Where decoding can start: output ordinal, and dts and byte position of its packet."""

    ordinal: int
    dts: int
    pos: int


class VideoIndex(NamedTuple):
    """What one complete decode told: the facts, and the key frames that a seek may use."""

    facts: Facts
    keys: tuple[KeyFrame, ...]


class Decoder:
    """Decodes clips of the videos under ``root``; one a process, one thread.

    It keeps the index of each video that it has visited, and no file open between two calls.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = os.path.realpath(root)
        self._indexes: OrderedDict[tuple[str, int, int], VideoIndex] = OrderedDict()
        self._scalers: OrderedDict[tuple[object, ...], _Scaler] = OrderedDict()

    def decode(
        self,
        path: str,
        spec: ClipSpec,
        key: int,
        out: Buffer,
        *,
        clip: int = 0,
        start: int = 0,
        end: int | None = None,
        tick: Callable[[], None] = lambda: None,
    ) -> npt.NDArray[np.int64]:
        """Write clip number ``clip`` of ``path`` (relative to the root) into ``out``, uint8 of
        ``spec.shape``, and return the ordinals of its frames, int64 [T].

        ``tick`` is called after each decoded frame. Raises VideoError where the clip cannot be
        had, ShortVideoError where the spec wants the video passed over in silence.
        """
        full = self._resolve(path)
        try:
            index = self._index(full, tick)
            choice = choose(spec, index.facts, key, clip, start, end)
            _fill(full, index, choice, self._scaler(spec, index.facts, choice), out, tick)
        except UnfitError as error:
            raise (ShortVideoError if error.dropped else VideoError)(path, str(error)) from None
        except _UnreadableError as error:
            raise VideoError(path, str(error)) from None
        return choice.frames

    def index(self, path: str, tick: Callable[[], None] = lambda: None) -> VideoIndex:
        """The index of ``path`` (relative to the root). Raises VideoError."""
        try:
            return self._index(self._resolve(path), tick)
        except _UnreadableError as error:
            raise VideoError(path, str(error)) from None

    def _resolve(self, path: str) -> str:
        try:
            full = os.path.realpath(os.path.join(self._root, path))
        except ValueError as error:  # a zero byte, half a surrogate pair
            raise VideoError(path, f"cannot be a file name ({error})") from None
        if os.path.commonpath((full, self._root)) != self._root:
            raise VideoError(path, f"lies outside of the root {self._root}")
        return full

    def _index(self, full: str, tick: Callable[[], None]) -> VideoIndex:
        try:
            status = os.stat(full)
        except OSError as error:
            raise _UnreadableError(f"cannot be opened: {error.strerror}") from None
        if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for a writer, for ever
            raise _UnreadableError("is not a file")
        name = (full, status.st_size, status.st_mtime_ns)
        if name not in self._indexes:
            self._indexes[name] = _read_index(full, tick)
            if len(self._indexes) > _INDEXES_KEPT:
                self._indexes.popitem(last=False)
        self._indexes.move_to_end(name)
        return self._indexes[name]

    def _scaler(self, spec: ClipSpec, facts: Facts, choice: Choice) -> _Scaler:
        name = (spec.pixels, spec.height, spec.width, choice.scaled, facts.width, facts.height)
        if name not in self._scalers:
            self._scalers[name] = _Scaler(spec, facts)
            if len(self._scalers) > _SCALERS_KEPT:
                self._scalers.popitem(last=False)
        self._scalers.move_to_end(name)
        return self._scalers[name]


class ShortVideoError(VideoError):
    """The video is shorter than a clip, and the spec says ``short="drop"``."""


class _UnreadableError(Exception):
    """FFmpeg or the file system says no; becomes a VideoError once the path is known."""


def _open(full: str) -> InputContainer:
    try:
        return av.open(
            full,
            metadata_errors="replace",  # a Latin-1 title is no reason to refuse the pictures
            container_options={
                "format_whitelist": _CONTAINERS,
                "protocol_whitelist": "file",
                "max_pixels": str(_MAX_PIXELS),
            },
        )
    except (av.error.FFmpegError, ValueError, OSError) as error:
        raise _UnreadableError(f"is not a video that can be opened ({_why(error)})") from None


def _video_stream(container: InputContainer) -> VideoStream:
    if not container.streams.video:
        raise _UnreadableError("has no video stream")
    stream = container.streams.video[0]
    context = stream.codec_context
    if context is None:
        raise _UnreadableError("has a video codec that FFmpeg does not know")
    context.thread_type = "NONE"
    context.thread_count = 1
    context.options = {**_DECODER_OPTIONS, "max_pixels": str(_MAX_PIXELS)}
    return stream


def _decoded(container: InputContainer, stream: VideoStream, tick: Callable[[], None]) -> _Decoded:
    """Each packet with the frames that came out of the decoder upon it; an empty packet at the end
    brings the last ones. What the demuxer or the decoder refuses is skipped."""
    packets: Iterator[Any] = container.demux(stream)
    while True:
        try:
            packet = next(packets)
        except StopIteration:
            return
        except (av.error.FFmpegError, ValueError):  # the file cannot be read any further: flush
            packet, packets = Packet(), iter(())
        try:
            frames = stream.decode(packet if packet.size else None)
        except (av.error.FFmpegError, ValueError):
            frames = []
        yield packet, frames
        tick()


def _read_index(full: str, tick: Callable[[], None]) -> VideoIndex:
    """Decode the whole file once. Raises _UnreadableError if no frame comes out."""
    with _open(full) as container:
        stream = _video_stream(container)
        rate = stream.average_rate or stream.guessed_rate or Fraction(0)
        seekable = container.format.name == "avi" and stream.codec.name in _SEEKABLE_CODECS
        count, width, height = 0, 0, 0
        waiting: list[tuple[int, int]] = []  # key packets whose frame is still to come: dts, pos
        keys: list[KeyFrame] = []
        for packet, frames in _decoded(container, stream, tick):
            if packet.is_keyframe and packet.size:
                if packet.pos is None or packet.pos < 0 or packet.dts is None:
                    seekable = False
                else:
                    waiting.append((packet.dts, packet.pos))
            for frame in frames:
                if not count:
                    width, height = frame.width, frame.height
                if frame.key_frame and waiting:
                    keys.append(KeyFrame(count, *waiting.pop(0)))
                elif frame.key_frame:
                    seekable = False  # a key frame without a key packet: the flags lie
                count += 1
        if waiting:
            seekable = False
    if not count:
        raise _UnreadableError("has no frame that can be decoded")
    return VideoIndex(Facts(count, Fraction(rate), width, height), tuple(keys) if seekable else ())


def _fill(
    full: str,
    index: VideoIndex,
    choice: Choice,
    scaler: _Scaler,
    out: Buffer,
    tick: Callable[[], None],
) -> None:
    """Write the chosen frames into ``out`` in one pass over the file."""
    places: dict[int, list[int]] = {}
    for place, ordinal in enumerate(choice.frames.tolist()):
        places.setdefault(ordinal, []).append(place)
    for ordinal, frame in _frames(full, index, sorted(places), tick):
        first, *others = places[ordinal]
        scaler.write(frame, choice, out[first])
        for place in others:
            out[place] = out[first]


def _frames(
    full: str, index: VideoIndex, wanted: list[int], tick: Callable[[], None]
) -> Iterator[tuple[int, VideoFrame]]:
    """The frames with these ordinals (rising), with their ordinals."""
    done = 0
    if index.keys:
        for item in _frames_by_seeking(full, index, wanted, tick):
            yield item
            done += 1
    if done < len(wanted):  # not seekable, or a seek did not land where the index says
        yield from _frames_from_start(full, wanted[done:], tick)


def _frames_from_start(
    full: str, wanted: list[int], tick: Callable[[], None]
) -> Iterator[tuple[int, VideoFrame]]:
    left = iter(wanted)
    target = next(left)
    ordinal = 0
    with _open(full) as container:
        for _, frames in _decoded(container, _video_stream(container), tick):
            for frame in frames:
                if ordinal == target:
                    yield ordinal, frame
                    if (target := next(left, -1)) < 0:
                        return
                ordinal += 1
    raise _UnreadableError(f"gave {ordinal} frames, and more when it was first read")


def _frames_by_seeking(
    full: str, index: VideoIndex, wanted: list[int], tick: Callable[[], None]
) -> Iterator[tuple[int, VideoFrame]]:
    """As far as seeking goes: ends early where a seek does not land on the packet noted."""
    ordinals = [key.ordinal for key in index.keys]
    with _open(full) as container:
        stream = _video_stream(container)
        at = 0  # ordinal of the next frame out of the decoder
        decoded = _decoded(container, stream, tick)
        ready: list[VideoFrame] = []
        for target in wanted:
            key = index.keys[max(0, bisect_right(ordinals, target) - 1)]
            if at + _SEEK_WORTH_FRAMES < key.ordinal <= target:
                landed = _seek(container, stream, key, tick)
                if landed is None:
                    return
                decoded, ready, at = landed[0], landed[1], key.ordinal
            while at + len(ready) <= target:
                at += len(ready)
                try:
                    _, ready = next(decoded)
                except StopIteration:
                    return
            ready = ready[target - at :]
            at = target
            yield target, ready[0]


def _seek(
    container: InputContainer, stream: VideoStream, key: KeyFrame, tick: Callable[[], None]
) -> tuple[_Decoded, list[VideoFrame]] | None:
    """Go to a key frame: the decoder's further output, and the frames that it begins with. None
    where the seek fails or lands on another packet than the index says."""
    try:
        container.seek(key.dts, stream=stream)
    except av.error.FFmpegError:
        return None
    decoded = _decoded(container, stream, tick)
    landed = False
    for packet, frames in decoded:
        if not landed and packet.pos != key.pos:
            return None
        landed = True
        for i, frame in enumerate(frames):
            if frame.key_frame:
                return decoded, frames[i:]
    return None


class _Scaler:
    """Source frames of one size -> the spec's pixels at their place in a clip.

    4:2:0 sources are scaled in their own planes and converted to RGB at the small size, which is
    half the work of doing both at once; other formats take one step. Two contexts that live on, in
    one thread: PyAV's default makes one a frame, with threads of its own.
    """

    def __init__(self, spec: ClipSpec, facts: Facts) -> None:
        self._spec = spec
        self._size = (facts.width, facts.height)
        self._same = VideoReformatter()
        self._scale = VideoReformatter()
        self._convert = VideoReformatter()

    def write(self, frame: VideoFrame, choice: Choice, out: Buffer) -> None:
        """Scale, convert, crop and mirror ``frame`` into ``out``: one frame of ``spec.shape``."""
        if (frame.width, frame.height) != self._size:  # the size changed within the file
            frame = self._to(self._same, frame, self._size, frame.format.name)
        x, y, width, height = choice.region
        if (width, height) != self._size:
            frame = _cut(frame, x, y, width, height)
        if frame.format.name in ("yuv420p", "yuvj420p"):
            frame = self._to(self._scale, frame, choice.scaled, frame.format.name)
        frame = self._to(self._convert, frame, choice.scaled, self._spec.pixels)
        for pixels, place in zip(
            _planes(frame, choice.corner, self._spec), _places(out, self._spec), strict=True
        ):
            np.copyto(place, pixels[:, ::-1] if choice.flip else pixels)

    @staticmethod
    def _to(
        reformatter: VideoReformatter, frame: VideoFrame, size: tuple[int, int], pixels: str
    ) -> VideoFrame:
        source = frame.format.name
        source_range = _FULL if source.startswith("yuvj") else int(frame.color_range) or _LIMITED
        source_matrix = _MATRICES.get(int(frame.colorspace), _BT601)
        changes = pixels != source
        return reformatter.reformat(
            frame,
            *size,
            format=pixels,
            src_colorspace=source_matrix,
            dst_colorspace=_BT601 if changes else source_matrix,
            src_color_range=source_range,
            dst_color_range=_RANGES[pixels] if changes else source_range,
            interpolation=_SCALING,
            threads=1,
        )


# AVCOL_SPC_* of a frame -> the matrix to convert with; whatever says nothing is BT.601, limited
# range. Plain integers, since PyAV takes three microseconds to look at an enum's value.
_BT601 = int(Colorspace.ITU601)
_MATRICES = {
    1: int(Colorspace.ITU709),
    4: int(Colorspace.FCC),
    7: int(Colorspace.SMPTE240M),
    9: int(Colorspace.BT2020),
    10: int(Colorspace.BT2020),
}
_LIMITED, _FULL = int(ColorRange.MPEG), int(ColorRange.JPEG)
_RANGES = {"rgb24": _FULL, "gray": _FULL, "yuv420p": _LIMITED}


def _cut(frame: VideoFrame, x: int, y: int, width: int, height: int) -> VideoFrame:
    """A region of a frame, as rgb24 of its own."""
    pixels = cast(Buffer, frame.to_ndarray(format="rgb24", threads=1))
    region = np.ascontiguousarray(pixels[y : y + height, x : x + width])
    return VideoFrame.from_ndarray(region, format="rgb24")


def _planes(frame: VideoFrame, corner: tuple[int, int], spec: ClipSpec) -> list[Buffer]:
    """The cropped planes of a frame in the spec's pixels, as views [height, width, channels]."""
    x, y = corner
    channels = 3 if spec.pixels == "rgb24" else 1
    planes = []
    for i, plane in enumerate(frame.planes):
        shrink = 2 if i else 1  # chroma of 4:2:0
        rows = np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, plane.line_size)
        pixels = rows[:, : plane.width * channels].reshape(plane.height, plane.width, channels)
        top, left = y // shrink, x // shrink
        height, width = spec.height // shrink, spec.width // shrink
        planes.append(pixels[top : top + height, left : left + width])
    return planes


def _places(out: Buffer, spec: ClipSpec) -> list[Buffer]:
    """Where the planes go, as views [height, width, channels] of one frame of a clip."""
    if spec.pixels != "yuv420p":
        return [out]
    height, width = spec.height, spec.width
    luma, chroma = height * width, height * width // 4
    flat = out.reshape(-1)
    return [
        flat[:luma].reshape(height, width, 1),
        flat[luma : luma + chroma].reshape(height // 2, width // 2, 1),
        flat[luma + chroma :].reshape(height // 2, width // 2, 1),
    ]


def _why(error: Exception) -> str:
    """FFmpeg's reason without its number and path."""
    return str(getattr(error, "strerror", None) or error)

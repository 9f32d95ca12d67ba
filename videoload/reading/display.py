"""How the frames of a file are shown: rotated, flipped, cropped.

Containers contain it, and pictures of some codecs as well (H.264 and HEVC in a message, JPEG in its
EXIF). FFmpeg joins both and returns them with a decoded frame, for any container, except the
container's crop.
"""

from __future__ import annotations

import io
import math
import re
from contextlib import closing, suppress
from fractions import Fraction
from itertools import islice
from typing import Any, NamedTuple, cast

import av
import numpy as np
from av.bitstream import BitStreamFilterContext
from av.filter import Graph
from av.sidedata.sidedata import Type
from av.video.frame import VideoFrame

from videoload.reading.containers import BrokenFileError, OpenedVideo
from videoload.reading.frame_decoder import REFUSALS
from videoload.reading.video import decode_packets
from videoload.storage.files import Tick

_CONTAINERS_TELL = ("mov", "matroska")
_PICTURES_TELL = ("h264", "hevc", "mjpeg")
_LEAST_ASPECT = Fraction(1, 16)
_KINDS = range(64)  # of FFmpeg's side data; it has 32 so far
# What Matroska calls PixelCropBottom, -Top, -Left and -Right: name, length, value. Those that are 0
# are left out. What is shown stands behind them.
_CUTS = b"".join(rb"(?:\x54\x%s(\x81.|\x82..))?" % name for name in (b"aa", b"bb", b"cc", b"dd"))
_CUT = re.compile(_CUTS + rb"\x54[\xb0\xb2]", re.DOTALL)


class Display(NamedTuple):
    """Frames are cut by so many pixels at their left, top, right and bottom edge, then rotated
    clockwise ``turns`` times by 90 degrees, and then flipped horizontally if ``mirrored``. A pixel
    is ``aspect`` times as wide as it is high."""

    turns: int = 0
    mirrored: bool = False
    cut: tuple[int, int, int, int] = (0, 0, 0, 0)
    aspect: Fraction = Fraction(1)


def display_of(opened: OpenedVideo, tick: Tick, *, begins: bool = False) -> Display:
    """How the frames of a file are shown. ``begins``: the first packet contains the first frame."""
    is_told = opened.container.format.name.startswith(_CONTAINERS_TELL)
    shown = Display(cut=_cut_by_container(opened) if is_told else (0, 0, 0, 0),
                    aspect=_aspect_of(opened))  # fmt: skip
    if is_told or opened.decoder.context.name in _PICTURES_TELL:
        turns, mirrored = _orientation(opened, tick, begins=begins)
        return shown._replace(turns=turns, mirrored=mirrored)
    return shown


def _orientation(opened: OpenedVideo, tick: Tick, *, begins: bool) -> tuple[int, bool]:
    """Return the rotation and flip of the first frame. PyAV holds a frame whose side data was read,
    so this frame is from another decoder."""
    is_told = opened.container.format.name.startswith(_CONTAINERS_TELL)
    # Opened by its headers alone, a file takes a ninth of the time. If no other packet follows, a
    # decoder holds no frame back. Both take a tenth off the first clip of an H.264 MP4.
    for most in (1, None) if begins and is_told else (None,):
        refusals = () if most is None else (BrokenFileError,)
        with (
            suppress(*refusals),
            closing(OpenedVideo(opened.file, strict=False, decodes=most is None)) as fresh,
        ):
            if most is None or _is_same(fresh, opened):
                for _, frame in decode_packets(fresh, islice(fresh.packets, most), tick):
                    return orientation_of(frame)
    return 0, False


def _is_same(one: OpenedVideo, other: OpenedVideo) -> bool:
    """Return whether FFmpeg takes a file for the same, and the same stream of it."""
    return (one.container.format.name, one.stream.index) == (
        other.container.format.name, other.stream.index,
    )  # fmt: skip


def _aspect_of(opened: OpenedVideo) -> Fraction:
    """Return the shape of pixels, of the container or else of the codec, as players take it. What
    no picture has is a broken header."""
    sar: Fraction | None = opened.stream.sample_aspect_ratio
    return sar if sar is not None and _LEAST_ASPECT <= sar <= 1 / _LEAST_ASPECT else Fraction(1)


def orientation_of(frame: VideoFrame) -> tuple[int, bool]:
    """Return the rotation and flip of a frame."""
    try:
        found = frame.side_data
    except ValueError:  # PyAV cannot name some of it
        unknown = set(_KINDS).difference(kind.value for kind in Type)
        graph = Graph()
        graph.link_nodes(
            graph.add_buffer(
                width=frame.width, height=frame.height, format=frame.format, time_base=Fraction(1)
            ),
            *(graph.add("sidedata", f"mode=delete:type={kind}") for kind in sorted(unknown)),
            graph.add("buffersink"),
        ).configure()
        graph.push(frame)
        found = cast(VideoFrame, graph.pull()).side_data
    matrix: Any = found.get("DISPLAYMATRIX")
    if matrix is None:
        return 0, False
    a, b, _, c, d, *_ = np.frombuffer(matrix, np.int32).astype(float)
    turns = round(math.degrees(math.atan2(b, a)) / 90)
    mirrored = bool(a * d < b * c)
    return (2 - turns if mirrored else turns) % 4, mirrored


def _cut_by_container(opened: OpenedVideo) -> tuple[int, int, int, int]:
    """Return the container's crop. PyAV does not return it, but a copy of the file's header
    does."""
    header = io.BytesIO()
    with suppress(*REFUSALS), av.open(header, "w", format="matroska") as empty:
        copy = empty.add_stream_from_template(opened.stream, opaque=True)  # without an encoder
        BitStreamFilterContext("null", opened.stream, copy)
        empty.start_encoding()
    found = map(re.Match.groups, _CUT.finditer(header.getvalue()))
    values = next(filter(any, found), (b"",) * 4)
    bottom, top, left, right = (int.from_bytes((value or b"")[1:], "big") for value in values)
    context = opened.decoder.context
    is_sound = left + right < context.width and top + bottom < context.height
    return (left, top, right, bottom) if is_sound else (0, 0, 0, 0)

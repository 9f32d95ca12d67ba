"""One complete decode of a file that does not prove its frames: how many there are, and what each
looks like.

It runs in one thread: workers decode side by side already, and its result is cached.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from av.video.frame import VideoFrame

from videoload.bitstreams.hevc import is_hevc
from videoload.bitstreams.pictures import compact
from videoload.reading.containers import (
    BrokenFileError,
    NotedPackets,
    OpenedVideo,
    checksum_of,
)
from videoload.reading.display import display_of
from videoload.reading.frame_decoder import checksum
from videoload.reading.index import VideoIndex, info_of_file
from videoload.reading.order import FrameTable
from videoload.reading.packets import least_bytes, timing_in
from videoload.reading.video import decode_packets
from videoload.storage.files import Tick
from videoload.storage.video_file import VideoFile

if TYPE_CHECKING:
    from videoload.reading.frame_decoder import VideoPacket


class Report(NamedTuple):
    """The results of a complete decode: decoded ``frames``, ``refused`` packets, ``repaired``
    frames. ``kinds``: the first frame of each kind to be scaled."""

    container: str
    codec: str
    pixels: str
    header_frames: int
    packets: int
    frames: int
    refused: int
    repaired: int
    kinds: list[int]
    file_bytes: int


class _Packet(NamedTuple):
    """A packet: its decoding time, its place in the file or that of the one before it, -1 if it
    cannot be sought, when its picture is shown, and its checksum."""

    time: int
    position: int
    shown: int | None
    sum: int

    @classmethod
    def of(cls, opened: OpenedVideo, packet: VideoPacket, at: int) -> _Packet:
        can_be_sought = packet.is_keyframe and packet.dts is not None
        position = at if can_be_sought else -1
        return cls(packet.dts or 0, position, opened.display_time(packet), checksum_of(packet))


def decode_index(file: VideoFile, tick: Tick) -> tuple[VideoIndex, Report]:
    """Decode the whole file once. Raises BrokenFileError if it contains no frame."""
    opened = OpenedVideo(file, strict=False)
    size, pixels = (0, 0), ""
    packets: list[_Packet] = []
    numbers: list[int] = []  # of the packet of each frame, -1 if that is not known
    sums: list[int] = []
    starts: list[tuple[int, ...]] = []
    kinds: dict[tuple[object, ...], int] = {}
    repaired = 0
    try:
        for number, frame in decode_packets(opened, _noted(opened, packets), tick):
            if not sums:
                size, pixels = (frame.width, frame.height), frame.format.name
            if frame.key_frame and number >= 0 and packets[number].position >= 0:
                starts.append((len(sums), number, *packets[number][:2]))
            kinds.setdefault(_kind(frame), len(sums))
            repaired += frame.is_corrupt
            numbers.append(number)
            sums.append(checksum(frame))
            del frame
        if not sums:
            raise BrokenFileError("has no frame that can be decoded")
        report = Report(
            opened.container.format.name, opened.stream.codec.name, pixels, opened.stream.frames,
            len(packets), len(sums), len(opened.refused), repaired, list(kinds.values()), file.size,
        )  # fmt: skip
        timing = timing_in(opened, [packet.shown for packet in packets], numbers)
        info = info_of_file(opened, len(sums), size, timing, display_of(opened, tick))
    finally:
        opened.close()
    ordinals = np.full(len(packets) + 1, -1)  # the last one stands for packets that are not known
    ordinals[numbers[::-1]] = np.arange(len(numbers))[::-1]  # of two frames of a packet, the first
    rows = compact(np.array(starts, np.int64).reshape(-1, 4))
    order = FrameTable(len(sums), rows, compact(ordinals[:-1]), np.array(sums, np.uint32))
    noted = NotedPackets(np.array([packet.sum for packet in packets], np.uint32))
    return VideoIndex(
        info._replace(keys=order.keys),
        order,
        noted=None if opened.has_places else noted,
        opening=file.opening,
    ), report


def _noted(opened: OpenedVideo, packets: list[_Packet]) -> Iterator[VideoPacket]:
    """Yield the packets of a file, which are noted. Raises BrokenFileError."""
    at, least = -1, least_bytes(opened)
    for packet in opened.packets:
        if packet.size < least:
            raise BrokenFileError(
                f"has raw pictures that are not whole: {packet.size} bytes, and {least} are needed"
            )
        at = at if packet.pos is None else packet.pos
        if not packets and opened.decoder.context.name == "rawvideo" and is_hevc(bytes(packet)):
            raise BrokenFileError(
                "has HEVC in a container that declares raw video: `ffmpeg -vcodec hevc -i FILE -c "
                "copy "
                "NEW.mp4` writes a correct file"
            )
        packets.append(_Packet.of(opened, packet, at))
        yield packet


def _kind(frame: VideoFrame) -> tuple[object, ...]:
    """Return whether a frame can be scaled depends on this."""
    return frame.width, frame.height, frame.format.name, frame.colorspace, frame.color_range

"""An open file, and the one place where its packets become frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from av.video.frame import VideoFrame

from videoload.bitstreams.pictures import KeyFrame
from videoload.reading.frame_decoder import REFUSALS, FrameDecoder
from videoload.storage.files import Tick
from videoload.storage.video_file import VideoFile

if TYPE_CHECKING:
    from videoload.reading.frame_decoder import VideoPacket


class VideoReader(Protocol):
    """An open file and its decoder.

    ``packets``: what is coded from where the file stands on. ``number``: of the next packet, -1 if
    that is not known. ``refused``: the numbers of packets that a tolerant decoder has refused.
    """

    file: VideoFile
    decoder: FrameDecoder
    packets: Iterator[VideoPacket]
    number: int
    refused: list[int]

    def seek_to_keyframe(self, start: KeyFrame, last: int = -1) -> VideoPacket | None:
        """Return the packets from a keyframe on, for a new decoder; None if there is none. Packets
        up to ``last`` are needed, too. Raises BrokenFileError."""

    def reopen(self) -> VideoReader:
        """Return the file opened again, with a tolerant decoder. Raises BrokenFileError."""

    def close(self) -> None:
        """Close the file."""


def decode_packets(
    video: VideoReader, packets: Iterable[VideoPacket], tick: Tick
) -> Iterator[tuple[int, VideoFrame]]:
    """Yield every frame of these packets, with the number of its packet; -1 if FFmpeg does not know
    it. Frames that the decoder holds back are last. A packet that a tolerant decoder refuses is
    skipped; a strict one raises one of `REFUSALS`.

    No frame may be held while a tolerant decoder decodes the next one: in a damaged picture, some
    leave old content of recycled memory.
    """
    decoder = video.decoder
    for packet in chain(packets, (None,)):
        if packet is not None:
            packet.pts = video.number  # the decoder gives it to the packet's frame
            video.number += 1
        try:
            frames = decoder.decode(packet)
        except REFUSALS:
            if decoder.is_strict:
                raise
            video.refused.append(video.number - 1)
            frames = []
        tick()
        while frames:
            number = frames[0].pts
            yield -1 if number is None else number, frames.pop(0)

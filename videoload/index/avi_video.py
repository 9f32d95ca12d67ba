"""A plain AVI file, read without FFmpeg's demuxer.

Where a file is plain and its index whole, each chunk of its stream is a packet, one after the
other. So a packet is found by its position, and read as it stands: to open the file takes a fifth
of the time, a packet two thirds, and a seek nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, cast

from av.codec import Codec
from av.packet import Packet
from av.video.frame import VideoFrame

from videoload.bitstreams.avi_header import CHUNK
from videoload.bitstreams.pictures import KeyFrame
from videoload.index.containers import guessed_bytes, new_decoder, not_opened
from videoload.index.packets import PlainAvi
from videoload.storage.content import Content
from videoload.storage.files import VideoFile

if TYPE_CHECKING:
    from videoload.index.containers import VideoPacket


class AviVideo:
    """A `Video` whose packets are those that its index names. Its decoder begins anew wherever
    it goes to, so that it is ``used`` from the beginning."""

    def __init__(self, file: VideoFile, avi: PlainAvi, *, strict: bool = True) -> None:
        """Raises UnreadableError."""
        self.file = file
        self.used = True
        self.taken = self.refused = 0
        self._avi = avi
        self._strict = strict
        self._content = Content(file, at_once=False)
        try:
            self._content.open()
        except OSError as error:
            raise not_opened(error) from None
        self.renew_decoder()
        self.packets: Iterator[VideoPacket] = iter(())

    @property
    def memory_bytes(self) -> int:
        """A guess at what it holds."""
        return guessed_bytes(self.codec)

    def renew_decoder(self) -> None:
        """A decoder that has decoded nothing, in the place of the last one."""
        extradata, (width, height), tag, bits = self._avi.settings
        told = {
            "extradata": extradata, "width": width, "height": height, "codec_tag": tag,
            "bits_per_coded_sample": bits,
        }  # fmt: skip
        self.codec = new_decoder(_mpeg4(), told, strict=self._strict)

    def go_to(self, start: KeyFrame, ahead: int = -1) -> VideoPacket | None:
        """The packet of a key frame, for a decoder that begins anew; None if it is gone."""
        if self.codec.is_open:
            self.codec.flush_buffers()
        self.packets = _packets(self._content, self._avi, start.position - CHUNK.size)
        packet = next(self.packets)
        return packet if packet.size else None

    def decode(self, packet: VideoPacket) -> list[VideoFrame]:
        """What comes out upon a packet. Raises one of `REFUSALS` if the decoder takes it not."""
        return self.codec.decode(packet if packet.size else None)

    def close(self) -> None:
        """Close the file."""
        self._content.close()


def _packets(content: Content, avi: PlainAvi, at: int) -> Iterator[VideoPacket]:
    """Those from a position on, where a chunk begins; an empty one at the end brings the last
    frames."""
    with suppress(OSError):  # the file cannot be read any further: flush
        yield from _coded(content, avi, at)
    yield cast("VideoPacket", Packet())


def _coded(content: Content, avi: PlainAvi, at: int) -> Iterator[VideoPacket]:
    names = b"%02ddc" % avi.stream, b"%02ddb" % avi.stream
    block: bytes | memoryview = b""
    block_at = at
    while at < avi.end:
        if at + CHUNK.size > block_at + len(block):
            block, block_at = content.read_block(at, CHUNK.size), at
            if len(block) < CHUNK.size:
                return  # the file is shorter than it was
        name, length = CHUNK.unpack_from(block, at - block_at)
        begin, at = at + CHUNK.size, at + CHUNK.size + length + (length & 1)
        if name in (b"LIST", b"RIFF"):
            at = begin + 4  # what it holds comes next
        elif length and name in names:
            if begin + length > avi.end:
                return
            if begin + length > block_at + len(block):
                block, block_at = content.read_block(begin, length), begin
                if len(block) < length:
                    return
            packet = Packet(length)  # which FFmpeg pads, as its demuxer does
            coded = block[begin - block_at : begin - block_at + length]
            packet.update(cast(bytes, coded))  # any buffer does
            yield cast("VideoPacket", packet)


@cache
def _mpeg4() -> Codec:
    return Codec("mpeg4", "r")

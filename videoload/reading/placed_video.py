"""An AVI, MP4, MOV or Matroska file, read without FFmpeg's demuxer.

Each packet is read at the place that the file's index names. So opening the file takes a fifth of
the time, reading a packet two thirds, and seeking none; and nothing that stands between the packets
can shift their numbers. In an AVI, the header of each chunk is compared as it is read. A header
that contradicts the index is damage: then the canonical route (see `frames`) reads the bytes at
that place.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from av.packet import Packet

from videoload.bitstreams.pictures import Ints, KeyFrame
from videoload.reading.containers import not_opened
from videoload.reading.frame_decoder import FrameDecoder
from videoload.storage.content import Content
from videoload.storage.video_file import VideoFile

if TYPE_CHECKING:
    from videoload.reading.frame_decoder import VideoPacket


_AT_ONCE_BYTES = 256 << 10  # of a file of this host
CHUNK = Struct("<4sI")  # the header of a chunk: name, length


class PlacedPackets(NamedTuple):
    """Where the packets of a video are, and the parameters of their decoder."""

    codec: str  # FFmpeg's name of the decoder
    parameters: Mapping[str, Any]
    stream: int | None  # of an AVI; None: nothing stands before the packets
    positions: Ints  # where the data of each begins
    sizes: Ints
    are_settings_given: bool = False  # as `Pictures.are_settings_given`

    @property
    def headed(self) -> int:
        """The bytes of the header before each packet."""
        return 0 if self.stream is None else CHUNK.size

    @property
    def decoder_key(self) -> Hashable:
        """Return the key of the files that may share a decoder; None: no other file may have this
        one's."""
        return (self.codec, *self.parameters.items()) if self.are_settings_given else None


class PlacedVideo:
    """A `Video` whose packets are those that its index names."""

    def __init__(
        self,
        file: VideoFile,
        placed: PlacedPackets,
        *,
        strict: bool = True,
        decoder: FrameDecoder | None = None,
    ) -> None:
        """``decoder``: a strict one, of another file with the same `decoder_key`. Raise
        BrokenFileError."""
        self.file = file
        self.number = -1
        self.refused: list[int] = []
        self.placed = placed
        self._strict = strict
        self._names = None if placed.stream is None else chunk_names(placed.stream)
        self._content = Content(file)
        try:
            self._content.open()
        except OSError as error:
            raise not_opened(error, file) from None
        self.decoder = decoder or FrameDecoder.create(
            placed.codec, placed.parameters, strict=strict
        )
        self.packets: Iterator[VideoPacket] = iter(())

    def seek_to_keyframe(self, start: KeyFrame, last: int = -1) -> VideoPacket | None:
        """Seek, as `VideoReader.seek_to_keyframe`."""
        self.decoder.flush()
        self.number = start.packet
        self.packets = self._coded(start.packet, last)
        return next(self.packets, None)

    def _coded(self, number: int, last: int) -> Iterator[VideoPacket]:
        """Yield the packets from this number on; those up to ``last`` are read in few calls. Raises
        ValueError for a chunk that contradicts the index, if the decoder is strict."""
        block: Any = b""
        block_at, (positions, sizes), headed = 0, self.placed[3:5], self.placed.headed
        end = positions.item(last) + sizes.item(last)
        for each in range(number, len(sizes)):
            position, size = positions.item(each), sizes.item(each)
            at = position - block_at
            if at < headed or at + size > len(block):
                length = headed + size
                block_at, at = position - headed, headed
                needed = 0 if self.file.fetches else min(end - block_at, _AT_ONCE_BYTES)
                most = max(length, needed)
                try:
                    block = self._content.open().pread(most, block_at)
                except OSError:
                    break  # the file cannot be read any further
                if len(block) < length:
                    break  # it is shorter than it was
            if self._strict and self._names is not None:
                name, named = CHUNK.unpack_from(block, at - CHUNK.size)
                if named != size or name not in self._names:
                    raise ValueError("a chunk differs from the index")
            packet: Any = Packet(size)  # FFmpeg pads it, as its demuxer does
            packet.update(block[at : at + size])  # any buffer does
            yield packet

    def reopen(self) -> PlacedVideo:
        """Reopen, as `VideoReader.reopen`."""
        return PlacedVideo(self.file, self.placed, strict=False)

    def close(self) -> None:
        """Close the file."""
        self._content.close()


def chunk_names(stream: int) -> tuple[bytes, bytes]:
    """Return the names of the chunks of a video stream."""
    return b"%02ddc" % stream, b"%02ddb" % stream

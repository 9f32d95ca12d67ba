"""A folder of numbered images as a video: each image is a packet, and decoding can start at each.

An image says nothing of others. So one that cannot be decoded, or has another size than the first,
is named, and no other stands in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, cast

from av.packet import Packet
from av.video.frame import VideoFrame

from videoload.bitstreams.pictures import KeyFrame
from videoload.clips.video_info import VideoInfo
from videoload.reading.containers import UnreadableError
from videoload.reading.frame_decoder import FrameDecoder
from videoload.reading.refusals import LOOKED_AT, kind_of_bytes
from videoload.reading.video import decode_packets
from videoload.storage.files import Tick, VideoFile
from videoload.storage.images import ImageFolder

if TYPE_CHECKING:
    from videoload.reading.frame_decoder import VideoPacket

Use = Callable[[int, VideoFrame], None]

# FFmpeg's name of the decoder, where it is not that of the suffix.
_DECODERS = {"jpg": "mjpeg", "jpeg": "mjpeg", "tif": "tiff"}


class ImageVideo:
    """A `Video` of images."""

    def __init__(
        self, file: ImageFolder, info: VideoInfo | None = None, *, strict: bool = True
    ) -> None:
        """``info``: what the first image tells."""
        self.file: VideoFile = file
        self._images, self._info = file, info
        self.number = 0
        self.refused: list[int] = []
        suffix = file.names[0].rpartition(".")[2].lower()
        self.decoder = FrameDecoder.create(_DECODERS.get(suffix, suffix), {}, strict=strict)
        self.packets: Iterator[VideoPacket] = self._from(0)

    def go_to(self, start: KeyFrame) -> VideoPacket | None:
        """As `Video.go_to`."""
        self.decoder.flush()
        self.number = start.packet
        self.packets = self._from(start.packet)
        return next(self.packets)

    def _from(self, number: int) -> Iterator[VideoPacket]:
        """Raises UnreadableError."""
        for i in range(number, len(self._images.names)):
            try:
                image = self._images.read(i)
            except OSError as error:
                raise unreadable(self._images, i, f"cannot be read: {error.strerror}") from None
            if not image:
                raise unreadable(self._images, i, "is empty")
            packet = Packet(image)
            packet.is_keyframe = True  # else FFmpeg adds a PNG to the one before it
            yield cast("VideoPacket", packet)

    def checked(self, use: Use) -> Use:
        """``use``, for frames of the first one's size. Raises UnreadableError if one has another
        one."""

        def take(number: int, frame: VideoFrame) -> None:
            assert self._info is not None
            size, first = (frame.width, frame.height), (self._info.width, self._info.height)
            if size != first:
                told = "is {}x{} pixels, and the first one {}x{}".format(*size, *first)
                raise unreadable(self._images, number, told)
            use(number, frame)

        return take

    def anew(self) -> ImageVideo:
        """As `Video.anew`."""
        return ImageVideo(self._images, self._info, strict=False)

    def close(self) -> None: ...


def unreadable(file: ImageFolder, number: int, why: str) -> UnreadableError:
    """What to raise for an image."""
    return UnreadableError(f"its image {file.names[number]!r} {why}")


def undecodable(file: ImageFolder, number: int) -> UnreadableError:
    """What to raise for an image that cannot be decoded: it may be of another kind than its name
    says."""
    name = file.names[number].rpartition(".")[2]
    kind = kind_of_bytes(file.read(number)[:LOOKED_AT])
    return unreadable(
        file, number, f"cannot be decoded as {name}: {kind}" if kind else "cannot be decoded"
    )


def info_of(file: ImageFolder, tick: Tick) -> VideoInfo:
    """What the first image tells. Raises UnreadableError."""
    video = ImageVideo(file, strict=False)
    first = video.go_to(KeyFrame(0, 0, 0, -1))
    assert first is not None
    for _, frame in decode_packets(video, (first,), tick):
        return VideoInfo(len(file.names), Fraction(), frame.width, frame.height)
    raise undecodable(file, 0)

"""The audio of a file, decoded around a clip: see `audio_timeline` for the rule.

What is decoded depends on the bytes of the file and on the moment alone. So each clip gets a
decoder that has decoded nothing else, because some decoders generate noise that depends on earlier
audio. It begins at the last packet at or before a fixed time before the clip, which is long enough
for what decoders carry over from one packet to the next.

So each clip opens its file again, too: what FFmpeg finds in an open file depends on what it has
read there before. Beside the pixels of the clip, that takes no time that was seen.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import suppress
from fractions import Fraction
from itertools import chain, islice
from typing import TYPE_CHECKING, cast

from av.audio.frame import AudioFrame
from av.audio.layout import AudioLayout
from av.stream import Discard

from videoload.decoding.audio_timeline import Placing, first_sample
from videoload.reading.containers import (
    BrokenFileError,
    audio_stream,
    open_container,
    packets,
    video_stream,
)
from videoload.reading.frame_decoder import REFUSALS
from videoload.storage.files import Tick
from videoload.storage.video_file import VideoFile

if TYPE_CHECKING:
    from av.audio.codeccontext import AudioCodecContext
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.stream import VideoStream

    SoundPacket = Packet[AudioStream]


# So much audio is decoded before a clip, for state that decoders carry over. MP3 refers to some
# hundred bytes before a packet: up to a quarter of a second at 8 kbit/s, and filters follow.
_BEFORE_S, _BEFORE_LOW_MP3_S = Fraction(1, 4), Fraction(3, 4)
_LOW_RATE = 32_000  # samples a second: MP3 has its low rates below it
_AFTER_S = 1  # a packet that begins so long after a clip has nothing of it
_HEADERS_TELL = (".avi", ".mp4", ".m4v", ".mov")
_MOST_PROBED = 256  # packets at the beginning of a file
# After a seek, a decoder may begin in the middle of a piece, and take what is there for one of
# another rate.
_BEGIN_ANYWHERE = ("avi", "mpeg")
_OWN = " channels ("  # in FFmpeg's name of a layout with an order of its own
# FFmpeg's order of channels in a layout.
_ORDER = ("FL", "FR", "FC", "LFE", "BL", "BR", "FLC", "FRC", "BC", "SL", "SR")


class UndecodableError(BrokenFileError):
    """The audio of this clip cannot be decoded; that of others may."""


class NotSoughtError(Exception):
    """The container does not find the place: read from the beginning."""


class Track:
    """The audio of a file that it opens, for one clip.

    Attributes:
        has_audio: Whether there is any. If not, nothing can be decoded.
        order: Which of the decoded channels is the first, the second, ... of the layout, if the
            container has an order of its own; else empty.
        has_gaps: Whether pieces may be apart. In an AVI they follow each other, at one rate.
    """

    def __init__(self, file: VideoFile, tick: Tick) -> None:
        """Raise BrokenFileError."""
        self._tick = tick
        self._container = _open(file)
        self._decoded: list[AudioFrame] = []  # of the packets at the beginning
        self._grid: tuple[int, int] | None = None  # at the rate of the beginning
        self._refused = 0
        self._is_sought = False
        self.has_gaps = self._container.format.name != "avi"
        try:
            self.has_audio = self._find(video_stream(self._container, file))
        except BaseException as error:
            self.close()
            if isinstance(error, REFUSALS):
                raise BrokenFileError(f"has audio that cannot be read ({error})") from None
            raise

    def _find(self, video: VideoStream) -> bool:
        container = self._container
        stream = audio_stream(container, video)
        if stream is None:
            return False
        if stream.codec_context is None:
            raise BrokenFileError("has audio in a codec that FFmpeg does not know")
        self._stream, self._context = stream, stream.codec_context
        self.order = _set_up(self._context)
        self._rate = self._context.sample_rate
        self._base = stream.time_base or Fraction(1, 1000)
        for other in container.streams:
            if other is not stream:
                other.discard = Discard.all
        self._following, self._first = self._packets(), stream.start_time
        if not self.has_gaps:  # what it states is not when its first packet begins
            begins = [*islice(self._following, 1)]
            self._following = chain(begins, self._following)
            self._first = begins[0].pts if begins else None
        if self._base * self._rate != 1:  # times are rounded, or count pieces
            self._probe()
        return bool(self._rate or self._decoded or self._refused)

    @property
    def codec(self) -> str:
        """The name of its codec; "" if there is no audio."""
        return self._context.codec.name if self.has_audio else ""

    def _packets(self) -> Iterator[SoundPacket]:
        """Yield the packets from where the file stands."""
        stream = cast("VideoStream", self._stream)  # any kind will do
        for packet in packets(self._container, stream):
            self._tick()
            yield cast("SoundPacket", packet)

    def _probe(self) -> None:
        """Decode the first two pieces: they show where whole pieces begin."""
        frames = self._decoded
        for packet in islice(self._following, _MOST_PROBED):
            if self._first is None:
                self._first = packet.pts
            frames += self._decode(packet)
            if len(frames) >= 2:
                break
        if frames:  # an AVI's header may state another one
            self._rate = frames[0].sample_rate
        if len(frames) >= 2 and frames[0].pts is not None:
            begins = first_sample(frames[0].pts * self._base, frames[0].sample_rate)
            self._grid = begins + frames[0].samples, frames[1].samples

    def placing(self, rate: int, after: Fraction | None = None) -> Placing:
        """Return a function that places its pieces, in samples at this rate. ``after``: the end of
        the one before them, in seconds."""
        grid = self._grid if rate == self._rate else None
        return Placing(self._base * rate, grid, None if after is None else round(after * rate))

    def decode(self, begin: Fraction, end: Fraction, *, seek: bool) -> Generator[AudioFrame]:
        """Yield the pieces of audio from before ``begin`` until after ``end``, in seconds. Without
        ``seek``, start at the beginning of the file. Raises NotSoughtError, UndecodableError."""
        is_low = self._context.name.startswith("mp3") and self._rate < _LOW_RATE
        before_s = _BEFORE_LOW_MP3_S if is_low else _BEFORE_S
        wanted, last = ((at // self._base) for at in (begin - before_s, end + _AFTER_S))
        heard, frames, came = begin // self._base, self._decoded, 0
        try:
            for packet in chain(self._from(wanted, seek=seek), (None,)):
                pts, refused = None if packet is None else packet.pts, self._refused
                is_behind = self.has_gaps and pts is not None and pts > last
                if not is_behind:
                    frames += self._decode(packet)
                if self._refused > refused and pts is not None and pts >= heard:
                    self._doubt()
                self._compare(frames)
                came += len(frames)
                while frames:
                    yield frames.pop(0)
                if is_behind:
                    break
        except REFUSALS as error:
            raise UndecodableError(f"has audio here that cannot be read ({error})") from None
        if self._refused and not came:
            self._doubt()
            raise UndecodableError("has audio here that cannot be decoded")

    def _doubt(self) -> None:
        """Raise NotSoughtError if the decoder may have begun in the middle of a piece."""
        if self._is_sought and self._container.format.name in _BEGIN_ANYWHERE:
            raise NotSoughtError

    def _compare(self, pieces: list[AudioFrame]) -> None:
        """Raise NotSoughtError, or UndecodableError: an AVI counts pieces, and states one rate."""
        if any(piece.sample_rate != self._rate for piece in pieces):
            self._doubt()
            if not self.has_gaps:
                raise UndecodableError(
                    "has audio whose sample rate changes: its timestamps are unknown"
                )

    def _from(self, wanted: int, *, seek: bool) -> Iterator[SoundPacket]:
        """Return the packets from the last one at or before ``wanted`` on."""
        is_apart = seek and (self._first is None or self._first < wanted)  # from the beginning
        if is_apart:
            try:
                self._container.seek(wanted, stream=self._stream)
            except REFUSALS:
                raise NotSoughtError from None
            self._following, self._is_sought = self._packets(), True
        held: list[SoundPacket] = []  # a packet, and those behind it that have no time
        later: list[SoundPacket] = []
        for packet in self._following:
            if packet.pts is not None and packet.pts > wanted:
                later = [packet]
                break
            if packet.pts is not None:
                is_apart = is_apart or bool(held)
                held.clear()
            held.append(packet)
        if seek and is_apart and not held:
            raise NotSoughtError
        if is_apart and self._decoded:
            self._context.flush_buffers()
            self._decoded.clear()
        return chain(held, later, self._following)

    def _decode(self, packet: SoundPacket | None) -> list[AudioFrame]:
        """Return the pieces of a packet, none if it is refused; of None, those that are held
        back."""
        try:
            pieces = self._context.decode(packet)
        except REFUSALS:
            self._refused += 1
            return []
        if packet is not None and packet.pos is None:
            # FFmpeg has taken the packet out of a longer one, and guesses its time by the rate
            # that the track began with.
            for piece in pieces:
                if piece.sample_rate != self._rate:
                    piece.pts = None
        return pieces

    def close(self) -> None:
        """Close the file."""
        self._container.close()


def _set_up(context: AudioCodecContext) -> list[int]:
    """Returns the `Track.order`. Raises BrokenFileError."""
    context.thread_type = "NONE"
    context.thread_count = 1
    # With each object for a layout with a custom order, PyAV frees the data that it refers to. So
    # it is read once, and the decoder gets another layout before that object is freed.
    layout = context.layout
    if _OWN not in layout.name:
        return []
    names = [channel.name for channel in layout.channels]
    usual = sorted(names, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))
    try:
        stated = AudioLayout("+".join(usual))
    except REFUSALS:
        stated = layout
    is_known = _OWN not in stated.name
    context.layout = stated if is_known else "mono"
    if not is_known:
        raise BrokenFileError(f"has audio with an unknown channel layout: {layout.name}")
    return [names.index(name) for name in usual]


def _open(file: VideoFile) -> InputContainer:
    """Open a file. Decoding its first frame, as FFmpeg does, would take longer than the audio: the
    headers of an AVI and an MP4 with one audio track contain all that is needed."""
    if file.path[-4:].lower() in _HEADERS_TELL:
        with suppress(BrokenFileError, *REFUSALS):
            container = open_container(file, decodes=False)
            if _headers_tell(container):
                return container
            container.close()
    return open_container(file)


def _headers_tell(container: InputContainer) -> bool:
    """Return whether headers describe all of the audio, as far as they were read: FFmpeg has no
    best stream of those whose rate or channels it does not know yet."""
    sounds = len(container.streams.audio)
    if sounds > 1 or not (
        container.format.name == "avi" or container.format.name.startswith("mov")
    ):
        return False
    return not sounds or container.streams.best("audio") is not None

"""The sound of a file, decoded around a clip: see `timeline` for the rule.

What comes out depends on the bytes of the file and on the moment alone. So each clip gets a decoder
that has decoded nothing else, because some decoders draw noise and go on drawing. It begins at the
last packet at or before a fixed time before the clip, which is long enough for what decoders carry
over from one packet to the next.

So each clip opens its file anew, too: what FFmpeg finds in an open file depends on what it has read
there before. Beside the pixels of the clip, that takes no time that was seen.
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

from videoload.reading.containers import UnreadableError, open_container, packets, video_stream
from videoload.reading.frame_decoder import REFUSALS
from videoload.sound.timeline import Placing, first_sample
from videoload.storage.files import Tick, VideoFile

if TYPE_CHECKING:
    from av.audio.codeccontext import AudioCodecContext
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.stream import VideoStream

    SoundPacket = Packet[AudioStream]


# So much sound is decoded before a clip, for what decoders carry over. MP3 refers to some hundred
# bytes before a packet: up to a quarter of a second at 8 kbit/s, and filters follow.
_BEFORE_S, _BEFORE_LOW_MP3_S = Fraction(1, 4), Fraction(3, 4)
_LOW_RATE = 32_000  # samples a second: MP3 has its low rates below it
_AFTER_S = 1  # a packet that begins so long after a clip has nothing of it
_HEADERS_TELL = (".avi", ".mp4", ".m4v", ".mov")
_MOST_PROBED = 256  # packets at the beginning of a file
_OWN = " channels ("  # in FFmpeg's name of a layout with an order of its own
# FFmpeg's order of channels in a layout.
_ORDER = ("FL", "FR", "FC", "LFE", "BL", "BR", "FLC", "FRC", "BC", "SL", "SR")


class UndecodableError(UnreadableError):
    """The sound of this clip cannot be decoded; that of others may."""


class NotSoughtError(Exception):
    """The container does not find the place: read from the beginning."""


class Track:
    """The sound of a file that it opens, for one clip.

    Attributes:
        has_sound: Whether there is any. If not, nothing can be decoded.
        order: Which of the decoded channels is the first, the second, ... of the layout.
    """

    def __init__(self, file: VideoFile) -> None:
        """Raises UnreadableError."""
        self._container = _open(file)
        self._decoded: list[AudioFrame] = []  # of the packets at the beginning
        self._grid: tuple[int, int] | None = None
        self._refused = 0
        try:
            self.has_sound = self._find(video_stream(self._container, file))
        except BaseException as error:
            self.close()
            if isinstance(error, REFUSALS):
                raise UnreadableError(f"has sound that cannot be read ({error})") from None
            raise

    def _find(self, video: VideoStream) -> bool:
        container = self._container
        stream = cast("AudioStream | None", container.streams.best("audio", related=video))
        if stream is None:
            return False
        if stream.codec_context is None:
            raise UnreadableError("has sound in a codec that FFmpeg does not know")
        self._stream, self._context = stream, stream.codec_context
        self.order = _set_up(self._context)
        self._rate = self._context.sample_rate
        self._base = stream.time_base or Fraction(1, 1000)
        for other in container.streams:
            if other is not stream:
                other.discard = Discard.all
        self._following, self._first = self._packets(), stream.start_time
        is_avi = container.format.name == "avi"
        if is_avi:  # what it states is not when its first packet begins
            packets = [*islice(self._following, 1)]
            self._following = chain(packets, self._following)
            self._first = packets[0].pts if packets else None
        tick = self._base * (self._context.sample_rate or 1)
        if tick != 1 and not (is_avi and tick.denominator == 1):  # times are rounded
            self._probe()
        return True

    def _packets(self) -> Iterator[SoundPacket]:
        """The packets from where the file stands."""
        stream = cast("VideoStream", self._stream)  # any kind will do
        return cast("Iterator[SoundPacket]", packets(self._container, stream))

    def _probe(self) -> None:
        """Decode the first two pieces: they tell where whole pieces begin."""
        frames = self._decoded
        for packet in islice(self._following, _MOST_PROBED):
            if self._first is None:
                self._first = packet.pts
            frames += self._decode(packet)
            if len(frames) >= 2:
                break
        if len(frames) >= 2 and frames[0].pts is not None:
            begins = first_sample(frames[0].pts * self._base, frames[0].sample_rate)
            self._grid = begins + frames[0].samples, frames[1].samples

    def placing(self, rate: int) -> Placing:
        """Where its pieces begin, in samples at this rate."""
        return Placing(self._base * rate, self._grid)

    def decode(
        self, begin: Fraction, end: Fraction, tick: Tick, *, seek: bool
    ) -> Generator[AudioFrame]:
        """The pieces of sound from before ``begin`` until after ``end``, in seconds. Without
        ``seek``, all that comes before is read. Raises NotSoughtError, UndecodableError."""
        is_low = self._context.name.startswith("mp3") and self._rate < _LOW_RATE
        before_s = _BEFORE_LOW_MP3_S if is_low else _BEFORE_S
        wanted, last = ((at // self._base) for at in (begin - before_s, end + _AFTER_S))
        frames, came = self._decoded, 0
        try:
            for packet in chain(self._from(wanted, seek=seek), (None,)):
                tick()
                if packet is not None and packet.pts is not None and packet.pts > last:
                    break
                frames += self._decode(packet)
                came += len(frames)
                while frames:
                    yield frames.pop(0)
        except REFUSALS as error:
            raise UndecodableError(f"has sound here that cannot be read ({error})") from None
        if self._refused and not came:
            raise UndecodableError("has sound here that cannot be decoded")

    def _from(self, wanted: int, *, seek: bool) -> Iterator[SoundPacket]:
        """The packets from the last one at or before ``wanted`` on."""
        if seek and (self._first is None or self._first < wanted):
            try:
                self._container.seek(wanted, stream=self._stream)
            except REFUSALS:
                raise NotSoughtError from None
            if self._decoded:
                self._context.flush_buffers()
                self._decoded.clear()
            self._following = self._packets()
        else:
            seek = False
        held: list[SoundPacket] = []  # a packet, and those behind it that have no time
        later: list[SoundPacket] = []
        for packet in self._following:
            if packet.pts is not None and packet.pts > wanted:
                later = [packet]
                break
            if packet.pts is not None:
                held.clear()
            held.append(packet)
        if seek and not held:
            raise NotSoughtError
        return chain(held, later, self._following)

    def _decode(self, packet: SoundPacket | None) -> list[AudioFrame]:
        """The pieces of a packet, none if it is refused; of None, those that are held back."""
        try:
            return self._context.decode(packet)
        except REFUSALS:
            self._refused += 1
            return []

    def close(self) -> None:
        """Close the file."""
        self._container.close()


def _set_up(context: AudioCodecContext) -> list[int] | slice:
    """Returns the `Track.order`. Raises UnreadableError."""
    context.thread_type = "NONE"
    context.thread_count = 1
    # PyAV frees what a layout with an order of its own refers to with each object that it makes of
    # it. So it is asked for once, and the decoder is told another one before that object goes.
    layout = context.layout
    if _OWN not in layout.name:
        return slice(None)
    names = [channel.name for channel in layout.channels]
    usual = sorted(names, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))
    try:
        told = AudioLayout("+".join(usual))
    except REFUSALS:
        told = layout
    is_known = _OWN not in told.name
    context.layout = told if is_known else "mono"
    if not is_known:
        raise UnreadableError(f"has sound with an unknown layout: {layout.name}")
    return [names.index(name) for name in usual]


def _open(file: VideoFile) -> InputContainer:
    """Open a file. To decode its first picture, as FFmpeg does, would take longer than the sound:
    an AVI and an MP4 with one track of sound have all that is needed in their headers."""
    if file.path[-4:].lower() in _HEADERS_TELL:
        with suppress(UnreadableError, *REFUSALS):
            container = open_container(file, decodes=False)
            if _headers_tell(container):
                return container
            container.close()
    return open_container(file)


def _headers_tell(container: InputContainer) -> bool:
    sounds = container.streams.audio
    is_avi = container.format.name == "avi"
    if len(sounds) > 1 or not (is_avi or container.format.name.startswith("mov")):
        return False
    contexts = [stream.codec_context for stream in sounds]
    return all(context is None or context.sample_rate for context in contexts)

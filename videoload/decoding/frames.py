"""Frames of a video by their numbers.

**First strictly.** Decoding begins at the last key frame at or before the wanted frame, and counts
on. The packet found there must be the right one, and a key frame must come out of it. The decoder
refuses everything that is not as it should be. While it has no complaint, all ways to a frame give
the same pixels.

**After a complaint, one canonical route**: a fresh, tolerant decoder begins at that key frame, or
at the beginning of a file that proves nothing. It skips what it refuses and keeps what it repairs.
A picture that it refuses keeps its number and shows the picture before it. Each key frame gets its
own decoder, because a decoder that has met damage may decode sound pictures wrongly after it.

So what comes out depends on the bytes of the file alone, and not on what was decoded before or by
which worker. Everything runs in one thread, and no frame is kept after the call that uses it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import TYPE_CHECKING

from av.video.frame import VideoFrame

from videoload.index.index import Tick, VideoIndex, checksum, open_video
from videoload.reading.containers import (
    OpenedVideo,
    UnreadableError,
    Video,
    decode_all,
)  # fmt: skip
from videoload.reading.frame_decoder import REFUSALS
from videoload.reading.image_video import checked, unreadable
from videoload.storage.files import VideoFile
from videoload.storage.images import ImageFolder

if TYPE_CHECKING:
    from videoload.reading.frame_decoder import VideoPacket

Use = Callable[[int, VideoFrame], None]

# Decoders that do not complain of some damaged pictures, and show in them what their memory held
# before, or go on with what the pictures before a key frame left behind.
_CARRY_OVER = {
    "ffv1", "ffvhuff", "hevc", "huffyuv", "magicyuv", "msmpeg4", "msmpeg4v1", "msmpeg4v2",
    "utvideo", "vp8", "vp9",
}  # fmt: skip
_MAX_GROUPS = 64  # are searched for a picture in the place of one that is refused


class StaleIndexError(Exception):
    """The file is not the one that the index was made from."""


class _ComplaintError(Exception):
    """The index or the strict decoder has a complaint."""


@dataclass(slots=True)
class Position:
    """Where an open file and its strict decoder stand, so that reading can go on from there.

    ``at``: ordinal of the next frame, -1 if unknown. ``began``: the frame at which the decoder
    began. ``number``: of the next packet. ``held``: packets in the decoder, which a later packet
    may precede in display order; at most ``may_hold`` of them until the first frame comes out.
    ``frames``: those that came out and were not passed yet.
    """

    at: int
    may_hold: int
    began: int = 0
    number: int = 0
    held: int = 0
    frames: list[VideoFrame] = field(default_factory=list)

    @classmethod
    def of(cls, opened: Video) -> Position:
        """Of a file that was opened now, or of one that was used in an unknown way."""
        return cls(-1 if opened.used else 0, int(opened.decoder.context.has_b_frames))


def read_frames(
    opened: Video,
    index: VideoIndex,
    wanted: list[int],
    use: Use,
    tick: Tick,
    also: Collection[int] = (),
    position: Position | None = None,
) -> bool:
    """Call ``use`` with each frame of these ordinals (rising), in one pass over the file. After a
    complaint, call it again with all of them. Returns whether there was no complaint, so that
    ``opened`` may be used again. ``also``: further frames, used only if there is no complaint.
    ``position``: where ``opened`` stands, and afterwards where it then stands.

    Raises UnreadableError if no frame comes out, StaleIndexError if it is not the file indexed.
    """
    if isinstance(opened.file, ImageFolder):
        use = checked(opened.file, index.info, use)
    try:
        left = deque(sorted({*wanted, *also}))
        _read_strictly(opened, index, left, use, tick, position or Position.of(opened))
    except (_ComplaintError, *REFUSALS):
        opened.close()
        read_canonically(opened.file, index, wanted, use, tick)
        return False
    return True


def read_canonically(
    file: VideoFile, index: VideoIndex, wanted: list[int], use: Use, tick: Tick
) -> None:
    """Do what `read_frames` does, by the canonical route."""
    if index.is_proven:
        _read_groups(file, index, wanted, use, tick)
    else:
        _read_from_the_beginning(file, index, deque(wanted), use, tick)


def _read_strictly(
    opened: Video, index: VideoIndex, left: deque[int], use: Use, tick: Tick, position: Position
) -> None:
    """Skips what lies between a wanted frame and the key frame before the next wanted one. Raises
    _ComplaintError, or one of `REFUSALS`."""
    anew = index.is_proven and opened.decoder.context.name in _CARRY_OVER  # at each key frame
    at, may_hold, began = position.at, position.may_hold, position.began
    number, held, frames = position.number, position.held, position.frames
    a_frame_a_packet = index.gives_a_frame_a_packet
    while left:
        target = left[0]
        start = index.keyframe_before(target)
        # The decoder holds some packets already; after a seek it would have to decode them again.
        if start is not None and (
            not 0 <= at <= target or start.ordinal > at + held or (anew and start.ordinal > began)
        ):
            packet = opened.go_to(start, start.packet - number if at >= 0 else -1)
            if packet is None:
                raise _ComplaintError
            at = began = start.ordinal
            number = start.packet
            if anew:
                opened.decoder.renew()
            frames, taken, held = _begin(opened, index, packet, number, tick)
            number += taken
            may_hold = int(opened.decoder.context.has_b_frames)  # as the decoder knows by now
            if a_frame_a_packet and held > may_hold:
                raise _ComplaintError  # it has dropped a picture silently
        elif not 0 <= at <= target:
            raise _ComplaintError
        while at <= target:
            if not frames:
                if (packet := next(opened.packets, None)) is None:
                    raise _ComplaintError
                if not a_frame_a_packet and packet.size:
                    packet.opaque = number
                frames = opened.decoder.decode(packet)
                number += 1
                held += 1 - len(frames)
                tick()
                is_odd = a_frame_a_packet and len(frames) != 1 and packet.size
                if is_odd and (at or held > may_hold):
                    raise _ComplaintError
                continue
            if index.sums is not None:
                if at == target and checksum(frames[0]) != index.sums[at]:
                    raise _ComplaintError
            elif frames[0].is_corrupt or not (
                a_frame_a_packet or _is_in_order(index, at, frames[0])
            ):
                raise _ComplaintError
            if at == target:
                use(left.popleft(), frames[0])
            frames.pop(0)
            at += 1
    position.at, position.may_hold, position.began = at, may_hold, began
    position.number, position.held, position.frames = number, held, frames


def _is_in_order(index: VideoIndex, ordinal: int, frame: VideoFrame) -> bool:
    """Whether this frame should come now, as far as the number of its packet tells."""
    packet = frame.opaque
    return isinstance(packet, int) and index.ordinal(packet) == ordinal


def _begin(
    opened: Video, index: VideoIndex, packet: VideoPacket, number: int, tick: Tick
) -> tuple[list[VideoFrame], int, int]:
    """Decode from a key frame's packet until the key frame comes out. Returns the frames from it
    on, how many packets that took, and how many of them the decoder still holds."""
    dropped = 0
    for taken, following in enumerate(chain((packet,), opened.packets), 1):
        if not index.gives_a_frame_a_packet and following.size:
            following.opaque = number + taken - 1
        frames = opened.decoder.decode(following)
        tick()
        # Pictures that are shown before the key frame refer to pictures that were not decoded.
        while frames and not frames[0].key_frame:
            if index.gives_a_frame_a_packet:
                raise _ComplaintError
            frames.pop(0)
            dropped += 1
        if frames:
            return frames, taken, taken - dropped - len(frames)
    raise _ComplaintError


def _read_from_the_beginning(
    file: VideoFile, index: VideoIndex, left: deque[int], use: Use, tick: Tick
) -> None:
    """Decode as when the index was made. Raises StaleIndexError, UnreadableError."""
    fresh = OpenedVideo(file, strict=False)
    at = 0
    try:
        for _, frame in decode_all(fresh, tick):  # `enumerate` would keep the frame
            if at == left[0]:
                if index.sums is None or checksum(frame) != index.sums[at]:
                    break
                use(left.popleft(), frame)
                if not left:
                    return
            del frame  # none is kept while the next one is decoded
            at += 1
    finally:
        fresh.close()
    raise StaleIndexError


def _read_groups(
    file: VideoFile, index: VideoIndex, wanted: list[int], use: Use, tick: Tick
) -> None:
    """Decode each group of pictures, from one key frame to the next, by itself. Raises
    UnreadableError."""
    for group, members in groupby(wanted, index.group_of):
        ordinals = list(members)
        came = _show(file, index, group, {ordinal: [ordinal] for ordinal in ordinals}, use, tick)
        if len(came) < len(ordinals) and isinstance(file, ImageFolder):
            raise unreadable(file, ordinals[0], "cannot be decoded")
        places: dict[tuple[int, int], list[int]] = {}
        for ordinal in sorted(set(ordinals).difference(came)):
            before = bisect_left(came, ordinal) - 1
            shown = (group, came[before]) if before >= 0 else _near(file, index, group, tick)
            places.setdefault(shown, []).append(ordinal)
        for (other, shown_ordinal), missing in places.items():
            _show(file, index, other, {shown_ordinal: missing}, use, tick)


def _near(file: VideoFile, index: VideoIndex, group: int, tick: Tick) -> tuple[int, int]:
    """Group and ordinal of the last picture before a group, or else of the first from it on. Raises
    UnreadableError."""
    for other in range(group - 1, max(-1, group - 1 - _MAX_GROUPS), -1):
        if came := _decodable(file, index, other, tick):
            return other, came[-1]
    for other in range(group, min(len(index.keyframes), group + _MAX_GROUPS)):
        if came := _decodable(file, index, other, tick):
            return other, came[0]
    raise UnreadableError("has no frame that can be decoded")


def _decodable(file: VideoFile, index: VideoIndex, group: int, tick: Tick) -> list[int]:
    """The first and the last frame that come out of a group, or none. The answer is kept: it takes
    long, and each clip of a damaged part needs it."""
    if group not in index.decodable:
        came = _show(file, index, group, {}, _ignore, tick)
        index.decodable[group] = [*came[:1], *came[-1:]]
    return index.decodable[group]


def _ignore(ordinal: int, frame: VideoFrame) -> None:
    pass


def _show(
    file: VideoFile,
    index: VideoIndex,
    group: int,
    places: Mapping[int, Sequence[int]],
    use: Use,
    tick: Tick,
) -> list[int]:
    """Decode a group of pictures. Call ``use`` for each frame in ``places`` with the ordinals that
    it stands for. Returns the ordinals that came out, rising."""
    start, end = index.keyframe(group), index.end(group)
    last = max(places, default=end - 1)
    came: list[int] = []
    fresh = open_video(file, index, strict=False)
    try:
        first = fresh.go_to(start)
        if first is None:
            return came
        packets = chain((first,), fresh.packets)
        for mark, frame in decode_all(fresh, tick, packets, start.packet):
            ordinal = -1 if mark is None else index.ordinal(mark.number)
            if ordinal > (came[-1] if came else start.ordinal - 1) and ordinal < end:
                came.append(ordinal)
                for place in places.get(ordinal, ()):
                    use(place, frame)
            del frame  # none is kept while the next one is decoded
            if ordinal >= last:
                break
    finally:
        fresh.close()
    return came

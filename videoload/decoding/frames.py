"""Frames of a video by their numbers.

**Strictly first.** Decoding begins at the last key frame at or before the frame wanted (the packet
that is found there must be the one meant, and a key frame must come out of it), and counts on. The
decoder is told to refuse whatever is not as it should be. As long as it complains of nothing, all
ways to a frame give the same pixels.

**Where it complains, one canonical route**: a fresh, tolerant decoder from the file's beginning. It
skips what it cannot take, keeps what it repairs, and the end of what can be read is the end of the
video. A picture that it refuses keeps its number and shows the one before it.

So what comes out depends on the bytes of the file alone: not on what was decoded before, nor by
whom. Everything runs in one thread, and no frame is kept beyond the call that it is given to.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from itertools import chain, count, islice
from typing import TYPE_CHECKING, cast

from av.video.frame import VideoFrame

from videoload.decoding.index import KeyFrame, Tick, VideoIndex, checksum
from videoload.decoding.open_files import REFUSALS, OpenedVideo, UnreadableError

if TYPE_CHECKING:
    from videoload.decoding.open_files import VideoPacket

Use = Callable[[int, VideoFrame], None]

_NEAR = 4  # packets that are read on sooner than sought across


class StaleIndexError(Exception):
    """The file is not the one that the index was made from."""


class _ComplaintError(Exception):
    """Something is not as index and strict decoder would have it."""


def read_frames(
    opened: OpenedVideo, index: VideoIndex, wanted: list[int], use: Use, tick: Tick
) -> bool:
    """Call ``use`` with each of the frames of these ordinals (rising), in one pass over the file;
    once more with all of them where the first pass met with a complaint. Returns whether none was
    met, so that ``opened`` may be used again.

    Raises UnreadableError if no frame comes out, StaleIndexError if it is not the file indexed.
    """
    try:
        _read_strictly(opened, index, deque(wanted), use, tick)
    except (_ComplaintError, *REFUSALS):
        _read_canonically(opened, index, wanted, use, tick)
        return False
    return True


def _read_strictly(
    opened: OpenedVideo, index: VideoIndex, left: deque[int], use: Use, tick: Tick
) -> None:
    """Raises _ComplaintError, or one of `REFUSALS`.

    What lies between a wanted frame and the key frame before the next wanted one is not decoded.
    """
    if not opened.used:
        opened.codec.copy_opaque = index.ordinals is not None
    at = -1 if opened.used else 0  # ordinal of the next frame; -1: who knows
    number = 0  # of the next packet
    held = 0  # packets that the decoder holds back, since a later picture may be shown earlier
    frames: list[VideoFrame] = []
    a_frame_a_packet = index.gives_a_frame_a_packet
    may_hold = opened.codec.has_b_frames  # the first
    while left:
        target = left[0]
        start = index.keyframe_before(target)
        # The decoder has done those already; after a seek it would have to take as many anew.
        if start is not None and (at < 0 or start.ordinal > at + held):
            near = at >= 0 and start.ordinal - at - held <= _NEAR
            first = (_read_on(opened, start, _NEAR) if near else None) or _go_to(opened, start)
            at, number = start.ordinal, start.packet
            frames, taken, held = _begin(opened, index, first, number, tick)
            number += taken
        elif at < 0:
            raise _ComplaintError
        while at <= target:
            if not frames:
                if (packet := next(opened.packets, None)) is None:
                    raise _ComplaintError
                if index.ordinals is not None:
                    packet.opaque = number
                frames = opened.decode(packet)
                number += 1
                held += 1 - len(frames)
                tick()
                if a_frame_a_packet and len(frames) != 1 and packet.size and (at or not may_hold):
                    raise _ComplaintError
                continue
            if frames[0].is_corrupt or not _is_in_order(index, at, frames[0]):
                raise _ComplaintError
            if at == target:
                use(left.popleft(), frames[0])
            frames.pop(0)
            at += 1


def _is_in_order(index: VideoIndex, ordinal: int, frame: VideoFrame) -> bool:
    """Whether a frame is the one that should come now, as far as the index can tell."""
    if index.ordinals is not None:
        return bool(index.ordinals[cast(int, frame.opaque)] == ordinal)
    return index.sums is None or checksum(frame) == index.sums[ordinal]


def _read_on(opened: OpenedVideo, start: KeyFrame, most: int | None) -> VideoPacket | None:
    """The packet of a key frame that is still to come, one of the next ``most`` or any. The decoder
    does not see those before it, so it has to begin anew."""
    if opened.codec.is_open:
        opened.codec.flush_buffers()
    following = islice(opened.packets, None if most is None else most + 1)
    return next((packet for packet in following if packet.pos == start.position), None)


def _go_to(opened: OpenedVideo, start: KeyFrame) -> VideoPacket:
    """The packet of a key frame: by a seek, or where that leads elsewhere (a file without an index)
    by reading on from the beginning."""
    try:
        opened.seek(start.time)
        packet = next(opened.packets, None)
        while packet is not None and packet.size and (packet.pos or 0) < start.position:
            packet = next(opened.packets, None)
    except REFUSALS:
        packet = None
    if packet is not None and packet.pos == start.position:
        return packet
    copy_opaque = opened.codec.copy_opaque
    opened.reopen()
    opened.codec.copy_opaque = copy_opaque
    packet = _read_on(opened, start, None)
    if packet is None:
        raise _ComplaintError
    return packet


def _begin(
    opened: OpenedVideo, index: VideoIndex, packet: VideoPacket, number: int, tick: Tick
) -> tuple[list[VideoFrame], int, int]:
    """Decode from a key frame's packet on until it comes out: the frames from it on, how many
    packets that took, and how many of them the decoder holds back then."""
    dropped = 0
    for taken, following in enumerate(chain((packet,), opened.packets), 1):
        if index.ordinals is not None and following.size:
            following.opaque = number + taken - 1
        frames = opened.decode(following)
        tick()
        # What is shown before the key frame, and refers to what was not decoded.
        while frames and not frames[0].key_frame:
            if index.gives_a_frame_a_packet:
                raise _ComplaintError
            frames.pop(0)
            dropped += 1
        if frames:
            return frames, taken, taken - dropped - len(frames)
    raise _ComplaintError


def _read_canonically(
    opened: OpenedVideo, index: VideoIndex, wanted: list[int], use: Use, tick: Tick
) -> None:
    """Raises UnreadableError, StaleIndexError."""
    opened.close()
    shown = _show(opened, index, {ordinal: [ordinal] for ordinal in wanted}, use, tick)
    missing = [ordinal for ordinal in wanted if ordinal not in shown]
    if not missing:
        return
    if not index.is_proven:
        raise StaleIndexError
    if not shown:
        raise UnreadableError("has no frame that can be decoded")
    places: dict[int, list[int]] = {}
    for ordinal in missing:
        before = max((other for other in shown if other < ordinal), default=min(shown))
        places.setdefault(before, []).append(ordinal)
    _show(opened, index, places, use, tick)


def _show(
    opened: OpenedVideo, index: VideoIndex, places: dict[int, list[int]], use: Use, tick: Tick
) -> set[int]:
    """Decode from the beginning, and have the frames that are keys of ``places`` used in the places
    of those that are its values; returns the ordinals that came out until that was done."""
    fresh = OpenedVideo(opened.file, strict=False)
    last = max(places)
    shown: set[int] = set()
    number_of = _numbering(index)
    try:
        for mark, frame in fresh.decode_all(tick):
            ordinal = number_of(-1 if mark is None else mark.number)
            if ordinal in shown or not 0 <= ordinal < index.info.frames:
                continue
            shown.add(ordinal)
            for place in places.get(ordinal, ()):
                if index.sums is not None and checksum(frame) != index.sums[ordinal]:
                    raise StaleIndexError
                use(place, frame)
            del frame
            if ordinal >= last:
                break
    finally:
        fresh.close()
    return shown


def _numbering(index: VideoIndex) -> Callable[[int], int]:
    """From the number of a frame's packet (-1: unknown) to its ordinal, frame by frame."""
    counter = count()
    if index.ordinals is not None:
        ordinals = index.ordinals.tolist()
        return lambda packet: ordinals[packet] if 0 <= packet < len(ordinals) else -1
    if not index.is_proven:
        return lambda packet: next(counter)
    if not index.reordered:
        return lambda packet: packet
    # Of a group in which some are refused, the last numbers are those that are missing.
    starts = index.keyframes[:, 1].tolist()
    shown = [0] * (len(starts) + 1)

    def by_group(packet: int) -> int:
        group = bisect_right(starts, packet) - 1
        ordinal = int(starts[group]) + shown[group]
        shown[group] += 1
        end = starts[group + 1] if group + 1 < len(starts) else index.info.frames
        return ordinal if group >= 0 and ordinal < end else -1

    return by_group

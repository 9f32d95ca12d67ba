"""A video file as what it is: a row of frames.

The truth about an AVI file is in none of its headers: frame counts lie, time stamps are made up
and run backwards, key frame flags and indexes are wrong or missing. What holds is the decoder's
output: **frame i is the i-th frame that a complete sequential decode of the file outputs.**

So the first visit to a file decodes it once from end to end and notes (`VideoIndex`) its frame
count, a checksum of every frame, and for each key frame where its packet lies and which ordinal it
came out as. Later visits go to the last key frame at or before the frame wanted, make sure that the
packet found there is the one noted, and count on from its key frame. A frame is handed out only if
its checksum is the one noted; it is checked once for each way that leads to it. Where anything
does not add up, the file is decoded from its start: slower, never wrong.

Damage: a packet that the decoder refuses is skipped, a frame that it repairs is kept, the end of
what can be read is the end of the video. Everything runs in one thread, because on damaged files
the number of threads changes the pixels. So does a frame that is held while the next one is
decoded: some decoders leave in a broken picture what its recycled memory held before. Therefore no
frame is kept here beyond the call it is given to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import chain, islice
from typing import TYPE_CHECKING

from av.video.frame import VideoFrame

from videoload.decoding.index import ROUTES, KeyFrame, Tick, VideoIndex
from videoload.decoding.open_files import (
    REFUSALS,
    OpenedVideo,
    OpenFiles,
    decode,
    open_video,
    packets,
    video_stream,
)
from videoload.decoding.storage import VideoFile

if TYPE_CHECKING:
    from videoload.decoding.open_files import VideoPacket

Frame = VideoFrame
Use = Callable[[int, Frame], None]

# How a decoder came to where it began: as it was made, by a seek after other things, reading on.
_FRESH, _USED, _READ_ON, _WAYS = 0, 1, 2, 3
_NEAR = 4  # packets that are read on sooner than sought across


class StaleIndexError(Exception):
    """The file is not the one that the index was made from."""


def read_frames(
    file: VideoFile, index: VideoIndex, wanted: list[int], use: Use, tick: Tick, files: OpenFiles
) -> None:
    """Call ``use`` with each of the frames of these ordinals (rising), in one pass over the file.
    It may be one of ``files``, and is one of them afterwards if it is sound.

    Raises UnreadableError, and StaleIndexError if the file is not the one indexed.
    """
    left = deque(wanted)
    if index.key_before(wanted[-1]) >= 0:
        opened = files.take(file)
        if opened is not None:
            _visit(opened, index, left, use, tick, files)
        if left:
            _visit(OpenedVideo(file, index.info), index, left, use, tick, files)
        if left:
            index.forbid_seeking()
    if left:
        _from_start(file.path, index, left, use, tick)


def _from_start(path: str, index: VideoIndex, left: deque[int], use: Use, tick: Tick) -> None:
    at = 0
    with open_video(path) as container:
        stream = video_stream(container)
        codec = stream.codec_context
        for packet in packets(container, stream):
            frames = decode(codec, packet)
            tick()
            while frames:
                frame = frames.pop(0)
                if at == left[0]:
                    if not index.agrees(at, frame, ROUTES):
                        raise StaleIndexError
                    use(left.popleft(), frame)
                    if not left:
                        return
                at += 1
                del frame
    raise StaleIndexError


def _visit(
    opened: OpenedVideo, index: VideoIndex, left: deque[int], use: Use, tick: Tick, files: OpenFiles
) -> None:
    sound = False
    try:
        _by_seeking(opened, index, left, use, tick)
        sound = not left and not index.damaged
    finally:
        if sound:
            files.put(opened)
        else:
            opened.close()


def _by_seeking(
    opened: OpenedVideo, index: VideoIndex, left: deque[int], use: Use, tick: Tick
) -> None:
    """As far as seeking goes: ends early where anything is not as the index says.

    What lies between a wanted frame and the key frame before the next wanted one is not decoded.
    """
    way, opened.used = _USED if opened.used else _FRESH, True
    at = -1 if way == _USED else 0  # ordinal of the next frame; -1: who knows
    begun = -1  # the key frame that was gone to last
    within = 0  # packets that the decoder holds back, since a later picture may be shown earlier
    frames: list[VideoFrame] | None = None
    while left:
        target = left[0]
        key = index.key_before(target)
        start = index.starts[key]
        # The decoder has done those already; after a seek it would have to take as many anew.
        if key >= 0 and (at < 0 or start.ordinal > at + within):
            near = at >= 0 and start.ordinal - at - within <= _NEAR
            packet = _read_on(opened, start) if near else None
            if packet is not None:
                way = _READ_ON
            else:
                way = _FRESH if way == _FRESH and at <= 0 else _USED
                packet = _seek(opened, start)
            if packet is None:
                return
            frames, within = _begin(opened, packet, tick)
            if frames is None:
                return
            begun, at = key, start.ordinal
        elif at < 0:
            return
        # What comes out right one way may come out wrong another: of a decoder that began at an
        # earlier key frame, that has done other things before, or whose packets were sought.
        route = _WAYS * (key - begun) + way
        while at <= target:
            if not frames:
                packet = next(opened.packets, None)
                if packet is None:
                    return
                frames = decode(opened.codec, packet)
                within += 1 - len(frames or ())
                tick()
            elif at < target:
                frames.pop(0)
                at += 1
            else:
                frame = frames.pop(0)
                if not index.agrees(at, frame, route):
                    return
                use(left.popleft(), frame)
                at += 1
                del frame


def _read_on(opened: OpenedVideo, key: KeyFrame) -> VideoPacket | None:
    """The packet of a key frame that is one of the next few. The decoder does not see those before
    it, so it has to begin anew."""
    opened.codec.flush_buffers()
    near = islice(opened.packets, _NEAR + 1)
    return next((packet for packet in near if packet.pos == key.position), None)


def _seek(opened: OpenedVideo, key: KeyFrame) -> VideoPacket | None:
    """The packet of a key frame; None where the seek fails or lands on another one."""
    try:
        opened.container.seek(key.dts, stream=opened.stream)
    except REFUSALS:
        return None
    opened.packets = packets(opened.container, opened.stream)
    packet = next(opened.packets, None)
    return None if packet is None or packet.pos != key.position else packet


def _begin(
    opened: OpenedVideo, packet: VideoPacket, tick: Tick
) -> tuple[list[VideoFrame] | None, int]:
    """Decode from a key frame's packet on until it comes out: the frames from it on, and how many
    packets the decoder holds back then. None if it never does."""
    within = 0
    for following in chain((packet,), opened.packets):
        frames = decode(opened.codec, following)
        tick()
        within += 1
        while frames and not frames[0].key_frame:
            frames.pop(0)
            within -= 1
        if frames:
            return frames, within - len(frames)
    return None, 0

"""One complete decode of a file that does not prove its frames: how many there are, and what each
looks like.

If this would take longer than a second, the file is split at packets that the container flags as
key frames, and as many threads as there are cores decode the parts (FFmpeg holds no lock). The
flags may be wrong. So each part is decoded a little beyond its end, and the next part must begin
with the same frames. If it does not, or if a decoder complains, the file is decoded again in one
piece. The result is always that of a sequential decode.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from threading import Event
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from av.video.frame import VideoFrame

from videoload import host
from videoload.index.index import (
    Tick,
    VideoIndex,
    checksum,
    find_index,
    info_of_file,
)
from videoload.index.packets import timing_in
from videoload.reading.containers import (
    OpenedVideo,
    PacketMark,
    UnreadableError,
    decode_all,
)  # fmt: skip
from videoload.reading.display import display_of
from videoload.reading.frame_decoder import REFUSALS
from videoload.reading.image_video import ImageVideo
from videoload.storage.files import VideoFile
from videoload.storage.images import ImageFolder

if TYPE_CHECKING:
    from concurrent.futures import Future

    from videoload.reading.frame_decoder import VideoPacket

Ints = npt.NDArray[np.int64]

_LONG_S = 1.0  # a decode that takes longer is split
_TRIAL_S = 0.2  # of decoding show how long all of it takes
_OVERLAP = 3  # frames, with the key frame, that must be the same in two parts
_POLL_S = 0.05


class Report(NamedTuple):
    """What a complete decode tells people about a file: ``frames`` that came out, ``refused``
    packets, ``repaired`` frames. ``kinds``: the first frame of each kind to be scaled."""

    container: str
    codec: str
    pixels: str
    header_frames: int
    packets: int
    frames: int
    refused: int
    repaired: int
    kinds: list[int]


class _Frame(NamedTuple):
    """A frame that came out, and its packet. Decoding can start there if ``position`` is not -1."""

    packet: int
    time: int
    position: int
    checksum: int
    kind: tuple[object, ...]  # whether it can be scaled depends on this

    @classmethod
    def of(cls, mark: PacketMark, frame: VideoFrame) -> _Frame:
        position = mark.position if frame.key_frame else -1
        kind = frame.width, frame.height, frame.format.name, frame.colorspace, frame.color_range
        return cls(mark.number, mark.time, position, checksum(frame), kind)


_UNMARKED = PacketMark(-1, 0, -1)


class _SplitError(Exception):
    """The file cannot be decoded in parts."""


def decode_index(
    file: VideoFile, tick: Tick, *, threads: int | None = None
) -> tuple[VideoIndex, Report]:
    """Decode the whole file once, with at most ``threads`` (by default one per core).

    Raises UnreadableError if no frame comes out.
    """
    if isinstance(file, ImageFolder):
        return _look_at_images(file, tick)
    threads = host.cores() if threads is None else threads
    opened = OpenedVideo(file, strict=False)
    size, pixels = (0, 0), ""
    frames: list[_Frame] = []
    shown: list[int | None] = []  # when each packet is shown
    repaired = 0
    began = time.monotonic()
    try:
        for mark, frame in decode_all(opened, tick, _noted(opened, shown)):
            if not frames:
                size, pixels = (frame.width, frame.height), frame.format.name
            frames.append(_Frame.of(mark or _UNMARKED, frame))
            repaired += frame.is_corrupt
            del frame
            if threads > 1 and time.monotonic() - began > _TRIAL_S:
                sound = not (repaired or opened.refused)
                in_parts = _in_parts(opened, threads, tick) if sound else None
                threads = 1  # it is tried once
                if in_parts is not None:
                    frames, shown = in_parts
                    opened.taken = len(shown)
                    break
        if not frames:
            raise UnreadableError("has no frame that can be decoded")
        kinds = list({f.kind: i for i, f in reversed([*enumerate(frames)])}.values())
        report = Report(
            opened.container.format.name, opened.stream.codec.name, pixels, opened.stream.frames,
            opened.taken, len(frames), opened.refused, repaired, kinds,
        )  # fmt: skip
        known = [shown[frame.packet] if frame.packet >= 0 else None for frame in frames]
        timing = timing_in(opened, known)
        info = info_of_file(opened, len(frames), size, timing, display_of(opened, tick))
    finally:
        opened.close()
    keyframes = [
        (ordinal, frame.packet, frame.time, frame.position)
        for ordinal, frame in enumerate(frames)
        if frame.position >= 0
    ]
    sums = np.array([frame.checksum for frame in frames], np.int64)
    return VideoIndex(info, np.array(keyframes, np.int64).reshape(-1, 4), sums=sums), report


def _look_at_images(file: ImageFolder, tick: Tick) -> tuple[VideoIndex, Report]:
    index, _ = find_index(file, tick)
    assert index is not None
    video = ImageVideo(file, strict=False)
    kinds: dict[tuple[object, ...], int] = {}
    frames = repaired = 0
    pixels = ""
    for mark, frame in decode_all(video, tick):
        kind = _Frame.of(mark or _UNMARKED, frame).kind
        kinds.setdefault(kind, mark.number if mark else 0)
        pixels = pixels or frame.format.name
        frames += 1
        repaired += frame.is_corrupt
    codec = video.decoder.context.codec.name
    report = Report(
        "images", codec, pixels, len(file.names), video.taken, frames, video.refused, repaired,
        list(kinds.values()),
    )  # fmt: skip
    return index, report


class _Packets(NamedTuple):
    """The packets of a file: positions (-1: unknown), decoding times, flags of key frames, and when
    each is shown."""

    positions: Ints
    times: Ints
    keys: npt.NDArray[np.bool_]
    shown: list[int | None]

    def mark(self, number: int) -> PacketMark:
        """The mark of a packet, as in a pass over the file: after a seek its dts may differ or be
        missing. Raises _SplitError if there is no such packet."""
        if number >= len(self.positions):
            raise _SplitError
        position = self.positions.item(number) if self.keys[number] else -1
        return PacketMark(number, self.times.item(number), position)


def _read_packets(file: VideoFile, tick: Tick) -> _Packets:
    opened = OpenedVideo(file)
    rows: list[tuple[int, int, bool]] = []
    shown: list[int | None] = []
    try:
        for packet in _noted(opened, shown):
            if packet.size:
                position = -1 if packet.pos is None or packet.dts is None else packet.pos
                rows.append((position, packet.dts or 0, packet.is_keyframe))
                tick()
    finally:
        opened.close()
    positions, times, keys = np.array(rows, np.int64).reshape(-1, 3).T.copy()
    return _Packets(positions, times, keys == 1, shown)


def _noted(opened: OpenedVideo, shown: list[int | None]) -> Iterator[VideoPacket]:
    """The packets of a file. Notes when each is ``shown``."""
    for packet in opened.packets:
        if packet.size:
            shown.append(opened.display_time(packet))
        yield packet


def _in_parts(
    opened: OpenedVideo, threads: int, tick: Tick
) -> tuple[list[_Frame], list[int | None]] | None:
    """All frames of a file, and when each of its packets is shown; None if it cannot be decoded in
    parts. ``opened`` has decoded for `_TRIAL_S`."""
    from concurrent.futures import ThreadPoolExecutor  # few processes need it

    table = _read_packets(opened.file, tick)
    packets = len(table.positions)
    if opened.taken * _LONG_S >= packets * _TRIAL_S:
        return None  # it does not take long
    starts = _split(table, threads)
    if len(starts) < 2:
        return None
    ends = [*starts[1:], packets]
    counted: deque[None] = deque()  # one for each packet that a thread has decoded
    stopped = Event()
    with ThreadPoolExecutor(len(starts), "videoload-decode") as pool:
        parts = [
            pool.submit(_decode_part, opened.file, table, start, end, counted, stopped)
            for start, end in zip(starts, ends, strict=True)
        ]
        try:
            done = False
            while not done:
                done = _are_done(parts)
                while counted:
                    counted.popleft()
                    tick()
        finally:
            stopped.set()
    frames: list[_Frame] = []
    for part in parts:
        if part.exception() is not None:
            return None
        told = part.result()
        shared = frames[-_OVERLAP:] if frames else []
        if [frame.checksum for frame in told[: len(shared)]] != [f.checksum for f in shared]:
            return None
        frames = frames[: len(frames) - len(shared)] + told
    return frames, table.shown


def _are_done(parts: list[Future[list[_Frame]]]) -> bool:
    from concurrent.futures import FIRST_EXCEPTION, wait

    return not wait(parts, _POLL_S, FIRST_EXCEPTION).not_done or any(
        part.done() and part.exception() is not None for part in parts
    )


def _split(table: _Packets, parts: int) -> list[int]:
    """The packets to begin at: the first, and flagged key frames that make nearly equal parts."""
    keys = np.flatnonzero(table.keys & (table.positions >= 0))
    wanted = np.arange(1, parts) * len(table.positions) // parts
    at = keys[np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)] if len(keys) else keys
    return sorted({0, *at.tolist()})


def _decode_part(
    file: VideoFile, table: _Packets, start: int, end: int, counted: deque[None], stopped: Event
) -> list[_Frame]:
    """The frames from the one of packet ``start`` to the one of packet ``end``, and `_OVERLAP`
    more. Raises _SplitError if anything is not as it should be."""
    opened = OpenedVideo(file)
    try:
        return list(_frames_of_part(opened, table, start, end, counted, stopped))
    except REFUSALS as error:
        raise _SplitError from error
    finally:
        opened.close()


def _frames_of_part(
    opened: OpenedVideo, table: _Packets, start: int, end: int, counted: deque[None], stopped: Event
) -> Iterator[_Frame]:
    if start:
        opened.seek(int(table.times[start]))
    begun, left = start == 0, _OVERLAP
    number, sent = start, _UNMARKED
    for packet in opened.packets:
        if number == start and packet.size and packet.pos != table.positions[start]:
            raise _SplitError
        if packet.size:
            sent = packet.opaque = table.mark(number)
            number += 1
        frames = opened.decoder.decode(packet)
        counted.append(None)
        if stopped.is_set():
            raise _SplitError
        while frames:
            frame = frames.pop(0)
            mark = sent if opened.decoder.shows_at_once else cast("PacketMark | None", frame.opaque)
            if mark is None or frame.is_corrupt:
                raise _SplitError
            begun = begun or mark.number == start
            if not begun:
                continue
            left -= left < _OVERLAP or mark.number == end
            yield _Frame.of(mark, frame)
            del frame
            if not left:
                return
    if left and end < len(table.positions):
        raise _SplitError

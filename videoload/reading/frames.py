"""Read frames of a video by number.

A frame has the number that the order of the file gives to its packet. Output of a decoder is never
counted.

**First strictly.** Decoding begins at the last keyframe at or before the requested frame, and the
decoder rejects all damage. A frame is right if all packets up to its own have output their frames,
and none of them is damaged: a damaged picture may be output after the pictures that refer to it,
which are not marked. While there is no complaint, all ways to a frame give the same pixels.

**Non-reference pictures are skipped** if they are not requested. Nothing else changes without them,
as long as nothing is damaged.

**After a complaint, one canonical route**: for each GOP, a new, tolerant decoder decodes the
packets from its keyframe to that of the requested frame, and skips all non-reference pictures,
except a requested one, which is decoded as if alone. It skips rejected packets and uses repaired
pictures. A rejected picture still counts, and shows the previous one that was output. If only a
complete decode gave the order, the route begins at the beginning of the file, and each frame must
have its checksum.

So what is decoded depends on the bytes of the file alone, and not on what was decoded before or by
which worker. Everything runs in one thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING

from av.video.frame import VideoFrame

from videoload.bitstreams.h264 import is_non_reference
from videoload.reading.containers import BrokenFileError
from videoload.reading.frame_decoder import REFUSALS, checksum
from videoload.reading.order import FrameTable
from videoload.reading.video import VideoReader, decode_packets
from videoload.storage.files import Tick

if TYPE_CHECKING:
    from videoload.reading.frame_decoder import VideoPacket

Use = Callable[[int, VideoFrame], None]  # takes a frame by its ordinal

# Decoders that report damaged pictures, and never show old content of their memory, or remains of
# pictures before a keyframe. So they continue at another keyframe, and their frames may be held
# while they decode. All others are rebuilt for each GOP, and hold none.
_CLEAN = {"h264", "libdav1d", "mjpeg", "rawvideo"}
_AT_ONCE, _EARLIER = 16, 8  # packets behind a start, and starts before it
_MAX_GROUPS = 64  # are searched for a picture in the place of one that is refused


class StaleIndexError(Exception):
    """The file is not the indexed one."""


class _ComplaintError(Exception):
    """The index or the strict decoder has a complaint."""


class ReadPosition:
    """Where reading has ended in an open file, so that it can resume there."""

    def __init__(self) -> None:
        self.video: VideoReader | None = None
        self.group, self.at = -2, 0  # no group; the next frame in it
        self.frames: Iterator[tuple[int, VideoFrame]] = iter(())


def read_frames(
    opened: VideoReader,
    order: FrameTable,
    wanted: list[int],
    use: Use,
    tick: Tick,
    extra: Collection[int] = (),
    position: ReadPosition | None = None,
) -> bool:
    """Call ``use`` with each frame of these ordinals (increasing), in one pass over the file. After
    a complaint, call it again with all of them. Returns whether there was no complaint, so that
    ``opened`` may be used again.

    ``extra``: further frames, used only if there is no complaint. ``position``: where the last call
    has ended. Raises BrokenFileError if there is no frame, StaleIndexError if it is not the indexed
    file.
    """
    places = [None] if position is None else [position, None]
    try:
        for place in places:
            with suppress(_ComplaintError, *REFUSALS):
                _read_strictly(opened, order, sorted({*wanted, *extra}), use, tick, place)
                return True
        if position is not None:
            position.video = None
        opened.close()
        read_canonically(opened, order, wanted, use, tick)
        return False
    finally:
        opened.file.check()  # it was not rewritten meanwhile


def _read_strictly(
    video: VideoReader,
    order: FrameTable,
    wanted: list[int],
    use: Use,
    tick: Tick,
    position: ReadPosition | None,
) -> None:
    """Raise _ComplaintError, or one of `REFUSALS`."""

    def checked(ordinal: int, frame: VideoFrame) -> None:
        assert order.sums is not None
        if checksum(frame) != order.sums[ordinal]:
            raise _ComplaintError
        use(ordinal, frame)

    take = use if order.is_proven else checked
    if position is None:
        for group, ordinals, gaps in _runs(video, order, wanted):
            _read_run(video, order, group, ordinals, gaps, take, tick)
        return
    for group, members in groupby(wanted, order.group_of):
        ordinals = list(members)
        is_here = position.video is video and position.group == group
        if not is_here or position.at > ordinals[0]:
            every, last = order.members(group), order.last_packet(group)
            position.video, position.group, position.at = video, group, every.start
            position.frames = _show_group(video, order, group, last, every, tick)
        for ordinal in ordinals:
            while position.at <= ordinal:
                if (found := next(position.frames, None)) is None:
                    raise _ComplaintError
                position.at = found[0] + 1
                if found[0] == ordinal:
                    take(*found)
                del found
            if position.at != ordinal + 1:
                raise _ComplaintError


def _runs(
    video: VideoReader, order: FrameTable, wanted: list[int]
) -> Iterator[tuple[int, list[int], list[range]]]:
    """Yield the frames that are decoded together: the GOP where they begin, their ordinals, and the
    packets between that are skipped. They are of one GOP; but a keyframe of MPEG-4 without B-VOPs
    needs no flushed decoder, so there they include following GOPs (to flush it three times takes 2
    % of UCF-101's clips)."""
    goes_on = order.is_proven and order.ordinals is None and video.decoder.context.name == "mpeg4"
    run: tuple[int, list[int], list[range]] | None = None
    before = -2
    for group, members in groupby(wanted, order.group_of):
        if run is not None and goes_on and group == before + 1:
            run[2].append(range(run[1][-1] + 1, order.start(group).packet))
            run[1].extend(members)
        else:
            if run is not None:
                yield run
            run = group, list(members), []
        before = group
    if run is not None:
        yield run


def _read_run(
    video: VideoReader,
    order: FrameTable,
    group: int,
    ordinals: list[int],
    gaps: list[range],
    take: Use,
    tick: Tick,
) -> None:
    """Read frames of a run. At some recovery points of H.264 a strict decoder complains at once:
    it has to forget what it has never seen. Then it begins at an earlier one. (The DV decoder
    takes some damaged pictures only after others, so elsewhere that would be a way of its own.)
    Raises _ComplaintError, or one of `REFUSALS`."""
    earlier = _EARLIER if video.decoder.context.name == "h264" else 0
    last, least = max(map(order.packet, ordinals)), max(0, group - earlier)
    for begin in range(group, least - 1, -1) or (group,):
        try:
            shown = _show_group(video, order, begin, last, set(ordinals), tick, gaps)
            for ordinal, frame in shown:
                take(ordinal, frame)
                del frame
            return
        except (_ComplaintError, *REFUSALS):
            if begin <= least or video.number > order.start(begin).packet + _AT_ONCE:
                raise


def _show_group(
    video: VideoReader,
    order: FrameTable,
    group: int,
    last: int,
    wanted: Collection[int],
    tick: Tick,
    gaps: Sequence[range] = (),
) -> Iterator[tuple[int, VideoFrame]]:
    """Decode a GOP from its keyframe to packet ``last``, without the packets in the ``gaps``, and
    output all frames of these packets.

    Non-reference pictures that are not requested are not decoded. A tolerant decoder gives all
    others. A strict one outputs the requested frames (if it `_is_clean`, each when all packets
    before its own have output theirs or were skipped); if one is damaged or missing, it raises
    _ComplaintError or one of `REFUSALS`.
    """
    start, proven = order.start(group), order.is_proven
    first, decoder = video.seek_to_keyframe(start, last), video.decoder
    strict = decoder.is_strict
    if first is None or last < start.packet:
        if strict:
            raise _ComplaintError
        return
    is_clean = _is_clean(decoder.context.name, order)
    if proven and decoder.used and not is_clean:
        decoder.renew()
    # packets whose frames were output, or will not be
    came = order.leading(start, last).union(*gaps)
    complete = start.packet  # all packets before it have given their frames
    # requested frames that were output, by packet
    left: deque[tuple[int, int, VideoFrame]] = deque()
    missing = len(wanted)
    packets: Iterator[VideoPacket] = chain((first,), _up_to(last, video, gaps))
    if order.non_reference is not None or decoder.context.name == "h264":
        packets = _needed(video, order, packets, wanted, came)
    for number, frame in decode_packets(video, packets, tick):
        ordinal = order.ordinal(number)
        if ordinal >= start.ordinal:  # others may refer to pictures before the keyframe
            if not strict:
                if number not in came:
                    yield ordinal, frame
            elif proven and (frame.is_corrupt or number in came):
                raise _ComplaintError
            elif ordinal in wanted:
                left.append((number, ordinal, frame))
            came.add(number)
        del frame
        while complete in came:
            complete += 1
        while left and (not proven or not is_clean or left[0][0] < complete):
            missing -= 1
            yield left.popleft()[1:]
    if strict and (missing or (proven and complete <= last)):
        raise _ComplaintError


def _up_to(last: int, video: VideoReader, gaps: Iterable[range]) -> Iterator[VideoPacket]:
    """Yield the packets up to number ``last``, without those in the gaps."""
    for gap in gaps:
        yield from islice(video.packets, gap.start - video.number)
        next(islice(video.packets, len(gap), len(gap)), None)
        video.number = gap.stop
    yield from islice(video.packets, last + 1 - video.number)


def _is_clean(codec: str, order: FrameTable) -> bool:
    """Return whether a decoder is one of `_CLEAN`. FFmpeg's MPEG-4 counts how often pictures ended
    without padding, and then takes a wrong end for a right one; of undamaged pictures, only B-VOPs
    end so. (Where there are none, a new decoder for each group would cost 4 % of UCF-101's
    clips.)"""
    return codec in _CLEAN or (codec == "mpeg4" and order.ordinals is None)


def _needed(
    video: VideoReader,
    order: FrameTable,
    packets: Iterable[VideoPacket],
    wanted: Collection[int],
    left_out: set[int],
) -> Iterator[VideoPacket]:
    """Yield the packets without unwanted non-reference pictures; their numbers are added to
    ``left_out``. Leading pictures of H.264 are in it before: they may lack references."""
    decoder, until = video.decoder, -1  # packets before this number are left out
    codec, extradata = decoder.context.name, decoder.parameters.get("extradata") or b""
    for packet in packets:
        number, begins = video.number, False
        if codec == "h264" and number in left_out:
            video.number += 1
            continue
        if (
            number >= until
            and (count := order.left_out(number, wanted))
            and (codec != "h264" or is_non_reference(memoryview(packet), extradata))
        ):
            until, begins = number + count, True
        if number >= until:
            yield packet
        else:
            left_out.add(number)
            if begins and codec == "mpeg4":  # a packed B-VOP waits in the decoder for this packet
                with decoder.skipping_b_pictures():
                    yield packet
            else:
                video.number += 1


def read_canonically(
    video: VideoReader, order: FrameTable, wanted: list[int], use: Use, tick: Tick
) -> None:
    """Read frames, as `read_frames`, by the canonical route. ``video`` may be closed."""
    if order.is_proven:
        _Groups(video, order, tick).show(wanted, use)
    else:
        _read_from_the_beginning(video, order, deque(wanted), use, tick)


def _read_from_the_beginning(
    video: VideoReader, order: FrameTable, left: deque[int], use: Use, tick: Tick
) -> None:
    """Decode as for the index. Raises StaleIndexError, BrokenFileError."""
    assert order.sums is not None
    with closing(video.reopen()) as fresh:
        ordinals = iter(range(order.frames))
        for _, frame in decode_packets(fresh, fresh.packets, tick):  # `zip` would hold a frame
            at = next(ordinals, -1)
            if at == left[0]:
                if checksum(frame) != order.sums[at]:
                    break
                use(left.popleft(), frame)
                if not left:
                    return
            del frame
    raise StaleIndexError


class _Groups:
    """Groups of pictures of a damaged file, each decoded by itself. Raises BrokenFileError."""

    def __init__(self, video: VideoReader, order: FrameTable, tick: Tick) -> None:
        self._video, self._order, self._tick = video, order, tick

    def show(self, wanted: list[int], use: Use) -> None:
        """Call ``use`` with each of these frames, or with the picture that is shown instead."""
        for group, members in groupby(wanted, self._order.group_of):
            ordinals, sums = list(members), dict[int, int]()
            came = self._decode(group, ordinals, use, sums)
            left = [ordinal for ordinal in ordinals if ordinal not in came]
            alone = [self._order.left_out(self._order.packet(ordinal), ()) for ordinal in left]
            if len(left) > 1 and set(alone) == {1}:  # no two pictures share a packet
                last = max(map(self._order.packet, ordinals))
                left = self._show_together(group, last, left, sums, use)
            for ordinal in left:
                self._show_other(group, ordinal, use)

    def _show_together(
        self, group: int, last: int, left: list[int], sums: dict[int, int], use: Use
    ) -> list[int]:
        """Show non-reference pictures in one pass, as if each were decoded alone. So it is if all
        others equal those of a pass without them (``sums``: their checksums), and no other packet
        is rejected or damaged. Returns those that are still to be shown."""
        shown, refused = set(), self._refused
        with closing(self._video.reopen()) as video:
            for ordinal, frame in _show_group(video, self._order, group, last, left, self._tick):
                if ordinal in left and not frame.is_corrupt:
                    use(ordinal, frame)
                    shown.add(ordinal)
                elif sums.pop(ordinal, -1) != checksum(frame):
                    return left
                del frame
        if sums or video.refused != refused:
            return left
        return [ordinal for ordinal in left if ordinal not in shown]

    def _show_other(self, group: int, ordinal: int, use: Use) -> None:
        """Show one that was not output with others, or the picture before it. It may have been
        skipped beside others, or a later packet may have suppressed it."""
        came = self._decode(group, [ordinal], use)
        if ordinal in came:
            return
        before = [other for other in came if other < ordinal]
        there, shown = (group, max(before)) if before else self._near(group)
        if shown not in self._decode(there, [shown], lambda _, frame: use(ordinal, frame)):
            raise BrokenFileError("has no frame that can be decoded")

    def _near(self, group: int) -> tuple[int, int]:
        """Return group and ordinal of the last picture before a group, or else of the first from it
        on."""
        for other in range(group - 1, max(-1, group - 1 - _MAX_GROUPS), -1):
            if came := self._decodable(other):
                return other, came[-1]
        for other in range(group, min(len(self._order.starts), group + _MAX_GROUPS)):
            if came := self._decodable(other):
                return other, came[0]
        raise BrokenFileError("has no frame that can be decoded")

    def _decodable(self, group: int) -> list[int]:
        """Return the first and the last frame that a GOP outputs, or none. The answer is cached: it
        takes long, and each clip of a damaged part needs it."""
        known = self._order.decodable
        if group not in known:
            members = self._order.members(group)
            came = self._decode(group, [], lambda *_: None).intersection(members)
            known[group] = [min(came), max(came)] if came else []
        return known[group]

    def _decode(
        self, group: int, wanted: Sequence[int], use: Use, sums: dict[int, int] | None = None
    ) -> set[int]:
        """Decode a GOP up to the last requested frame, or to its end. Return the frames. A
        non-reference picture is output only if it is requested alone: its remains in the decoder
        would change damaged ones."""
        alone = wanted if len(wanted) == 1 else ()
        last = max(map(self._order.packet, wanted), default=self._order.last_packet(group))
        came = set()
        with closing(self._video.reopen()) as video:
            for ordinal, frame in _show_group(video, self._order, group, last, alone, self._tick):
                came.add(ordinal)
                if ordinal in wanted:
                    use(ordinal, frame)
                if sums is not None and self._order.non_reference is not None:
                    sums[ordinal] = checksum(frame)
                del frame
        self._refused = video.refused
        return came

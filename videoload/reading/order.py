"""Which frame each packet of a video gives, and where decoding can start: what the loop in `frames`
needs of an index."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from functools import cached_property

import numpy as np

from videoload.bitstreams.pictures import Ints, KeyFrame

_BEGINNING = KeyFrame(0, 0, 0, -1)


class FrameTable:
    """The order of the frames of a video. It never changes.

    Attributes:
        frames: How many there are.
        starts: Where decoding can start, int64 rows of `KeyFrame`. The frames from one of them to
            the next are a group.
        ordinals: The frame that each packet gives, -1 for none, int64 [packets]. None: packet i
            gives frame i.
        sums: A checksum for each frame, int64 [frames], if headers do not prove the order: then a
            frame is right if it has its checksum.
        non_reference: As `Pictures.non_reference`.
        decodable: The first and the last frame that a damaged GOP still outputs, or none. It is
            found out where it is needed.
    """

    def __init__(
        self,
        frames: int,
        starts: Ints,
        ordinals: Ints | None = None,
        sums: Ints | None = None,
        non_reference: Ints | None = None,
    ) -> None:
        self.frames = frames
        self.starts = starts
        self.ordinals = ordinals
        self.sums = sums
        self.non_reference = non_reference
        self.decodable: dict[int, list[int]] = {}
        self._firsts: list[int] = starts[:, 0].tolist()

    @property
    def is_proven(self) -> bool:
        """Return whether headers prove it."""
        return self.sums is None

    @cached_property
    def keys(self) -> bytes | None:
        """As `VideoInfo.keys`: the first frames of GOPs, and of the file."""
        keys = sorted({0, *self._firsts})
        return None if len(keys) == self.frames else np.array(keys, np.int64).tobytes()

    def group_of(self, ordinal: int) -> int:
        """Return the number of the group that a frame is in; -1 before the first group."""
        return bisect_right(self._firsts, ordinal) - 1

    def start(self, group: int) -> KeyFrame:
        """Return the start of a GOP."""
        return KeyFrame(*self.starts[group].tolist()) if group >= 0 else _BEGINNING

    def end(self, group: int) -> int:
        """Return the ordinal after the last frame of a group."""
        return [*self._firsts[group + 1 : group + 2], self.frames][0]

    def members(self, group: int) -> range:
        """Return the ordinals of the frames of a group."""
        return range(self.start(group).ordinal, self.end(group))

    def ordinal(self, packet: int) -> int:
        """Return the frame that a packet gives, -1 for none."""
        if self.ordinals is None:
            return packet if packet < self.frames else -1
        return self.ordinals.item(packet) if 0 <= packet < len(self.ordinals) else -1

    def leading(self, start: KeyFrame, last: int) -> set[int]:
        """Return the packets from a keyframe up to number ``last`` that contain no frame, or one
        that is shown before it."""
        if self.ordinals is None:
            return set()
        before = self.ordinals[start.packet : last + 1] < start.ordinal
        return {*(before.nonzero()[0] + start.packet).tolist()}

    def left_out(self, packet: int, wanted: Collection[int]) -> int:
        """Return how many packets, from this one on, need not be decoded for the requested
        frames."""
        count = 0 if self.non_reference is None else self.non_reference.item(packet)
        others = (self.ordinal(packet + i) not in wanted for i in range(count))
        return count if all(others) else 0

    def packet(self, ordinal: int) -> int:
        """Return the packet that gives a frame; -1 if that is not known."""
        return ordinal if self._packets is None else self._packets.item(ordinal)

    def last_packet(self, group: int) -> int:
        """Return the last packet that gives a frame of a group."""
        members = self.members(group)
        if self._packets is None:
            return members.stop - 1
        return int(self._packets[members.start : members.stop].max())

    @cached_property
    def _packets(self) -> Ints | None:
        """The packet that gives each frame."""
        if self.ordinals is None:
            return None
        packets = np.full(self.frames, -1, np.int64)
        giving = (self.ordinals >= 0).nonzero()[0]
        packets[self.ordinals[giving]] = giving
        return packets

"""The counters of a worker process, in memory that the process which started it maps as well.

Only the worker writes. A reader may see a count that is a moment old, but never half of one: each
is one aligned word.
"""

from __future__ import annotations

import ctypes

from videoload.activity import Activity

COUNTED = ("clips", "failures", "decode_seconds", "trainers", "refused", "rejected")


class Counters(ctypes.Structure):
    """The counts since the worker's start. ``Counters.from_buffer(memory)`` are those in memory
    that is shared.

    Attributes:
        at: What it is at, an `Activity`. It is the first byte.
        turns: Of its loop, 0 before the first: imports may take long where the disk is slow.
        packets: That it has decoded.
        looks: Of the thread that watches its reads, 0 if there is none. A process that is stopped
            while it reads takes none.
        lease: The one that it works on, 0 between two leases. If it dies, an answer that it sent
            just before may be lost, and then only this shows what it died over.
        stall_s: How long it may make no progress at that lease, 0 between two.
    """

    at: int
    turns: int
    packets: int
    looks: int
    lease: int
    stall_s: float
    clips: int
    failures: int
    decode_seconds: float
    trainers: int
    refused: int
    rejected: int
    _fields_ = (
        ("at", ctypes.c_uint8), ("turns", ctypes.c_uint32), ("packets", ctypes.c_uint32),
        ("looks", ctypes.c_uint32),
        ("lease", ctypes.c_int64), ("stall_s", ctypes.c_double),
        ("clips", ctypes.c_int64), ("failures", ctypes.c_int64),
        ("decode_seconds", ctypes.c_double), ("trainers", ctypes.c_int64),
        ("refused", ctypes.c_int64), ("rejected", ctypes.c_int64),
    )  # fmt: skip

    @property
    def progress(self) -> object:
        """Changes with each turn, with each packet at a lease, and while it reads, with each look
        of the thread that watches this. None before the first turn or look."""
        is_read = self.activity is Activity.READING
        has_begun = self.turns and (self.looks or not is_read)
        return (self.turns, self.packets, self.looks * is_read) if has_begun else None

    @property
    def activity(self) -> Activity:
        """The worker's activity. A user's function may have overwritten the byte."""
        try:
            return Activity(self.at)
        except ValueError:
            return Activity.DECODING

    def read(self) -> dict[str, float]:
        """Return the figures to be added up over all workers, by name."""
        return {name: getattr(self, name) for name in COUNTED}


SIZE = ctypes.sizeof(Counters)

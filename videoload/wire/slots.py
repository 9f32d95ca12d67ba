"""Batch memory: slots of equal size that trainer and workers of one host share.

    memfd  | slot 0         | slot 1         | ... |      every slot begins on a page (so 64-byte
           | clip clip clip | clip clip clip |            aligned: TensorFlow then takes the array
             ^ a worker writes here                       without a copy)

The trainer allocates the arena. A worker that it started gets the file descriptor and maps the same
pages. The lease table alone decides who may write where: a clip's place belongs to the one live
lease that names it, and a whole slot belongs to the consumer once its batch is handed over. In a
worker, `pixels.clip_pixels` writes them; the trainer's I/O thread writes those of other hosts.

The memory has no name, so there is nothing to unlink. It is released when the last descriptor is
closed and the last array that looks into it dies, in any order, also after a crash. The size is
sealed: if a process could shrink it, the others would die (SIGBUS).
"""

from __future__ import annotations

import errno
import fcntl
import math
import mmap
import os
import weakref
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt

from videoload.wire.reserve import RESERVE

_ALIGNMENT = 64
_HINTS = {
    errno.EFBIG: "; the limit of file sizes counts here as well (ulimit -f unlimited)",
    errno.ENOMEM: "; memory is short, or limited (ulimit -v)",
    errno.ENOSPC: "; memory is short",
    errno.EMFILE: "; this process has too many files open (ulimit -n)",
    **dict.fromkeys(
        (errno.EPERM, errno.EACCES, errno.ENOSYS), "; allow memfd_create in the sandbox"
    ),
}
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class Arena:
    """``slots`` slots of ``slot_bytes`` bytes each, in memory that workers can map.

    ``fd`` is the descriptor for workers. The kernel shows the memory by its ``name``. Raises
    MemoryError if there is not enough memory, now and not in the middle of an epoch.
    """

    def __init__(self, slots: int, slot_bytes: int, name: str = "videoload") -> None:
        self.slots = slots
        self.stride = -(-slot_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        self.size = slots * self.stride
        self.fd = -1
        try:
            with RESERVE.let_go():
                self.fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            # A trainer may end before it closes its last arena.
            self._close = weakref.finalize(self, os.close, self.fd)
            self._close.atexit = False
            os.posix_fallocate(self.fd, 0, self.size)  # ENOSPC here, not SIGBUS later
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, _SEALS)
            self._memory = _map(self.fd, self.size)
        except OSError as error:
            self.close()
            why = f"{error.strerror}{_HINTS.get(error.errno or 0, '')}"
            raise MemoryError(
                f"{self.size / 1e6:.3g} MB of shared memory cannot be allocated: {why}"
            ) from None

    def view(self, slot: int, offset: int, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
        """Return a uint8 array of ``shape``, ``offset`` bytes into a slot. It holds a reference to
        the memory. Raises ValueError if it does not fit in."""
        if offset + math.prod(shape) > self.stride:
            raise ValueError(f"{shape} at {offset} does not fit into {self.stride} bytes")
        return _view(self._memory, slot * self.stride + offset, shape)

    def close(self) -> None:
        """Close the descriptor. The memory stays until the last array that looks into it dies."""
        if self.fd >= 0:
            self._close()
            self.fd = -1


class Slots:
    """The slots of a stream: an arena, and another one after each `grow`, for example when more
    workers connect. ``slots`` is their number, and indices do not change. Raises MemoryError."""

    def __init__(self, slots: int, slot_bytes: int) -> None:
        self.slots = 0
        self.arenas: list[Arena] = []
        self.slot_bytes, self._firsts = slot_bytes, list[int]()
        self.grow(slots)

    def grow(self, slots: int) -> Arena:
        """Return so many slots more. Raises MemoryError."""
        self.arenas.append(Arena(slots, self.slot_bytes))
        self._firsts.append(self.slots)
        self.slots += slots
        return self.arenas[-1]

    def place(self, slot: int) -> tuple[int, int]:
        """Return the number of a slot's arena, and how many bytes into it the slot begins."""
        at = bisect_right(self._firsts, slot) - 1
        return at, (slot - self._firsts[at]) * self.arenas[at].stride

    def view(self, slot: int, offset: int, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
        """Return a view, as `Arena.view`."""
        at = bisect_right(self._firsts, slot) - 1
        return self.arenas[at].view(slot - self._firsts[at], offset, shape)

    def lend(
        self, slot: int, shape: tuple[int, ...], give_back: Callable[[], object]
    ) -> npt.NDArray[np.uint8]:
        """Return a slot as its consumer's array. ``give_back`` is called, in any thread, when the
        array and its views are gone."""
        view = self.view(slot, 0, shape)
        # In NumPy, the flat array is the base of all views of views, so it lives exactly as long as
        # the last of them.
        assert view.base is not None
        weakref.finalize(view.base, give_back).atexit = False
        return view

    def close(self) -> None:
        """Close all arenas, as `Arena.close`."""
        for arena in self.arenas:
            arena.close()


def spans(rows: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first row, and the number of rows, of each run of consecutive ones."""
    if isinstance(rows, range):
        return [(rows.start, len(rows))]
    runs = groupby(enumerate(rows), lambda place: place[1] - place[0])
    return [(run[0][1], len(run)) for run in (list(places) for _, places in runs)]


class Window:
    """A worker's view of an arena. It takes over the descriptor."""

    def __init__(self, fd: int) -> None:
        try:
            self.size = os.fstat(fd).st_size
            self._memory = _map(fd, self.size)
        finally:
            os.close(fd)

    def view(self, offset: int, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
        """Return a uint8 array of ``shape`` at ``offset``. Raises ValueError if it does not fit
        in."""
        if offset < 0 or offset + math.prod(shape) > self.size:
            raise ValueError(f"{shape} at {offset} does not fit into {self.size} bytes")
        return _view(self._memory, offset, shape)


def aligned_copy(array: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return a copy that begins at a multiple of 64 bytes, so that TensorFlow takes it without a
    copy."""
    memory = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    begin = -memory.__array_interface__["data"][0] % _ALIGNMENT
    copy = memory[begin : begin + array.nbytes].reshape(array.shape)
    np.copyto(copy, array)
    return copy


def _map(fd: int, size: int) -> mmap.mmap:
    # The first touch of a page costs 20 times as much as a write: MAP_POPULATE touches all now.
    with RESERVE.let_go():  # Python's map has a descriptor of its own
        return mmap.mmap(fd, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)


def _view(memory: mmap.mmap, offset: int, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    return np.frombuffer(memory, np.uint8, math.prod(shape), offset).reshape(shape)

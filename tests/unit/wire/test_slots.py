"""Batch memory: its layout, who can map it, and when a slot comes back."""

import contextlib
import errno
import fcntl
import gc
import mmap
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.limits import limited_descriptors, limited_files
from videoload.wire.slots import Arena, Slots, Window, aligned_copy, spans

patient = settings(deadline=None, max_examples=50)

SHAPE = (3, 4, 5)


@pytest.fixture
def arena() -> Iterator[Arena]:
    """Three slots of one page each."""
    made = Arena(3, 60)
    yield made
    made.close()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def address(array: np.ndarray[Any, Any]) -> int:
    return int(array.ctypes.data)


# Where it lies


@patient
@given(slots=st.integers(1, 5), slot_bytes=st.integers(1, 20_000))
def test_slots_begin_on_pages_and_do_not_overlap(slots: int, slot_bytes: int) -> None:
    arena = Arena(slots, slot_bytes)
    try:
        assert arena.stride % mmap.PAGESIZE == 0
        assert slot_bytes <= arena.stride < slot_bytes + mmap.PAGESIZE
        assert (arena.slots, arena.size) == (slots, slots * arena.stride)
        views = [arena.view(slot, 0, (slot_bytes,)) for slot in range(slots)]
        assert all(address(view) % 64 == 0 for view in views)
        for slot, view in enumerate(views):
            view[:] = slot + 1
        assert [set(view.tolist()) for view in views] == [{slot + 1} for slot in range(slots)]
    finally:
        arena.close()


@pytest.mark.parametrize(
    ("rows", "runs"),
    [(range(3, 7), [(3, 4)]), ([2], [(2, 1)]), ([0, 1, 4, 6, 7, 8], [(0, 2), (4, 1), (6, 3)])],
)
def test_spans_are_the_runs_of_consecutive_rows(
    rows: Sequence[int], runs: list[tuple[int, int]]
) -> None:
    assert spans(rows) == runs


@pytest.mark.parametrize("slot", range(3))
def test_a_view_beyond_its_slot_is_refused(arena: Arena, slot: int) -> None:
    with pytest.raises(ValueError, match=r"\d"):
        arena.view(slot, arena.stride - 10, (11,))


# Workers


def test_a_window_shows_what_the_arena_holds_and_the_other_way_round(arena: Arena) -> None:
    window = Window(os.dup(arena.fd))
    assert window.size == arena.size
    window.view(arena.stride + 3, (2, 2))[:] = 5
    assert arena.view(1, 0, (8,)).tolist() == [0, 0, 0, 5, 5, 5, 5, 0]
    arena.view(0, 0, SHAPE)[:] = 8
    assert (window.view(0, SHAPE) == 8).all()


@pytest.mark.parametrize(
    ("offset", "shape"),
    [
        (-1, (1,)),
        (3 * mmap.PAGESIZE, (1,)),
        (3 * mmap.PAGESIZE - 59, SHAPE),
        (0, (3 * mmap.PAGESIZE + 1,)),
        (2**63, (1,)),
    ],
)
def test_a_worker_cannot_look_outside_of_the_arena(
    arena: Arena, offset: int, shape: tuple[int, ...]
) -> None:
    window = Window(os.dup(arena.fd))
    with pytest.raises(ValueError, match=f"{offset}.*{arena.size}"):
        window.view(offset, shape)


@pytest.mark.parametrize("shape", [(2**32, 2**32), (2**31, 2**31, 3), (2**64, 1), (2**21,) * 3])
def test_a_shape_whose_size_overflows_is_refused_as_well(
    arena: Arena, shape: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match=r"\d"):
        Window(os.dup(arena.fd)).view(0, shape)


def test_a_window_that_cannot_be_made_closes_the_descriptor_as_well() -> None:
    read, write = os.pipe()
    os.close(write)
    with pytest.raises((OSError, ValueError)):
        Window(read)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(read)


def test_nobody_can_change_the_size(arena: Arena) -> None:
    for size in (0, arena.size - 1, arena.size + mmap.PAGESIZE):
        with pytest.raises(PermissionError):
            os.ftruncate(arena.fd, size)
    with pytest.raises(PermissionError):
        fcntl.fcntl(arena.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    assert os.fstat(arena.fd).st_size == arena.size


# The end


def test_a_closed_arena_holds_no_descriptor() -> None:
    before = descriptors()
    arena = Arena(2, 100)
    fd = arena.fd
    assert fd >= 0
    arena.close()
    arena.close()
    assert arena.fd == -1
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    del arena
    assert descriptors() <= before, "what other tests left may have ended meanwhile"


@pytest.mark.parametrize(
    ("limited", "why"),
    [
        (lambda: limited_files(1 << 20), ("EFBIG", "ulimit -f")),
        (lambda: limited_descriptors(0), ("EMFILE", "ulimit -n")),
        (lambda: limited_descriptors(1), ("EMFILE", "ulimit -n")),
    ],
)
def test_what_is_missing_for_memory_is_told_at_once_and_nothing_is_left(
    limited: Callable[[], contextlib.AbstractContextManager[None]], why: tuple[str, str]
) -> None:
    before, (number, limit) = descriptors(), why
    with limited(), pytest.raises(MemoryError) as caught:
        Arena(4, 1 << 20)
    for told in ("4.19 MB", os.strerror(getattr(errno, number)), limit):
        assert told in str(caught.value)
    assert descriptors() <= before


# Lending


@pytest.fixture
def slots() -> Iterator[Slots]:
    made = Slots(3, 60)
    yield made
    made.close()


def test_slots_that_are_added_have_places_of_their_own_and_the_others_keep_theirs(
    slots: Slots,
) -> None:
    slots.view(2, 0, SHAPE)[:] = 6
    more = slots.grow(2)
    assert (slots.slots, slots.place(2), slots.place(4)) == (5, (0, 2 * 4096), (1, 4096))
    slots.view(4, 0, SHAPE)[:] = 7
    assert (more.view(1, 0, SHAPE) == 7).all()
    assert (slots.view(2, 0, SHAPE) == 6).all()


def lent(slots: Slots, slot: int = 0) -> tuple[np.ndarray[Any, Any], list[int]]:
    """The slot's array, and a list that gets an entry whenever the slot comes back."""
    back: list[int] = []
    return slots.lend(slot, SHAPE, lambda: back.append(slot)), back


def test_a_slot_comes_back_once_when_its_array_dies(slots: Slots) -> None:
    array, back = lent(slots)
    assert back == []
    del array
    assert back == [0]
    gc.collect()
    assert back == [0]


CUTS: dict[str, Callable[[Any], Any]] = {
    "slice": lambda array: array[1:],
    "row": lambda array: array[0],
    "slice of a slice": lambda array: array[1:][:, ::-1][0],
    "reshape": lambda array: array.reshape(-1),
    "ravel": np.ravel,
    "transpose": lambda array: array.T,
    "other type": lambda array: array.view(np.int8),
    "asarray": lambda array: np.asarray(array).view(),
    "memoryview": memoryview,
    "memoryview of a slice": lambda array: memoryview(array[1]),
    "frombuffer": lambda array: np.frombuffer(array, np.uint8),
    "broadcast": lambda array: np.broadcast_to(array, (2, *SHAPE)),
    "new axis": lambda array: array[None],
    "subclass": lambda array: array.view(np.recarray),
    "dlpack": np.from_dlpack,
    "iterator": lambda array: iter(array.flat),
    "container": lambda array: {"clips": [array]},
}


def test_a_slot_stays_lent_while_a_view_of_it_lives(slots: Slots) -> None:
    parts: dict[str, Any] = {}
    backs: dict[str, list[int]] = {}
    for name, cut in CUTS.items():
        array, backs[name] = lent(slots)
        parts[name] = cut(array)
    del array
    gc.collect()  # all at once: it takes long, and may free nothing
    assert backs == {name: [] for name in CUTS}
    parts.clear()
    gc.collect()
    assert backs == {name: [0] for name in CUTS}


def test_a_slot_may_come_back_in_any_thread_and_after_the_arena(slots: Slots) -> None:
    array, back = lent(slots)
    holder = [array]
    del array
    slots.close()
    thread = threading.Thread(target=holder.clear)
    thread.start()
    thread.join()
    assert back == [0]


# Copies


@patient
@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=5).map(tuple), shift=st.integers(0, 70)
)
def test_an_aligned_copy_is_equal_aligned_and_a_copy(shape: tuple[int, ...], shift: int) -> None:
    count = int(np.prod(shape))
    memory = np.arange(count + shift, dtype=np.uint64).astype(np.uint8)
    array = memory[shift:].reshape(shape)
    copy = aligned_copy(array)
    assert address(copy) % 64 == 0
    assert np.array_equal(copy, array)
    assert (copy.dtype, copy.shape) == (array.dtype, array.shape)
    assert copy.flags.c_contiguous
    assert copy.flags.writeable
    assert not np.shares_memory(copy, memory)

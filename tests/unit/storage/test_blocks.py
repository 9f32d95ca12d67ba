"""Blocks of a file in memory, and those that are still to be fetched."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from videoload.storage import blocks
from videoload.storage.blocks import Blocks, numbers_of, requests, runs

SIZE = 61
FILE = memoryview(bytes(range(SIZE)))
BLOCK = 8
ranges = st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)).map(
    lambda ends: (min(ends), max(ends))
)
Ranges = list[tuple[int, int]]
tried = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", BLOCK)
    monkeypatch.setattr(blocks, "_REQUEST_BLOCKS", 3)


@tried
@given(st.lists(ranges, max_size=8), st.integers(1, SIZE))
def test_whole_blocks_are_here_and_the_oldest_go_first(added: Ranges, most: int) -> None:
    kept, order = Blocks(SIZE, most), list[int]()
    for unaligned, end in added:
        begin = unaligned - unaligned % BLOCK
        kept.add(begin, FILE[begin:end])
        for number in range(begin // BLOCK, -(-end // BLOCK) if end == SIZE else end // BLOCK):
            order += [number] * (number not in order)
        while sum(min(BLOCK, SIZE - n * BLOCK) for n in order) > most and len(order) > 1:
            del order[0]
    assert [number in kept for number in range(8)] == [number in order for number in range(8)]
    for at in range(SIZE):
        found = kept.read(at, 5)
        assert (found is None) == (at // BLOCK not in order)
        if found is not None:
            assert found == FILE[at : min(at + 5, (at // BLOCK + 1) * BLOCK)]
    assert kept.join() == b"".join(FILE[n * BLOCK : (n + 1) * BLOCK] for n in sorted(order))
    assert kept.bytes == len(kept.join())
    kept.clear()
    assert (kept.bytes, kept.read(0, 5)) == (0, None)


@tried
@given(st.lists(ranges, max_size=8))
def test_the_blocks_of_ranges_hold_all_their_bytes_and_few_others(
    wanted: Ranges,
) -> None:
    needed = {at // BLOCK for begin, end in wanted for at in range(begin, end)}
    found = numbers_of([*wanted, (-20, 0), (SIZE, 2 * SIZE)], SIZE)
    assert needed <= found
    assert all({number - 1, number + 1} <= needed for number in found - needed)


@tried
@given(st.sets(st.integers(0, 40)))
def test_requests_are_as_few_as_they_can_be_and_not_too_long(numbers: set[int]) -> None:
    found = runs(sorted(numbers))
    assert [number for run in found for number in run] == sorted(numbers)
    assert all(one.stop < other.start for one, other in pairwise(found))
    asked = requests(numbers)
    assert [number for run in asked for number in run] == sorted(numbers)
    assert all(1 <= len(run) <= 3 for run in asked)

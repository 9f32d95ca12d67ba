"""Bytes in memory, and bytes that are still to be fetched, compared with sets of positions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from videoload.storage.spans import Range, Spans, requests, without

SIZE = 64
FILE = bytes(range(SIZE))
ranges = st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)).map(
    lambda ends: Range(*sorted(ends))
)


def covered(some: list[Range]) -> set[int]:
    return {at for begin, end in some for at in range(begin, end)}


@given(st.lists(ranges, max_size=8), ranges)
def test_added_bytes_are_here_and_all_others_are_missing(added: list[Range], asked: Range) -> None:
    spans = Spans(1 << 20)
    for begin, end in added:
        spans.add(begin, FILE[begin:end])
    here = covered(added)
    assert spans.bytes == len(here)
    assert covered(spans.missing(asked)) == covered([asked]) - here
    assert spans.join() == bytes(sorted(here))
    got = spans.read(asked.begin, 16)
    assert got == FILE[asked.begin : asked.begin + len(got)]
    assert bool(got) == (asked.begin in here)


@given(st.lists(ranges, max_size=12), st.integers(1, SIZE))
def test_the_limit_is_kept_but_one_piece_may_be_larger(added: list[Range], most: int) -> None:
    spans = Spans(most)
    for begin, end in added:
        spans.add(begin, FILE[begin:end])
    held = [at for at in range(SIZE) if spans.read(at, 1)]
    assert spans.bytes == len(held)
    assert spans.bytes <= most or spans.missing(Range(0, SIZE)) == without(
        Range(0, SIZE), [Range(held[0], held[-1] + 1)]
    )


def test_the_oldest_piece_goes_first() -> None:
    spans = Spans(20)
    for at in (40, 0, 20):
        spans.add(at, FILE[at : at + 10])
    assert not spans.read(40, 10)
    assert spans.read(0, 10) == FILE[:10]
    spans.clear()
    assert spans.bytes == 0
    assert spans.missing(Range(0, 5)) == [Range(0, 5)]


@given(st.lists(ranges, max_size=8))
def test_requests_cover_all_wanted_ranges(wanted: list[Range]) -> None:
    assert covered(wanted) <= covered(requests(wanted))


def test_near_ranges_are_one_request_and_long_ones_are_several() -> None:
    kib, mib = 1 << 10, 1 << 20
    assert requests([Range(0, 10), Range(20 * kib, 21 * kib)]) == [Range(0, 21 * kib)]
    assert requests([Range(0, 10), Range(mib, mib + 10)]) == [Range(0, 10), Range(mib, mib + 10)]
    assert requests([Range(0, 2 * mib + 5)]) == [
        Range(0, mib), Range(mib, 2 * mib), Range(2 * mib, 2 * mib + 5),
    ]  # fmt: skip
    assert requests([Range(5, 5)]) == []


@given(ranges, st.lists(ranges, max_size=5))
def test_the_rest_of_a_range_is_what_the_others_do_not_cover(
    wanted: Range, coming: list[Range]
) -> None:
    left = without(wanted, coming)
    assert covered(left) == covered([wanted]) - covered(coming)
    assert sum(end - begin for begin, end in left) == len(covered(left))

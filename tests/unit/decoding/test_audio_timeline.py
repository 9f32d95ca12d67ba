"""Which part of a track a clip needs, and where decoded pieces stand in it."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoload.decoding.audio_timeline import Placing, first_sample, reach, stretch, whole_steps

RATES = st.sampled_from([8_000, 11_025, 16_000, 22_050, 44_056, 44_100, 48_000])


def test_a_clip_begins_with_the_sample_nearest_to_its_first_frame() -> None:
    assert first_sample(Fraction(0), 16_000) == 0
    assert first_sample(Fraction(1, 30), 16_000) == 533  # 533.33
    assert first_sample(Fraction(2, 30), 16_000) == 1067  # 1066.67
    assert first_sample(Fraction(-1, 16_000), 16_000) == -1


@given(st.integers(-50_000, 500_000), st.integers(1, 50_000), RATES, RATES)
def test_a_stretch_has_whole_steps_and_reaches_further_than_the_filter(
    first: int, samples: int, rate: int, source: int
) -> None:
    made, of = whole_steps(rate, source)
    part = stretch(first, samples, rate, source)
    assert part.first % of == part.length % of == 0
    assert part.first // of * made + part.skip == first
    margin = reach(rate, source)
    begin, end = Fraction(first * source, rate), Fraction((first + samples) * source, rate)
    assert part.first <= part.begin <= begin - margin
    assert end + margin <= part.end <= part.first + part.length


def test_pieces_follow_each_other_and_gaps_are_kept() -> None:
    placing = Placing(Fraction(1))
    assert [placing.begin(pts, 100) for pts in (0, 100, 201, 500)] == [0, 100, 200, 500]
    assert placing.begin(None, 100) == 600  # it follows the one before it
    assert Placing(Fraction(1)).begin(None, 100) is None


@pytest.mark.parametrize("first", [0, 1, 50])
def test_times_in_milliseconds_give_the_same_places_wherever_decoding_begins(first: int) -> None:
    rate, length = 44_100, 1024
    times = [round(1000 * k * length / rate) for k in range(100)]
    placing = Placing(Fraction(rate, 1000), (length, length))
    found = [placing.begin(pts, length) for pts in times[first:]]
    assert found == [k * length for k in range(first, 100)]


def test_a_gap_is_kept_where_times_are_rounded() -> None:
    placing = Placing(Fraction(48), (960, 960))  # milliseconds, at 48 000 a second
    assert [placing.begin(pts, 960) for pts in (0, 20, 71)] == [0, 960, 71 * 48]


def test_a_tick_as_long_as_a_piece_does_not_hide_a_missing_piece() -> None:
    placing = Placing(Fraction(1152))  # an AVI that counts packets of MP3
    assert [placing.begin(pts, 1152) for pts in (0, 1, 3)] == [0, 1152, 3456]


def test_pieces_shorter_than_a_tick_have_no_seam() -> None:
    placing = Placing(Fraction(48), (40, 40))  # TrueHD in an MKV
    begins = range(0, 4800, 40)
    told = [round(begin / 48) for begin in begins]
    assert [placing.begin(pts, 40) for pts in told] == [*begins]


@pytest.mark.parametrize("length", [128, 576])
def test_pieces_of_another_length_than_the_first_ones_stand_where_their_times_say(
    length: int,
) -> None:
    rate, begin = 44_100, 50_047  # Vorbis: its first pieces are short, and later ones are not
    placing = Placing(Fraction(rate, 1000), (length, length))
    at = placing.begin(round(begin * 1000 / rate), 1024)
    assert at is not None
    assert abs(at - begin) <= rate / 2000


@pytest.mark.parametrize("first", [0, 1, 7, 400])
def test_ticks_of_half_a_sample_move_nothing_by_a_sample(first: int) -> None:
    tick, length = Fraction(44_100, 90_000), 1024  # MPEG-TS
    placing = Placing(tick, (length, length))
    told = int(first * length / tick)  # FFmpeg's muxer rounds down
    assert placing.begin(told - 1, length) == first * length

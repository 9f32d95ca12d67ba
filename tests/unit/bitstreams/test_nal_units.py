"""NAL units behind start codes and behind lengths."""

from __future__ import annotations

import pytest

from videoload.bitstreams.nal_units import listed_units, nal_units, unescaped

UNITS = [b"\x67one", b"\x68two", b"\x65three"]


@pytest.mark.parametrize("length_bytes", [1, 2, 4])
def test_units_are_found_behind_their_lengths(length_bytes: int) -> None:
    data = b"".join(len(unit).to_bytes(length_bytes, "big") + unit for unit in UNITS)
    assert list(nal_units(data, length_bytes)) == UNITS
    assert list(nal_units(data[:-2], length_bytes)) == [*UNITS[:2], UNITS[2][:-2]], "cut off"


@pytest.mark.parametrize("code", [b"\0\0\1", b"\0\0\0\1"])
def test_units_are_found_behind_start_codes(code: bytes) -> None:
    assert list(nal_units(b"".join(code + unit for unit in UNITS), 0)) == UNITS
    assert list(nal_units(code + code + b"\0\0" + code + UNITS[0], 0)) == UNITS[:1], "empty ones"


def test_a_configuration_lists_units_behind_two_bytes() -> None:
    data = b"x" + b"".join(len(unit).to_bytes(2, "big") + unit for unit in UNITS)
    assert listed_units(data, 1, 2) == (UNITS[:2], 13)
    assert listed_units(data, 1, 9)[0] == UNITS, "it promises too many"


def test_an_escape_says_nothing() -> None:
    assert unescaped(b"a\0\0\3\0\0\3\1") == b"a\0\0\0\0\1"

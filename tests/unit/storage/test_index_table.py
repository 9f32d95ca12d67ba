"""A row is of the very file that it was made from, and whole, or it is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from videoload.storage.index_table import pack, unpack


@given(st.binary(max_size=300), st.integers(0, 2**32), st.binary(max_size=40))
def test_a_row_is_read_as_it_was_or_refused(content: bytes, seed: int, noise: bytes) -> None:
    packed = pack("a.avi", b"version", content)
    assert unpack("a.avi", b"version", packed) == content
    changed = bytearray(packed)
    changed[seed % len(packed)] ^= 1 + seed % 255
    for path, version, wrong in (
        ("b.avi", b"version", packed),
        ("a.avi", b"versioo", packed),
        ("a.av", b"i\0version", packed),
        ("a.avi", b"version", bytes(changed)),
        ("a.avi", b"version", packed[:-1]),
        ("a.avi", b"version", noise),
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            unpack(path, version, wrong)


def test_a_small_row_is_not_compressed_and_a_large_one_is() -> None:
    small, large = b"frames" * 100, b"frames" * 10_000
    assert small in pack("a.avi", b"version", small)
    packed = pack("a.avi", b"version", large)
    assert len(packed) < len(large) / 10
    assert unpack("a.avi", b"version", packed) == large

"""The frames of a broken file depend on its bytes alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.codecs import KINDS, make
from tests.support.routes import compare, look_at
from tests.support.thorough import either


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_broken_files_give_the_same_frames_by_every_way(tell: Callable[[str], None]) -> None:
    counts, differing = compare(either(120, 400))
    tell(f"{dict(counts)}, {len(differing)} differ")
    assert not differing
    assert min(counts["proven"], counts["decoded"], counts["refused"]) > 8, (
        "hardly any file was checked"
    )


def test_a_jpeg_picture_without_a_scan_takes_no_pixels_from_another(tmp_path: Path) -> None:
    path = make(next(kind for kind in KINDS if kind.name == "mjpeg"), tmp_path)
    *others, last = path.read_bytes().split(b"\xff\xda")
    path.write_bytes(b"\xff\xda".join(others) + b"\xff\x20" + last)
    for seed in range(5):
        known, _, differing = look_at(path, seed)
        assert known == "decoded"
        assert not differing

"""A complete decode gives the same index in one go and in parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import av
import pytest

from tests.support.codecs import KINDS, make
from videoload.index import complete_decode
from videoload.index.complete_decode import decode_index
from videoload.storage.files import Folder

# Some files can be split. Others only seem so: flags that lie, open groups, no index.
SPLIT = (
    "cinepak", "mpeg4_xvid", "mpeg4_bframes", "h264_bframes", "mjpeg", "ffv1", "ts_mpeg4_named_avi",
)  # fmt: skip
WHOLE = (
    "h264_open_gop",
    "mpeg4_none_flagged_key",
    "mpeg4_no_index",
    "mpeg4_truncated",
)


@pytest.fixture
def splits(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Makes every decode long enough to be split; returns whether each attempt to split
    succeeded."""
    tries: list[bool] = []
    in_parts = complete_decode._in_parts

    def noted(*arguments: object) -> object:
        made = in_parts(*arguments)  # type: ignore[arg-type]
        tries.append(made is not None)
        return made

    monkeypatch.setattr(complete_decode, "_LONG_S", 1e-12)
    monkeypatch.setattr(complete_decode, "_TRIAL_S", 1e-9)
    monkeypatch.setattr(complete_decode, "_in_parts", noted)
    return tries


@pytest.mark.parametrize("name", SPLIT + WHOLE)
def test_a_decode_in_parts_gives_the_same_index_as_in_one_go(
    name: str, tmp_path: Path, splits: list[bool]
) -> None:
    kind = next(kind for kind in KINDS if kind.name == name)
    try:
        path = make(replace(kind, frames=60), tmp_path)
    except (av.error.FFmpegError, ValueError) as error:
        pytest.skip(f"this FFmpeg cannot write {name}: {error}")
    file = Folder(tmp_path).resolve(path.name)
    packets = 0

    def tick() -> None:
        nonlocal packets
        packets += 1

    whole, told = decode_index(file, lambda: None, threads=1)
    assert splits == []
    parts, same = decode_index(file, tick, threads=4)
    assert splits == [name in SPLIT]
    assert parts.to_bytes() == whole.to_bytes()
    assert same == told
    assert packets >= told.packets, "a long decode reports progress"

"""A file that is decoded whole, in one go and in parts: the same in any case."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import av
import pytest

from tests.support.codecs import KINDS, make
from videoload.index import complete_decode
from videoload.index.complete_decode import decode_index
from videoload.storage.files import Folder

# Some that can be split, and some that only look so: flags that lie, open groups, no index.
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
    """Everything takes long; whether each try to split was one."""
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
def test_parts_tell_what_the_whole_tells(name: str, tmp_path: Path, splits: list[bool]) -> None:
    kind = next(kind for kind in KINDS if kind.name == name)
    try:
        path = make(replace(kind, frames=120), tmp_path)
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
    assert packets >= told.packets, "a long decode shows that it gets on"

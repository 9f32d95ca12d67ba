"""A video that is written again has the frames of its source, smaller, and in their order."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import videoload as vl
from tests.support.videos import make_avi
from videoload.decoding.decoder import Decoder
from videoload.errors import SpecError, VideoError, VideoloadError
from videoload.preparing.encoding import Look, Settings, difference_of, write_again

SMALL = Settings.of(48, 6, "mpeg4", None)


def test_it_has_the_frames_of_its_source_and_a_key_frame_every_few(tmp_path: Path) -> None:
    make_avi(tmp_path / "a.avi", frames=31, b_frames=2, aspect=Fraction(8, 7))
    done = write_again(str(tmp_path), "a.avi", tmp_path / "out/run/b.avi", SMALL, lambda: None)
    assert (done["frames"], done["remark"]) == (31, "")
    with (
        vl.open(tmp_path / "a.avi", resize=48) as source,
        vl.open(tmp_path / "out/run/b.avi") as new,
    ):
        assert (len(new), new.size, new.fps) == (31, (48, 64), 25)
        for one, other in zip(source, new, strict=True):
            assert np.abs(one.astype(int) - other).mean() < 8
    index = Decoder(tmp_path / "out").index("run/b.avi")
    assert len(index.order.starts) == 6
    assert index.order.is_proven
    assert index.info.aspect == Fraction(8, 7)
    assert [file.name for file in (tmp_path / "out/run").iterdir()] == ["b.avi"]


def test_a_turned_video_is_written_upright_and_a_small_one_keeps_its_size(tmp_path: Path) -> None:
    make_avi(
        tmp_path / "a.mp4", frames=5, codec="libx264", container_format="mp4", degrees=90,
        aspect=Fraction(2),
    )  # fmt: skip
    h264 = Settings.of(128, 6, "h264", 20)
    write_again(str(tmp_path), "a.mp4", tmp_path / "b.avi", h264, lambda: None)
    with vl.open(tmp_path / "b.avi") as new:
        assert (new.size, new.codec, len(new)) == ((96, 72), "h264", 5)
    assert Decoder(tmp_path).index("b.avi").info.aspect == Fraction(1, 2)


def test_what_cannot_be_decoded_or_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.avi").write_bytes(b"RIFF")
    with pytest.raises(VideoError, match=r"bad\.avi"):
        write_again(str(tmp_path), "bad.avi", tmp_path / "b.avi", SMALL, lambda: None)
    make_avi(tmp_path / "a.avi", frames=3)
    (tmp_path / "file").touch()
    with pytest.raises(VideoloadError, match=r"cannot write .*file/b\.avi: "):
        write_again(str(tmp_path), "a.avi", tmp_path / "file/b.avi", SMALL, lambda: None)
    with pytest.raises(SpecError, match="from 1 "):
        Settings.of(48, 6, "mpeg4", 40)
    with pytest.raises(SpecError, match="even"):
        Settings.of(47, 6, "mpeg4", None)


def test_frames_that_are_lost_or_change_places_are_noticed() -> None:
    frames: list[Look] = [np.full((8, 8), 10.0 * i, np.float32) for i in range(6)]
    blurred = [frame + 3 for frame in frames]
    assert not difference_of(frames, blurred)
    assert "5 frames instead of 6" in difference_of(frames, frames[:-1])
    swapped = [*blurred[:2], blurred[3], blurred[2], *blurred[4:]]
    assert "frame 2" in difference_of(frames, swapped)
    assert "frame 1" in difference_of(frames, [frames[0], *blurred[:-1]])
    assert "frame 0" in difference_of(frames, [frame + 20 for frame in frames])

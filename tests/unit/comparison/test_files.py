"""The files of a folder that a comparison takes: each looked at, as long as there is time."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest

from benchmarks.videos import Recipe, make_video
from tests.support.videos import make_avi
from videoload.comparison.bare import Plain
from videoload.comparison.check import wrong_frames
from videoload.comparison.files import choose, look_at
from videoload.comparison.run import take
from videoload.comparison.work import Clip, Work
from videoload.errors import CatalogError

CLIP = Clip(4, 2, resize=64, crop=56)
SHORT = Clip(2, 1, resize=64, crop=56)
RECIPE = Recipe("mpeg4", 160, 120, 24, 6)
H264 = Recipe("libx264", 160, 120, 24, 6, b_frames=2)


def chosen(folder: Path, kept: Path | None = None, seconds: float = 60.0) -> tuple[Work, list[str]]:
    """The work, and what was said."""
    said: list[str] = []
    return choose(folder, CLIP, seconds, kept, 2, said.append), said


def test_what_cannot_be_compared_is_left_out_with_its_reason(tmp_path: Path) -> None:
    make_video(tmp_path / "good.avi", RECIPE, seed=0)
    make_video(tmp_path / "short.MKV", RECIPE._replace(frames=3), seed=1)
    (tmp_path / "text.mp4").write_text("not a video")
    make_avi(tmp_path / "turned.mp4", frames=12, container_format="mp4", degrees=90)
    work, said = chosen(tmp_path)
    assert [file.path for file in work.files] == ["good.avi"]
    assert said[0].startswith("4 videos below")
    assert "left out: 1 (less than 7 frames)" in said
    assert "left out: 1 (players turn it or cut it)" in said
    assert "left out: 1 (Invalid data found when processing input)" in said


def test_a_folder_without_a_fit_video_is_an_error_with_the_reason(tmp_path: Path) -> None:
    make_video(tmp_path / "short.avi", RECIPE._replace(frames=3), seed=1)
    with pytest.raises(CatalogError, match="can be compared: less than 7 frames"):
        chosen(tmp_path)


def test_a_slow_look_takes_fewer_files_and_at_least_one(tmp_path: Path) -> None:
    for number in range(8):
        make_video(tmp_path / f"{number}.avi", RECIPE, seed=number)
    assert len(chosen(tmp_path, seconds=0.0)[0].files) == 2  # one for each process


@pytest.mark.parametrize("suffix", [".avi", ".mp4", ".mkv", ".flv", ".m2ts"])
def test_the_limit_reads_the_right_frames_whatever_the_container(
    suffix: str, tmp_path: Path
) -> None:
    make_video(
        tmp_path / f"a{suffix}", H264 if "libx264" in av.codecs_available else RECIPE, seed=0
    )
    work, _ = chosen(tmp_path, tmp_path)
    (file,) = work.files
    assert file.frames == 24
    assert [ordinal for ordinal, _ in file.keys] == [0, 6, 12, 18]
    plain, items = Plain(work, tables=True), work.distinct
    clips = np.empty((len(items), *CLIP.shape), np.uint8)
    for (_, _, start), clip in zip(items, clips, strict=True):
        plain.read(file, start, clip)
    batches = iter([(np.arange(len(items)), clips)])
    assert wrong_frames(work, items, take(batches, 1)) == (4 * len(items), 0)


@pytest.mark.parametrize("most", range(6, 12))
def test_frames_that_are_looked_at_stand_where_a_complete_decode_has_them(
    most: int, tmp_path: Path
) -> None:
    make_video(tmp_path / "a.avi", RECIPE._replace(b_frames=2), seed=0)
    part, whole = (look_at(tmp_path, "a.avi", SHORT, tmp_path, n) for n in (most, 24))
    kept = np.load(part.pictures)
    assert len(kept) == part.frames >= most
    assert np.array_equal(kept, np.load(whole.pictures)[: part.frames])


def test_only_the_first_frames_of_a_long_file_are_looked_at(tmp_path: Path) -> None:
    make_video(tmp_path / "a.avi", RECIPE._replace(frames=60), seed=0)
    file = look_at(tmp_path, "a.avi", most=12)
    assert 12 <= file.frames < 20
    assert [key for key, _ in file.keys] == list(range(0, file.frames, 6))

"""`videoload preview` and `Stream.preview` show the batches that a trainer gets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.programs import Programs
from tests.support.videos import Videos, make_avi
from tests.support.waiting import SECOND
from videoload import Client, ClipSpec, decode_serially
from videoload.commands.cli_batches import parse_clip
from videoload.trainer import contact_sheet

Image = pytest.importorskip("PIL.Image")
pytestmark = pytest.mark.timeout(120 * SECOND)

CLIP = ClipSpec(frames=4, resize=36, size=(32, 32), sampling="random", flip=True)
AS_TEXT = "frames=4, resize=36, size=(32, 32), sampling='random', flip=True"


def pixels(path: Path) -> bytes:
    with Image.open(path) as image:
        return np.asarray(image).tobytes()


def test_the_command_and_a_stream_draw_the_batches_of_a_serial_decode(
    videos: Videos, client: Client, programs: Programs, tmp_path: Path
) -> None:
    program = programs.videoload(
        "preview", str(videos.root), "--output", str(tmp_path / "command.png"),
        "--clip", AS_TEXT, "--stream", "batch_size=3, shuffle=True, seed=5",
        "--step", "3", "--batches", "2",
    )  # fmt: skip
    options = {"shuffle": True, "seed": 5}
    stream = client.stream(videos.catalog, CLIP, 3, **options)  # type: ignore[call-overload]
    assert len(stream) == 2, "the batches are of two epochs"
    stream.preview(tmp_path / "stream.png", 2, start_step=3)
    assert stream.stats().batches == 0, "nobody trained on them"
    batches = decode_serially(
        videos.catalog, CLIP, 3, shuffle=True, seed=5, start_step=3, epochs=3, info=True
    )
    shown = [next(batches), next(batches)]
    contact_sheet.save(tmp_path / "serial.png", shown, videos.catalog, CLIP)
    assert program.wait(60 * SECOND) == 0, program.err
    assert program.out == f"{tmp_path / 'command.png'}: 6 clips, from step 3\n"
    expected = pixels(tmp_path / "serial.png")
    assert pixels(tmp_path / "stream.png") == expected
    assert pixels(tmp_path / "command.png") == expected


def test_fewer_clips_than_a_batch_are_drawn(programs: Programs, tmp_path: Path) -> None:
    make_avi(tmp_path / "videos/walk/a.avi", frames=20)
    sheet = tmp_path / "sheet.png"
    program = programs.videoload(
        "preview", str(tmp_path / "videos"), "--output", str(sheet), "--clip", AS_TEXT
    )
    assert program.wait(60 * SECOND) == 0, program.err
    assert program.out == f"{sheet}: 1 clips, from step 0\n"


@pytest.mark.parametrize("output", ["((4, 32, 32, 3), 'float32')", "((3, 4, 32, 32), 'uint8')"])
def test_the_result_of_a_transform_is_refused_if_it_is_not_a_picture(
    output: str, videos: Videos, programs: Programs
) -> None:
    clip = f"{AS_TEXT}, transform='math:floor', output={output}"
    program = programs.videoload("preview", str(videos.root), "--clip", clip)
    assert program.wait(60 * SECOND) == 1
    assert program.err.startswith("videoload: a preview is of pictures, uint8 [T, H, W, 3], and ")
    assert program.err.count("\n") == 1


@pytest.mark.parametrize(
    ("clip", "words"),
    [
        ("frames=4, strid=2", "--clip: there is no strid=: did you mean stride=?"),
        ("offsets=(-1, 0)", "offsets count from a moment"),
    ],
)
def test_wrong_arguments_are_reported_in_one_line(
    clip: str, words: str, videos: Videos, programs: Programs
) -> None:
    program = programs.videoload("preview", str(videos.root), "--clip", clip)
    assert program.wait(60 * SECOND) == 1
    assert program.err.startswith(f"videoload: {words}")
    assert program.err.count("\n") == 1


def test_a_clip_of_any_length_is_told_by_its_most_frames() -> None:
    assert parse_clip("max_frames=4, fps=5", "").frames == 4

"""`videoload preview` and `Stream.preview` show the batches that a trainer gets."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.programs import Programs
from tests.support.videos import Videos
from tests.support.waiting import SECOND
from videoload import Client, ClipSpec, decode_serially
from videoload.client import contact_sheet
from videoload.clips.sample_spec import one_clip
from videoload.tools.cli_videos import parse_clip

Image = pytest.importorskip("PIL.Image")
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
    contact_sheet.save(tmp_path / "serial.png", shown, videos.catalog, one_clip(CLIP))
    assert program.wait(60 * SECOND) == 0, program.err
    assert program.out == f"{tmp_path / 'command.png'}: 6 clips, from step 3\n"
    expected = pixels(tmp_path / "serial.png")
    assert pixels(tmp_path / "stream.png") == expected
    assert pixels(tmp_path / "command.png") == expected


@pytest.mark.parametrize(
    ("shape", "across", "factor"),
    [((4, 40, 30), 90, "3 times"), ((4, 95, 30), 60, "2 times"), ((4, 96, 30), 30, ""),
     ((16, 40, 200), 200, ""), ((16, 40, 300), 150, "1/2")],
)  # fmt: skip
def test_small_frames_are_enlarged_and_wide_rows_are_scaled_down(
    shape: tuple[int, int, int], across: int, factor: str
) -> None:
    clip = np.full((*shape, 3), (0, 200, 0), np.uint8)
    boxes = np.array([[[4, 4, 10, 12]]], np.float32)
    row = contact_sheet.SheetRow(clip, "jump", "a.avi", tuple(range(shape[0])), "step 0", (boxes,))
    head = contact_sheet.title([row], one_clip(CLIP))
    assert (factor in head) if factor else ("times" not in head)
    bare, drawn = (
        np.asarray(contact_sheet.sheet([each], head))
        for each in (row._replace(marks=()), row)
    )  # fmt: skip
    green = (bare == (0, 200, 0)).all(axis=2)
    assert green.any(axis=0).sum() == shape[0] * across
    down, right = np.nonzero((drawn == (255, 60, 60)).all(axis=2))
    scale = across / shape[2]
    tops, lefts = np.nonzero(green)
    assert (down.min() - tops.min(), right.min() - lefts.min()) == (4 * scale, 4 * scale)
    assert down.max() - down.min() + 1 == 8 * scale


def test_a_function_that_fails_in_the_command_is_one_line(
    videos: Videos, programs: Programs, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text("def cut(clip):\n    return clip\n")
    program = programs.videoload(
        "preview", str(videos.root), "--clip", f"{AS_TEXT}, transform='mine:cut'", cwd=tmp_path
    )
    assert program.wait(60 * SECOND) == 1
    assert "mine:cut" in program.err
    assert program.err.count("\n") == 1


def test_a_clip_of_any_length_is_told_by_its_most_frames() -> None:
    assert parse_clip("max_frames=4, fps=5", "").frames == 4

"""The scripts of docs/train/resume.md, killed in mid-epoch and started again."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.pages import blocks
from tests.support.programs import Program, Programs
from tests.support.videos import make_avi
from tests.support.waiting import SECOND
from tests.support.watched_trainer import told
from videoload import Catalog, ClipSpec, decode_serially

pytestmark = [pytest.mark.timeout(500 * SECOND), pytest.mark.slow, pytest.mark.nightly]

PAGE = Path(__file__).parents[2] / "docs/train/resume.md"
FILES = {block.title: block.code for block in blocks(PAGE.read_text()) if block.title}
CLIP = ClipSpec(frames=8, stride=2, resize=64, size=(64, 64), sampling="random", flip=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The page's files, and videos of which six batches make an epoch."""
    for number in range(24):
        make_avi(tmp_path / f"ucf101/{number % 3}/{number}.avi", frames=24, seed=number)
    for name, code in FILES.items():
        (tmp_path / name).write_text(code)
    return tmp_path


def run(programs: Programs, folder: Path, name: str, *words: str, status: int) -> Program:
    command = ("-m", "tests.support.watched_trainer", name, *words)
    program = programs.python(*command, cwd=folder, env={"CUDA_VISIBLE_DEVICES": ""})
    assert program.wait(200 * SECOND) == status, f"{program.out}\n{program.err}"
    return program


@pytest.mark.parametrize("package", ["lightning", "accelerate", "transformers"])
def test_a_killed_training_continues_with_the_batches_after_its_checkpoint(
    package: str, programs: Programs, folder: Path
) -> None:
    if find_spec("torch") is None or find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    catalog = Catalog.from_folder(folder / "ucf101")
    batches = decode_serially(catalog, CLIP, 4, shuffle=True, seed=0, epochs=3)
    right = [told(clips) for clips, _ in batches]
    assert len({*right}) == 18
    trained = []
    for stop, status in (("10", 9), ("6", 9), ("0", 0)):
        program = run(programs, folder, f"with_{package}.py", stop, status=status)
        trained.append(re.findall(r"trained on (\w+)", program.out))
    # One checkpoint was made in the middle of an epoch, the other at the end of one.
    assert trained == [right[:10], right[8:14], right[12:]]


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_a_killed_training_of_keras_ends_with_the_weights_of_a_loop(
    backend: str, programs: Programs, folder: Path
) -> None:
    if find_spec("keras") is None or find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    run(programs, folder, "with_keras.py", "3", backend, status=9)  # 8 batches are saved, of 6 each
    program = run(programs, folder, "with_keras.py", "0", backend, status=0)
    assert float(program.out.split()[-1]) < 1e-6

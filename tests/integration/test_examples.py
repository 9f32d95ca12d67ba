"""The whole scripts of the examples and of Keras's page, killed in mid-epoch and started again."""

import csv
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.lerobot import make_lerobot
from tests.support.needs import needs_tensorflow, needs_torch
from tests.support.pages import blocks
from tests.support.ports import free_ports
from tests.support.programs import Program, Programs
from tests.support.videos import make_avi
from tests.support.waiting import SECOND

pytestmark = [pytest.mark.timeout(500 * SECOND), pytest.mark.slow, pytest.mark.nightly]

DOCS = Path(__file__).parents[2] / "docs"
PAGES = DOCS / "examples.md", DOCS / "train/keras.md"
BLOCKS = [block for page in PAGES for block in blocks(page.read_text())]
STOP = 10  # steps: in mid-epoch, and two after a save


def script(folder: Path, words: str) -> None:
    """Write the one script with these words, and the files that it needs."""
    (found,) = [each for each in BLOCKS if not each.title and words in each.code]
    (folder / "script.py").write_text(found.code)
    (folder / "shared").mkdir()
    for each in BLOCKS:
        if each.title:
            (folder / each.title).write_text(each.code)


def ranks(programs: Programs, folder: Path, stop: int) -> list[Program]:
    """Two ranks of the script; both die after step number ``stop``, unless it is 0."""
    (port,) = free_ports(1)
    given = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    given |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    started = [
        programs.python(
            "-m", "tests.support.watched_trainer", "script.py", f"step {stop}",
            cwd=folder, env={**given, "RANK": str(rank)},
        )
        for rank in range(2)
    ]  # fmt: skip
    for program in started:
        assert program.wait(200 * SECOND) == (9 if stop else 0), f"{program.out}\n{program.err}"
    return started


def robots(folder: Path) -> None:
    make_lerobot(folder / "aloha", [30, 41, 25, 38])
    make_lerobot(folder / "more", [20, 33], seed=9)


def films(folder: Path) -> None:
    for at in range(16):
        size = ((54, 96), (96, 54), (64, 64))[at % 3]
        make_avi(folder / f"web/{at}.avi", frames=24 + 7 * at, size=size, seed=at)
        (folder / f"web/{at}.json").write_text('{"caption": ["A film.", "Pictures move."]}')


@needs_torch
@pytest.mark.parametrize(
    ("words", "make", "saved"),
    [("from_lerobot", robots, "robot.pt"), ("EmbeddingBag", films, "net.pt")],
)
def test_two_ranks_that_are_killed_end_with_the_weights_of_two_that_are_not(
    words: str, make: Any, saved: str, programs: Programs, tmp_path: Path
) -> None:
    import torch

    ended = []
    for name, stops in (("whole", [0]), ("killed", [STOP, 0])):
        folder = tmp_path / name
        folder.mkdir()
        script(folder, words)
        make(folder)
        for stop in stops:
            ranks(programs, folder, stop)
        ended.append(torch.load(folder / "shared" / saved))
    whole, killed = ended
    assert whole["stream"]["step"] == killed["stream"]["step"] > STOP
    for name, weights in whole["net"].items():
        assert torch.equal(weights, killed["net"][name]), name


# Beginnings of a script that dies at the end of an epoch: in its validation, between the callbacks
# that see its end, and within the saving of the best model.
DEATHS = (
    "keras.callbacks.CSVLogger.on_test_begin = lambda *_, **__: os._exit(9)",
    """
logged = keras.callbacks.CSVLogger.on_epoch_end
keras.callbacks.CSVLogger.on_epoch_end = lambda *given: (logged(*given), os._exit(9))
""",
    """
save = keras.Model.save
def die(model, path):
    save(model, path)
    if path == "run/new.keras":
        os.truncate(path, 500)
        os._exit(9)
keras.Model.save = die
""",
)


@needs_tensorflow
def test_a_training_killed_wherever_keeps_its_best_model_and_validates_each_epoch(
    programs: Programs, tmp_path: Path
) -> None:
    lines = []
    for number in range(30):
        path = f"ucf101/{number % 3}/v_a_g{number // 3:02}_c{number}.avi"
        make_avi(tmp_path / path, frames=24, seed=number)
        lines.append(f"{path.removeprefix('ucf101/')} {number % 3 + 1}\n")
    (tmp_path / "trainlist01.txt").write_text("".join(lines))
    (tmp_path / "testlist01.txt").write_text("".join(lines[:3]))
    (tmp_path / "classInd.txt").write_text("1 0\n2 1\n3 2\n")
    script(tmp_path, "mixed_precision")
    run = tmp_path / "run"

    def start(name: str = "script.py") -> Program:
        environment = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}
        return programs.python(name, cwd=tmp_path, env=environment)

    def best() -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in run.glob("best-*.keras")}

    def epochs() -> list[int]:
        rows = [*csv.DictReader((run / "log.csv").read_text().splitlines())]
        assert all(row["val_accuracy"] for row in rows)
        return [int(row["epoch"]) for row in rows]

    run.mkdir()
    (run / "best--1.keras").write_bytes(b"a model that is worse than any other")
    code = (tmp_path / "script.py").read_text()
    for death in DEATHS:
        (tmp_path / "dies.py").write_text(f"import os\nimport keras\n{death}\n{code}")
        victim = start("dies.py")
        assert victim.wait(200 * SECOND) == 9, f"{victim.out}\n{victim.err}"
        assert list(best()) == ["best--1.keras"]
    assert epochs() == [0, 0], "the epoch is repeated until all callbacks have seen its end"

    victim = start()
    victim.wait_for("Epoch 2/3", 200 * SECOND)
    victim.signal(signal.SIGKILL)
    assert victim.wait(30 * SECOND) == -signal.SIGKILL, victim.err
    ((first, kept),) = best().items()
    assert first != "best--1.keras"
    (run / first).rename(run / "best-2.000000.keras")  # no later epoch is as good
    (run / "best--1.keras").write_bytes(b"a model that a killed process did not delete")
    again = start()
    assert again.wait(200 * SECOND) == 0, again.err
    assert re.search(r"accuracy \d+", again.out)
    assert best() == {"best-2.000000.keras": kept}
    assert epochs() == [0, 0, 0, 1, 2]
    assert os.listdir(run / "position")

"""The deployment of docker-compose.yml runs: trainers resume, workers wait, mistakes are named.

Docker's own part is not tested: see `tests.support.deployment`.
"""

import re
import signal
from pathlib import Path

import pytest

from tests.support.deployment import PROJECT, Deployment
from tests.support.needs import needs_tensorflow
from tests.support.ports import free_port
from tests.support.processes import children_of
from tests.support.programs import Program, Programs
from tests.support.servers import bucket
from tests.support.videos import make_avi
from tests.support.waiting import SECOND, wait_until

BUCKET = PROJECT / "services/compose.bucket.yml"
CLASSES = ("jump", "run", "walk")
VIDEOS_OF_A_CLASS = 5  # of which four are trained on
SMALL = {"SIZE": "32", "FRAMES": "4", "BATCH_SIZE": "4", "SAVE_EVERY": "2", "WORKERS": "2"}
STEPS = 3  # batches an epoch
FOR_EVER = "100000"


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes of small videos."""
    root = tmp_path_factory.mktemp("videos")
    for seed, name in enumerate(CLASSES):
        for number in range(VIDEOS_OF_A_CLASS):
            make_avi(root / name / f"{number}.avi", frames=12, size=(36, 48), seed=7 * seed)
    return root


@pytest.fixture
def deployment(programs: Programs, tmp_path: Path, videos: Path) -> Deployment:
    made = Deployment(programs, tmp_path / "root")
    (made.folder / "videos").symlink_to(videos)
    return made


def wait_until_left(workers: list[Program], trainers: int) -> None:
    """Wait until each of the workers has seen so many trainers leave."""

    def left(worker: Program) -> int:
        return len(re.findall("waiting for|disconnected", worker.err))

    wait_until(lambda: all(left(worker) == trainers for worker in workers), 60 * SECOND)


def stop(program: Program) -> int:
    """Send SIGTERM, as Docker does; returns the exit status."""
    program.signal(signal.SIGTERM)
    return program.wait(60 * SECOND)


# Training


@pytest.mark.slow
@needs_tensorflow
def test_a_stopped_trainer_resumes_and_its_workers_wait_for_it(deployment: Deployment) -> None:
    deployment.make_keys()
    workers = [deployment.start("worker") for _ in range(2)]
    stranger = deployment.start("worker", KEYS="")

    trainer = deployment.start("trainer", "tensorflow", **SMALL, EPOCHS=FOR_EVER)
    wait_until(lambda: deployment.position or trainer.process.poll(), 90 * SECOND, trainer.err)
    assert stop(trainer) == 128 + signal.SIGTERM, trainer.err
    trained = deployment.position
    assert deployment.models == [f"model-{trained}.keras"]
    wait_until_left(workers, trainers=1)

    epochs = trained // STEPS + 2
    again = deployment.start("trainer", "tensorflow", **SMALL, EPOCHS=str(epochs))
    assert again.wait(90 * SECOND) == 0, again.err
    assert f"continuing after {trained} batches\nEpoch {trained // STEPS + 1}/" in again.out
    assert f"Epoch {epochs}/{epochs}\n{STEPS}/{STEPS} - " in again.out
    assert "3 test videos: accuracy " in again.out
    assert re.search(r"\b100% of the clips from the frame store", again.out), again.out
    assert deployment.position == epochs * STEPS
    assert deployment.models == [f"model-{epochs * STEPS}.keras"]
    wait_until_left(workers, trainers=2)

    for worker in workers:
        [process] = children_of(worker.pid)
        assert re.search(rf":{process}: [1-9]\d* clips", again.out), again.out
        assert worker.err.count("serving trainer") == 2
        assert stop(worker) == 0, worker.err
    assert "serving trainer" not in stranger.err, "a worker without keys was let in"


@pytest.mark.slow
@needs_tensorflow
def test_a_trainer_whose_workers_have_ended_saves_at_sigterm(deployment: Deployment) -> None:
    deployment.make_keys()
    worker = deployment.start("worker")
    settings = {**SMALL, "SAVE_EVERY": FOR_EVER, "EPOCHS": FOR_EVER}
    trainer = deployment.start("trainer", "tensorflow", **settings)
    trainer.wait_for("Epoch 2/", 90 * SECOND)
    assert stop(worker) == 0, worker.err
    trainer.wait_for("no worker is connected", 60 * SECOND)
    assert stop(trainer) == 128 + signal.SIGTERM, trainer.err
    assert "Traceback" not in trainer.err
    assert deployment.position > STEPS
    assert f"stopped after {deployment.position} batches" in trainer.out.splitlines()[-1]


@pytest.mark.slow
@needs_tensorflow
def test_with_a_bucket_trainer_and_worker_take_its_credentials_from_a_secret(
    programs: Programs, tmp_path: Path, videos: Path
) -> None:
    deployment = Deployment(programs, tmp_path / "root", BUCKET)
    deployment.make_keys()
    secrets = deployment.folder / "run/secrets"
    secrets.mkdir(parents=True)
    with bucket(videos) as variables:
        lines = "".join(f"{name}={value}\n" for name, value in variables.items())
        (secrets / "bucket").write_text(lines)
        deployment.start("worker")
        settings = SMALL | {"WORKERS": "1", "EPOCHS": "1", "VERIFY": "1"}
        trainer = deployment.start("trainer", "tensorflow", **settings)
        assert trainer.wait(120 * SECOND) == 0, trainer.err
    assert "verified: " in trainer.out
    assert "3 test videos: accuracy " in trainer.out


# Mistakes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"KEYS": ""}, "tcp://0.0.0.0"),
        ({"KEYS": "none"}, "none/admitted"),
        ({"LISTEN": "5555", "KEYS": ""}, "'5555'"),
        ({"RANK": "1"}, "--rank 1 of 0 --ranks"),
        ({"RANKS": "localhost"}, "--ranks localhost"),
    ],
)
def test_mistakes_of_the_user_are_reported_in_one_line(
    deployment: Deployment, settings: dict[str, str], named: str
) -> None:
    trainer = deployment.start("trainer", **{"LISTEN": "tcp://0.0.0.0:0"} | settings)
    assert trainer.wait(60 * SECOND) == 1
    [line] = trainer.err.splitlines()
    assert line.startswith("trainer: ")
    assert named in line


# The health check


def test_a_worker_is_healthy_while_it_waits_for_a_trainer_and_not_after_its_end(
    deployment: Deployment,
) -> None:
    deployment.make_keys()
    port = free_port()
    worker = deployment.start("worker", METRICS_PORT=str(port))
    worker.wait_for("cannot be reached", 60 * SECOND)
    assert deployment.health(port) == 0
    assert stop(worker) == 0, worker.err
    assert re.search(r"Z INFO videoload worker: received SIGTERM", worker.err)
    assert re.search(r"Z INFO videoload worker \d+: received SIGTERM", worker.err)
    assert deployment.health(port) == 1

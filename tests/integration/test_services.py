"""The deployment without containers: everything that docker-compose.yml starts, as processes of
this host.

Commands, environment and health check are read from the file. Container paths become folders, and
the compose network becomes a loopback port. Docker's own part is not tested.
"""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.compose import read_compose
from tests.support.needs import needs_tensorflow
from tests.support.ports import free_port
from tests.support.processes import children_of
from tests.support.programs import COMMANDS, Program, Programs
from tests.support.servers import bucket
from tests.support.videos import make_avi
from tests.support.waiting import SECOND, wait_until

PROJECT = Path(__file__).parents[2]
COMPOSE, BUCKET = PROJECT / "docker-compose.yml", PROJECT / "services/compose.bucket.yml"
CLASSES = ("jump", "run", "walk")
VIDEOS_OF_A_CLASS = 5  # of which four are trained on
SMALL = {"SIZE": "32", "FRAMES": "4", "BATCH_SIZE": "4", "SAVE_EVERY": "2", "WORKERS": "2"}
STEPS = 3  # batches an epoch
FOR_EVER = "100000"


class Deployment:
    """The services of docker-compose.yml on one host, with ``folder`` as the containers' /."""

    def __init__(self, programs: Programs, folder: Path, *files: Path) -> None:
        self._programs = programs
        self._folder = folder
        self._services: dict[str, dict[str, Any]] = read_compose(COMPOSE, *files)["services"]
        self._address = f"tcp://127.0.0.1:{free_port()}"
        # volumes and tmpfs
        for name in ("frames", "keys/trainer", "keys/worker", "models", "tmp"):
            (folder / name).mkdir(parents=True)

    def make_keys(self) -> None:
        """Run the one-shot service."""
        shell, option, script = self._here(self._services["keys"]["command"])
        script = script.replace("python -m", f"{sys.executable} -m")
        subprocess.run([shell, option, script], check=True, timeout=60 * SECOND, cwd=COMPOSE.parent)

    def start(self, name: str, imported: str = COMMANDS, /, **settings: str) -> Program:
        """Start one more container of ``name``; ``settings`` are additional VIDEOLOAD_
        variables."""
        service = self._services[name]
        environment = {
            variable: self._here([value])[0] for variable, value in service["environment"].items()
        }
        # Each container has a network of its own; here they would all take the same port.
        del environment["VIDEOLOAD_METRICS_PORT"]
        environment |= {f"VIDEOLOAD_{variable}": value for variable, value in settings.items()}
        return self._python(service["command"], env=environment, imported=imported)

    def health(self, port: int) -> int:
        """Exit status of the health check of the worker whose figures are at ``port``."""
        probe = [text.replace("9464", str(port)) for text in self._check[1:]]
        return self._python(probe).wait(30 * SECOND)

    @property
    def _check(self) -> list[str]:
        found: list[str] = self._services["worker"]["healthcheck"]["test"]
        return found

    @property
    def position(self) -> int:
        """The number of batches trained on, as saved; 0 before the first save."""
        file = self._folder / "models/position.json"
        return int(json.loads(file.read_text())["batches"]) if file.exists() else 0

    @property
    def models(self) -> list[str]:
        """The files beside the position."""
        return sorted(path.name for path in self._folder.glob("models/*.keras"))

    def _python(self, command: list[str], **options: Any) -> Program:
        secrets = f"{self._folder}/run/secrets/"
        python, *arguments = (word.replace("/run/secrets/", secrets) for word in command)
        assert python == "python"
        if "-c" in arguments:  # it becomes another program
            options["imported"] = ""
        return self._programs.python(*arguments, **options)

    def _here(self, texts: list[Any]) -> list[str]:
        """A frame store of 1 GB, other variables at their defaults, container paths below the
        folder, one address."""
        found = []
        for text in map(str, texts):
            known = re.sub(r"\$\{FRAME_STORE_GB:-\}", "1", text)
            known = re.sub(r"\$\{VIDEOS:\?[^}]*\}", "s3://clips/data", known)
            known = re.sub(r"\$\{\w+:[-?+]([^}]*)\}", r"\1", known)
            known = re.sub(r"tcp://[\w.]+:\d+", self._address, known)
            known = re.sub(
                r"(?<![\w/])/(?=videos|keys|models|tmp|frames)", f"{self._folder}/", known
            )
            found.append(known)
        return found


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
    folder = tmp_path / "root"
    made = Deployment(programs, folder)
    (folder / "videos").symlink_to(videos)
    return made


def trainers_gone(worker: Program) -> int:
    """How often it saw a trainer leave, and waited for the next."""
    return len(re.findall("waiting for|disconnected", worker.err))


def stop(program: Program, within_s: float) -> int:
    """Send SIGTERM, as Docker does; returns the exit status."""
    program.signal(signal.SIGTERM)
    return program.wait(within_s)


@pytest.mark.slow
@needs_tensorflow
def test_a_stopped_trainer_resumes_and_its_workers_wait_for_it(deployment: Deployment) -> None:
    deployment.make_keys()
    workers = [deployment.start("worker") for _ in range(2)]
    stranger = deployment.start("worker", KEYS="")

    trainer = deployment.start("trainer", "tensorflow", **SMALL, EPOCHS=FOR_EVER)
    wait_until(lambda: deployment.position or trainer.process.poll(), 60 * SECOND, trainer.err)
    assert stop(trainer, 30 * SECOND) == 128 + signal.SIGTERM, trainer.err
    trained = deployment.position
    assert deployment.models == [f"model-{trained}.keras"]
    wait_until(lambda: [trainers_gone(worker) for worker in workers] == [1, 1], 30 * SECOND)

    epochs = trained // STEPS + 2
    again = deployment.start("trainer", "tensorflow", **SMALL, EPOCHS=str(epochs))
    assert again.wait(60 * SECOND) == 0, again.err
    assert f"continuing after {trained} batches\nEpoch {trained // STEPS + 1}/" in again.out
    assert f"Epoch {epochs}/{epochs}\n{STEPS}/{STEPS} - " in again.out
    assert "3 test videos: accuracy " in again.out
    assert deployment.position == epochs * STEPS
    assert deployment.models == [f"model-{epochs * STEPS}.keras"]
    wait_until(lambda: [trainers_gone(worker) for worker in workers] == [2, 2], 30 * SECOND)
    for worker in workers:
        [child] = children_of(worker.pid)
        assert re.search(rf":{child}: [1-9]\d* clips", again.out), again.out
        assert worker.err.count("serving trainer") == 2
        assert stop(worker, 30 * SECOND) == 0, worker.err
    assert "serving trainer" not in stranger.err, "a worker without keys was let in"
    assert re.search(r"\b100% of the clips from the frame store", again.out), again.out


@pytest.mark.slow
@needs_tensorflow
def test_with_a_bucket_trainer_and_worker_take_its_credentials_from_a_secret(
    programs: Programs, tmp_path: Path, videos: Path
) -> None:
    deployment = Deployment(programs, tmp_path / "root", BUCKET)
    deployment.make_keys()
    secrets = tmp_path / "root/run/secrets"
    secrets.mkdir(parents=True)
    with bucket(videos) as variables:
        lines = "".join(f"{name}={value}\n" for name, value in variables.items())
        (secrets / "bucket").write_text(lines)
        deployment.start("worker")
        trainer = deployment.start(
            "trainer", "tensorflow", **SMALL | {"WORKERS": "1"}, EPOCHS="1", VERIFY="1"
        )
        assert trainer.wait(120 * SECOND) == 0, trainer.err
    assert "verified: " in trainer.out
    assert "3 test videos: accuracy " in trainer.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"KEYS": ""}, "tcp://0.0.0.0"),
        ({"KEYS": "none"}, "none/admitted"),
        ({"LISTEN": "5555", "KEYS": ""}, "'5555'"),
        ({"RANK": "1"}, "--rank 1 of 0 --ranks"),
        ({"RANKS": "localhost"}, "--ranks localhost"),
    ],
)
def test_mistakes_of_the_user_are_reported_in_one_line(
    deployment: Deployment, settings: dict[str, str], line: str
) -> None:
    trainer = deployment.start("trainer", **{"LISTEN": "tcp://0.0.0.0:0"} | settings)
    assert trainer.wait(30 * SECOND) == 1
    assert trainer.err.startswith("trainer: ")
    assert line in trainer.err
    assert len(trainer.err.splitlines()) == 1


# The health check


def test_a_worker_is_healthy_while_it_waits_for_a_trainer_and_not_after_its_end(
    deployment: Deployment,
) -> None:
    deployment.make_keys()
    port = free_port()
    worker = deployment.start("worker", METRICS_PORT=str(port))
    worker.wait_for("cannot be reached", 30 * SECOND)
    assert deployment.health(port) == 0
    assert stop(worker, 30 * SECOND) == 0, worker.err
    assert re.search(r"Z INFO videoload worker: SIGTERM", worker.err)
    assert re.search(r"Z INFO videoload worker \d+: SIGTERM came", worker.err)
    assert deployment.health(port) == 1

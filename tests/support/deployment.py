"""What docker-compose.yml starts, as processes of this host instead of containers.

Commands, environment and health check are read from the file. Container paths become folders, and
the compose network becomes a loopback port.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.compose import read_compose
from tests.support.ports import free_port
from tests.support.programs import COMMANDS, Program, Programs
from tests.support.waiting import SECOND

PROJECT = Path(__file__).parents[2]
COMPOSE = PROJECT / "docker-compose.yml"
VOLUMES = ("frames", "keys/trainer", "keys/worker", "models", "tmp")

# What a user may set for Compose; all else has its default.
VARIABLES = {"FRAME_STORE_GB": "1", "VIDEOS": "s3://clips/data"}


class Deployment:
    """The services of docker-compose.yml, with ``folder`` as the containers' /.

    Attributes:
        folder: Has the volumes as sub-folders, and a place for ``run/secrets``.
    """

    def __init__(self, programs: Programs, folder: Path, *more: Path) -> None:
        """``more``: files that are added to docker-compose.yml."""
        self.folder = folder
        self._programs = programs
        self._services: dict[str, dict[str, Any]] = read_compose(COMPOSE, *more)["services"]
        self._address = f"tcp://127.0.0.1:{free_port()}"
        for name in VOLUMES:
            (folder / name).mkdir(parents=True)

    def make_keys(self) -> None:
        """Run the one-shot service."""
        shell, option, script = map(self._on_this_host, self._services["keys"]["command"])
        script = script.replace("python -m", f"{sys.executable} -m")
        subprocess.run([shell, option, script], check=True, timeout=60 * SECOND, cwd=PROJECT)

    def start(self, service: str, imported: str = COMMANDS, /, **settings: str) -> Program:
        """Start one more container of a service; ``settings`` are additional VIDEOLOAD_
        variables."""
        found = self._services[service]
        environment = {
            name: self._on_this_host(value) for name, value in found["environment"].items()
        }
        # Each container has a network of its own; here they would all take the same port.
        del environment["VIDEOLOAD_METRICS_PORT"]
        environment |= {f"VIDEOLOAD_{name}": value for name, value in settings.items()}
        return self._python(found["command"], env=environment, imported=imported)

    def health(self, port: int) -> int:
        """Exit status of the health check of the worker whose figures are at ``port``."""
        _, *command = self._services["worker"]["healthcheck"]["test"]
        return self._python([word.replace("9464", str(port)) for word in command]).wait(30 * SECOND)

    @property
    def position(self) -> int:
        """The number of batches trained on, as saved; 0 before the first save."""
        file = self.folder / "models/position.json"
        return int(json.loads(file.read_text())["batches"]) if file.exists() else 0

    @property
    def models(self) -> list[str]:
        """The files beside the position."""
        return sorted(path.name for path in self.folder.glob("models/*.keras"))

    def _python(self, command: list[str], **options: Any) -> Program:
        secrets = f"{self.folder}/run/secrets/"
        python, *arguments = (word.replace("/run/secrets/", secrets) for word in command)
        assert python == "python"
        if "-c" in arguments:  # it becomes another program
            options["imported"] = ""
        return self._programs.python(*arguments, **options)

    def _on_this_host(self, value: object) -> str:
        """A word of the file: variables have their values, paths are below the folder, and there
        is one address."""
        word = str(value)
        for name, setting in VARIABLES.items():
            word = re.sub(rf"\$\{{{name}:[-?][^}}]*\}}", setting, word)
        word = re.sub(r"\$\{\w+:[-?+]([^}]*)\}", r"\1", word)
        word = re.sub(r"tcp://[\w.]+:\d+", self._address, word)
        paths = r"(?<![\w/])/(?=videos|keys|models|tmp|frames)"
        return re.sub(paths, f"{self.folder}/", word)

"""Everything that services/kubernetes/ starts, as processes of this host.

Commands and environment are those of the manifests. Container paths become folders, names of pods
become loopback addresses, and the test hands over the Secret. Kubernetes' own part is not tested.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import signal
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import MappingProxyType
from typing import Any

import certifi
import pytest

from tests.support.kubernetes import one, pods, written
from tests.support.needs import needs_tensorflow
from tests.support.ports import free_port, free_ports
from tests.support.programs import COMMANDS, Program, Programs
from tests.support.scrapes import get
from tests.support.trained import SMALL, STEPS, expected, make_classes
from tests.support.waiting import SECOND

pytestmark = pytest.mark.timeout(200 * SECOND)

ONCE = {**SMALL, "EPOCHS": "1", "VERIFY": "1"}
SERVED = 5555


class SecretStore(ThreadingHTTPServer):
    """As much of a cluster's API as the Job that makes keys uses."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Secrets)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.asked: list[tuple[str, str | None]] = []
        self.name = ""
        self.data: dict[str, bytes] = {}

    def __enter__(self) -> SecretStore:
        self._thread = Thread(target=self.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Secrets(BaseHTTPRequestHandler):
    server: SecretStore

    def do_POST(self) -> None:
        secret = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, self.headers["Authorization"]))
        self.send_response(409 if self.server.data else 201)
        self.end_headers()
        if not self.server.data:
            self.server.name = secret["metadata"]["name"]
            self.server.data = {k: base64.b64decode(v) for k, v in secret["data"].items()}

    def log_message(self, *args: Any) -> None:
        pass


class Namespace:
    """The pods of ``objects``; each has a folder below ``folder`` for the containers' /."""

    def __init__(
        self, programs: Programs, folder: Path, videos: Path, objects: list[dict[str, Any]],
        secrets: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        self._programs = programs
        self._folder = folder
        self._videos = videos
        self._secrets = secrets
        self._pods = pods(objects)
        self.job = one(objects, "Job", "trainer")["spec"]
        self._secret: dict[str, bytes] = {}
        self._started = 0
        # One port for each of the trainer's pods to listen on, and one for the ranks.
        self._served = free_ports(self.job.get("completions", 1))
        self._ranks = free_ports(self.job.get("completions", 1))

    def make_keys(self) -> None:
        """Run the Job that makes the Secret."""
        root = self._root("keys")
        (root / "keys").mkdir()
        job = self._pods["keys"]
        made = self._run(root, job["initContainers"][0]["command"], imported=COMMANDS)
        assert made.wait(30 * SECOND) == 0, made.err
        account = root / "account"
        account.mkdir()
        shutil.copy(certifi.where(), account / "ca.crt")
        (account / "namespace").write_text("mine")
        (account / "token").write_text("a-token")
        with SecretStore() as store:
            for said in ("", "the Secret exists; it stays as it is\n"):
                python, option, script = job["containers"][0]["command"]
                for there, here in {
                    "https://kubernetes.default.svc": store.url, '"/keys"': f'"{root}/keys"',
                    "/var/run/secrets/kubernetes.io/serviceaccount": str(account),
                }.items():  # fmt: skip
                    assert there in script
                    script = script.replace(there, here)
                stored = self._run(root, [python, option, script])
                assert stored.wait(30 * SECOND) == 0, stored.err
                assert stored.out == said
        assert store.asked == 2 * [("/api/v1/namespaces/mine/secrets", "Bearer a-token")]
        assert store.name == job_secret(self._pods["worker"]) == job_secret(self._pods["trainer"])
        self._secret = store.data

    def start(
        self, name: str, index: int = 0, imported: str = COMMANDS, **settings: str
    ) -> Program:
        """Start pod ``index`` of ``name``, with the module ``imported`` already loaded (see
        `tests.support.forked`); ``settings`` are additional VIDEOLOAD_ variables."""
        root = self._root(name)
        pod = self._pods[name]
        (container,) = pod["containers"]
        volumes = {volume.pop("name"): volume for volume in map(dict, pod["volumes"])}
        for mount in container["volumeMounts"]:
            at = root / mount["mountPath"].removeprefix("/")
            at.parent.mkdir(parents=True, exist_ok=True)
            volume = volumes[mount["name"]]
            if mount["name"] == "videos":
                at.symlink_to(self._videos)
            elif "persistentVolumeClaim" in volume:
                claim = self._folder / volume["persistentVolumeClaim"]["claimName"]
                claim.mkdir(exist_ok=True)
                at.symlink_to(claim)
            else:
                at.mkdir()
            for item in volume.get("secret", {}).get("items", ()):
                file = at / "..data" / item["path"]
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(self._secret[item["key"]])
                file.chmod(volume["secret"]["defaultMode"])
                top = Path(item["path"]).parts[0]
                (at / top).symlink_to(f"..data/{top}")  # as Kubernetes does
        environment: dict[str, str] = {}
        for source in container.get("envFrom", ()):
            environment |= self._secrets[source["secretRef"]["name"]]
        for entry in container["env"]:
            found = entry.get("value", str(index))
            if "secretKeyRef" in (source := entry.get("valueFrom", {})):
                asked = source["secretKeyRef"]
                found = self._secrets[asked["name"]][asked["key"]]
            environment[entry["name"]] = self._here(root, index, found)
        environment |= {f"VIDEOLOAD_{variable}": value for variable, value in settings.items()}
        return self._run(root, container["command"], env=environment, imported=imported)

    def probe(self, name: str, probe: str, port: int) -> int:
        """The status of a probe of the container that serves its figures at ``port``."""
        asks = self._pods[name]["containers"][0][probe]["httpGet"]
        assert asks["port"] == "metrics"
        return get(port, asks["path"])[0]

    def _root(self, name: str) -> Path:
        """The / of a new container."""
        self._started += 1
        root = self._folder / f"{name}-{self._started}"
        root.mkdir()
        return root

    def _run(self, root: Path, command: list[str], **options: Any) -> Program:
        python, *arguments = command
        assert python == "python"
        here = [self._here(root, 0, argument) for argument in arguments]
        return self._programs.python(*here, **options)

    def _here(self, root: Path, index: int, text: str) -> str:
        """Container paths below ``root``, and names of pods as addresses of this host."""
        for at, port in enumerate(self._ranks):
            text = re.sub(rf"\btrainer-{at}\.trainer:\d+", f"127.0.0.1:{port}", text)
        if text == "0.0.0.0:9464":  # here, all pods have one address
            return "0"
        if text == f"tcp://0.0.0.0:{SERVED}":
            return f"tcp://127.0.0.1:{self._served[index]}"
        if text == f"tcp://trainer:{SERVED}":
            return " ".join(f"tcp://127.0.0.1:{port}" for port in self._served)
        return re.sub(r"^/(?=videos|keys|models|tmp|frames)", f"{root}/", text)


def job_secret(pod: dict[str, Any]) -> str:
    """The name of the Secret that a pod mounts."""
    (name,) = [volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume]
    return str(name)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes of small videos."""
    root = tmp_path_factory.mktemp("videos")
    make_classes(root)
    return root


@pytest.mark.slow
@needs_tensorflow
def test_a_trainer_and_its_workers_train_an_epoch_and_the_workers_leave_when_asked(
    programs: Programs, tmp_path: Path, data: Path
) -> None:
    namespace = Namespace(programs, tmp_path, data, written())
    namespace.make_keys()
    port = free_port()
    worker = namespace.start("worker", 0, WORKERS="1", METRICS_PORT=str(port))
    namespace.start("worker", 1, WORKERS="1")
    trainer = namespace.start("trainer", 0, "tensorflow", **ONCE, WORKERS="2")
    assert trainer.wait(120 * SECOND) == 0, trainer.err
    assert expected(data) in trainer.out
    assert f"{STEPS}/{STEPS} - " in trainer.out
    assert [path.name for path in (tmp_path / "models").glob("*.keras")] == ["model-4.keras"]

    for probe in ("readinessProbe", "livenessProbe"):
        assert namespace.probe("worker", probe, port) == 200
    worker.signal(signal.SIGTERM)
    assert worker.wait(30 * SECOND) == 0, worker.err
    lines = [json.loads(line) for line in worker.err.splitlines()]
    assert lines[-1]["level"] == "INFO"
    assert any(line["message"].startswith("SIGTERM came") for line in lines)

"""The keys of services/kubernetes/: the Job that makes them runs against as much of a cluster's API
as it uses, and what the pods of trainer and workers mount lets a worker in.

Kubernetes' own part is not tested. What trainer and workers run is that of test_services.py.
"""

from __future__ import annotations

import base64
import json
import shutil
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import certifi
import pytest

from tests.support.digests import digest
from tests.support.kubernetes import pods, written
from tests.support.programs import COMMANDS, Programs
from tests.support.videos import Videos
from tests.support.waiting import SECOND, in_background
from videoload import Client, ClipSpec, decode_serially

pytestmark = pytest.mark.timeout(200 * SECOND)

CLIP = ClipSpec(frames=2, resize=32, size=(32, 32))


class Secrets(ThreadingHTTPServer):
    """A cluster in which Secrets can be created."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Creates)
        self.asked: list[tuple[str, str | None]] = []
        self.made: dict[str, dict[str, bytes]] = {}


class _Creates(BaseHTTPRequestHandler):
    server: Secrets

    def do_POST(self) -> None:
        secret = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, self.headers["Authorization"]))
        name, there = secret["metadata"]["name"], self.server.made
        self.send_response(409 if name in there else 201)
        self.end_headers()
        there.setdefault(name, {k: base64.b64decode(v) for k, v in secret["data"].items()})

    def log_message(self, *args: Any) -> None:
        pass


def make_keys(programs: Programs, folder: Path) -> dict[str, dict[str, bytes]]:
    """Run the Job, and run it again; returns the Secrets that it has made."""
    job, account = pods(written())["keys"], folder / "account"
    account.mkdir()
    python, *words = job["initContainers"][0]["command"]
    made = programs.python(*[word.replace("/keys", f"{folder}/keys") for word in words],
                           imported=COMMANDS)  # fmt: skip
    assert made.wait(30 * SECOND) == 0, made.err
    shutil.copy(certifi.where(), account / "ca.crt")
    (account / "namespace").write_text("mine")
    (account / "token").write_text("a-token")
    with Secrets() as cluster, in_background(lambda over: cluster.serve_forever(0.05)):
        try:
            for is_there in (False, True):
                python, option, script = job["containers"][0]["command"]
                assert python == "python"
                for there, here in {
                    "https://kubernetes.default.svc": f"http://127.0.0.1:{cluster.server_port}",
                    '"/keys"': f'"{folder}/keys"',
                    "/var/run/secrets/kubernetes.io/serviceaccount": str(account),
                }.items():  # fmt: skip
                    assert there in script
                    script = script.replace(there, here)
                stored = programs.python(option, script)
                assert stored.wait(30 * SECOND) == 0, stored.err
                assert bool(stored.out) == is_there, "it says that one is there, which stays"
        finally:
            cluster.shutdown()
    assert cluster.asked == 2 * [("/api/v1/namespaces/mine/secrets", "Bearer a-token")]
    return cluster.made


def mounted(role: str, secrets: dict[str, dict[str, bytes]], at: Path) -> str:
    """The keys of a pod, as Kubernetes mounts them."""
    [secret] = [each["secret"] for each in pods(written())[role]["volumes"] if "secret" in each]
    for item in secret["items"]:
        file = at / "..data" / item["path"]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(secrets[secret["secretName"]][item["key"]])
        file.chmod(secret["defaultMode"])
        top = Path(item["path"]).parts[0]
        (at / top).symlink_to(f"..data/{top}")
    return str(at)


def test_the_keys_that_the_job_makes_let_the_workers_in(
    programs: Programs, videos: Videos, tmp_path: Path
) -> None:
    secrets = make_keys(programs, tmp_path)
    trainer, worker = (mounted(role, secrets, tmp_path / role) for role in ("trainer", "worker"))
    with Client(workers=0, listen="tcp://127.0.0.1:*", keys=trainer) as client:
        programs.worker(client.endpoints[0], videos.root, "--keys", worker)
        client.wait_for_workers(1, 60 * SECOND)
        stream = client.stream(videos.catalog, CLIP, 2)
        assert digest(stream) == digest(decode_serially(videos.catalog, CLIP, 2))

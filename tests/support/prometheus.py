"""The real Prometheus, with the deployment's configuration and alerts."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from tests.support.scrapes import get

MONITORING = Path(__file__).parents[2] / "services/monitoring"


@contextmanager
def serve(folder: Path, targets: Mapping[str, str], port: int = 9090) -> Iterator[None]:
    """Prometheus at a port of loopback. It asks ``targets`` (an address for each job), and often;
    it calls their namespace "videoload"."""
    config = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "500ms", "evaluation_interval": "500ms"}
    for job in config["scrape_configs"]:
        job.pop("dns_sd_configs", None)
        target = {"targets": [targets[job["job_name"]]], "labels": {"namespace": "videoload"}}
        job["static_configs"] = [target]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    shutil.copy(MONITORING / "alerts.yml", folder)
    with (folder / "log").open("wb") as log, subprocess.Popen(
        ["prometheus", f"--config.file={folder}/prometheus.yml",
         f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"],
        stdout=log, stderr=log,
    ) as server:  # fmt: skip
        try:
            yield
        finally:
            server.kill()


def ask(port: int, expression: str) -> list[dict[str, Any]]:
    """What Prometheus answers to a query."""
    query = urllib.parse.urlencode({"query": expression})
    with suppress(OSError):  # it has not started yet
        status, text = get(port, f"/api/v1/query?{query}")
        if status == 503:
            return []
        assert status == 200, text
        found: list[dict[str, Any]] = json.loads(text)["data"]["result"]
        return found
    return []

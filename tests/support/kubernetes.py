"""The Kubernetes files, as they are written, and as kustomize renders the overlays."""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from tests.support.waiting import SECOND
from videoload.wire.keys import make_keys

PROJECT = Path(__file__).parents[2]
FOLDER = PROJECT / "services/kubernetes"
GUIDE = PROJECT / "docs/scale/kubernetes.md"

# Overlays that a user could write: some that take components, and the one of the guide.
_ALL = ["../monitor", "../autoscale", "../frames", "../bucket"]
_WITH = {
    "scaled": ("../gpu", ["../monitor", "../autoscale", "../frames"], ""),
    "all": ("../ranks", _ALL, ""),
    "second": ("../ranks", _ALL, "-b"),
}
_MINE = re.compile(r"^```text\n# mine/kustomization.yaml.*?\n(.+?)^```$", re.M | re.S)


def render(overlay: str) -> list[dict[str, Any]]:
    """The objects of an overlay. Skips the test if there is no kustomize."""
    return list(yaml.load_all(_rendered(overlay), yaml.CSafeLoader))


@cache
def _rendered(overlay: str) -> str:
    tools = {"kustomize": "build", "kubectl": "kustomize"}
    tool = next(filter(shutil.which, tools), None)
    if tool is None:
        pytest.skip("neither kustomize nor kubectl is installed")
    with TemporaryDirectory() as scratch:
        copy = Path(scratch, FOLDER.relative_to(PROJECT))
        shutil.copytree(FOLDER, copy)
        folder = Path(scratch) / overlay if overlay == "mine" else copy / overlay
        if overlay == "mine":
            folder.mkdir()
            (folder / "kustomization.yaml").write_text("".join(_MINE.findall(GUIDE.read_text())))
            make_keys(folder / "keys")
        elif overlay in _WITH:
            resource, components, suffix = _WITH[overlay]
            made = {
                "resources": [resource], "components": components, "nameSuffix": suffix,
                "namespace": "videoload",
            }  # fmt: skip
            folder.mkdir()
            (folder / "kustomization.yaml").write_text(yaml.safe_dump(made))
        done = subprocess.run(
            [tool, tools[tool], str(folder)],
            capture_output=True, text=True, check=False, timeout=60 * SECOND,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def written() -> list[dict[str, Any]]:
    """All objects of the files, before anything is patched."""
    files = [
        *FOLDER.glob("base/*.yaml"), *FOLDER.glob("monitor/*.yaml"),
        FOLDER / "autoscale/autoscaler.yaml", FOLDER / "bucket/policy.yaml",
    ]  # fmt: skip
    return [
        found
        for file in sorted(files)
        if file.name not in ("kustomization.yaml", "names.yaml")
        for found in yaml.load_all(file.read_text(), yaml.CSafeLoader)
    ]


def one(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """The object of that kind and name."""
    (found,) = [o for o in objects if (o["kind"], o["metadata"]["name"]) == (kind, name)]
    return found


def pods(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The pods that objects start, by name."""
    return {
        found["metadata"]["name"]: found["spec"]["template"]["spec"]
        for found in objects
        if found["kind"] in ("Job", "Deployment")
    }


def containers(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All containers, including init containers."""
    return [
        container
        for pod in pods(objects).values()
        for container in (*pod.get("initContainers", ()), *pod["containers"])
    ]

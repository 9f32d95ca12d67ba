"""Compose files, image and bake file are valid, match the code, and allow no more than needed.

What they start is run in tests/integration/test_services.py.
"""

import importlib.util
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from packaging.requirements import Requirement

from services.trainer import train
from tests.support.compose import read_compose
from tests.support.kubernetes import containers, pods, written
from videoload.engine.meter import Meter
from videoload.engine.metrics import families
from videoload.engine.stats import ClientRecord, StreamRecord
from videoload.tools import cli
from videoload.worker import keep_running as worker_metrics

PROJECT = Path(__file__).parents[3]
COMPOSE = PROJECT / "docker-compose.yml"
DOCKERFILE = (PROJECT / "services/Dockerfile").read_text().replace("\\\n", " ")
HOSTS, GPU, BUCKET = (PROJECT / f"services/compose.{n}.yml" for n in ("hosts", "gpu", "bucket"))
MONITOR = PROJECT / "services/monitoring"
ALERTS = yaml.safe_load((MONITOR / "alerts.yml").read_text())["groups"][0]["rules"]
AUTOSCALER = yaml.safe_load((PROJECT / "services/kubernetes/autoscale/autoscaler.yaml").read_text())
AUTOSCALED = AUTOSCALER["spec"]["triggers"][0]["metadata"]["query"]
CONFIG = read_compose(COMPOSE)
SERVICES: dict[str, dict[str, Any]] = CONFIG["services"]
ROLES = ("trainer", "worker")
MONITORING = {
    name for name, service in SERVICES.items() if service.get("profiles") == ["monitoring"]
}


def instructions(name: str, stage: str = "") -> list[str]:
    """The arguments of the Dockerfile's ``name`` instructions, of one stage if it is given."""
    text = DOCKERFILE
    if stage:
        text = re.split(r"^FROM ", text.split(f" AS {stage}\n")[1], maxsplit=1, flags=re.M)[0]
    return re.findall(rf"^{name} +(.*)$", text, re.MULTILINE)


def commands() -> Iterator[list[str]]:
    """Every Python command line of the deployment, from the module's name on."""
    ours = [name for name in SERVICES if name not in MONITORING]
    lines: list[list[str]] = [SERVICES[name]["command"] for name in ours]
    lines += [yaml.safe_load(line) for role in ROLES for line in instructions("CMD", role)]
    for line in lines:
        for found in re.findall(r"python -m (.+)", " ".join(line)):
            yield shlex.split(found)


FILES = (COMPOSE, GPU, BUCKET, HOSTS)


def test_they_are_compose_files(tmp_path: Path) -> None:
    for number, file in enumerate(FILES):
        (tmp_path / f"{number}.json").write_text(json.dumps(read_compose(file)))
        bare = re.findall(r"\$\{?\w+(?!\w|:[-?+])", re.sub(r"\$\$|#.*", "", file.read_text()))
        assert not bare, "a variable without a default is empty, silently"
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    found = subprocess.run(
        [*check, *tmp_path.glob("*.json")], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr


# Commands and settings

GROUP: Any = typer.main.get_command(cli.app)
TRAIN: Any = typer.main.get_command(train.app)


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_every_command_exists(command: list[str]) -> None:
    module, *words = command
    assert importlib.util.find_spec(module), f"there is no module {module}"
    found = GROUP.commands[words[0]] if module == "videoload" else TRAIN
    flags = {flag for option in found.params for flag in option.opts}
    assert {word for word in words if word.startswith("--")} <= flags


@pytest.mark.parametrize(
    ("role", "command"), [("trainer", TRAIN), ("worker", GROUP.commands["worker"])]
)
def test_every_setting_is_an_option(role: str, command: Any) -> None:
    (container,) = pods(written())[role]["containers"]
    in_cluster = {entry["name"] for entry in container["env"]}
    options = {f"VIDEOLOAD_{option.name.upper()}": option.required for option in command.params}
    given = {name for name in SERVICES[role]["environment"] if name.startswith("VIDEOLOAD_")}
    given |= {name for name in in_cluster if name.startswith("VIDEOLOAD_")}
    assert given <= options.keys()
    assert {name for name, needed in options.items() if needed} <= in_cluster


def test_credentials_of_a_bucket_are_taken_as_they_stand(tmp_path: Path) -> None:
    secret = tmp_path / "bucket"
    secret.write_text("# mine\nTOKEN=sv=1&sig=a%3D; 'b' $1 \"c\"\n\n")
    python, option, script, *_ = read_compose(BUCKET)["services"]["worker"]["command"]
    assert (python, option) == ("python", "-c")
    script = script.replace("/run/secrets/bucket", str(secret))
    shown = ["timeit", "-n", "1", "-r", "1", "-s", "import os; print(os.environ['TOKEN'])", "0"]
    done = subprocess.run(
        [sys.executable, "-c", script, *shown], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[0] == "sv=1&sig=a%3D; 'b' $1 \"c\""


# The image


def test_every_image_of_others_is_pinned_by_its_digest() -> None:
    stages = {line.split()[-1] for line in instructions("FROM")}
    used = {line.split()[0] for line in instructions("FROM")} - stages
    used |= {service["image"] for service in SERVICES.values()}
    used |= {container["image"] for container in containers(written())}
    others = {image for image in used if not image.startswith("videoload-")}
    assert len(others) == 4
    for image in others:
        assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+[\w-]*@sha256:[0-9a-f]{64}", image)


def test_every_package_of_the_images_has_one_version() -> None:
    text = (PROJECT / "services/constraints.txt").read_text()
    pinned = dict(re.findall(r"^([\w-]+)==([\w.]+)(?: ; [^\\\n]+)? \\\n +--hash=", text, re.M))
    assert len(pinned) == len(re.findall("^[^ #]", text, re.M)), "one without a hash"
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    installed = [line for stage in ("packages", "trainer") for line in instructions("RUN", stage)]
    installs = [line for line in installed if "uv pip install -r" in line]
    assert len(installs) == 2
    assert all(line.endswith("-c constraints.txt") for line in installs)
    for need in map(
        Requirement,
        [*project["dependencies"], *extras["metrics"], *extras["remote"], *extras["tensorflow"]],
    ):
        assert need.specifier.contains(pinned[need.name]), f"renew constraints.txt: {need}"


def test_the_image_finds_what_it_copies() -> None:
    let_in = re.findall(r"^!(.+)$", (PROJECT / ".dockerignore").read_text(), re.MULTILINE)
    copied = [source for line in instructions("COPY") for source in line.split()[:-1]]
    bound = re.findall(r"--mount=source=(\S+?),", DOCKERFILE)
    assert copied
    assert bound
    for source in (*copied, *bound):
        assert (PROJECT / source).exists()
        folder = source.partition("/")[0]
        assert {source, folder} & {*let_in}, f".dockerignore keeps {source} out"


def test_a_worker_has_memory_for_the_largest_file_and_time_to_stop() -> None:
    worker, trainer = SERVICES["worker"], SERVICES["trainer"]
    processes = int(worker["environment"]["VIDEOLOAD_WORKERS"].strip("${}").split(":-")[1])
    gib = int(worker["mem_limit"].strip("${}g").split(":-")[1])
    stop_s = {role: float(SERVICES[role]["stop_grace_period"].removesuffix("s")) for role in ROLES}
    (pod,) = pods(written())["worker"]["containers"]
    limits = pod["resources"]["limits"]
    for each_gib, each in ((gib, processes), (int(limits["memory"][:-2]), int(limits["cpu"]))):
        assert each_gib > 4 * each, "a file that takes 4 GiB is named before the kernel kills"
    assert trainer["mem_limit"]
    for role, needs_s in (("worker", 4), ("trainer", 5)):  # to send what it has; to save
        grace_s = pods(written())[role]["terminationGracePeriodSeconds"]
        assert min(stop_s[role], grace_s) > 2 * needs_s


# Permissions


@pytest.mark.parametrize("name", SERVICES)
def test_every_container_is_confined(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["pids_limit"] > 0
    assert {"max-size", "max-file"} <= service["logging"]["options"].keys()
    assert "privileged" not in service
    # A first process without a handler ignores signals, and no process inside can kill it.
    assert service["init"] is True


def test_no_port_leaves_the_compose_network_but_the_dashboard_s_for_this_host() -> None:
    assert CONFIG["networks"]["default"] == {"internal": True}
    for name, service in SERVICES.items():
        if name == "grafana":
            assert service["ports"] == ["127.0.0.1:${GRAFANA_PORT:-3000}:3000"]
        else:
            assert not {"ports", "networks"} & service.keys()
            assert service.get("network_mode", "none") == "none"


@pytest.mark.parametrize("role", ROLES)
def test_the_videos_and_the_keys_can_only_be_read(role: str) -> None:
    videos, *others = SERVICES[role]["volumes"]
    assert videos["read_only"] is True
    assert videos["bind"] == {"create_host_path": False}, "a folder made by Docker hides a typo"
    keys = [volume for volume in others if "/keys" in volume]
    assert keys == [f"{role}-keys:/keys/{role}:ro"], "and only those of its own role"


# Monitoring


def test_dashboard_and_alerts_use_only_existing_metrics() -> None:
    meter = Meter()
    empty = StreamRecord(0, "", -1, 0, 0, 0, 0, 0, meter.read((), ()), meter.totals())
    trainers = families(ClientRecord("", (), (empty,)))
    told = {metric.name for metric in trainers}
    told |= {metric.name for metric in worker_metrics.families(worker_metrics.State(0.0))}
    shown = (MONITOR / "grafana/videoload.json").read_text()
    shown += " ".join([AUTOSCALED, *(rule["expr"] for rule in ALERTS)])
    asked = set(re.findall(r"videoload_[a-z_]+", shown))
    assert asked
    assert asked <= told


def test_storage_that_no_worker_can_read_and_a_worker_without_storage_raise_alerts() -> None:
    by_metric = {rule["expr"].partition(" ")[0]: rule for rule in ALERTS}
    away = by_metric["videoload_storage_unavailable_seconds"]
    assert away["labels"] == {"severity": "critical"}
    assert "root" in away["annotations"]["action"]
    assert "videoload_worker_storage_refused" in by_metric


def test_a_worker_whose_leases_all_fail_raises_an_alert() -> None:
    [alert] = [rule for rule in ALERTS if "worker_failures_total" in rule["expr"]]
    assert "videoload_worker_clips_total[10m]) == 0" in alert["expr"]
    assert "--root" in alert["annotations"]["action"]


def test_the_dashboard_shows_one_training_of_several() -> None:
    dashboard = json.loads((MONITOR / "grafana/videoload.json").read_text())
    chosen = 'namespace=~"$namespace", app_kubernetes_io_instance=~"$training"'
    assert [each["name"] for each in dashboard["templating"]["list"]] == ["namespace", "training"]
    for target in (target for panel in dashboard["panels"] for target in panel["targets"]):
        series = re.findall(r"videoload_\w+(?:{(.*?)})?", target["expr"])
        assert set(series) == {chosen}, target["expr"]

"""services/kubernetes/ is valid, matches the code, and allows no more than needed.

What it starts is run in tests/integration/test_kubernetes.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from services.trainer import train
from tests.support.kubernetes import FOLDER, OVERLAYS, containers, one, pods, render, written
from videoload import __version__
from videoload.commands import cli
from videoload.processes import supervisor

pytestmark = pytest.mark.timeout(120)

OBJECTS = written()
ROLES = ("trainer", "worker")
VERSION = "1.33"  # of Kubernetes
SERVED = {"app.kubernetes.io/name": "trainer"}


def options(role: str) -> dict[str, Any]:
    """The options of a role's command, by the variable that may set them."""
    group: Any = typer.main.get_command(cli.app)
    command: Any = {
        "trainer": typer.main.get_command(train.app), "worker": group.commands["worker"],
    }[role]  # fmt: skip
    return {f"VIDEOLOAD_{option.name.upper()}": option for option in command.params}


def environment(container: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry.get("value", "") for entry in container["env"]}


def check(objects: list[dict[str, Any]]) -> None:
    validator = pytest.importorskip("kubernetes_validate")
    for found in objects:
        if not found["apiVersion"].startswith("monitoring.coreos.com/"):  # the operator's own kinds
            validator.validate(found, VERSION, strict=True)


def test_every_file_is_valid_and_an_unknown_field_is_found() -> None:
    check(OBJECTS)
    validator = pytest.importorskip("kubernetes_validate")
    wrong = one(written(), "Deployment", "worker")
    wrong["spec"]["replica"] = 3
    with pytest.raises(validator.ValidationError, match="replica"):
        check([wrong])


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_overlay_is_valid(overlay: str) -> None:
    objects = render(overlay)
    check(objects)
    namespaces = {o["metadata"].get("namespace") for o in objects if o["kind"] != "Namespace"}
    assert namespaces == {"videoload"}, "an object without one lands anywhere"
    assert {o["kind"] for o in objects} >= {"Job", "Deployment", "Service", "NetworkPolicy"}


def test_the_overlay_of_the_guide_works() -> None:
    objects = render("mine")
    assert one(objects, "Deployment", "worker")["spec"]["replicas"] == 16
    (trainer,) = pods(objects)["trainer"]["containers"]
    assert environment(trainer)["VIDEOLOAD_EPOCHS"] == "20"
    assert trainer["resources"]["limits"]["nvidia.com/gpu"] == 1
    ours = [c["image"] for c in containers(objects) if "videoload" in c["image"]]
    assert all(image.startswith("registry.example.org/videoload-") for image in ours)
    assert all(image.endswith(f":{__version__}") for image in ours)


# Commands and settings


@pytest.mark.parametrize("role", ROLES)
def test_every_setting_is_an_option(role: str) -> None:
    (container,) = pods(OBJECTS)[role]["containers"]
    given = {name for name in environment(container) if name.startswith("VIDEOLOAD_")}
    assert given <= options(role).keys()
    needed = {name for name, option in options(role).items() if option.required}
    assert needed <= given


def test_the_frames_of_a_pod_fit_into_its_volume_below_its_top() -> None:
    pod = pods(render("scaled"))["worker"]
    (container,) = pod["containers"]
    given = environment(container)
    assert {name for name in given if name.startswith("VIDEOLOAD_")} <= options("worker").keys()
    (volume,) = [each for each in pod["volumes"] if each["name"] == "frames"]
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "frames"]
    # The top of an emptyDir belongs to root, and a store must belong to the worker's user.
    assert Path(given["VIDEOLOAD_FRAME_STORE"]).parent == Path(mount["mountPath"])
    size = volume["emptyDir"]["sizeLimit"]
    assert container["resources"]["requests"]["ephemeral-storage"] == size
    assert 2**30 * float(size.removesuffix("Gi")) > 1e9 * float(given["VIDEOLOAD_FRAME_STORE_GB"])


def test_the_name_that_workers_connect_to_is_that_of_the_trainer_s_pods() -> None:
    (trainer,) = pods(OBJECTS)["trainer"]["containers"]
    service = one(OBJECTS, "Service", "trainer")["spec"]
    listen = environment(trainer)["VIDEOLOAD_LISTEN"]
    assert [port["port"] for port in service["ports"]] == [int(listen.split(":")[-1])]
    assert service["selector"] == SERVED
    assert one(OBJECTS, "Job", "trainer")["spec"]["template"]["metadata"]["labels"] == SERVED
    assert service["clusterIP"] == "None", "the name stands for the pods themselves"


def test_the_end_of_a_rank_is_no_failure_of_another() -> None:
    rules = one(render("ranks"), "Job", "trainer")["spec"]["podFailurePolicy"]["rules"]
    assert [rule["action"] for rule in rules] == ["Ignore", "Ignore"]
    assert rules[1]["onExitCodes"]["values"] == [train.LOST_RANK]


def test_the_autoscaler_finds_the_workers_and_no_replicas_overrule_it() -> None:
    objects = render("scaled")
    target = one(objects, "HorizontalPodAutoscaler", "worker")["spec"]["scaleTargetRef"]
    worker = one(objects, target["kind"], target["name"])
    assert "replicas" not in worker["spec"]
    (metric,) = one(objects, "HorizontalPodAutoscaler", "worker")["spec"]["metrics"]
    (container,) = pods(objects)["worker"]["containers"]
    assert metric["external"]["target"]["averageValue"] == container["resources"]["limits"]["cpu"]
    values = yaml.safe_load((FOLDER / "autoscale/adapter.yaml").read_text())
    (rule,) = values["rules"]["external"]
    assert rule["seriesQuery"].startswith(metric["external"]["metric"]["name"] + "{")


@pytest.mark.parametrize("role", ROLES)
def test_probes_and_prometheus_ask_the_port_of_the_figures(role: str) -> None:
    (container,) = pods(OBJECTS)[role]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert environment(container)["VIDEOLOAD_METRICS_PORT"] == f"0.0.0.0:{ports['metrics']}"
    probes = {name: probe for name, probe in container.items() if name.endswith("Probe")}
    assert len(probes) == 2
    for name, probe in probes.items():
        path = "/readyz" if name == "readinessProbe" else "/healthz"
        assert probe["httpGet"] == {"path": path, "port": "metrics"}
        assert probe["timeoutSeconds"] < probe["periodSeconds"]
    liveness = container["livenessProbe"]
    patience_s = liveness["periodSeconds"] * liveness["failureThreshold"]
    assert patience_s >= 2 * supervisor.STALL_S, "a worker replaces processes that hang itself"
    policy = one(OBJECTS, "NetworkPolicy", "scraper")["spec"]
    monitor = one(OBJECTS, "PodMonitor", "videoload")["spec"]
    assert policy["podSelector"] == monitor["selector"]
    (chosen,) = monitor["selector"]["matchExpressions"]
    assert chosen == {"key": "app.kubernetes.io/name", "operator": "In", "values": list(ROLES)}
    (rule,) = policy["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": ports["metrics"]}]
    assert [at["port"] for at in monitor["podMetricsEndpoints"]] == ["metrics"]


def test_the_operator_gets_the_same_alerts_as_any_prometheus() -> None:
    alerts = yaml.safe_load((FOLDER.parent / "monitoring/alerts.yml").read_text())
    assert one(OBJECTS, "PrometheusRule", "videoload")["spec"] == alerts


# Permissions


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_pod_is_confined(overlay: str) -> None:
    objects = OBJECTS if overlay == "base" else render(overlay)
    for pod in pods(objects).values():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 10000
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    for container in containers(objects):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }  # fmt: skip
    namespace = one(objects, "Namespace", "videoload")["metadata"]["labels"]
    assert namespace == {"pod-security.kubernetes.io/enforce": "restricted"}


def test_only_the_job_that_makes_keys_can_use_the_cluster_api() -> None:
    (role,) = [o for o in OBJECTS if "Role" in o["kind"] and "rules" in o]
    assert role["rules"] == [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]}]
    tokens = {name: pod["automountServiceAccountToken"] for name, pod in pods(OBJECTS).items()}
    assert tokens == {"keys": True, "trainer": False, "worker": False}


@pytest.mark.parametrize("role", ROLES)
def test_each_role_reads_only_its_own_keys_and_writes_neither_keys_nor_videos(
    role: str,
) -> None:
    pod = pods(OBJECTS)[role]
    (secret,) = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
    seen = {item["key"] for item in secret["items"]}
    other = "worker" if role == "trainer" else "trainer"
    assert seen == {f"{role}.key_secret", f"{other}.key"}
    mounts = {mount["name"]: mount for mount in pod["containers"][0]["volumeMounts"]}
    assert mounts["keys"]["readOnly"] is mounts["videos"]["readOnly"] is True


def test_a_worker_connects_only_to_trainers_and_dns_and_nothing_connects_to_it() -> None:
    policy = one(OBJECTS, "NetworkPolicy", "worker")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in policy
    trainers, names = policy["egress"]
    assert trainers["to"] == [{"podSelector": {"matchLabels": SERVED}}]
    assert [port["port"] for port in trainers["ports"]] == [5555]
    assert {port["port"] for port in names["ports"]} == {53}


def test_images_have_versions() -> None:
    for container in containers(render("ranks")):
        name, _, tag = container["image"].rpartition(":")
        assert name
        assert tag == (__version__ if name.startswith("videoload-") else tag)
        assert tag != "latest"

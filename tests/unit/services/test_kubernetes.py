"""services/kubernetes/ is valid, matches the code, and allows no more than needed.

What it starts is run in tests/integration/test_kubernetes.py.
"""

from typing import Any

import pytest
import yaml

from tests.support.kubernetes import FOLDER, containers, one, pods, render, written

OBJECTS = written()
ROLES = ("trainer", "worker")
VERSION = "1.33"  # of Kubernetes


def check(objects: list[dict[str, Any]]) -> None:
    validator = pytest.importorskip("kubernetes_validate")
    for found in objects:
        if found["apiVersion"].split(".")[0] not in ("monitoring", "keda"):  # kinds of operators
            validator.validate(found, VERSION, strict=True)


def test_every_file_is_valid_and_an_unknown_field_is_found() -> None:
    check(OBJECTS)
    validator = pytest.importorskip("kubernetes_validate")
    wrong = one(written(), "Deployment", "worker")
    wrong["spec"]["replica"] = 3
    with pytest.raises(validator.ValidationError, match="replica"):
        check([wrong])


@pytest.mark.parametrize("overlay", ["scaled", "all", "mine"])  # they contain the others
def test_every_overlay_is_valid_and_every_pod_is_confined(overlay: str) -> None:
    objects = render(overlay)
    check(objects)
    namespaces = {o["metadata"].get("namespace") for o in objects if o["kind"] != "Namespace"}
    assert namespaces == {"videoload"}, "an object without one lands anywhere"
    assert {o["kind"] for o in objects} >= {"Job", "Deployment", "Service", "NetworkPolicy"}
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


def test_the_operator_gets_the_same_alerts_as_any_prometheus() -> None:
    alerts = yaml.safe_load((FOLDER.parent / "monitoring/alerts.yml").read_text())
    assert one(OBJECTS, "PrometheusRule", "videoload")["spec"] == alerts


# Permissions


def test_no_pod_can_use_the_cluster_api_and_no_object_asks_for_it() -> None:
    assert not [found["kind"] for found in OBJECTS if "Role" in found["kind"]]
    assert not any(pod["automountServiceAccountToken"] for pod in pods(OBJECTS).values())


@pytest.mark.parametrize("role", ROLES)
def test_each_role_reads_only_its_own_secret_and_writes_neither_keys_nor_videos(
    role: str,
) -> None:
    objects = render("mine")
    pod = pods(objects)[role]
    (used,) = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
    secret = one(objects, "Secret", used["secretName"])
    other = "worker" if role == "trainer" else "trainer"
    assert secret["data"].keys() == {item["key"] for item in used["items"]}
    assert secret["data"].keys() == {f"{role}.key_secret", f"{other}.key"}
    mounts = {mount["name"]: mount for mount in pod["containers"][0]["volumeMounts"]}
    assert mounts["keys"]["readOnly"] is mounts["videos"]["readOnly"] is True


@pytest.mark.parametrize("overlay", ["all", "mine"])
def test_what_a_pod_writes_has_a_limit_and_asks_for_its_place(overlay: str) -> None:
    for pod in pods(render(overlay)).values():
        scratch = [volume["emptyDir"] for volume in pod["volumes"] if "emptyDir" in volume]
        assert scratch
        assert all(volume["sizeLimit"] for volume in scratch)
        assert all(c["resources"]["requests"]["ephemeral-storage"] for c in pod["containers"])


def selectors(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What chooses among the pods of a namespace."""
    found = [o["spec"] for o in objects if o["kind"] != "ScaledObject" and "spec" in o]
    services = [{"matchLabels": s["selector"]} for s in found if "clusterIP" in s]
    kept = [s["selector"] for s in found if "selector" in s and "clusterIP" not in s]
    return services + kept + [s["podSelector"] for s in found if "podSelector" in s]


def test_a_second_training_in_the_namespace_has_nothing_in_common_with_the_first() -> None:
    """But for the videos, and the credentials of a bucket."""
    first, second = render("all"), render("second")
    names, labels = [], []
    for objects in (first, second):
        names.append({(o["kind"], o["metadata"]["name"]) for o in objects})
        of_pods = [o for o in objects if o["kind"] in ("Job", "Deployment")]
        labels.append([o["spec"]["template"]["metadata"]["labels"] for o in of_pods])
        assert len(selectors(objects)) >= 7
        assert all(any(is_selected(s, pod) for pod in labels[-1]) for s in selectors(objects))
    assert names[0] & names[1] == {("Namespace", "videoload")}
    for objects, others in zip((first, second), reversed(labels), strict=True):
        assert not any(is_selected(s, pod) for s in selectors(objects) for pod in others)
    for pod in pods(second).values():
        values = [each.get("value", "") for each in pod["containers"][0]["env"]]
        before = values[: next(n for n, value in enumerate(values) if "$(TRAINER)" in value)]
        assert "trainer-b" in before, "Kubernetes puts in what stands before"
    assert pods(second)["trainer-b"]["subdomain"] == "trainer-b"
    assert one(second, "ScaledObject", "worker-b")["spec"]["scaleTargetRef"] == {"name": "worker-b"}


# Who may connect to whom

Pod = tuple[str, str]  # its namespace, and its name
NAME, PLACE = "app.kubernetes.io/name", "kubernetes.io/metadata.name"
INSTANCE = "app.kubernetes.io/instance"
TRAINER, WORKER = ("videoload", "trainer"), ("videoload", "worker")
PODS = [TRAINER, WORKER, ("monitoring", "prometheus"), ("default", "worker"), ("cloud", "bucket")]


def labels_of(name: str) -> dict[str, str]:
    return {NAME: name, INSTANCE: "trainer"}


def is_selected(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    return all(labels.get(k) == v for k, v in selector.get("matchLabels", {}).items()) and all(
        labels.get(one["key"]) in one["values"] for one in selector.get("matchExpressions", ())
    )


def is_peer(pod: Pod, peer: dict[str, Any]) -> bool:
    """Whether a rule is about a pod; one of addresses is about what is no pod."""
    where = peer.get("namespaceSelector", {"matchLabels": {PLACE: "videoload"}})
    return (
        "ipBlock" not in peer
        and is_selected(where, {PLACE: pod[0]})
        and is_selected(peer.get("podSelector", {}), labels_of(pod[1]))
    )


def allows(way: str, of: Pod, other: Pod, port: int, policies: list[dict[str, Any]]) -> bool:
    """Whether the policies of a pod let a connection in or out: all if there are none of it."""
    chosen = [
        spec for spec in policies
        if of[0] == "videoload" and way in spec["policyTypes"]
        and is_selected(spec["podSelector"], labels_of(of[1]))
    ]  # fmt: skip
    side = "from" if way == "Ingress" else "to"
    return not chosen or any(
        any(not peer or is_peer(other, peer) for peer in rule.get(side, [{}]))
        and ("ports" not in rule or port in [each["port"] for each in rule["ports"]])
        for spec in chosen
        for rule in spec.get(way.lower(), ())
    )


@pytest.mark.parametrize(
    ("overlay", "more"),
    [
        ("scaled", set()),
        ("ranks", {(TRAINER, TRAINER, 40000)}),
        ("all", {(TRAINER, TRAINER, 40000)}),
    ],
)
def test_only_those_reach_a_pod_who_have_to(overlay: str, more: set[tuple[Pod, Pod, int]]) -> None:
    objects = render(overlay)
    policies = [each["spec"] for each in objects if each["kind"] == "NetworkPolicy"]
    served, figures = 5555, 9464
    reached = {
        (one, other, port)
        for one in PODS
        for other in (TRAINER, WORKER)
        for port in (served, figures, 40000)
        if allows("Egress", one, other, port, policies)
        and allows("Ingress", other, one, port, policies)
    }
    prometheus = {(PODS[2], pod, figures) for pod in (TRAINER, WORKER)} & reached
    assert reached - prometheus - {(TRAINER, TRAINER, port) for port in (served, figures)} == {
        (WORKER, TRAINER, served), *more
    }  # fmt: skip
    assert len(prometheus) == (0 if overlay == "ranks" else 2)

"""The network policies of services/kubernetes: pods reach what they need, and nothing else. A real
Prometheus scrapes a trainer and a worker through them, with the shipped configuration.

Each pod is a network namespace on one bridge, and nftables is its firewall, with the rules that the
rendered policies say. The addresses of pods are written into Prometheus's configuration, as its
operator would do it.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.support.kubernetes import one, pods, render
from tests.support.namespaces import Namespace
from tests.support.programs import Programs
from tests.support.prometheus import ask, serve
from tests.support.videos import Videos
from tests.support.waiting import SECOND, wait_until
from videoload import Client, ClipSpec

pytestmark = [pytest.mark.slow, pytest.mark.timeout(90 * SECOND)]
if missing := [tool for tool in ("ip", "nft") if shutil.which(tool) is None]:
    pytestmark.append(pytest.mark.skip(reason=f"no {missing[0]} here"))

CLIP = ClipSpec(frames=4, resize=36, size=(32, 32), sampling="random")


class Pod(NamedTuple):
    """A pod: its place in the cluster, and on the bridge."""

    namespace: str
    labels: dict[str, str]
    address: str
    net: Namespace

    def reaches(self, other: Pod, port: int) -> bool:
        """Whether it can connect there; a refused connection came through."""
        with self.net, socket.socket() as tried:
            tried.settimeout(0.3)
            try:
                tried.connect((other.address, port))
            except ConnectionRefusedError:
                pass
            except OSError:
                return False
        return True


def is_selected(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    return all(labels.get(k) == v for k, v in selector.get("matchLabels", {}).items()) and all(
        labels.get(one["key"]) in one["values"] for one in selector.get("matchExpressions", ())
    )


def rules(pod: Pod, everybody: list[Pod], policies: list[dict[str, Any]]) -> str:
    """What nftables has to do for a pod, by the policies of its namespace."""
    lines = ["table inet pod {"]
    mine = [p["spec"] for p in policies if p["metadata"]["namespace"] == pod.namespace]
    mine = [spec for spec in mine if is_selected(spec["podSelector"], pod.labels)]
    for way, hook, end, side in (
        ("Ingress", "input", "ingress", "saddr"), ("Egress", "output", "egress", "daddr"),
    ):  # fmt: skip
        specs = [spec for spec in mine if way in spec["policyTypes"]]
        policy = "drop" if specs else "accept"
        lines += [f"chain {hook} {{ type filter hook {hook} priority 0; policy {policy};"]
        lines += ["ct state established,related accept", "meta iifname lo accept"]
        for spec in specs:
            for rule in spec.get(end, ()):
                peers = [
                    other.address
                    for other in everybody
                    for peer in rule.get("from" if end == "ingress" else "to", [{}])
                    if is_peer(other, peer, pod.namespace)
                ]
                ports = [str(at["port"]) for at in rule.get("ports", ()) if at["protocol"] == "TCP"]
                if peers:
                    dport = f"tcp dport {{ {', '.join(ports)} }} " if "ports" in rule else ""
                    lines.append(f"ip {side} {{ {', '.join(peers)} }} {dport}accept")
        lines.append("}")
    return "\n".join([*lines, "}"])


def is_peer(pod: Pod, peer: dict[str, Any], namespace: str) -> bool:
    if not peer:  # a rule that names nobody is for everybody
        return True
    if "ipBlock" in peer:
        return False
    if (where := peer.get("namespaceSelector")) is None:
        is_there = pod.namespace == namespace
    else:
        is_there = is_selected(where, {"kubernetes.io/metadata.name": pod.namespace})
    return is_there and is_selected(peer.get("podSelector", {}), pod.labels)


@contextmanager
def cluster(places: dict[str, tuple[str, str]], policies: list[dict[str, Any]]) -> Iterator[Any]:
    """The pods by name; ``places`` has the namespace and the label of each."""
    with ExitStack() as stack:
        try:
            bridge = Namespace()
        except PermissionError:
            pytest.skip("needs root")
        stack.callback(os.close, bridge.fd)
        bridge.ip("link", "add", "hub", "type", "bridge")
        bridge.ip("link", "set", "hub", "up")
        made: dict[str, Pod] = {}
        for number, (name, (namespace, label)) in enumerate(places.items(), 2):
            net = Namespace()
            stack.callback(os.close, net.fd)
            bridge.ip("link", "add", f"pod{number}", "type", "veth", "peer", "name", "eth0",
                      "netns", net.path)  # fmt: skip
            bridge.ip("link", "set", f"pod{number}", "master", "hub", "up")
            address = f"10.78.0.{number}"
            net.ip("address", "add", f"{address}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                net.ip("link", "set", device, "up")
            made[name] = Pod(namespace, {"app.kubernetes.io/name": label}, address, net)
        for pod in made.values():
            with pod.net:
                subprocess.run(
                    ["nft", "-f", "-"], input=rules(pod, [*made.values()], policies), text=True,
                    check=True, timeout=10,
                )  # fmt: skip
        yield made


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="no prometheus here")
def test_prometheus_scrapes_trainer_and_worker_through_the_policies_and_nobody_else_gets_in(
    videos: Videos, programs: Programs, tmp_path: Path
) -> None:
    objects = render("scaled")
    policies = [found for found in objects if found["kind"] == "NetworkPolicy"]
    (trainer_,) = pods(objects)["trainer"]["containers"]
    named = {port["name"]: port["containerPort"] for port in trainer_["ports"]}
    (endpoint,) = one(objects, "PodMonitor", "videoload")["spec"]["podMetricsEndpoints"]
    figures, served = named[endpoint["port"]], named["videoload"]
    places = {
        "trainer": ("videoload", "trainer"), "worker": ("videoload", "worker"),
        "prometheus": ("monitoring", "prometheus"), "stranger": ("default", "worker"),
    }  # fmt: skip
    with ExitStack() as stack:
        cluster_ = stack.enter_context(cluster(places, policies))
        trainer, worker, scraper = (cluster_[name] for name in [*places][:3])
        with trainer.net:
            client = Client(
                workers=0, listen=f"tcp://0.0.0.0:{served}", insecure=True,
                metrics_port=f"0.0.0.0:{figures}",
            )  # fmt: skip
        stack.enter_context(client)
        with worker.net:
            decoding = programs.worker(
                f"tcp://{trainer.address}:{served}", videos.root, "--insecure",
                "--metrics-port", f"0.0.0.0:{figures}",
                imported="",  # a forked one would be in the namespace of the process that forks
            )  # fmt: skip
        client.wait_for_workers(1, timeout_s=20 * SECOND)
        stream = client.stream(videos.catalog, CLIP, 2)
        read = len(list(stream))
        with scraper.net:
            targets = {"trainer": trainer.address, "worker": worker.address}
            stack.enter_context(serve(tmp_path, {k: f"{v}:{figures}" for k, v in targets.items()}))

        def asked(expression: str) -> list[dict[str, Any]]:
            with scraper.net:
                return ask(9090, expression)

        wait_until(lambda: len(asked("up == 1")) == 2, 20 * SECOND)
        (batches,) = asked("videoload_batches_total")
        assert float(batches["value"][1]) == read
        values = yaml.safe_load(Path("services/kubernetes/autoscale/adapter.yaml").read_text())
        (adapted,) = values["rules"]["external"]
        query = adapted["metricsQuery"].replace("<<.Series>>", "videoload_workers_wanted")
        (wanted,) = asked(query.replace("<<.LabelMatchers>>", 'namespace="videoload"'))
        assert float(wanted["value"][1]) >= 1

        reached = {
            (one, other, port)
            for one in places
            for other in ("trainer", "worker")
            for port in (figures, served)
            if one != other and cluster_[one].reaches(cluster_[other], port)
        }
        assert reached == {
            ("worker", "trainer", served),
            ("prometheus", "trainer", figures),
            ("prometheus", "worker", figures),
        }
        assert not worker.reaches(scraper, 9090), "a worker connects to trainers only"

        decoding.end()
        pending = 'ALERTS{alertname="VideoloadNoWorker", alertstate="pending"}'
        wait_until(lambda: asked(pending), 20 * SECOND)
        del stream

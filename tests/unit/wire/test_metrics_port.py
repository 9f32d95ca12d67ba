"""The metrics port: scrapes, health probes, and peers that waste its time."""

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.support.processes import ends_well
from tests.support.scrapes import get
from tests.support.waiting import SECOND, wait_until
from videoload import SpecError, TransportError
from videoload.wire.metrics_port import Metric, MetricsPort

pytest.importorskip("prometheus_client")

METRICS = [
    Metric("x_clips_total", "Clips.", [({"host": "a"}, 3), ({"host": 'b"'}, 4.5)]),
    Metric("x_wait_ratio", "Waiting.", [({}, 0.25)]),
    Metric("x_none", "Nothing yet.", []),
]


class Told:
    """What a port serves in these tests."""

    wrong = waits = ""
    scrapes = 0

    def collect(self) -> Iterator[Metric]:
        self.scrapes += 1
        return iter(METRICS)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def port(told: Told) -> Iterator[MetricsPort]:
    made = MetricsPort(0, told.collect, healthz=lambda: told.wrong, readyz=lambda: told.waits)
    yield made
    made.close()


def test_a_scrape_gets_the_figures_of_its_moment(port: MetricsPort, told: Told) -> None:
    assert told.scrapes == 0, "nothing is computed before a scrape"
    status, text = get(port.port, "/metrics")
    assert (status, told.scrapes) == (200, 1)
    assert "# TYPE x_clips_total counter\n" in text
    assert 'x_clips_total{host="a"} 3.0\n' in text
    assert 'x_clips_total{host="b\\""} 4.5\n' in text
    assert "# TYPE x_wait_ratio gauge\nx_wait_ratio 0.25\n" in text


def test_a_probe_learns_what_is_wrong(port: MetricsPort, told: Told) -> None:
    assert get(port.port, "/healthz") == (200, "ok\n")
    told.wrong = "worker process 7 has done nothing for 12 s"
    assert get(port.port, "/healthz") == (503, "worker process 7 has done nothing for 12 s\n")
    assert get(port.port, "/readyz") == (200, "ok\n"), "each check has its own answer"
    told.wrong, told.waits = "", "no trainer was served"
    assert get(port.port, "/healthz") == (200, "ok\n")
    assert get(port.port, "/readyz") == (503, "no trainer was served\n")


def test_it_listens_on_loopback_unless_it_is_told_another_address(told: Told) -> None:
    with pytest.raises(SpecError, match=":0"):
        MetricsPort(":0", told.collect, healthz=str, readyz=str)
    everywhere = "::" if socket.has_ipv6 else "0.0.0.0"
    for asked, address in ((0, "127.0.0.1"), ("0", "127.0.0.1"), ("0.0.0.0:0", everywhere)):
        made = MetricsPort(asked, told.collect, healthz=str, readyz=str)
        try:
            assert made._server.server_address[0] == address
            assert get(made.port, "/healthz") == (200, "ok\n")
        finally:
            made.close()


def test_silent_connections_make_room_for_a_scrape(port: MetricsPort) -> None:
    silent = [socket.create_connection(("127.0.0.1", port.port)) for _ in range(80)]
    assert get(port.port, "/metrics")[0] == 200

    def threads() -> int:
        return sum("process_request" in thread.name for thread in threading.enumerate())

    wait_until(lambda: threads() <= 64, 30 * SECOND, "those of the others end")
    for connection in silent:
        connection.close()


def test_a_connection_that_says_nothing_is_closed(
    port: MetricsPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("videoload.wire.metrics_port._Handler.timeout", 0.1)
    with socket.create_connection(("127.0.0.1", port.port), 30 * SECOND) as silent:
        silent.sendall(b"GET /met")
        assert silent.recv(1000) == b""


def test_a_port_that_cannot_be_had_is_named(port: MetricsPort) -> None:
    for asked, error, told in (
        (port.port, TransportError, "Address already in use"), (70000, TransportError, "70000"),
        (-1, SpecError, "metrics_port"), ("all:any", SpecError, "metrics_port.*'all:any'"),
    ):  # fmt: skip
        with pytest.raises(error, match=told):
            MetricsPort(asked, list, healthz=str, readyz=str)


def test_a_forked_process_closes_it_at_once_and_the_parent_goes_on(port: MetricsPort) -> None:
    assert ends_well(port.close)
    assert get(port.port, "/healthz") == (200, "ok\n")

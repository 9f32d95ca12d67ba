"""Metrics for Prometheus and health checks over HTTP: ``/metrics``, ``/healthz`` and ``/readyz``;
and what else a process shows, such as a client's live page.

The metrics are plain data (`Metric`), created for each scrape. Nothing can be changed here, and
these are counts, host names and process ids: no path, no pixel. It listens on loopback unless it is
set another address.

Anybody who reaches the port can connect, so connections are bounded: in number, in idle time, and
in new ones per second.
"""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from socketserver import ThreadingMixIn
from threading import Thread
from types import MappingProxyType
from typing import Any, NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from videoload.arguments import whole
from videoload.errors import SpecError, TransportError, VideoloadError

_MAX_CONNECTIONS = 64
_SILENCE_S = 5.0
_PAUSE_S = 0.005  # after each connection: a thread for each of a flood would take the GIL
_JOIN_S = 1.0


class Metric(NamedTuple):
    """A figure, for each set of labels. ``name`` ends with its unit, and a counter's name with
    ``_total``."""

    name: str
    help: str
    samples: Sequence[tuple[Mapping[str, str], float]]


class Answer(NamedTuple):
    """What a request gets."""

    body: str | bytes
    kind: str = "text/plain; charset=utf-8"
    status: str = "200 OK"


class MetricsPort:
    """Serves ``collect()`` in threads of its own until `close`.

    ``healthz()`` returns a problem that a restart would solve, and ``readyz()`` why it does no work
    now; "" is good. Those paths answer 200, or 503 with that line. ``shows`` has what is answered
    to other paths: functions of the request's WSGI environment.
    """

    def __init__(
        self,
        port: int | str,
        collect: Callable[[], Iterable[Metric]],
        *,
        healthz: Callable[[], str],
        readyz: Callable[[], str],
        shows: Mapping[str, Callable[[Mapping[str, Any]], Answer]] = MappingProxyType({}),
    ) -> None:
        """``port`` is a port of loopback, or "HOST:PORT"; port 0 takes a free one. Raises
        SpecError, TransportError if the port is taken, and VideoloadError if prometheus-client is
        missing."""
        host, number = address_of(port)
        try:
            import prometheus_client as prometheus
        except ImportError:
            raise VideoloadError(
                "metrics need prometheus-client: pip install prometheus-client"
            ) from None
        registry = prometheus.CollectorRegistry()
        registry.register(_Collector(collect))
        metrics: Any = prometheus.make_wsgi_app(registry)
        checks = {"/healthz": healthz, "/readyz": readyz}
        answers = dict(shows)
        answers.update((path, partial(_checked, check)) for path, check in checks.items())

        def app(environment: Any, start_response: Any) -> Any:
            path = environment.get("PATH_INFO")
            if path == "/metrics":
                return metrics(environment, start_response)
            found = answers.get(path, _unknown)(environment)
            headers = [("Content-Type", found.kind), ("Cache-Control", "no-store")]
            start_response(found.status, [*headers, ("X-Content-Type-Options", "nosniff")])
            return [found.body if isinstance(found.body, bytes) else found.body.encode()]

        try:
            self._server = _server(host, number)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise TransportError(f"cannot serve metrics at port {number}: {reason}") from None
        self._server.set_app(app)
        self.port: int = self._server.server_port
        self._thread = Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering. A forked process has no such thread: it closes its own copy of the
        socket."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()
        self._thread.join(_JOIN_S)


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each connection. If there are too many, the oldest one is closed."""

    daemon_threads = True
    request_queue_size = 128

    def server_bind(self) -> None:
        super().server_bind()
        self._open: dict[socket.socket, None] = {}

    def process_request(self, request: Any, client_address: Any) -> None:
        for oldest in list(self._open)[: len(self._open) + 1 - _MAX_CONNECTIONS]:
            with suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)  # its thread closes it
        self._open[request] = None
        super().process_request(request, client_address)
        time.sleep(_PAUSE_S)

    def shutdown_request(self, request: Any) -> None:
        self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do not log disconnections."""


class _Server6(_Server):
    address_family = socket.AF_INET6

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


def _server(host: str, port: int) -> _Server:
    """Return the server. 0.0.0.0 means IPv6 as well, if the host has it. Raises OSError."""
    if host == "0.0.0.0":
        with suppress(OSError):
            return _Server6(("::", port), _Handler)
    return (_Server6 if ":" in host else _Server)((host, port), _Handler)


class _Handler(WSGIRequestHandler):
    timeout = _SILENCE_S

    def setup(self) -> None:
        # A scraper that disconnects must not end a program that has SIGPIPE at its default. Threads
        # have their own masks.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPIPE])
        super().setup()

    def log_message(self, *_: object) -> None:
        """Do not log scrapes."""


class _Collector:
    """The collector that prometheus_client calls at each scrape."""

    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for metric in self._collect():
            names = list(metric.samples[0][0]) if metric.samples else []
            is_counter = metric.name.endswith("_total")
            made = CounterMetricFamily if is_counter else GaugeMetricFamily
            family = made(metric.name, metric.help, labels=names)
            for labels, value in metric.samples:
                family.add_metric([labels[name] for name in names], value)
            yield family


def _checked(check: Callable[[], str], _: object) -> Answer:
    wrong = check()
    return Answer(f"{wrong or 'ok'}\n", status="503 Service Unavailable" if wrong else "200 OK")


def _unknown(_: object) -> Answer:
    return Answer("there is /metrics, /healthz, /readyz\n", status="404 Not Found")


def address_of(port: int | str) -> tuple[str, int]:
    """Return host and port. Raises SpecError."""
    if not isinstance(port, str):
        return "127.0.0.1", whole("metrics_port", port, 0)
    host, colon, number = port.rpartition(":")
    if not (number.isascii() and number.isdigit()) or (colon and not host):
        raise SpecError(
            f"metrics_port must be PORT (of loopback) or HOST:PORT (0.0.0.0: all), got {port!r}"
        )
    return host.strip("[]") or "127.0.0.1", int(number)

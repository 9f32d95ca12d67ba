"""Figures for Prometheus, and a health check, over HTTP: ``/metrics`` and ``/healthz``.

What is told is plain data (`Metric`), made anew for each scrape by whoever owns this. It is read
only, and holds counts, host names and process ids: no path, no pixel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from videoload.arguments import whole
from videoload.errors import TransportError, VideoloadError

_JOIN_S = 1.0
_EVERYWHERE = "0.0.0.0"  # Prometheus is elsewhere, as a rule


class Metric(NamedTuple):
    """A figure, for each set of labels. ``name`` ends with its unit, and a counter's with
    ``_total``."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    samples: Sequence[tuple[Mapping[str, str], float]]


class MetricsPort:
    """Serves ``collect()`` in threads of its own until `close`.

    ``ailment()`` is what is wrong, or "": then ``/healthz`` is 200, else 503 with that line.
    """

    def __init__(
        self, port: int, collect: Callable[[], Iterable[Metric]], ailment: Callable[[], str]
    ) -> None:
        """``port`` 0 takes a free one. Raises SpecError, TransportError where the port is taken,
        and VideoloadError where prometheus-client is missing."""
        port = whole("metrics_port", port, 0)
        try:
            import prometheus_client as prometheus
        except ImportError:
            raise VideoloadError(
                "metrics need prometheus-client: pip install 'videoload[metrics]'"
            ) from None
        registry = prometheus.CollectorRegistry()
        registry.register(_Collector(collect))
        try:
            self._server, self._thread = prometheus.start_http_server(
                port, _EVERYWHERE, registry=registry
            )
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise TransportError(f"cannot serve metrics at port {port}: {reason}") from None
        metrics: Any = self._server.get_app()

        def app(environment: Any, start_response: Any) -> Any:
            if environment.get("PATH_INFO") != "/healthz":
                return metrics(environment, start_response)
            wrong = ailment()
            status = "503 Service Unavailable" if wrong else "200 OK"
            start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
            return [f"{wrong or 'ok'}\n".encode()]

        self._server.set_app(app)
        self.port: int = self._server.server_port

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_JOIN_S)


class _Collector:
    """What prometheus_client asks at each scrape."""

    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for metric in self._collect():
            names = list(metric.samples[0][0]) if metric.samples else []
            made = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = made(metric.name, metric.help, labels=names)
            for labels, value in metric.samples:
                family.add_metric([labels[name] for name in names], value)
            yield family

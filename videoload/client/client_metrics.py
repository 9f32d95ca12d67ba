"""What a client's ``metrics_port`` serves: its figures, and whether its I/O thread responds and has
workers."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterable
from typing import Any

from videoload.client.live_page import LivePage
from videoload.client.stream import Stream
from videoload.engine import metrics
from videoload.engine.engine import Engine
from videoload.errors import VideoloadError
from videoload.wire.metrics_port import Metric, MetricsPort, address_of

_HEALTHY_S = 5.0  # The I/O thread takes a turn within milliseconds.


def serve_metrics(
    port: int | str, engine: Engine, open_: list[weakref.ref[Stream[Any]]], token: str | None
) -> MetricsPort:
    """Serve the figures of a client and its live page, without a reference to it."""
    began_s = time.time()

    def collect() -> Iterable[Metric]:
        found = [stream for each in list(open_) if (stream := each()) is not None]
        return metrics.families(
            [stream.record(metrics.WINDOW_S) for stream in found],
            engine.worker_stats(),
            began_s=began_s,
            gone=engine.membership.departed,
            refused={
                "key": engine.membership.listener.rejected,
                "hello": engine.membership.refusals,
            },
            decoded=engine.decoded(),
            away=engine.storage_unavailable_s(),
        )

    def ailment() -> str:
        try:
            engine.check()
        except VideoloadError as error:
            return str(error)
        standing = f"the client's I/O thread has done nothing for {_HEALTHY_S:.0f} s"
        return "" if engine.ask(lambda: True, _HEALTHY_S) else standing

    def unready() -> str:
        return ailment() or ("" if engine.membership.records() else "no worker is connected")

    shows = LivePage(engine, open_, address_of(port)[0], token).shows()
    return MetricsPort(port, collect, healthz=ailment, readyz=unready, shows=shows)

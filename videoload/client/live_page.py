"""What a client's ``metrics_port`` serves: its figures, whether its I/O thread responds and has
workers, and at ``/`` the live page: who waits for whom, and the last batch as pictures.

The names of files and the pixels are for who has the token. Without a token, they are for loopback,
which all users of this host reach. Another site cannot have a browser read them: the browser names
that site as the host.
"""

from __future__ import annotations

import hmac
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit
from weakref import WeakKeyDictionary

from videoload.client.last_batch import LastBatch
from videoload.client.page import as_json, page
from videoload.engine import metrics
from videoload.engine.engine import Engine
from videoload.engine.open_streams import OpenStream
from videoload.engine.snapshots import packed, without_paths
from videoload.engine.stats import ClientRecord
from videoload.errors import VideoloadError
from videoload.wire.addresses import is_local
from videoload.wire.metrics_port import Answer, Metric, MetricsPort, address_of

_ANSWERS_S = 2.0  # the I/O thread answers within milliseconds
_EVERY_S = 0.25
_HEALTHY_S = 5.0
_JSON = "application/json"


def serve_metrics(port: int | str, engine: Engine, token: str | None) -> MetricsPort:
    """Serve the figures of a client and its live page, without a reference to it."""

    def collect() -> Iterable[Metric]:
        return metrics.families(engine.record(engine.streams.of_clips(), metrics.WINDOW_S))

    def ailment() -> str:
        try:
            engine.check()
        except VideoloadError as error:
            return str(error)
        standing = f"the client's I/O thread has done nothing for {_HEALTHY_S:.0f} s"
        return "" if engine.ask(lambda: True, _HEALTHY_S) else standing

    def unready() -> str:
        return ailment() or ("" if engine.membership.records() else "no worker is connected")

    shows = LivePage(engine, address_of(port)[0], token).shows()
    return MetricsPort(port, collect, healthz=ailment, readyz=unready, shows=shows)


class LivePage:
    """Answers the requests of the page, and of ``videoload top``."""

    def __init__(self, engine: Engine, host: str, token: str | None) -> None:
        """``host`` is what the port listens on."""
        self._engine = engine
        self._is_local, self._token = _is_loopback(host), token
        # The trainer creates few answers, for any number of requests.
        self._lock, self._again_at = threading.Lock(), -math.inf
        self._record: ClientRecord | None = None
        self._batches: WeakKeyDictionary[OpenStream, LastBatch] = WeakKeyDictionary()

    def shows(self) -> Mapping[str, Callable[[Mapping[str, Any]], Answer]]:
        """Return the content by path."""

        def guarded(answer: Callable[[bool], Answer]) -> Callable[[Mapping[str, Any]], Answer]:
            def answered(request: Mapping[str, Any]) -> Answer:
                sees_all = may_see_all(request, self._token, is_local=self._is_local)
                if sees_all is None:
                    return Answer("the token is another one\n", status="403 Forbidden")
                return answer(sees_all)

            return answered

        return {
            "/": guarded(lambda _: Answer(page("live"), "text/html; charset=utf-8")),
            "/snapshot": guarded(lambda all_: self._answer(all_, as_json)),
            "/record": guarded(lambda all_: self._answer(all_, packed)),
            "/batch": guarded(self._batch),
        }

    def _answer(self, sees_all: bool, form: Callable[[ClientRecord], str | bytes]) -> Answer:
        with self._lock:
            if time.monotonic() >= self._again_at:
                self._record = self._engine.ask(self._engine.snapshot, _ANSWERS_S)
                self._again_at = time.monotonic() + _EVERY_S
            record = self._record
        if record is None:
            return Answer("its I/O thread does nothing\n", status="503 Service Unavailable")
        return Answer(form(record if sees_all else without_paths(record)), _JSON)

    def _batch(self, sees_all: bool) -> Answer:
        """Return pictures of the last batch of each stream."""
        if not sees_all:
            return Answer(as_json([]), _JSON)
        found = self._engine.streams.of_clips()
        with self._lock:
            for stream in found:
                if stream not in self._batches:
                    self._batches[stream] = LastBatch(stream)
            return Answer(as_json([self._batches[stream].shown() for stream in found]), _JSON)


def may_see_all(request: Mapping[str, Any], token: str | None, *, is_local: bool) -> bool | None:
    """Return whether a request may see paths and pixels: with the ``token``, or, if none is set, if
    the port ``is_local``. None: a wrong token, show nothing. ``request``: its WSGI environment."""
    bearer = request.get("HTTP_AUTHORIZATION", "").removeprefix("Bearer ")
    given = (parse_qs(request.get("QUERY_STRING", "")).get("token") or [bearer])[0]
    if given:
        return hmac.compare_digest(given.encode(), (token or "").encode()) or None
    try:
        host = urlsplit(f"//{request.get('HTTP_HOST', '')}").hostname or ""
    except ValueError:  # no host at all
        return False
    return token is None and is_local and _is_loopback(host)


def _is_loopback(host: str) -> bool:
    return is_local(f"tcp://[{host}]" if ":" in host else f"tcp://{host}")

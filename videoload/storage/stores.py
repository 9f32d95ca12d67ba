"""Object stores: opened, asked again until they answer, and what their errors mean.

A request is made again at growing intervals, and the log says so. If nothing comes for `GIVE_UP_S`,
it fails with a StorageError: that is not the video's fault.

They need the extra ``[remote]`` (obstore), which is imported when the first URL is opened.
"""

from __future__ import annotations

import logging
import random
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

from videoload.errors import StorageError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

T = TypeVar("T")

_log = logging.getLogger(__name__)

GIVE_UP_S = 30.0
_PAUSE_S, _MAX_PAUSE_S = 0.1, 3.0
_TELL_S, _REMIND_S = 2.0, 10.0  # of failing, before a warning, and between two
_CONNECT_S = 5.0
_SILENCE_S = 20.0  # a request is made again if no byte of its answer comes for so long
_NEVER = timedelta(days=1)  # a whole answer may take any time
_RANGES = re.compile(r"Requested \d+\.\.\d+, got \d+\.\.\d+")
_STATUS = re.compile(r"\b([345]\d\d) ([A-Z][A-Za-z ]+)")


class UnavailableError(Exception):
    """The storage does not give this one object, for the reason that the message says."""


class RefusedError(UnavailableError):
    """It may be there."""


class Store:
    """The objects below ``url``, until it is stopped. Several threads may ask it."""

    def __init__(self, url: str) -> None:
        """Raises StorageError."""
        check_extra(url)
        self.url = url
        self._store: ObjectStore | None = None
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._tell_at = 0.0
        self._said, self._said_until = "", 0.0

    @property
    def says(self) -> str:
        """Why a request failed a moment ago; "" if none did."""
        return self._said if time.monotonic() < self._said_until else ""

    def open(self) -> ObjectStore:
        """The store, which is not asked anything yet. Raises StorageError."""
        if self._store is not None:
            return self._store
        from obstore.exceptions import BaseError
        from obstore.store import from_url

        try:
            self._store = from_url(
                self.url,
                client_options={
                    "allow_http": True,  # S3 has no such endpoint unless the user names one
                    "connect_timeout": timedelta(seconds=_CONNECT_S),
                    "read_timeout": timedelta(seconds=_SILENCE_S),
                    "timeout": _NEVER,
                },
                retry_config={"max_retries": 0, "retry_timeout": _NEVER},  # `ask` tries again
            )
        except (BaseError, ValueError) as error:
            raise StorageError(f"{self.url} cannot be opened: {why(error)}") from None
        return self._store

    def ask(
        self,
        what: Callable[[ObjectStore], T],
        *,
        come: Callable[[], int] = lambda: 0,
        failed: Callable[[Exception, float], None] = lambda error, failing_s: None,
    ) -> T:
        """The answer to a request, which is made again until there is one.

        Args:
            what: Makes the request, or asks for the rest of what has not come.
            come: How much has come.
            failed: Called with each fault, and for how long there was nothing else. It may raise
                what ends the request.

        Raises:
            StorageError: Nothing comes, or the storage refuses everything.
        """
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        store = self.open()
        pause_s, since = _PAUSE_S, time.monotonic()
        while not self._stopped.is_set():
            before = come()
            try:
                return what(store)
            except (BaseError, OSError, ValueError) as error:
                # obstore has classes of its own, and built-in ones for what comes on the way.
                now = time.monotonic()
                if come() > before:
                    pause_s, since = _PAUSE_S, now
                failed(error, now - since)
                self._tell(error, now, now - since)
                if now - since > GIVE_UP_S:
                    verb, hint = "does not answer", ""
                    if isinstance(error, PermissionDeniedError | UnauthenticatedError):
                        verb = "refuses all requests"  # keys expire and are replaced
                        hint = "; renew the credentials of the workers"
                    why_not = f"{verb} for {GIVE_UP_S:g} s: {why(error)}{hint}"
                    raise StorageError(f"{self.url} {why_not}") from None
            self._stopped.wait(random.uniform(0.5, 1) * pause_s)
            pause_s = min(2 * pause_s, _MAX_PAUSE_S)
        raise CancelledError

    def _tell(self, error: Exception, now: float, failing_s: float) -> None:
        self._said, self._said_until = f"{self.url}: {why(error)}", now + 2 * _MAX_PAUSE_S
        with self._lock:
            if failing_s <= _TELL_S or now <= self._tell_at:
                return
            self._tell_at = now + _REMIND_S
        _log.warning("%s: %s; still trying", self.url, why(error))

    def stop(self) -> None:
        """End: what was asked for does not come any more."""
        self._stopped.set()


def check_extra(url: str) -> None:
    """Raises StorageError if the extra that URLs need is not installed."""
    if find_spec("obstore") is None:
        raise StorageError(f"{url}: pip install obstore to read it")


def why(error: Exception) -> str:
    """What is wrong, without any address, header or credential."""
    text = str(error)
    if "NoSuchBucket" in text:
        return "there is no such bucket"
    if status := _STATUS.search(text):
        return f"{status[1]} {status[2].strip()}"
    if "timed out" in text or "Timeout" in text:
        return "it does not answer in time"
    if "redential" in text or "metadata" in text:
        return "there are no credentials for it"
    if "following redirect" in text:
        return "its redirects lead nowhere"
    if ranges := _RANGES.search(text):
        return f"other bytes than it was asked for come: {ranges[0]}"
    if "Content-Length" in text:
        return "it does not tell how long a file is (HTTP Content-Length)"
    return f"it cannot be reached{_by_proxy()}"


def _by_proxy() -> str:
    """Which variables send requests by a proxy, if any does."""
    from urllib.request import getproxies_environment

    found = [f"{name}_proxy" for name in getproxies_environment() if name != "no"]
    return f" (requests go by the proxy of {' and '.join(found)}; see no_proxy)" if found else ""

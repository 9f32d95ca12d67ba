"""Requests for parts of objects: several in flight, each in a thread, made again until they are
answered.

A storage that does not answer is nobody's fault but its own. A request is made again, at growing
intervals, for `GIVE_UP_S`, and people are told; only then it fails, as a StorageError. So does one
that is denied: keys expire, and others take their place. What fails at once is what the storage
says of the object itself: it is not there (FileNotFoundError), or is another by now (ChangedError).

A thread that waits for its answer takes a third less of a core than asyncio for the same request.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as WaitTimeoutError
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from videoload.errors import StorageError
from videoload.storage.daemon_pool import DaemonPool
from videoload.storage.roots import open_store, why

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult, ObjectMeta
    from obstore.store import ObjectStore

T = TypeVar("T")

_log = logging.getLogger(__name__)

GIVE_UP_S = 30.0
_IN_FLIGHT = 32
_PAUSE_S, _MAX_PAUSE_S = 0.1, 3.0
_TELL_S, _REMIND_S = 2.0, 10.0  # of failing, before a warning, and between two
_POLL_S = 0.02  # signals and heartbeats are looked after so often while bytes are waited for


class Part(NamedTuple):
    """Bytes of an object, how many it has in all, and what changes when it does."""

    data: memoryview
    size: int
    version: str


class ChangedError(Exception):
    """The object is not the one whose beginning was read."""


class Fetcher:
    """Fetches parts of the objects below ``url`` until it is stopped.

    ``tick`` is called again and again while `wait` waits, in the thread that made this.
    """

    def __init__(self, url: str, *, give_up_s: float | None = None) -> None:
        self.url = url
        self.tick: Callable[[], None] = lambda: None
        self.coming = self.came = 0  # bytes on their way; and those that came since someone looked
        self._give_up_s = GIVE_UP_S if give_up_s is None else give_up_s
        self._owner = threading.get_ident()
        self._store: ObjectStore | None = None
        self._threads = DaemonPool("videoload-fetch", _IN_FLIGHT)
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._tell_at = 0.0
        self._serves_parts, self._told_of_parts = True, False

    def start(self, work: Callable[[], T], size: int) -> Future[T]:
        """Have ``work``, which gets up to ``size`` bytes, done in another thread. Raises
        StorageError."""
        if self._store is None:
            self._store = open_store(self.url)
        with self._lock:
            self.coming += size
        return self._threads.start(partial(self._counted, work, size))

    def _counted(self, work: Callable[[], T], size: int) -> T:
        try:
            return work()
        finally:
            with self._lock:
                self.coming -= size

    def wait(self, future: Future[T]) -> T:
        """What comes of it. Raises what it raises, and what ``tick`` raises."""
        is_owner = threading.get_ident() == self._owner
        while True:
            try:
                return future.result(_POLL_S)
            except WaitTimeoutError:
                if future.done():
                    return future.result()
                if is_owner:
                    self.tick()

    def get(self, name: str, begin: int, end: int, version: str | None = None) -> Part:
        """The bytes [begin, end) of an object, or as many as it has; for what was started. Raises
        StorageError, FileNotFoundError, and ChangedError where it is not of this version."""
        part = self._get(name, begin, end, version)
        with self._lock:
            self.came += len(part.data)
        return part

    def _get(self, name: str, begin: int, end: int, version: str | None) -> Part:
        from obstore.exceptions import BaseError, NotFoundError, PreconditionError

        pause_s = _PAUSE_S
        began = time.monotonic()
        while not self._stopped.is_set():
            try:
                return self._ask(name, begin, end, version)
            except (NotFoundError, FileNotFoundError) as error:
                if "NoSuchBucket" in str(error):
                    raise StorageError(f"{self.url}: {why(error)}") from None
                raise FileNotFoundError(name) from None
            except PreconditionError:
                raise ChangedError from None
            except (BaseError, OSError, ValueError) as error:
                # obstore has classes of its own, and built-in ones for what comes on the way.
                now = time.monotonic()
                self._tell(error, now, now - began)
                if now - began > self._give_up_s:
                    raise StorageError(
                        f"{self.url} does not answer for {self._give_up_s:g} s: {why(error)}"
                    ) from None
            self._stopped.wait(random.uniform(0.5, 1) * pause_s)
            pause_s = min(2 * pause_s, _MAX_PAUSE_S)
        raise CancelledError

    def _ask(self, name: str, begin: int, end: int, version: str | None) -> Part:
        import obstore
        from obstore.exceptions import NotSupportedError

        assert self._store is not None
        is_part = self._serves_parts
        options: GetOptions = {"range": (begin, end)} if is_part else {}
        if version is not None and version.startswith(('"', "W/")):
            options["if_match"] = version
        try:
            got = obstore.get(self._store, name, options=options)
        except NotSupportedError:  # a server such as Python's own
            self._serves_parts = False
            return self._ask(name, begin, end, version)
        except Exception as error:
            if begin or "416" not in str(error):
                raise
            # There is no first byte, so no range of bytes: the object is empty.
            got = obstore.get(self._store, name)
        meta = got.meta  # made anew each time
        now = _version(meta)
        if version is not None and now != version:
            raise ChangedError
        data = memoryview(got.bytes()) if is_part else self._cut(got, begin, end)
        return Part(data, meta["size"], now)

    def _cut(self, got: GetResult, begin: int, end: int) -> memoryview:
        """The bytes [begin, end) of an object that comes from its first byte on."""
        if begin and not self._told_of_parts:
            self._told_of_parts = True
            _log.warning(
                "%s: it does not serve parts of files (HTTP Range), so that all that lies before a "
                "part is read as well", self.url,
            )  # fmt: skip
        pieces, at = [], 0
        for chunk in got.stream():
            pieces.append(bytes(memoryview(chunk)[max(0, begin - at) : max(0, end - at)]))
            at += len(chunk)
            if at >= end:
                break
        return memoryview(b"".join(pieces))

    def _tell(self, error: Exception, now: float, failing_s: float) -> None:
        with self._lock:
            if failing_s <= _TELL_S or now <= self._tell_at:
                return
            self._tell_at = now + _REMIND_S
        _log.warning("%s: %s; still trying", self.url, why(error))

    def stop(self) -> None:
        """End: what was asked for does not come any more."""
        self._stopped.set()
        self._threads.stop()


def _version(meta: ObjectMeta) -> str:
    """An ETag, or what else a server tells of a file; at the least, its size."""
    tag: str | None = meta.get("e_tag")
    if tag:
        return tag
    changed = meta["last_modified"]
    told = str(changed) if changed.timestamp() else ""
    return f"{told} {meta['size']}"


def tells_versions(version: str) -> bool:
    """Whether this tells another version from it, or two of one size are the same."""
    return not version.startswith(" ")

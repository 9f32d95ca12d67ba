"""Requests for parts of objects: several at once, each in a thread, made again until they are
answered.

A request is made again at growing intervals, and the log says so. Bytes that came are kept, and
only the rest is asked for again. If nothing comes for `GIVE_UP_S`, the request fails with a
StorageError: that is not the video's fault. The same holds for a refusal (401, 403) while the
storage refuses all objects, since keys expire and are replaced. A request fails at once if the
object is not there, if the storage refuses this object but gives others (UnavailableError), or if
the object has changed (ChangedError).

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
from typing import TYPE_CHECKING, TypeVar

from videoload.errors import StorageError
from videoload.storage.daemon_pool import DaemonPool
from videoload.storage.files import ChangedError
from videoload.storage.roots import open_store, why

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult, ObjectMeta
    from obstore.store import ObjectStore

T = TypeVar("T")

_log = logging.getLogger(__name__)

GIVE_UP_S = 30.0
_FEWEST_AT_ONCE, _FIRST_AT_ONCE, _MOST_AT_ONCE = 2, 8, 32  # requests
_SLOW, _FAST = 125e3, 250e3  # bytes/s of a request, to have fewer or more of them at once
_FEWEST_BYTES = 32 << 10  # of a request whose rate is looked at
_CHUNK_BYTES = 64 << 10  # the most that is asked for again after a fault
_PAUSE_S, _MAX_PAUSE_S = 0.1, 3.0
_TELL_S, _REMIND_S = 2.0, 10.0  # of failing, before a warning, and between two
_POLL_S = 0.02  # signals and heartbeats are looked after so often while bytes are waited for


class Part:
    """The bytes [begin, end) of an object, of which all before ``at`` have come. ``size`` is that
    of the object; ``tag`` changes when the object does."""

    def __init__(self, name: str, begin: int, end: int, tag: str) -> None:
        self.name, self.at, self.end, self.tag = name, begin, end, tag
        self.size = 0
        self._pieces: list[memoryview] = []

    def is_of(self, meta: ObjectMeta) -> None:
        """What comes now is of this object. Raises ChangedError."""
        tag = _tag(meta)
        if self.tag and tag != self.tag:
            raise ChangedError
        self.tag, self.size = tag, meta["size"]
        self.end = min(self.end, self.size)

    def add(self, piece: memoryview) -> None:
        """These bytes came."""
        self._pieces.append(piece)
        self.at += len(piece)

    @property
    def data(self) -> memoryview:
        """All bytes that came."""
        if len(self._pieces) != 1:
            self._pieces = [memoryview(b"".join(self._pieces))]
        return self._pieces[0]


class UnavailableError(Exception):
    """The storage does not give this one object, for the reason that the message says."""


class Fetcher:
    """Fetches parts of the objects below ``url`` until it is stopped.

    ``tick`` is called again and again while `wait` waits, in the thread that made this.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.tick: Callable[[], None] = lambda: None
        self.came = 0  # bytes, since the owner of this looked at it last
        self._owner = threading.get_ident()
        self._store: ObjectStore | None = None
        self._threads = DaemonPool("videoload-fetch", _FIRST_AT_ONCE)
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._tell_at = 0.0
        self._said, self._said_until = "", 0.0
        self._good = ""  # the name of the object that was answered last
        self._serves_parts, self._told_of_parts = True, False

    def start(self, work: Callable[[], T]) -> Future[T]:
        """Do ``work``, which gets a part, in another thread. Raises StorageError."""
        if self._store is None:
            self._store = open_store(self.url)
        return self._threads.start(work)

    @property
    def says(self) -> str:
        """Why a request failed a moment ago; "" if none did."""
        return self._said if time.monotonic() < self._said_until else ""

    @property
    def parts_asked(self) -> int:
        """How many parts were asked for and have not come."""
        return self._threads.jobs

    def wait(self, future: Future[T]) -> T:
        """The result of what was started, which is done next. Raises what it raises, and what
        ``tick`` raises."""
        self._threads.hurry(future)
        is_owner = threading.get_ident() == self._owner
        while True:
            try:
                return future.result(_POLL_S)
            except WaitTimeoutError:
                if future.done():
                    return future.result()
                if is_owner:
                    self.tick()

    def get(self, name: str, begin: int, end: int, tag: str = "") -> Part:
        """The bytes [begin, end) of an object, or as many as it has; called by what was started.
        ``tag``: the one that the object must have, if it is known. Raises StorageError,
        UnavailableError, ChangedError."""
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        part = Part(name, begin, end, tag)
        pause_s, since = _PAUSE_S, time.monotonic()
        while not self._stopped.is_set():
            at, what, hint = part.at, "does not answer", ""
            try:
                self._ask(part)
                with self._lock:
                    self.came += part.at - begin
                return part
            except (BaseError, OSError, ValueError) as error:
                # obstore has classes of its own, and built-in ones for what comes on the way.
                if isinstance(error, PermissionDeniedError | UnauthenticatedError):
                    what, hint = "refuses all requests", "; renew the credentials of the workers"
                    if self._gives_others(name):
                        raise UnavailableError(why(error)) from None
                now = time.monotonic()
                if part.at > at:
                    pause_s, since = _PAUSE_S, now
                self._note_rate(0)
                self._tell(error, now, now - since)
                if now - since > GIVE_UP_S:
                    why_not = f"{what} for {GIVE_UP_S:g} s: {why(error)}{hint}"
                    raise StorageError(f"{self.url} {why_not}") from None
            self._stopped.wait(random.uniform(0.5, 1) * pause_s)
            pause_s = min(2 * pause_s, _MAX_PAUSE_S)
        raise CancelledError

    def _ask(self, part: Part) -> None:
        is_part, begin = self._serves_parts, part.at
        got = self._request(part, is_part=is_part)
        if got is None:
            self._serves_parts = False  # a server such as Python's own
            return self._ask(part)
        self._good = part.name
        part.is_of(got.meta)
        if not is_part and begin:
            self._tell_of_parts()
        at, began = begin if is_part else 0, time.monotonic()
        for chunk in got.stream(min_chunk_size=_CHUNK_BYTES):
            part.add(memoryview(chunk)[max(0, part.at - at) : max(0, part.end - at)])
            at += len(chunk)
            if at >= part.end:
                break
        if at - begin >= _FEWEST_BYTES:
            self._note_rate((at - begin) / max(1e-9, time.monotonic() - began))
        return None

    def _request(self, part: Part, *, is_part: bool) -> GetResult | None:
        """The answer, whose bytes come later; None if the server does not serve parts."""
        import obstore
        from obstore.exceptions import NotSupportedError, PreconditionError

        assert self._store is not None
        options: GetOptions = {"range": (part.at, part.end)} if is_part else {}
        if part.tag.startswith('"'):  # a weak one (W/"...") never matches
            options["if_match"] = part.tag
        try:
            return obstore.get(self._store, part.name, options=options)
        except NotSupportedError:
            return None
        except PreconditionError:
            raise ChangedError from None
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise StorageError(f"{self.url}: {why(error)}") from None
            raise UnavailableError("No such file or directory") from None
        except Exception as error:
            if "410 Gone" in str(error):
                raise UnavailableError(why(error)) from None
            if part.at or "416" not in str(error):
                raise
            # There is no first byte, so no range of bytes: the object is empty.
            return obstore.get(self._store, part.name)

    def _gives_others(self, name: str) -> bool:
        """Whether another object can be read now."""
        import obstore

        other = self._good
        if self._store is None or other in ("", name):
            return False
        try:
            obstore.get(self._store, other, options={"range": (0, 1)})
        except Exception:
            return False
        return True

    def _note_rate(self, rate: float) -> None:
        """Have more requests at once if each comes fast, and fewer if they share a slow line: then
        what is needed next comes before what is needed later."""
        with self._lock:
            limit = self._threads.limit
            if rate > _FAST:
                self._threads.limit = min(_MOST_AT_ONCE, limit + 1)
            elif rate < _SLOW:
                self._threads.limit = max(_FEWEST_AT_ONCE, limit * 3 // 4)

    def _tell_of_parts(self) -> None:
        if not self._told_of_parts:
            self._told_of_parts = True
            _log.warning(
                "%s: it does not serve parts of files (HTTP Range), so that all that lies before a "
                "part is read as well", self.url,
            )  # fmt: skip

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
        self._threads.stop()


def _tag(meta: ObjectMeta) -> str:
    """The ETag, or what else the server tells: the time of change, and at least the size."""
    tag: str | None = meta.get("e_tag")
    if tag:
        return tag
    changed = meta["last_modified"]
    told = str(changed) if changed.timestamp() else ""
    return f"{told} {meta['size']}"


def tells_versions(tag: str) -> bool:
    """Whether another version of the same size would be seen to be another."""
    return not tag.startswith(" ")

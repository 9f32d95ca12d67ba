"""Object stores: fetch parts of objects, with retries, and classify errors.

A request is repeated at growing intervals, and logged; received bytes stay in memory, and only the
rest is requested. Without bytes for `GIVE_UP_S`, it fails with a StorageError: that is not the
video's fault. It fails at once if the object is not there (UnavailableError) or is another one
(FileReplacedError). Other failures are its fault if the storage answers for other objects, and then
only this object fails (RefusedError): one object must not stop the others.

obstore's own retries are off, because they cover less: it raises at once for 401 and 403 (keys
expire, and are replaced), logs nothing while it waits (the log and the verdict name the storage),
and cannot be stopped, or informed that the storage answers for others.

A thread that waits for its answer takes a third less of a core than asyncio for the same request.
All of it needs the extra ``[remote]`` (obstore), which is imported when the first URL is opened.
"""

from __future__ import annotations

import math
import random
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as WaitTimeoutError
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from videoload.backoff import Backoff
from videoload.errors import FileReplacedError, StorageError
from videoload.logs import Log
from videoload.storage.daemon_pool import DaemonPool
from videoload.storage.hub import Answer, Hub, LaterError, is_dataset

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult, ObjectMeta
    from obstore.store import ObjectStore

T = TypeVar("T")

_log = Log(__name__)

GIVE_UP_S = 30.0
_PAUSE_S, _MAX_PAUSE_S = 0.1, 3.0
_DRAW = random.Random()  # a thread that waits must not use the training script's random numbers
_MAX_TOLD_S = 1800.0  # of all delays that a storage may request, until it must answer
TELL_S, _REMIND_S = 2.0, 10.0  # of failing, before a warning, and between two
_CONNECT_S = 5.0
SILENCE_S = 20.0  # a request is repeated after so long without a byte
_NEVER = timedelta(days=1)  # a whole answer may take any time
_RANGES = re.compile(r"Requested \d+\.\.\d+, got \d+\.\.\d+")
_STATUS = re.compile(r"\b([345]\d\d) ([A-Z][A-Za-z ]+)")
_AT_ONCE = 16  # requests
_CHUNK_BYTES = 64 << 10  # the most that is requested again after a fault
OBJECT_S = 5.0  # an object that fails for so long is at fault itself, if others are given
_BUSY = "429", "503"  # concern the whole storage, also if it answers for others
_POLL_S = 0.02  # signals and heartbeats are looked after so often while bytes are waited for


class UnavailableError(Exception):
    """The storage does not deliver this one object, for the reason in the message."""


class RefusedError(UnavailableError):
    """It may be there."""


class Store:
    """The objects below ``url``, until it is stopped. It is thread-safe."""

    def __init__(self, url: str) -> None:
        """Raise StorageError."""
        check_extra(url)
        self.url = url
        self._store: ObjectStore | None = None
        self._hub: Hub | None = None
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._tell_at = 0.0
        self._said, self._said_until = "", 0.0
        self.silent_s = 0.0  # how long a waiting reader has received nothing

    @property
    def failure_reason(self) -> str:
        """The reason why a request failed a moment ago, or gets no bytes; "" if all is well."""
        if time.monotonic() < self._said_until:
            return self._said
        silent = f"{self.url}: it does not respond for {self.silent_s:.0f} s"
        return silent if self.silent_s > OBJECT_S else ""

    def hub(self) -> Hub:
        """Return the dataset, without a request. Raises StorageError."""
        with self._lock:
            try:
                self._hub = self._hub or Hub(self.url, _CONNECT_S, SILENCE_S)
            except ValueError as error:
                raise StorageError(f"{error}") from None
        return self._hub

    def get(self, name: str, options: GetOptions | None = None) -> GetResult | Answer:
        """Request an object, or a part of it, once. Raises StorageError, and errors of obstore."""
        import obstore

        if is_dataset(self.url):
            return self.hub().get(name, None if options is None else options["range"])
        return obstore.get(self.open(), name, options=options)

    def open(self) -> ObjectStore:
        """Return the store, without a request. Raises StorageError."""
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
                    "read_timeout": timedelta(seconds=SILENCE_S),
                    "timeout": _NEVER,
                },
                retry_config={"max_retries": 0, "retry_timeout": _NEVER},  # `ask` tries again
            )
        except (BaseError, ValueError) as error:
            raise StorageError(f"{self.url} cannot be opened: {why(error)}") from None
        return self._store

    def ask(
        self,
        what: Callable[[], T],
        *,
        come: Callable[[], int] = lambda: 0,
        failed: Callable[[Exception, float], bool | None] = lambda error, failing_s: None,
    ) -> T:
        """Return the answer to a request, which is repeated until there is one.

        Args:
            what: Sends the request, or requests the missing rest.
            come: Returns the number of received bytes.
            failed: Called with each fault, and for how long there was nothing else. It may raise
                what ends the request. Returns whether the storage is known to answer for others.

        Raises:
            StorageError: There is no answer, or the storage refuses everything.
        """
        from obstore.exceptions import (
            BaseError,
            NotSupportedError,
            PermissionDeniedError,
            UnauthenticatedError,
        )

        pauses, since, told_s = Backoff(_PAUSE_S, _MAX_PAUSE_S), time.monotonic(), 0.0
        while not self._stopped.is_set():
            before = come()
            try:
                return what()
            except (BaseError, OSError, ValueError) as error:
                # obstore raises its own classes, and built-in ones for faults of the transfer.
                if self._stopped.is_set():  # no reader waits for it any more
                    break
                now = time.monotonic()
                if come() > before:
                    since, told_s = now, 0.0
                    pauses.reset()
                # A retry at the requested time is not a fault.
                failing_s = now - since - min(told_s, _MAX_TOLD_S)
                others_are_given = failed(error, failing_s)
                if isinstance(error, NotSupportedError) and not others_are_given:
                    raise StorageError(f"{self.url}: {why(error)}") from None
                later_s = error.after_s if isinstance(error, LaterError) else 0.0
                self._tell(error, now, now - since, later_s)
                if failing_s > GIVE_UP_S and not others_are_given:
                    verb, hint = "does not respond", ""
                    if isinstance(error, PermissionDeniedError | UnauthenticatedError):
                        verb = "refuses all requests"  # keys expire and are replaced
                        hint = "; renew the credentials of the workers"
                    why_not = f"{verb} for {GIVE_UP_S:g} s: {why(error)}{hint}"
                    raise StorageError(f"{self.url} {why_not}") from None
            told_s += later_s
            self._stopped.wait(max(later_s, _DRAW.uniform(0.5, 1) * pauses.next_s()))
        raise CancelledError

    def _tell(self, error: Exception, now: float, failing_s: float, later_s: float) -> None:
        until = now + later_s + 2 * _MAX_PAUSE_S
        self._said, self._said_until = f"{self.url}: {why(error)}", until
        with self._lock:
            if failing_s <= TELL_S or now <= self._tell_at:
                return
            self._tell_at = now + _REMIND_S
        _log.warning("%s: %s; still trying", self.url, why(error))

    def stop(self) -> None:
        """End: what was asked for does not come any more."""
        self._stopped.set()
        if self._hub is not None:
            self._hub.close()


def check_extra(url: str) -> None:
    """Raise StorageError if the extra that URLs need is not installed."""
    if find_spec("obstore") is None:
        raise StorageError(f"{url}: pip install obstore to read it")


def why(error: Exception) -> str:
    """Return the text of an error, without any address, header or credential."""
    text = str(error)
    if "NoSuchBucket" in text:
        return "there is no such bucket"
    if status := _STATUS.search(text):
        return f"{status[1]} {status[2].strip()}"
    if "CERTIFICATE" in text:
        return "its certificate cannot be verified"
    if "timed out" in text or "Timeout" in text:
        return "it does not respond in time"
    if "redential" in text or "metadata" in text:
        return "there are no credentials for it"
    if "following redirect" in text:
        return "its redirects lead nowhere"
    if ranges := _RANGES.search(text):
        return f"it sends other bytes than requested: {ranges[0]}"
    if "Range request" in text:
        return "it sends whole files instead of the requested parts (HTTP Range)"
    if "Content-Length" in text:
        return "it does not send the length of a file (HTTP Content-Length)"
    return f"it cannot be reached{_by_proxy()}"


def _by_proxy() -> str:
    """Return the variables that select a proxy, if any."""
    from urllib.request import getproxies_environment

    found = [f"{name}_proxy" for name in getproxies_environment() if name != "no"]
    return f" (requests go by the proxy of {' and '.join(found)}; see no_proxy)" if found else ""


class Part:
    """The bytes [begin, end) of an object; those before ``at`` have arrived. ``size`` is that of
    the object; ``tag`` changes with the object. ``file``: they are written there."""

    def __init__(
        self, name: str, begin: int, end: int, tag: str, file: BinaryIO | None = None
    ) -> None:
        self.name, self.begin, self.at, self.end, self.tag = name, begin, begin, end, tag
        self.size = 0
        self._file = file
        self._pieces: list[memoryview] = []

    def is_of(self, meta: ObjectMeta) -> None:
        """Note the object of the next bytes. Raises FileReplacedError."""
        tag = tag_of(meta)
        if self.tag and tag != self.tag:
            raise FileReplacedError
        self.tag, self.size = tag, meta["size"]
        self.end = min(self.end, self.size)

    def add(self, piece: memoryview) -> None:
        """Note received bytes. Raises RefusedError."""
        if self._file is None:
            self._pieces.append(piece)
        else:
            try:
                self._file.write(piece)
            except OSError as error:  # no fault that passes
                raise RefusedError(f"it cannot be written to a file: {error.strerror}") from None
        self.at += len(piece)

    @property
    def data(self) -> memoryview:
        """All received bytes, unless they were written into a file."""
        if len(self._pieces) != 1:
            self._pieces = [memoryview(b"".join(self._pieces))]
        return self._pieces[0]


class SilentError(Exception):
    """No bytes arrived within the timeout."""


class Fetcher:
    """Fetches parts of the objects below ``url`` until it is stopped.

    ``tick`` is called repeatedly while `wait` waits, in the thread that created this.
    """

    def __init__(self, url: str) -> None:
        self.tick: Callable[[], None] = lambda: None
        self.came = 0  # bytes, since the owner of this looked at it last
        self._owner = threading.get_ident()
        self.store = Store(url)
        self.threads = DaemonPool("videoload-fetch", _AT_ONCE)
        self._lock = threading.Lock()
        self._good = ""  # the name of the object that was answered last
        self._refused: set[str] = set()  # names of objects that could not be read

    def start(self, work: Callable[[], T]) -> Future[T]:
        """Do ``work``, which gets a part, in another thread. Raises StorageError."""
        if not is_dataset(self.store.url):
            self.store.open()
        return self.threads.start(work)

    def wait(self, future: Future[T], most_silent_s: float = math.inf) -> T:
        """Return the result of a request. It is sent next if the thread that created this calls.
        Raises its errors, those of ``tick``, and SilentError after the timeout without bytes."""
        is_owner = threading.get_ident() == self._owner
        if is_owner:  # what others wait for is for later
            self.threads.hurry(future)
        since, before = time.monotonic(), self.came
        while True:
            try:
                return future.result(_POLL_S)
            except CancelledError:
                raise StorageError(f"{self.store.url}: it was closed") from None
            except WaitTimeoutError:
                if future.done():
                    return future.result()
            if self.came != before:
                since, before = time.monotonic(), self.came
            silent_s = time.monotonic() - since
            if is_owner:
                self.store.silent_s = silent_s
                try:
                    self.tick()
                finally:
                    self.store.silent_s = 0.0
            if silent_s > most_silent_s:
                raise SilentError

    @property
    def has_given(self) -> bool:
        """Return whether an object has arrived."""
        return bool(self._good)

    def look(self, name: str) -> tuple[int, str]:
        """Return size and tag of an object that may be missing. Raises UnavailableError also if it
        is refused: some storages do not report a missing file to those who may not list it."""
        from obstore.exceptions import NotSupportedError

        def failed(error: Exception, _: float) -> None:
            hint = why(error)
            if isinstance(error, FileNotFoundError | NotSupportedError) or (
                hint[0].isdigit() and hint[:3] not in _BUSY
            ):
                raise UnavailableError(hint) from None

        meta = self.store.ask(lambda: self.store.get(name, {"range": (0, 1)}).meta, failed=failed)
        return meta["size"], tag_of(meta)

    def get(
        self, name: str, begin: int, end: int, tag: str = "", file: BinaryIO | None = None
    ) -> Part:
        """Return the bytes [begin, end) of an object, or as many as it has; called by what was
        started. ``tag``: the one that the object must have, if it is known. ``file``: where to
        write them. Raises StorageError, UnavailableError, FileReplacedError."""
        from obstore.exceptions import (
            NotSupportedError,
            PermissionDeniedError,
            UnauthenticatedError,
        )

        is_alone = False

        def failed(error: Exception, failing_s: float) -> bool:
            """Note a failure. The storage may have recovered between it and the answer for others,
            so it only counts if the object fails once more after that."""
            nonlocal is_alone
            if isinstance(error, NotSupportedError) and not self._good:
                return False  # no part of any object has arrived
            patience_s = GIVE_UP_S if why(error)[:3] in _BUSY else OBJECT_S
            if name in self._refused or isinstance(
                error, PermissionDeniedError | UnauthenticatedError | NotSupportedError
            ):
                patience_s = 0.0
            was_alone = is_alone
            is_alone = failing_s >= patience_s and self._answers_for_others(name)
            if was_alone and is_alone:
                self._refused.add(name)
                raise RefusedError(why(error)) from None
            return is_alone

        part = Part(name, begin, end, tag, file)
        self.store.ask(partial(self._ask, part), come=lambda: part.at, failed=failed)
        return part

    def _ask(self, part: Part) -> None:
        got = self._request(part)
        part.is_of(got.meta)
        for chunk in got.stream(min_chunk_size=_CHUNK_BYTES):
            part.add(memoryview(chunk)[: part.end - part.at])
        self._good = part.name
        self._refused.discard(part.name)

    def _request(self, part: Part) -> GetResult | Answer:
        """Return the answer, whose bytes come later."""
        from obstore.exceptions import PreconditionError

        options: GetOptions = {"range": (part.at, part.end)}
        if part.tag.startswith('"'):  # a weak one (W/"...") never matches
            options["if_match"] = part.tag
        try:
            return self.store.get(part.name, options)
        except PreconditionError:
            raise FileReplacedError from None
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise StorageError(f"{self.store.url}: {why(error)}") from None
            raise UnavailableError("No such file or directory") from None
        except Exception as error:
            status = why(error)[:3]  # an address, or a duration, may have such figures, too
            if status == "410":
                raise UnavailableError(why(error)) from None
            if status != "416":
                raise
            if part.at:  # it is shorter than it was, or than its metadata
                raise FileReplacedError from None
            # There is no first byte, so no range of bytes: the object is empty.
            return self.store.get(part.name)

    def _answers_for_others(self, name: str) -> bool:
        """Return whether the storage delivers another object now, or answers that it does not
        exist."""
        other = f"{name}.none" if self._good in ("", name) else self._good
        try:
            self.store.get(other, {"range": (0, 1)})
        except FileNotFoundError as error:
            return "NoSuchBucket" not in str(error)
        except Exception:
            return False
        return True

    def stop(self) -> None:
        """End: what was asked for does not come any more."""
        self.store.stop()
        self.threads.stop()


def tag_of(meta: ObjectMeta) -> str:
    """Return the ETag, or what else the server sends: the time of change, and at least the size."""
    tag: str | None = meta.get("e_tag")
    if tag:
        return tag
    changed = meta["last_modified"]
    modified = str(changed) if changed.timestamp() else ""
    return f"{modified} {meta['size']}"


def has_versions(tag: str) -> bool:
    """Return whether another version of the same size would be noticed."""
    return not tag.startswith(" ")

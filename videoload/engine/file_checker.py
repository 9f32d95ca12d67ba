"""Reads the trainer's own files in threads of its own, since a disk may be slow, or not answer, and
the I/O thread must not wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from weakref import WeakSet

from videoload.errors import (
    StorageError,
    UnreadableError,
    VideoError,
    VideoloadError,
    named,
)
from videoload.logs import Log
from videoload.storage.daemon_pool import DaemonPool
from videoload.storage.files import Storage
from videoload.storage.paths import files_of, fingerprint_of

_log = Log(__name__)

# Fingerprints that are found out at once: where storage takes 50 ms, 1 200 a second.
_READERS = 64


class FileChecker:
    """Checks files until it is closed."""

    def __init__(self) -> None:
        self._readers = DaemonPool("videoload-files", _READERS, stay=False)
        # The storage of a URL is for one thread, and requests many files at once.
        self._fetcher = DaemonPool("videoload-files", 1, stay=False)
        self._requested: deque[tuple[Storage, str, Callable[[], None]]] = deque()
        self._storages: WeakSet[Storage] = WeakSet()

    def identify(
        self,
        storage: Storage,
        paths: Mapping[int, str],
        salt: int,
        reply: Callable[[int, int | VideoloadError], None],
    ) -> None:
        """Call ``reply``, in another thread, with each number in ``paths`` and the fingerprint of
        its file, 0 if there is none, or why it cannot be read."""

        def find(number: int, path: str) -> None:
            reply(number, _found(path, lambda part: storage.fingerprint(part, salt)))

        self._storages.add(storage)
        try:
            for number, path in paths.items():
                if storage.fetches:
                    self._requested.append((storage, path, partial(find, number, path)))
                else:
                    self._readers.start(partial(find, number, path))
            if storage.fetches:
                self._fetcher.start(self._fetch)
        except StorageError as error:  # no thread can be started
            for number in paths:
                reply(number, error)

    def _fetch(self) -> None:
        coming: deque[Callable[[], None]] = deque()
        while self._requested or coming:
            while self._requested and len(coming) < _READERS:
                storage, path, find = self._requested.popleft()
                with suppress(VideoError, StorageError):
                    for part in files_of(path):
                        storage.prefetch_header(part)
                coming.append(find)
            coming.popleft()()

    def close(self) -> None:
        """Drop the checks that wait. What waits for a disk is left behind."""
        self._readers.stop()
        self._requested.clear()
        for storage in self._storages:
            storage.close()
        self._fetcher.stop()


def _found(path: str, one: Callable[[str], int]) -> int | VideoloadError:
    """Return the fingerprint of a file, 0 if there is none, or why it cannot be read."""
    try:
        return fingerprint_of(path, one)
    except (UnreadableError, StorageError) as error:
        return error
    except VideoError:
        return 0
    except Exception as error:  # the caller waits for a reply
        _log.exception("%s", named(path))
        return UnreadableError(path, f"{type(error).__name__}: {error}")

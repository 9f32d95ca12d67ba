"""The log on stderr, for people or for programs, and what keeps a flood out of it.

Lines name files and hosts, which may contain any characters. So control characters are escaped, and
a record is one line (a traceback follows in lines of its own, except in JSON).
"""

from __future__ import annotations

import json
import logging
import math
import time
from typing import Literal

from cachetools import LRUCache

from videoload.errors import printable

LogFormat = Literal["", "text", "json"]

_EVERY_S, _AGAIN_S = 1.0, 60.0
_KNOWN_LINES = 256


def log_to_stderr(name: str, log_format: LogFormat = "", level: int = logging.WARNING) -> None:
    """Print the log of this process from ``level`` on. ``name`` tells which process it is.

    ``log_format``: "" for ``name: message``, as commands that a person types print it; "text" with
    time (UTC) and level in front; "json" for an object a line, with time, level, process, pid and
    message.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(
        _Json(name) if log_format == "json" else _Text(name, with_time=bool(log_format))
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)


class _Text(logging.Formatter):
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self, name: str, *, with_time: bool) -> None:
        when = "%(asctime)s %(levelname)s " if with_time else ""
        super().__init__(f"{when}{name}: %(message)s")
        self.converter = time.gmtime

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        record.message = printable(record.message)
        return super().formatMessage(record)


class _Json(_Text):
    def __init__(self, name: str) -> None:
        super().__init__(name, with_time=False)
        self._name = name

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "process": self._name,
            "pid": record.process,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def is_logged(count: int, first: int = 8) -> bool:
    """Return whether the ``count``-th of many files gets a line of its own in the log: the first
    ones do, and then each one by which their number has doubled."""
    return count <= first or count.bit_count() == 1


class RateLimitedLog:
    """Lines that any peer at a port can cause: no more than one a second is logged, and the same
    one once a minute. Otherwise a flood would fill a disk with lines that all say the same.

    The first lines are logged at once. Those that follow are counted, and the last new one is
    logged with their number. Time is passed in, in seconds."""

    def __init__(
        self, log: logging.Logger, level: int = logging.WARNING, *, burst: int = 1
    ) -> None:
        """After a pause, ``burst`` lines may come at once."""
        self._log, self._level = log, level
        self._ahead_s, self._next = (burst - 1) * _EVERY_S, -math.inf
        self._held = 0
        self._last = ""
        self._logged: LRUCache[str, float] = LRUCache(_KNOWN_LINES)  # when each line was

    def add(self, text: str, now: float) -> None:
        """Log a line now, or count it."""
        self._held += 1
        if now - self._logged.get(text, -math.inf) >= _AGAIN_S:
            self._last = text
        self.tell(now)

    def tell(self, now: float) -> None:
        """Log the lines that were counted, if it is time."""
        if not self._last or now < self._next - self._ahead_s:
            return
        more = f" (and {self._held - 1} more since the last line)" if self._held > 1 else ""
        self._log.log(self._level, "%s%s", self._last, more)
        self._logged[self._last] = now
        self._held, self._last = 0, ""
        self._next = max(now, self._next) + _EVERY_S

"""The log on stderr, for people or for programs, and its rate limit.

Lines name files and hosts, which may contain any characters. So control characters are escaped, and
a record is one line (a traceback follows in lines of its own, except in JSON).

A handler is the user's, and may raise: its disk is full, its stream is closed. A log line must not
end a thread, so all of videoload logs through a `Log`, which raises nothing.
"""

from __future__ import annotations

import json
import logging
import math
import sys
import threading
import time
from contextlib import suppress
from typing import Literal

from cachetools import LRUCache

from videoload.errors import printable

LogFormat = Literal["", "text", "json"]

_EVERY_S, _AGAIN_S = 1.0, 60.0
_KNOWN_LINES = 256


def log_to_stderr(name: str, log_format: LogFormat = "", level: int = logging.WARNING) -> None:
    """Print the log of this process from ``level`` on. ``name`` identifies the process.

    ``log_format``: "" for ``name: message``, as commands that a person types print it; "text" with
    time (UTC) and level in front; "json" for an object a line, with time, level, process, pid and
    message.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(
        _Json(name) if log_format == "json" else _Text(name, with_time=bool(log_format))
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)


class Log:
    """A logger whose lines cost at most themselves: whatever a handler, a filter or a formatter
    raises is reported on stderr, once, and ends nothing."""

    has_warned = False

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, text: str, *values: object) -> None:
        self.log(logging.DEBUG, text, *values, above=2)

    def info(self, text: str, *values: object) -> None:
        self.log(logging.INFO, text, *values, above=2)

    def warning(self, text: str, *values: object) -> None:
        self.log(logging.WARNING, text, *values, above=2)

    def error(self, text: str, *values: object, exc_info: BaseException | None = None) -> None:
        self.log(logging.ERROR, text, *values, exc_info=exc_info, above=2)

    def exception(self, text: str, *values: object) -> None:
        """Log a message with the current exception."""
        self.log(logging.ERROR, text, *values, exc_info=True, above=2)

    def shows(self, level: int) -> bool:
        """Return whether lines of this level are shown."""
        return self._logger.isEnabledFor(level)

    def log(
        self,
        level: int,
        text: str,
        *values: object,
        exc_info: BaseException | bool | None = None,
        above: int = 1,
    ) -> None:
        """Log a line. ``above``: of the caller so many calls up."""
        try:
            self._logger.log(level, text, *values, exc_info=exc_info, stacklevel=above + 1)
        except BaseException as error:
            is_users = threading.current_thread() is threading.main_thread()
            if is_users and not isinstance(error, Exception):  # Ctrl-C
                raise
            if not Log.has_warned:
                Log.has_warned = True
                with suppress(Exception):
                    print(f"videoload: a log handler raised {error!r}: {text!r} and more lines are "
                          "lost", file=sys.stderr)  # fmt: skip


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
    """Logs lines that any peer at a port can cause: at most one a second, and the same one once a
    minute. Otherwise a flood would fill a disk with equal lines.

    The first lines are logged at once. Those that follow are counted, and the last new one is
    logged with their number. Time is passed in, in seconds."""

    def __init__(self, log: Log, level: int = logging.WARNING, *, burst: int = 1) -> None:
        """After a pause, ``burst`` lines may be logged at once."""
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

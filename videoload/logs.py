"""The log on stderr, for people or for programs.

Lines name files and hosts, which may contain any characters. So control characters are escaped, and
a record is one line (a traceback follows in lines of its own, except in JSON).
"""

from __future__ import annotations

import json
import logging
import time
from typing import Literal

from videoload.errors import printable

LogFormat = Literal["", "text", "json"]


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

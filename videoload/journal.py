"""How far a long job came: a file of lines of JSON, each written at once.

The first line says what the job is. A kill may cut off the last line, which then does not count.
One process at a time goes on with a journal.
"""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

from videoload.errors import VideoloadError

Entry = dict[str, Any]


class Journal:
    """A journal that is open.

    Attributes:
        head: The first line. If it is not the one that was given, the journal is of another job.
        entries: The other lines, as they were when it was opened.
    """

    def __init__(self, file: Path, head: Entry) -> None:
        """Go on with it, or begin it with ``head``. Raises VideoloadError if another process writes
        to it or it is no journal, and OSError."""
        self.entries: list[Entry] = []
        file.parent.mkdir(parents=True, exist_ok=True)
        self._raw = file.open("a+b", buffering=0)
        try:
            try:
                fcntl.flock(self._raw, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise VideoloadError(f"another process writes there: {file} is locked") from None
            self._read()
            if not self.entries:
                self.append(head)
                self.entries.append(head)
            self.head = self.entries.pop(0)
            if not isinstance(self.head, dict):
                raise VideoloadError(f"{file} is not a journal: move it away")
        except BaseException:
            self.close()
            raise

    def _read(self) -> None:
        self._raw.seek(0)
        whole = 0
        for line in self._raw.read().splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break
            try:
                self.entries.append(json.loads(line))
            except ValueError:
                break
            whole += len(line)
        self._raw.truncate(whole)

    def append(self, entry: Entry) -> None:
        """Add a line. Raises OSError."""
        self._raw.write(json.dumps(entry).encode() + b"\n")

    def close(self) -> None:
        """Let another process go on with it."""
        self._raw.close()

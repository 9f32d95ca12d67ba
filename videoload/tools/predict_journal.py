"""How far a long job came: a file of lines of JSON, each written at once.

The first line says what the job is. A kill may cut off the last line, which then does not count. A
file that is no journal is refused and left as it is.
One process at a time writes a journal.
"""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

from videoload.errors import VideoloadError
from videoload.storage.new_files import continued

Entry = dict[str, Any]
_NO_JOURNAL = "{} is not a journal: move it away"


class PredictionJournal:
    """A journal that is open.

    Attributes:
        head: The first line. If it is not the one that was given, the journal is of another job.
        entries: The other lines, as they were when it was opened.
    """

    def __init__(self, file: Path, head: Entry) -> None:
        """Resume it, or begin it with ``head``. Raises VideoloadError if another process writes
        to it or it is no journal, and OSError."""
        self.entries: list[Entry] = []
        file.parent.mkdir(parents=True, exist_ok=True)
        self._raw = continued(file)
        try:
            try:
                fcntl.flock(self._raw, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise VideoloadError(f"another process writes there: {file} is locked") from None
            self._raw.seek(0)
            *lines, cut_off = self._raw.readall().split(b"\n")
            self._whole = sum(len(line) + 1 for line in lines)
            first = json.dumps(head).encode()
            try:
                self.entries = [json.loads(line) for line in lines]
            except ValueError:
                raise VideoloadError(_NO_JOURNAL.format(file)) from None
            begins = bool(lines) or first.startswith(cut_off)
            if not begins or not all(isinstance(entry, dict) for entry in self.entries):
                raise VideoloadError(_NO_JOURNAL.format(file))
            if not self.entries:
                self.append(head)
                self.entries.append(head)
            self.head = self.entries.pop(0)
        except BaseException:
            self.close()
            raise

    def append(self, entry: Entry) -> None:
        """Add a line. Raises OSError."""
        self._raw.truncate(self._whole)  # without what a kill or a full disk cut off
        line = left = json.dumps(entry).encode() + b"\n"
        while left:
            left = left[self._raw.write(left) :]
        self._whole += len(line)

    def close(self) -> None:
        """Release it for another process."""
        self._raw.close()

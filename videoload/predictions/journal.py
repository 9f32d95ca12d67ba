"""How far results on the disk go: a file of lines, each written at once.

The first line says which results they are. A kill may cut off the last line, which then does not
count. One process at a time goes on with a journal.
"""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

from videoload.errors import VideoloadError
from videoload.plan.identity import Identity

Entry = dict[str, Any]


class Journal:
    """A journal that is open.

    Attributes:
        entries: What was in it when it was opened.
    """

    def __init__(self, file: Path, identity: Identity) -> None:
        """Begin it, or go on with it. Raises VideoloadError if it is of other results or in use,
        and OSError."""
        self.entries: list[Entry] = []
        file.parent.mkdir(parents=True, exist_ok=True)
        self._raw = file.open("a+b", buffering=0)
        try:
            try:
                fcntl.flock(self._raw, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise VideoloadError(f"another process writes there: {file} is locked") from None
            self._read(file, identity)
        except BaseException:
            self.close()
            raise

    def _read(self, file: Path, identity: Identity) -> None:
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
        if not self.entries:
            self.append({"stream": dict(identity.settings)})
            return
        head = self.entries.pop(0)
        saved = head.get("stream") if isinstance(head, dict) else None
        found = "not a journal" if not isinstance(saved, dict) else identity.difference(saved)
        if found:
            raise VideoloadError(
                f"{file} is of other results ({found}): write to another place, or delete it and "
                "the results"
            )

    def append(self, entry: Entry) -> None:
        """Add a line. Raises OSError."""
        self._raw.write(json.dumps(entry).encode() + b"\n")

    def close(self) -> None:
        """Let another process go on with it."""
        self._raw.close()

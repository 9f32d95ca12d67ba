"""What the first visit to a video found out, kept from one training to the next.

That visit decodes the video once from end to end (`frames`), three or four times the work of a
clip: a first epoch that every restart would pay for again. So each decoder appends what it found to
a file that all decoders of this root on this host read, in ``~/.cache/videoload`` (or
``$XDG_CACHE_HOME/videoload``, or the folder that ``VIDEOLOAD_CACHE`` names; none if that is empty).

Nothing rests on that file. It may be deleted at any time, and where it cannot be read or written
there is none. An index counts only for the size and the time of change that the video had, and for
the software that decoded it; what was damaged on the way fails its checksum. And a frame that is
not as its index says is never handed out.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal
from zlib import crc32

_log = logging.getLogger(__name__)

_MAX_BYTES = 64 << 20  # some 60 000 videos like UCF-101's; after that, no more are added
_UNUSED_S = 90 * 86400  # a file that nobody read for so long goes


class IndexCache:
    """Packed indexes of the videos under ``root``, by path. One line of the file is a CRC-32, the
    video's size and time of change, its index, and its path."""

    def __init__(self, folder: str, root: str, software: str) -> None:
        name = hashlib.sha256(f"{root}\n{software}".encode(errors="surrogateescape"))
        self._file: Path | None = Path(folder, f"{name.hexdigest()[:32]}.indexes")
        self._lines: dict[bytes, tuple[bytes, bytes]] | None = None

    def get(self, path: str, status: os.stat_result) -> bytes | None:
        """The index of a video that has not changed since."""
        if self._lines is None:
            self._lines = dict(self._read())
        state, packed = self._lines.get(os.fsencode(path), (b"", b""))
        return base64.b64decode(packed) if state == _state(status) else None

    def forget(self, path: str) -> None:
        """One that has turned out wrong."""
        if self._lines is not None:
            self._lines.pop(os.fsencode(path), None)

    def add(self, path: str, status: os.stat_result, packed: bytes) -> None:
        """Keep an index for later."""
        name = os.fsencode(path)
        if self._file is None or b"\n" in name or self.get(path, status) == packed:
            return
        line = b"%s %s %s" % (_state(status), base64.b64encode(packed), name)
        try:
            if not self._file.exists():
                self._file.parent.mkdir(parents=True, exist_ok=True)
                _tidy(self._file.parent)
            with self._file.open("ab", buffering=0) as out:
                if out.tell() + len(line) < _MAX_BYTES:
                    # In one go, since others may be writing; and a new line first, should one of
                    # them have been killed within its own.
                    out.write(b"\n%08x %s\n" % (crc32(line), line))
        except OSError as error:
            _log.info("no indexes are kept: %s", error)
            self._file = None

    def _read(self) -> list[tuple[bytes, tuple[bytes, bytes]]]:
        if self._file is None:
            return []
        try:
            lines = self._file.read_bytes().split(b"\n")
            os.utime(self._file)  # it is in use
        except OSError:
            return []
        found = []
        for line in lines:
            with suppress(ValueError):
                checksum, rest = line[:8], line[9:]
                if int(checksum, 16) == crc32(rest):
                    state, packed, path = rest.split(b" ", 2)
                    found.append((path, (state, packed)))
        return found


def cache_folder(asked: str | os.PathLike[str] | Literal[False] | None) -> str | None:
    """The folder that a caller means; None: nothing is kept.

    Args:
        asked: A folder; None: ``$VIDEOLOAD_CACHE`` (empty: none), else ``videoload`` in
            ``$XDG_CACHE_HOME`` or ``~/.cache``; False: none.
    """
    if asked is False:
        return None
    if asked is not None:
        return str(Path(asked).absolute())
    named = os.environ.get("VIDEOLOAD_CACHE")
    if named is not None:
        return str(Path(named).absolute()) if named else None
    cache = os.environ.get("XDG_CACHE_HOME")
    with suppress(RuntimeError):  # no home
        return str((Path(cache) if cache else Path.home() / ".cache") / "videoload")
    return None


def _state(status: os.stat_result) -> bytes:
    return b"%d:%d" % (status.st_size, status.st_mtime_ns)


def _tidy(folder: Path) -> None:
    for file in folder.glob("*.indexes"):
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > _UNUSED_S:
                file.unlink()

"""The files of a stream that become others while it runs. They are used as they are now."""

from __future__ import annotations

import logging

import numpy as np

from videoload.catalog.catalog import Catalog
from videoload.errors import named

_log = logging.getLogger(__name__)


class ChangedFiles:
    """What workers that read the trainer's own copy tell of its files.

    Attributes:
        paths: The files that have changed, each once, in the order in which that was noticed.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.paths: list[str] = []
        self._catalog = catalog
        self._versions = np.zeros(len(catalog), np.int64)

    def sees(self, video: int, version: int) -> bool:
        """A clip came of this version of a video's file, 0 if nobody can tell. Returns whether the
        clip before it was of another one."""
        before = int(self._versions[video])
        self._versions[video] = version
        return before not in (0, version) and version != 0

    def add(self, video: int) -> None:
        """The file of a video has changed."""
        path = self._catalog[video].path
        if path not in self.paths:
            self.paths.append(path)
            _log.warning("%s has changed while this stream ran", named(path))

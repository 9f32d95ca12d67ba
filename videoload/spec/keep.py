"""Where the workers of one launch keep the files of a bucket."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from videoload.errors import SpecError
from videoload.spec.arguments import real


@dataclass(frozen=True)
class Keep:
    """A ``folder`` of a disk of theirs. ``most``: bytes; None: until a tenth of the disk is free
    only. ``since``: when the launch began, in nanoseconds of `time.time_ns`."""

    folder: str
    most: int | None
    since: int

    @classmethod
    def of(cls, folder: str | os.PathLike[str] | None, most_gb: float | None) -> Keep | None:
        """What a caller gives, for a launch that begins now; None: nothing is kept. Raises
        SpecError."""
        if folder is None:
            if most_gb is not None:
                raise SpecError("keep_gb limits the folder of keep=, which is not given")
            return None
        most = None if most_gb is None else int(1e9 * real("keep_gb", most_gb, 0.0))
        return cls(str(Path(folder).absolute()), most, time.time_ns())

"""Where workers keep the files of a bucket."""

from __future__ import annotations

import os
from dataclasses import dataclass
from errno import EACCES
from pathlib import Path

from videoload.errors import SpecError
from videoload.spec.arguments import real


@dataclass(frozen=True)
class Keep:
    """A ``folder`` of a disk of theirs. ``most``: bytes; None: until a tenth of the disk is free
    only."""

    folder: str
    most: int | None

    @classmethod
    def of(
        cls,
        folder: str | os.PathLike[str] | None,
        most_gb: float | None,
        *,
        elsewhere: bool = False,
    ) -> Keep | None:
        """What a caller gives; None: nothing is kept. The folder is made, unless it is on hosts
        ``elsewhere``. Raises SpecError."""
        if folder is None:
            if most_gb is not None:
                raise SpecError("keep_gb limits the folder of keep=, which is not given")
            return None
        most = None if most_gb is None else int(1e9 * real("keep_gb", most_gb, 0.0))
        if not elsewhere:
            _make(Path(folder))
        return cls(str(Path(folder).absolute()), most)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(EACCES, os.strerror(EACCES))
    except OSError as error:
        raise SpecError(f"no files can be kept in {folder}: {error.strerror}") from None

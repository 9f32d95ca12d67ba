"""Where workers keep the files of a bucket."""

from __future__ import annotations

import os
from dataclasses import dataclass
from errno import EACCES
from pathlib import Path

from videoload.arguments import real
from videoload.errors import SpecError


@dataclass(frozen=True)
class Keep:
    """A ``folder`` of a disk of theirs. ``most``: bytes; None: until a fifth of the disk is free
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
        path = _checked(folder)
        if not elsewhere:
            _make(path)
        elif not path.is_absolute():
            raise SpecError(
                f"keep is a folder on other hosts, so it must be absolute, got {folder!r}"
            )
        return cls(str(path.absolute()), most)


def _checked(folder: object) -> Path:
    try:
        name = os.fspath(folder)  # type: ignore[call-overload]
        if isinstance(name, str) and name and "\0" not in name and name.encode():
            return Path(name)
    except (TypeError, UnicodeEncodeError):
        pass
    raise SpecError(f"keep must be a folder, got {folder!r}")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # a bucket may be private
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(EACCES, os.strerror(EACCES))
    except OSError as error:
        raise SpecError(f"no files can be kept in {folder}: {error.strerror}") from None

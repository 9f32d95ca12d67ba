"""The source files behind a user's function.

Every process of a training run must run the same code, or batches depend on the worker. A digest of
each file imports. The files are those of the function's module, and of the modules in the same
folder or package that were imported with it. Installed packages have versions.
"""

from __future__ import annotations

import sys
from hashlib import blake2b
from pathlib import Path

_OURS = __name__.partition(".")[0]
# Only the module's own package counts below a folder of this name.
_INSTALLED = {"site-packages", "dist-packages", f"python3.{sys.version_info.minor}"}


def own_modules(module: str) -> list[str]:
    """Return the imported ones of the modules that count for ``module``, including itself."""
    top = module.partition(".")[0]
    home = _home(top)
    alone = home is None or not _INSTALLED.isdisjoint(home.parts)
    tops = (
        {top}
        if alone
        else {name for name in sys.modules if "." not in name and _home(name) == home}
    )
    tops -= {_OURS, "__main__"}
    return sorted(name for name in sys.modules if name.partition(".")[0] in tops)


def file_of(module: str) -> Path | None:
    """Return the source file of a module that this process has imported, if it has one."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return Path(file) if file is not None and file.endswith(".py") else None


def digest(file: Path) -> str:
    """Return 64 bits in hex; "" if it cannot be read. The ends of lines do not count."""
    try:
        text = file.read_bytes().replace(b"\r\n", b"\n")
    except OSError:
        return ""
    return blake2b(text, digest_size=8).hexdigest()


def _home(top: str) -> Path | None:
    """Return the folder that a module or package without a dot is in."""
    folders = [*(getattr(sys.modules.get(top), "__path__", None) or ())]
    file = file_of(top)
    return Path(folders[0]).parent if folders else file and file.parent

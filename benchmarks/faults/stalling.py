"""Reads that never return, for any program that uses the C library: see `stall.c`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

FIRST, ALWAYS = ".stalls", ".always"  # the suffix of the file that marks another one


def build(folder: Path) -> Path | None:
    """Compile the library into ``folder``, for LD_PRELOAD. None: there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library, source = folder / "stall.so", Path(__file__).with_name("stall.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library

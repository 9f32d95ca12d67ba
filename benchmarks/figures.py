"""Arguments, Markdown tables and JSON files of benchmarks."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import zmq

from videoload import host

Row = Mapping[str, Any]  # one line of results: column -> value

_PACKAGES = (
    "videoload",
    "av", "tensorflow", "keras", "torch", "torchcodec",
    "opencv-python-headless", "decord", "spdl-core", "spdl-io",
)  # fmt: skip


def parser(doc: str | None) -> argparse.ArgumentParser:
    """A benchmark's arguments, with --json."""
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    return made


def machine() -> dict[str, str]:
    """What the figures were measured on, and when: the machine and its software."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    told = {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cpu": model or platform.processor(),
        "cores": str(host.cores()),
        "memory_gb": f"{memory / 1e9:.1f}",
        "load": str(os.getloadavg()[0]),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "pyzmq": zmq.__version__,
        "libzmq": zmq.zmq_version(),
    }
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            told[name] = metadata.version(name)
    return told


def save(file: Path | None, benchmark: str, rows: Sequence[Row], **settings: object) -> None:
    """Write results as JSON, if a file was given: machine, settings and rows."""
    if file is not None:
        document = {
            "benchmark": benchmark,
            "machine": machine(),
            "settings": settings,
            "rows": rows,
        }
        file.write_text(json.dumps(document, indent=1, default=str) + "\n")


def table(rows: Iterable[Row], columns: Mapping[str, str]) -> str:
    """Return rows in Markdown, as pages show them. ``columns``: heading -> format,
    "{clips_per_s:,.0f}"."""
    cells = [[form.format(**row) for form in columns.values()] for row in rows]
    lines = ([*columns], ["---", *["---:"] * (len(columns) - 1)], *cells)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)

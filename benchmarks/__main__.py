"""Compares loaders on the same clips: ``python -m benchmarks``; see benchmarks/README.md.

``videoload bench`` does the same in two minutes.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console

from videoload.comparison import work
from videoload.comparison.compare import Comparison, compare, show
from videoload.comparison.loaders import LOADERS, WITH_STORE
from videoload.comparison.report import Results
from videoload.errors import CatalogError
from videoload.host import cores


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Returns 1 if nothing ran, 130 if it was stopped."""
    told = _arguments(arguments)
    if told.plot:
        results = msgspec.json.decode(told.plot.read_bytes(), type=Results)
        show(results, told.plot.parent, Console(stderr=True, highlight=False))
        return 0 if results.rows else 1
    works, videos = told.work or ["ucf", "hd"], ""
    if told.videos:
        works, videos = ["own"], str(told.videos.resolve())
    elif "real" in works and os.environ.get("VIDEOLOAD_AVI"):
        videos = os.path.join(os.environ["VIDEOLOAD_AVI"], "actions")
    try:
        return compare(
            Comparison(
                works,
                told.loader or [name for name in LOADERS if name != WITH_STORE],
                0 if told.check_only else told.rounds,
                told.processes,
                told.folder,
                told.out,
                told.clips,
                videos=videos,
            )
        )
    except CatalogError as error:
        print(error, file=sys.stderr)
        return 1


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("--work", action="append", choices=work.WORKS, help="ucf and hd if not given")
    add("--videos", type=Path, metavar="DIR", help="your own AVI files instead (work own)")
    add("--loader", action="append", choices=LOADERS, metavar="NAME", help=", ".join(LOADERS))
    add("--rounds", type=int, default=5)
    add("--processes", type=int, default=cores(), help="decoding processes or threads")
    add("--clips", type=int, help="clips a run; by default about 6 s of work on two cores")
    add("--folder", type=Path, default=work.FOLDER, help="where the AVI files are kept")
    add("--out", type=Path, default=Path("benchmark-results"), help="for results.json and PNGs")
    add("--check-only", action="store_true", help="compare the frames, time nothing")
    add("--plot", type=Path, metavar="JSON", help="tables and plots of earlier results")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

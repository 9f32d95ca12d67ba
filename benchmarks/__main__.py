"""Compares loaders on the same clips: ``python -m benchmarks``; see benchmarks/README.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.compare import Comparison, compare, say, show
from benchmarks.loaders import LOADERS, USUAL
from benchmarks.works import FOLDER, WORKS, decoded_share, load
from videoload.errors import CatalogError
from videoload.host import cores

_ROUNDS, _RUN_S = 5, 15.0
_OWN_ROUNDS, _OWN_RUN_S = 1, 6.0  # of a user's videos: about two minutes


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Returns 1 if nothing ran, 130 if it was stopped."""
    told = _arguments(arguments)
    names, videos = told.work or ["ucf", "hd"], ""
    if told.videos:
        names, videos = ["own"], str(told.videos.resolve())
    loaders = told.loader or (USUAL if told.videos else list(LOADERS))
    told.folder.mkdir(parents=True, exist_ok=True)
    try:
        works = [load(name, told.folder, say, videos=videos) for name in names]
    except CatalogError as error:
        print(error, file=sys.stderr)
        return 1
    for work in works:
        say(
            f"{work.name}: of the pictures from a key frame to the last of a clip, videoload "
            f"decodes {decoded_share(work):.0%}"
        )
    rounds = told.rounds or (_OWN_ROUNDS if told.videos else _ROUNDS)
    results, status = compare(
        Comparison(
            works,
            [LOADERS[name] for name in loaders],
            0 if told.check_only else rounds,
            told.processes,
            told.out,
            told.seconds or (_OWN_RUN_S if told.videos else _RUN_S),
        )
    )
    show(results)
    return status


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("--work", action="append", choices=WORKS, help="ucf and hd if not given")
    add("--videos", type=Path, metavar="DIR", help="your own videos instead (work own)")
    add("--loader", action="append", choices=LOADERS, metavar="NAME", help=", ".join(LOADERS))
    add("--rounds", type=int, help=f"{_ROUNDS}, or {_OWN_ROUNDS} of your own videos")
    add("--processes", type=int, default=cores(), help="decoding processes or threads")
    add(
        "--seconds", type=float, help=f"of a run, with its start: {_RUN_S:.0f}, or {_OWN_RUN_S:.0f}"
    )
    add("--folder", type=Path, default=FOLDER, help="where the AVI files are kept")
    add("--out", type=Path, default=Path("benchmark-results"), help="for results.json")
    add("--check-only", action="store_true", help="compare the frames, time nothing")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

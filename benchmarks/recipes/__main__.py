"""All recipes, each in a process of its own: the table."""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.recipes import NAMES, Row

_LIMIT_S = 200  # of one recipe


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 if a recipe failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recipes", description=__doc__)
    parser.add_argument("--recipe", choices=NAMES, action="append", help="only this one")
    parser.add_argument("--steps", type=int, help="steps of the recipe queues, at most")
    parser.add_argument("--out", type=Path, default=Path(), help="folder of the rows")
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)  # a child: one recipe
    told = parser.parse_args(arguments)
    if told.rows:
        module = importlib.import_module(f"benchmarks.recipes.{told.recipe[0]}")
        rows = module.run(told.steps) if told.steps else module.run()
        told.rows.write_bytes(msgspec.json.encode(list(rows)))
        return 0
    found: list[Row] = []
    failed = []
    with TemporaryDirectory() as folder:
        for name in told.recipe or NAMES:
            file = Path(folder, f"{name}.json")
            command = ["--recipe", name, "--rows", str(file)]
            command += ["--steps", str(told.steps)] if told.steps and name == "queues" else []
            try:
                subprocess.run(
                    [sys.executable, "-m", "benchmarks.recipes", *command],
                    timeout=_LIMIT_S, check=True,
                )  # fmt: skip
                found += msgspec.json.decode(file.read_bytes(), type=list[Row])
            except (subprocess.SubprocessError, OSError) as error:
                failed.append(f"{name}: {error}")
    told.out.mkdir(parents=True, exist_ok=True)
    Path(told.out, "recipes.json").write_bytes(msgspec.json.encode(found))
    console = Console(width=None if sys.stdout.isatty() else 170, highlight=False)
    console.print(table(found))
    for line in failed:
        console.print(f"failed: {line}")
    return 1 if failed else 0


def table(rows: list[Row]) -> Table:
    """Seconds for the same steps and their share of perfect overlap, in both ways, and how many
    times faster a stream is."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False)
    made.add_column("recipe")
    for name in ("its author", "recipe s", "of perfect", "videoload s", "of perfect", "times"):
        made.add_column(name, justify="right", no_wrap=True)
    made.add_column("")
    for row in rows:
        made.add_row(
            row.recipe, row.author,
            f"{row.recipe_s:.2f}", f"{row.recipe_overlap:.1%}",
            f"{row.videoload_s:.2f}", f"{row.overlap:.1%}", f"{row.ratio:.2f}", row.note,
        )  # fmt: skip
    return made


if __name__ == "__main__":
    sys.exit(main())

"""The objects that the pages of the reference show, and the examples of their docstrings."""

import doctest
import inspect
import re
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import videoload

REFERENCE = Path(__file__).parents[2] / "docs/reference"


def shown(page: str) -> list[str]:
    """What a page shows, by its name below ``videoload``."""
    return re.findall(r"^::: videoload\.([\w.]+)$", page, re.MULTILINE)


def run_examples(page: str, names: Mapping[str, Any]) -> int:
    """Run the examples of what a page shows, each with these names; returns how many there are.
    Raises AssertionError if one gives something else."""
    runner = doctest.DocTestRunner()
    for name in shown(page):
        value = reduce(getattr, name.split("."), videoload)
        for found in doctest.DocTestFinder(recurse=inspect.isclass(value)).find(
            value, name, globs={**names}
        ):
            runner.run(found)
    failed, tried = runner.summarize()
    assert not failed, f"{failed} examples fail: see above"
    return tried

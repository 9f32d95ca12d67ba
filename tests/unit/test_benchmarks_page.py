"""Each table of measurements in docs/ names the part of `python -m benchmarks` that makes it."""

import re
import shlex
import sys
from importlib import import_module
from typing import Any

import pytest

from benchmarks.__main__ import PARTS
from tests.support.pages import PAGES

PAGE = "docs/rely/benchmarks.md"


def module_of(part: str) -> Any:
    return import_module(f"benchmarks.{shlex.split(PARTS[part].command)[0]}")


def tables(text: str) -> list[list[str]]:
    """The headings of each table."""
    heads = re.findall(r"^\|(.+)\|\n\|[-| :]+\|$", text, re.M)
    return [[cell.strip() for cell in head.split("|")] for head in heads]


def named(text: str) -> list[str]:
    return re.findall(r"--only ([a-z0-9-]+)", text)


def test_each_table_of_the_page_names_its_part_and_has_its_columns() -> None:
    seen = 0
    for section in re.split(r"^## ", PAGES[PAGE], flags=re.M):
        for head in tables(section):
            (part,) = named(section)
            columns = getattr(module_of(part), "COLUMNS", None)
            assert columns is None or head == list(columns), part
            seen += 1
    assert seen > 3


def test_each_part_is_named_on_a_page_and_exists() -> None:
    assert set(PARTS) == {part for text in PAGES.values() for part in named(text)}


@pytest.mark.parametrize("part", PARTS)
def test_each_part_takes_the_arguments_that_it_is_given(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, *given = shlex.split(PARTS[part].command)
    monkeypatch.setattr(sys, "argv", [part, *given, "--help"])
    with pytest.raises(SystemExit) as ended:
        module_of(part).main()
    assert ended.value.code == 0

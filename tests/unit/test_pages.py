"""README and docs/ name what exists: names, arguments, commands, files. Their code runs in
integration/test_docs.py, and mkdocs checks the links within docs/."""

import ast
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

import videoload
from scripts import command_line
from tests.support.pages import PAGES, PROJECT, Block, blocks
from videoload.tools.cli import app

OTHER_PAGES = ["CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "benchmarks/README.md"]
OF_KERAS = ("Position",)  # its module imports Keras
COMMANDS: Any = typer.main.get_command(app)


# Names and arguments


def python_of(block: Block) -> str:
    """The Python of a block; of a change to the code of others, what a reader adds."""
    if block.language == "diff":
        lines = block.code.splitlines()
        return "\n".join(line[1:] for line in lines if re.match(r"\+[^+]", line))
    return block.code if block.language == "python" else ""


def name_of_ours(node: ast.AST) -> str:
    """``name`` of an expression ``vl.name``."""
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("vl", "videoload"):
        return node.attr
    return ""


def nodes_of_pages() -> Iterator[tuple[str, ast.AST]]:
    """Where in a page the code of each block stands, and each of its nodes."""
    for page, text in PAGES.items():
        for block in blocks(text):
            for node in ast.walk(ast.parse(python_of(block))):
                yield f"{page}, line {block.line}", node


def test_every_name_that_a_page_uses_exists() -> None:
    for where, node in nodes_of_pages():
        if name := name_of_ours(node):
            assert name in dir(videoload), (where, name)


def test_every_argument_that_a_page_gives_exists() -> None:
    seen = 0
    for where, node in nodes_of_pages():
        if not isinstance(node, ast.Call) or not (name := name_of_ours(node.func)):
            continue
        if name in OF_KERAS or not callable(function := getattr(videoload, name)):
            continue
        parameters = inspect.signature(function).parameters.values()
        if all(each.kind is not each.VAR_KEYWORD for each in parameters):
            given = {word.arg for word in node.keywords} - {None}
            assert given <= {each.name for each in parameters}, (where, name)
            seen += 1
    assert seen > 100


# Commands


def test_the_reference_of_the_command_line_agrees_with_the_commands() -> None:
    assert command_line.PAGE.read_text() == command_line.page(), (
        "make it anew: python scripts/command_line.py"
    )


@pytest.mark.parametrize("page", PAGES)
def test_every_command_that_a_page_names_exists(page: str) -> None:
    for name in re.findall(r"`videoload ([a-z]+)", PAGES[page]):
        assert name in COMMANDS.commands, name


# Files of the repository


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES])
def test_links_to_files_of_the_repository_exist(page: str) -> None:
    text = (PROJECT / page).read_text()
    for link in re.findall(r"\]\((?!https?:|#)([^)#\s]+)[^)]*\)", text):
        assert ((PROJECT / page).parent / link).exists(), link
    for link in re.findall(r"github\.com/videoload/videoload/(?:blob|tree)/main/([^)#\s]+)", text):
        assert (PROJECT / link).exists(), link


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES])
def test_modules_that_a_page_names_exist(page: str) -> None:
    text = (PROJECT / page).read_text()
    for file in re.findall(r"`(\w+/[\w/]*\w\.py)`", text):
        places = (PROJECT / file, PROJECT / "videoload" / file, PROJECT / "tests" / file)
        assert any(place.exists() for place in places), file

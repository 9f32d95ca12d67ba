"""Everything of the public face is told, in Google style, as help() and the API pages show it.

griffe reads the sources as mkdocstrings does, and warns of what is told and is not there. What is
there must be told: each parameter, each field and each attribute.
"""

from pathlib import Path

import griffe
import pytest

import videoload
from tests.support.docstrings import REFERENCE, shown

# Functions that users may call beside what the reference shows.
FUNCTIONS = ("native.switch_off",)
SECTIONS = (griffe.DocstringSectionKind.parameters, griffe.DocstringSectionKind.attributes)


def public_objects() -> dict[str, griffe.Object]:
    """What is public, by its name: classes, their methods and properties, functions."""
    package = griffe.load("videoload", search_paths=[Path(videoload.__file__).parents[1]])
    pages = [page.read_text() for page in REFERENCE.glob("*.md")]
    paths = [path for page in pages for path in shown(page)]
    found = {path.rpartition(".")[2]: _target(package[path]) for path in (*paths, *FUNCTIONS)}
    for name, cls in [each for each in found.items() if isinstance(each[1], griffe.Class)]:
        for member, value in cls.members.items():
            is_method = isinstance(value, griffe.Function) or "property" in value.labels
            # Keras calls some methods, with what its own documentation says.
            if is_method and not member.startswith(("_", "on_")):
                found[f"{name}.{member}"] = _target(value)
    return found


def _target(value: griffe.Object | griffe.Alias) -> griffe.Object:
    return value.final_target if isinstance(value, griffe.Alias) else value


def told(value: griffe.Object) -> set[str]:
    """The arguments and attributes that docstrings describe, of a class also that of its
    `__init__`."""
    parts = value.docstring.parse("google", warnings=True) if value.docstring else ()
    items = [item for part in parts if part.kind in SECTIONS for item in part.value]
    found = {item.name.lstrip("*") for item in items if item.description}
    init = value.members.get("__init__")
    return found | (told(_target(init)) if init else set())


def there(value: griffe.Object) -> set[str]:
    """The parameters of a function; the parameters, fields and public attributes of a class."""
    if isinstance(value, griffe.Function):
        return {each.name for each in value.parameters} - {"self", "cls"}
    attributes = {n for n, each in value.members.items() if each.is_attribute and n[0] != "_"}
    init = value.members.get("__init__")
    found = {n for n in attributes if "property" not in value.members[n].labels}
    return found | (there(_target(init)) if init else set())


def test_each_argument_and_attribute_is_told_and_griffe_finds_nothing_wrong(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name, value in public_objects().items():
        assert value.docstring is not None, name
        first = value.docstring.value.split("\n\n", maxsplit=1)[0]
        assert first.endswith((".", ":")), f"{name}: its first paragraph is a sentence"
        assert there(value) <= told(value), f"{name}: these are there, and not told"
        if isinstance(value, griffe.Class):
            assert told(value) <= there(value) | {*value.all_members}, name
    found = [each.message for each in caplog.records if each.name == "griffe"]  # not of threads
    assert found == []

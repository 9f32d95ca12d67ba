"""Every argument of the public face is told, in Google style, as help() and the API pages show it.

griffe reads the sources as mkdocstrings does, and warns of what is told and is not there. What is
there must be told: each parameter and each field, with a description and its default.
"""

import importlib
import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any

import griffe
import pytest

import videoload
from tests.support.docstrings import REFERENCE, shown

pytestmark = pytest.mark.xdist_group("docstrings")  # the sources are read once
ROOT = Path(videoload.__file__).parents[1]
# Functions that users may call beside what the reference shows.
FUNCTIONS = ("native.switch_off",)
KINDS = griffe.DocstringSectionKind
# *names and **names, whose default griffe takes to be (), {}.
_REST = (griffe.ParameterKind.var_positional, griffe.ParameterKind.var_keyword)


@cache
def public_objects() -> dict[str, griffe.Object]:
    """What is public, by its name: classes, their methods and properties, functions."""
    package = griffe.load("videoload", search_paths=[ROOT])
    pages = [page.read_text() for page in REFERENCE.glob("*.md")]
    paths = [path for page in pages for path in shown(page)]
    found = {path.rpartition(".")[2]: _target(package[path]) for path in (*paths, *FUNCTIONS)}
    for name, cls in [each for each in found.items() if isinstance(each[1], griffe.Class)]:
        for member, value in cls.members.items():
            is_method = isinstance(value, griffe.Function) or "property" in value.labels
            if is_method and not member.startswith("_"):
                found[f"{name}.{member}"] = _target(value)
    return found


def _target(value: griffe.Object | griffe.Alias) -> griffe.Object:
    return value.final_target if isinstance(value, griffe.Alias) else value


def value_of(value: griffe.Object) -> Any:
    """The object itself."""
    module, _, name = value.path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def told(value: griffe.Object, kind: KINDS) -> dict[str, str]:
    """Names and descriptions in the sections of this kind, of which fields may have several."""
    parts = value.docstring.parse("google", warnings=True) if value.docstring else ()
    found = [item for section in parts if section.kind is kind for item in section.value]
    return {item.name.lstrip("*"): item.description for item in found}


def has_fields(cls: griffe.Class) -> bool:
    """Whether it is a dataclass, a NamedTuple or a struct: its fields are its arguments. As the
    source says: Keras need not be imported for it."""
    return "dataclass" in cls.labels or not {"NamedTuple", "msgspec.Struct"}.isdisjoint(
        map(str, cls.bases)
    )


def arguments(value: griffe.Object) -> dict[str, bool]:
    """The arguments of a function or class, and whether they have a default."""
    if isinstance(value, griffe.Class) and has_fields(value):
        fields = inspect.signature(value_of(value)).parameters.values()
        return {each.name: each.default is not each.empty for each in fields}
    made_by = value.members.get("__init__") if isinstance(value, griffe.Class) else value
    if made_by is None:
        assert issubclass(value_of(value), Exception), value.path  # it has a message
    if not isinstance(made_by, griffe.Function) or made_by.name.startswith("on_"):
        return {}  # a property; or Keras calls it, with what its own documentation says
    return {
        each.name: each.default is not None and each.kind not in _REST
        for each in made_by.parameters
        if each.name not in ("self", "cls")
    }


def test_each_public_object_is_told_in_sentences_and_griffe_finds_nothing_wrong(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name, value in public_objects().items():
        assert value.docstring is not None, name
        value.docstring.parse("google", warnings=True)
        first = value.docstring.value.split("\n\n", maxsplit=1)[0]
        assert first.endswith((".", ":")), name
    found = [each.message for each in caplog.records if each.name == "griffe"]  # not of threads
    assert found == []


def test_each_argument_is_told_once_with_its_default() -> None:
    for name, value in public_objects().items():
        is_class = isinstance(value, griffe.Class)
        with_fields = isinstance(value, griffe.Class) and has_fields(value)
        found = told(value, KINDS.attributes if with_fields else KINDS.parameters)
        if with_fields:
            assert not told(value, KINDS.parameters), name
        elif is_class and "__init__" in value.members:
            in_init = told(_target(value.members["__init__"]), KINDS.parameters)
            assert not (found and in_init), f"{name}: told twice"
            found |= in_init
        there = arguments(value)
        assert sorted(found) == sorted(there), f"{name}: these are told, these are there"
        for argument, description in found.items():
            assert re.match(r"\S.{8}", description), f"{name}: {argument} has no description"
            has_default = not there[argument] or "efault" in description
            assert has_default, f"{name}: {argument} has a default"


def test_each_attribute_is_told_and_exists() -> None:
    for name, cls in public_objects().items():
        if not isinstance(cls, griffe.Class):
            continue
        attributes = told(cls, KINDS.attributes)
        assert set(attributes) <= set(cls.all_members), name
        assert all(attributes.values()), name
        public = {
            attribute
            for attribute, member in cls.members.items()
            if member.is_attribute and "property" not in member.labels and attribute[0] != "_"
        }
        assert public == set(attributes), f"{name}: an attribute is told in the docstring"

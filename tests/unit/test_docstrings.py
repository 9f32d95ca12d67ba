"""Every argument of the public face is told, in Google style, as help() and the API pages show it.

griffe reads the sources as mkdocstrings does. What a docstring tells must be what there is: each
parameter and each field with a description, and none that is not there.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import griffe
import pytest

import videoload

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
    found = {path.rpartition(".")[2]: _target(package[path]) for path in _shown()}
    for name, value in list(found.items()):
        if isinstance(value, griffe.Class):
            found |= {f"{name}.{member}": value_ for member, value_ in _own_members(value)}
    return found | {name: _target(package[name]) for name in FUNCTIONS}


def _shown() -> list[str]:
    """What the reference shows."""
    text = (ROOT / "docs/reference/api.md").read_text()
    return re.findall(r"^::: videoload\.([\w.]+)$", text, re.MULTILINE)


def value_of(name: str) -> Any:
    """The object itself."""
    path = public_objects()[name].path.split(".")
    return getattr(importlib.import_module(".".join(path[:-1])), path[-1])


def classes() -> dict[str, griffe.Class]:
    return {n: found for n, found in public_objects().items() if isinstance(found, griffe.Class)}


def functions() -> dict[str, griffe.Function]:
    return {n: found for n, found in public_objects().items() if isinstance(found, griffe.Function)}


def _target(value: griffe.Object | griffe.Alias) -> griffe.Object:
    return value.final_target if isinstance(value, griffe.Alias) else value


def _own_members(cls: griffe.Class) -> Iterator[tuple[str, griffe.Object]]:
    for name, member in cls.members.items():
        method = isinstance(member, griffe.Function) or "property" in member.labels
        if method and not name.startswith("_"):
            yield name, _target(member)


def sections(value: griffe.Object) -> dict[KINDS, griffe.DocstringSection]:
    assert value.docstring is not None, f"{value.path} has no docstring"
    return {section.kind: section for section in value.docstring.parse("google", warnings=True)}


def told(value: griffe.Object, kind: KINDS) -> dict[str, str]:
    """Names and descriptions in the section of this kind."""
    section = sections(value).get(kind)
    if section is None:
        return {}
    return {item.name.lstrip("*"): item.description for item in section.value}


def has_fields(cls: griffe.Class) -> bool:
    """Whether it is a dataclass, a NamedTuple or a struct: its fields are its arguments. As the
    source says: Keras need not be imported for it."""
    return "dataclass" in cls.labels or not {"NamedTuple", "msgspec.Struct"}.isdisjoint(
        map(str, cls.bases)
    )


def fields(name: str) -> dict[str, bool]:
    """The fields of such a class, and whether they have a default."""
    found = inspect.signature(value_of(name)).parameters.values()
    return {parameter.name: parameter.default is not parameter.empty for parameter in found}


def arguments(function: griffe.Function) -> dict[str, bool]:
    """The arguments of a function, and whether they have a default."""
    return {
        parameter.name: parameter.default is not None and parameter.kind not in _REST
        for parameter in function.parameters
        if parameter.name not in ("self", "cls")
    }


def check(there: dict[str, bool], described: dict[str, str], where: str) -> None:
    assert list(described) == list(there), f"{where}: these are told, these are there"
    for name, description in described.items():
        assert re.match(r"\S.{8}", description), f"{where}: {name} has no description"
        assert not there[name] or "efault" in description, f"{where}: {name} has a default"


def test_each_public_object_has_a_docstring() -> None:
    for name, value in public_objects().items():
        assert value.docstring is not None, name
        first = value.docstring.value.split("\n\n", maxsplit=1)[0]
        assert first.endswith((".", ":")), name


def test_each_field_is_documented() -> None:
    for name, cls in classes().items():
        if has_fields(cls):
            check(fields(name), told(cls, KINDS.attributes), name)
            assert not told(cls, KINDS.parameters), name


def test_each_argument_of_a_class_is_documented() -> None:
    for name, cls in classes().items():
        if has_fields(cls):
            continue
        init = cls.members.get("__init__")
        if init is None:  # an exception with a message
            assert issubclass(value_of(name), Exception), name
            continue
        made_by = _target(init)
        assert isinstance(made_by, griffe.Function), name
        in_class = told(cls, KINDS.parameters)
        in_init = told(made_by, KINDS.parameters) if made_by.docstring else {}
        assert not (in_class and in_init), f"{name}: told twice"
        check(arguments(made_by), in_class or in_init, name)


def test_each_documented_attribute_exists() -> None:
    for name, cls in classes().items():
        attributes = told(cls, KINDS.attributes)
        assert set(attributes) <= set(cls.all_members), name
        public = {
            attribute
            for attribute, member in cls.members.items()
            if member.is_attribute and "property" not in member.labels and attribute[0] != "_"
        }
        assert public == set(attributes), f"{name}: an attribute is told in the docstring"
        for attribute, description in attributes.items():
            assert description, f"{name}.{attribute}"


def is_hook(function: griffe.Function) -> bool:
    """Whether Keras calls it, with what its own documentation says."""
    return function.name.startswith("on_")


def test_each_argument_of_a_function_is_documented() -> None:
    for name, function in functions().items():
        there = {} if is_hook(function) else arguments(function)
        check(there, told(function, KINDS.parameters), name)


def test_griffe_finds_nothing_wrong(caplog: pytest.LogCaptureFixture) -> None:
    for value in public_objects().values():
        sections(value)
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == []

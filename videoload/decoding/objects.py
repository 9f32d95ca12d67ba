"""What a user's function is, where a process holds it: its code and its plain values, as text.

Every process imports the function by its name. The one that the trainer holds may be another one:
its file was edited after the import, or a script has set a global of its module. So the `texts` of
both are compared (`difference`).

They are those of all that the function can reach by names: of its own modules, the functions,
classes and globals that some of its code uses. What has no plain text, such as an object of a
library, has its type alone. Not compared is what the code itself assigns while it runs, and what an
import leaves empty: a model that is loaded later, a cache.
"""

from __future__ import annotations

import builtins
import dis
import io
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from xxhash import xxh3_64

from videoload.decoding.code_sources import own_modules

_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_SHOWN = 60  # characters of a value; its digest covers the rest
_MAX_BYTES = 1 << 26  # of an array
_MOST = 10_000  # texts
_EMPTY, _OBJECT, _STATE, _CODE = "an empty ", "an object of ", "the state of ", ", code "
_GENERATORS = {
    ("numpy", "Generator"), ("numpy", "RandomState"), ("random", "Random"),
    ("tensorflow", "Generator"), ("torch", "Generator"),
}  # fmt: skip


def texts(name: str) -> dict[str, str]:
    """Return the texts of ``"module:function"``, which this process has imported, by their
    owners."""
    module, _, own = name.partition(":")
    reach = _Reach(own_modules(module))
    reach.add(f"{module}.{own}", getattr(sys.modules[module], own, None))
    return reach.texts()


def difference(here: Mapping[str, str], fresh: Mapping[str, str]) -> str:
    """Return a part of ``here`` that differs from a ``fresh`` import, or has a state; "" if there
    is none."""
    for what, text in here.items():
        other = fresh.get(what, text)
        if text.startswith(_STATE):
            return (
                f"{what} is {text.removeprefix(_STATE)} with a state from call to call, so "
                "a clip would depend on those before: draw from the rng that the function gets"
            )
        are_objects = text.startswith(_OBJECT) and other.startswith(_OBJECT)
        if text == other or are_objects or other.startswith(_EMPTY):
            continue
        is_edited = _CODE in text and text.partition(_CODE)[0] == other.partition(_CODE)[0]
        now = "other code" if is_edited else other
        return (
            f"{what} is {text} here, and {now} in its file, which workers import: write it there, "
            "or import the module again if the file was edited"
        )
    return ""


class _Reach:
    """Collects texts. ``own``: the modules that are looked into; all others have versions."""

    def __init__(self, own: Collection[str]) -> None:
        self._own = own
        self._texts: dict[str, str] = {}
        self._seen: dict[int, object] = {}
        self._used: set[str] = set()  # names, by some code
        self._assigned: set[str] = set()
        self._waiting: list[tuple[str, str, object]] = []  # until some code uses the first name

    def texts(self) -> dict[str, str]:
        while ready := [each for each in self._waiting if each[0] in self._used]:
            self._waiting = [each for each in self._waiting if each[0] not in self._used]
            for _, what, value in ready:
                self.add(what, value)
        are_seeded = not self._used.isdisjoint(("seed", "manual_seed", "setstate"))
        return {
            what: text
            for what, text in self._texts.items()
            if self._assigned.isdisjoint(re.split(r"\W+", what))
            and not (are_seeded and text.startswith(_STATE))
        }

    def add(self, what: str, value: object) -> None:
        """Note the text of a value, and of what it leads to."""
        if len(self._texts) >= _MOST:
            return
        with suppress(Exception):  # an object of the user's may do anything when it is looked at
            self._texts[what] = self._text(value)
            if id(value) not in self._seen:
                self._seen[id(value)] = value
                for name, part in self._parts(what, value):
                    self.add(name, part)

    def _is_own(self, value: Any) -> bool:
        module = value.__globals__.get("__name__") if isinstance(value, FunctionType) else None
        return (module or getattr(value, "__module__", None)) in self._own

    def _text(self, value: Any) -> str:
        kind = type(value)
        if kind in _PLAIN:
            return _short(repr(value))
        if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
            content = value.tobytes() if value.nbytes <= _MAX_BYTES else b""
            return f"{value.dtype}{list(value.shape)} ({_digest(content)})"
        if isinstance(value, set | frozenset) and all(type(each) in _PLAIN for each in value):
            return _short(f"the set {sorted(map(repr, value))}") if value else f"{_EMPTY}set"
        if isinstance(value, dict | list | tuple | set | frozenset):
            return f"a {kind.__name__} of {len(value)}" if value else f"{_EMPTY}{kind.__name__}"
        if isinstance(value, ModuleType):
            return f"the module {value.__name__}"
        if isinstance(value, FunctionType):
            code = f"{_CODE}{_digest(_listed(value.__code__))}" if self._is_own(value) else ""
            return f"{_name(value)}{code}"
        if isinstance(value, BuiltinFunctionType | MethodType | type):
            return _name(value)
        if _has_state(value):
            return f"{_STATE}a {kind.__name__}"
        return f"a {_name(kind)}" if self._is_own(kind) else f"{_OBJECT}{_name(kind)}"

    def _parts(self, what: str, value: Any) -> Iterable[tuple[str, object]]:
        """Return the parts of a value, by name."""
        if isinstance(value, partial):
            return [(f"{what}: {of}", getattr(value, of)) for of in ("func", "args", "keywords")]
        if isinstance(value, MethodType) and self._is_own(value.__func__):
            return [(what, value.__func__), (f"{what}: self", value.__self__)]
        if isinstance(value, dict):
            plain = ((key, each) for key, each in dict.items(value) if type(key) in _PLAIN)
            return [(f"{what}[{key!r}]", each) for key, each in plain]
        if isinstance(value, list | tuple):
            return [(f"{what}[{at}]", each) for at, each in enumerate(value)]
        inside = _attributes(value, slots=self._is_own(type(value)))
        if isinstance(value, ModuleType):
            is_own = value.__name__ in self._own
            inside = {name: each for name, each in inside.items() if is_own or callable(each)}
            self._wait(value.__name__, inside)
            return []
        if isinstance(value, type):
            return self._of_class(value, inside) if self._is_own(value) else []
        found = [(f"{what}: wrapped", inside.pop("__wrapped__"))] if "__wrapped__" in inside else []
        if isinstance(value, FunctionType):
            found += self._of_function(what, value)
        if isinstance(value, FunctionType) or self._is_own(type(value)):
            self._wait(what, inside)
            found.append((_name(type(value)), type(value)))
        return found

    def _wait(self, what: str, inside: Mapping[str, object]) -> None:
        self._waiting += ((name, f"{what}.{name}", value) for name, value in inside.items())

    def _of_class(self, kind: type, inside: dict[str, Any]) -> Iterator[tuple[str, object]]:
        yield from ((_name(base), base) for base in kind.__mro__[1:] if self._is_own(base))
        for name, given in inside.items():
            value = getattr(given, "__func__", None) or getattr(given, "fget", None) or given
            if not name.startswith("__"):
                self._wait(_name(kind), {name: value})
            elif name in ("__init__", "__new__"):  # of instances that the code creates
                self._waiting.append((kind.__name__, f"{_name(kind)}.{name}", value))
            elif isinstance(value, FunctionType):
                yield f"{_name(kind)}.{name}", value

    def _of_function(self, what: str, function: FunctionType) -> Iterator[tuple[str, object]]:
        code, own = function.__code__, function.__globals__
        is_own = self._is_own(function)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            value = getattr(cell, "cell_contents", None)
            if is_own or callable(value):  # a library's wrapper may hold anything
                yield f"{what}: {name}", value
        if not is_own:
            return
        yield f"{what}: defaults", function.__defaults__
        yield f"{what}: keyword defaults", function.__kwdefaults__
        for step in _steps(code):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                value = own.get(step.argval, getattr(builtins, step.argval, None))
                yield f"{own['__name__']}.{step.argval}", value
            elif step.opname == "STORE_GLOBAL" or (
                step.opname == "STORE_ATTR" and function.__name__ != "__init__"
            ):
                self._assigned.add(step.argval)
            if isinstance(step.argval, str):
                self._used.add(step.argval)


def _steps(code: CodeType) -> Iterator[dis.Instruction]:
    yield from dis.get_instructions(code)
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _steps(each)


def _listed(value: object) -> str:
    """Code without its file and lines, which change with a comment; and what is in it."""
    if isinstance(value, CodeType):
        parts = (value.co_code, value.co_names, value.co_varnames, value.co_freevars,
                 value.co_argcount, value.co_kwonlyargcount, value.co_flags)  # fmt: skip
        return f"{parts}{[_listed(each) for each in value.co_consts]}"
    if isinstance(value, frozenset):  # in another order in each process
        return f"{sorted(map(_listed, value))}"
    return f"{[*map(_listed, value)]}" if isinstance(value, tuple) else repr(value)


def _attributes(value: Any, *, slots: bool) -> dict[str, Any]:
    """Return the attributes of an object, for which none of its own code runs."""
    found: dict[str, Any] = {}
    with suppress(AttributeError):
        found |= object.__getattribute__(value, "__dict__")
    for kind in type(value).__mro__ if slots else ():
        given = getattr(kind, "__slots__", ())
        for name in [given] if isinstance(given, str) else given:
            with suppress(AttributeError):
                found[name] = object.__getattribute__(value, name)
    return found


def _name(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"


def _has_state(value: object) -> bool:
    """Return whether each use changes its state, and so its next result."""
    kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(value).__mro__}
    is_file = isinstance(value, io.IOBase)
    return not kinds.isdisjoint(_GENERATORS) or (isinstance(value, Iterator) and not is_file)


def _digest(content: str | bytes) -> str:
    return xxh3_64(content.encode() if isinstance(content, str) else content).hexdigest()[:8]


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({_digest(text)})"

"""Checks of numeric arguments. Errors are raised at the call, not at the first batch. A NumPy
integer is an integer, and True is not.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import Field, fields
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar, cast

from videoload.errors import SpecError

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

MAX_PROCESSES = 1024  # on one host; a larger number is a mistake
_OWN = {"self", "cls"}


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a suggestion for a wrong argument, for a message."""
    names = list(known)
    # A part of the name counts more than a likeness: image_size means size.
    close = [each for each in names if len(each) > 3 and f"_{each}_" in f"_{name}_"]
    # Of what is as like, it begins with the same letter: lable means label, not table.
    close = close or sorted(get_close_matches(name, names), key=lambda each: each[0] != name[0])
    return f"did you mean {close[0]}=?" if close else f"there are {', '.join(names)}"


def refuse_unknown(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise TypeError, as Python does, for an argument that ``what`` does not have."""
    names = list(known)
    for name in given:
        if name not in names:
            raise TypeError(f"{what} has no argument {name}=: {did_you_mean(name, names)}")


def suggests(function: F) -> F:
    """Decorate a function so that the TypeError for a wrong argument contains a suggestion."""
    what = function.__qualname__.removesuffix(".__init__")
    known = [each for each in inspect.signature(function).parameters if each not in _OWN]

    @wraps(function)
    def called(*values: Any, **named: Any) -> Any:
        refuse_unknown(what, named, known)
        return function(*values, **named)

    return cast(F, called)


def readable(cls: type[T]) -> type[T]:
    """Have a dataclass do what `suggests` does, and show only the fields that do not have their
    default."""

    def shown(self: object) -> str:
        given = (f"{name}={value!r}" for name, value in not_default(self).items())
        return f"{cls.__name__}({', '.join(given)})"

    cls.__init__ = suggests(cls.__init__)  # type: ignore[method-assign]
    cls.__repr__ = shown  # type: ignore[method-assign]
    return cls


def not_default(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that do not have their default."""
    found = ((each, getattr(value, each.name)) for each in fields(value))
    return {each.name: own for each, own in found if repr(own) != repr(default_of(each, value))}


def default_of(field: Field[Any], value: Any) -> Any:
    """Return the default of a dataclass field. It may depend on other fields."""
    follows = field.metadata.get("default")
    return field.default if follows is None else follows(value)


def whole(name: str, value: object, least: int | None = 1, most: int | None = None) -> int:
    """Return ``value`` as an int. Raises SpecError if it is not whole, or not in
    ``least``..``most``."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or (least is not None and number < least):
        bound = "" if least is None else f" of at least {least}"
        raise SpecError(f"{name} must be an integer{bound}, got {value!r}")
    if most is not None and number > most:
        raise SpecError(f"{name} must be {most} at most, got {number}")
    return number


def real(name: str, value: object, low: float, high: float = math.inf, *, what: str = "") -> float:
    """Return ``value`` as a float. Raises SpecError if it is not a number from ``low`` to
    ``high``."""
    try:
        number = math.nan if isinstance(value, str | bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not low <= number <= high or math.isinf(number):
        bounds = f"of at least {low:g}" if math.isinf(high) else f"from {low:g} to {high:g}"
        raise SpecError(f"{name} must be {what or 'a number'} {bounds}, got {value!r}")
    return number

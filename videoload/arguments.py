"""Checks of numbers that a caller gives. Errors come at the call, not at the first batch.

A NumPy integer is a whole number, and True is not.
"""

from __future__ import annotations

import math
import operator

from videoload.errors import SpecError

MAX_PROCESSES = 1024  # on one host; a larger number is a mistake


def whole(name: str, value: object, least: int | None = 1, most: int | None = None) -> int:
    """``value`` as an int. Raises SpecError if it is not whole, or not in ``least``..``most``."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or (least is not None and number < least):
        bound = "" if least is None else f" of at least {least}"
        raise SpecError(f"{name} must be a whole number{bound}, got {value!r}")
    if most is not None and number > most:
        raise SpecError(f"{name} must be {most} at most, got {number}")
    return number


def real(name: str, value: object, low: float, high: float = math.inf, *, what: str = "") -> float:
    """``value`` as a float. Raises SpecError if it is not a number from ``low`` to ``high``."""
    try:
        number = math.nan if isinstance(value, str | bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not low <= number <= high or math.isinf(number):
        bounds = f"of at least {low:g}" if math.isinf(high) else f"from {low:g} to {high:g}"
        raise SpecError(f"{name} must be {what or 'a number'} {bounds}, got {value!r}")
    return number

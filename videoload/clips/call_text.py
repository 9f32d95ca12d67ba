"""Keyword arguments in Python's syntax, for command lines and files.

``frames=16, size=(112, 112), crop="random"`` can be copied from the training script. Only literals
are allowed, and nothing is evaluated. A shell removes quotes, so a bare word is a string.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import Any

from videoload.arguments import did_you_mean
from videoload.errors import SpecError


def parse(text: str, known: Collection[str], where: str) -> dict[str, Any]:
    """Return the arguments in ``text``. Raises SpecError, which begins with ``where``, if it cannot
    be parsed or a name is not ``known``."""
    wrong = f"{where}: {text!r} is not like: frames=16, size=(112, 112), crop=random"
    try:
        call = ast.parse(f"f({text}\n)", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise SpecError(wrong) from None
    if not isinstance(call, ast.Call) or call.args or not isinstance(call.func, ast.Name):
        raise SpecError(wrong)
    found: dict[str, Any] = {}
    for keyword in call.keywords:
        name = keyword.arg
        if name is None:
            raise SpecError(wrong)
        if name not in known:
            raise SpecError(f"{where}: there is no {name}=: {did_you_mean(name, known)}")
        if name in found:
            raise SpecError(f"{where}: {name} occurs twice")
        try:
            node = keyword.value
            found[name] = node.id if isinstance(node, ast.Name) else ast.literal_eval(node)
        except (ValueError, TypeError, RecursionError, MemoryError):
            raise SpecError(wrong) from None
    return found

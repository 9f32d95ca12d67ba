"""For the site: `Client.stream` shows each option of a stream, as help() does. Others name it."""

import inspect
from importlib import import_module
from typing import Any

import griffe


class ShownOptions(griffe.Extension):
    """Take docstring and options from the method itself, where `takes_options` has put them."""

    def on_function(self, *, func: griffe.Function, **kwargs: Any) -> None:
        """See griffe."""
        if func.path != "videoload.client.client.Client.stream":
            return
        found: Any = import_module(func.module.path)
        for name in func.path.removeprefix(f"{func.module.path}.").split("."):
            found = getattr(found, name)
        if func.docstring is not None:
            func.docstring.value = inspect.getdoc(found) or ""
        own = [each for each in func.parameters if each.kind.name != "var_keyword"]
        for name, each in inspect.signature(found).parameters.items():
            if name not in func.parameters:
                own.append(griffe.Parameter(
                    name, annotation=inspect.formatannotation(each.annotation),
                    kind=griffe.ParameterKind.keyword_only, default=repr(each.default),
                ))  # fmt: skip
        func.parameters = griffe.Parameters(*own)

"""For the site: `Client.stream` shows each option of a stream, as help() does. Others name it. The
descriptions of arguments say their defaults, once."""

import inspect
from importlib import import_module
from typing import Any

import griffe


class ShownOptions(griffe.Extension):
    """Take docstring and options from the method itself, where `takes_options` has put them."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """See griffe."""
        left: list[griffe.Object | griffe.Alias] = [pkg]
        while left:
            each = left.pop()
            if each.is_alias:
                continue
            left += each.members.values()
            for section in each.docstring.parsed if each.docstring is not None else ():
                if isinstance(section, griffe.DocstringSectionParameters):
                    for parameter in section.value:
                        parameter.value = None

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

"""How --help looks: one narrow column for what an option takes, so that 80 columns are enough."""

from __future__ import annotations

from typing import Any

import typer.core

BEGIN, FILES, PLACES, RUNS = "Begin", "Files and frames", "Decode for trainers", "Trainings"
STORAGE, SERVICE = "Folders that keep things", "As a service"  # of options that few need


class Command(typer.core.TyperCommand):
    """A command with a short list of options."""

    def get_params(self, ctx: Any) -> Any:
        """The options and arguments, with --help."""
        return _short(super().get_params(ctx))


class Group(typer.core.TyperGroup):
    """All commands."""

    def get_params(self, ctx: Any) -> Any:
        """The options, with --help."""
        return _short(super().get_params(ctx))


def _short(params: list[Any]) -> list[Any]:
    """A flag takes nothing, a number is N, and the text above the options names the variables."""
    for option in params:
        if option.param_type_name == "option":
            option.show_envvar = False
            if option.metavar is None:
                option.metavar = "" if option.is_flag else "N"
    return params

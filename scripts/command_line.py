"""Writes docs/reference/command-line.md from the commands themselves: what --help says, as lists.

python scripts/command_line.py
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer

from videoload.tools.cli import app

PAGE = Path(__file__).parents[1] / "docs/reference/command-line.md"

_INTRO = """\
<!-- Made by scripts/command_line.py: do not edit. -->
# Command line

`python -m videoload` is the same as `videoload`. Every command has `--help`, and `-v`, which prints
a line on stderr for each event (`-vv`: more).

Exit status: 0; 1 with one line on stderr for what you can correct; 2 for wrong usage; 130 after
Ctrl-C.
"""

_ENVIRONMENT = """\
## Environment variables

Beside the options of [`videoload worker`](#videoload-worker) and of the example trainer of `services/`, these are read:

`VIDEOLOAD_CACHE`
:   The folder of [indexes](../train/frame-store.md#three-folders); empty: no cache. Without it, `$XDG_CACHE_HOME/videoload` or
    `~/.cache/videoload`.

`AWS_...`, `GOOGLE_...`, `AZURE_...`, `no_proxy`
:   [Credentials](../data/bucket.md#who-may-read) of all that read a URL.

`WORLD_SIZE`, `SLURM_NTASKS`, `TF_CONFIG`
:   If they announce several ranks, a shuffled stream without `shard=` logs a warning.

`LOCAL_WORLD_SIZE`
:   The default of `workers=` shares the host's cores among so many processes.

`OMP_NUM_THREADS`
:   1 in workers, unless you set it.
"""  # noqa: E501


def page() -> str:
    """The page as it should be."""
    group: Any = typer.main.get_command(app)
    parts = [_INTRO, _list(_options(group))]
    told: dict[tuple[str, str, str], str] = {}  # rows, and the command that has them
    for name, command in group.commands.items():
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        words = ["videoload", name, *(p.metavar for p in arguments), "[OPTIONS]"]
        parts += [f"## videoload {name}\n", _paragraphs(command.help)]
        parts += [f"```text\n{' '.join(words)}\n```\n"]
        rows = [*map(_row, arguments), *_options(command)]
        parts += [_list(row for row in rows if row not in told)]
        for other in dict.fromkeys(told.values()):
            if same := [f"`{row[0]}`" for row in rows if told.get(row) == other]:
                parts += [f"As for `videoload {other}`: {', '.join(same)}.\n"]
        told |= {row: name for row in rows if row not in told}
    return "\n".join(filter(None, [*parts, _ENVIRONMENT]))


def _options(command: Any) -> Iterator[tuple[str, str, str]]:
    """Those that a user should know. The page says once what -v does."""
    shown = (p for p in command.params if p.param_type_name == "option")
    return (_row(p) for p in shown if not p.hidden and p.name != "verbose")


def _row(parameter: Any) -> tuple[str, str, str]:
    """Name, default and help of an option or argument."""
    kind = parameter.param_type_name
    names = [*parameter.opts, *parameter.secondary_opts] if kind == "option" else []
    flag = getattr(parameter, "is_flag", False) or getattr(parameter, "count", False)
    metavar = parameter.metavar or ("" if flag else "N")  # texts and paths say what they are
    said = getattr(parameter, "show_default", None)
    if parameter.required:
        default = "required"
    elif isinstance(said, str):
        default = said
    else:
        default = "" if flag or parameter.default is None else str(parameter.default)
    return " ".join([", ".join(names), metavar]).strip(), default, parameter.help or ""


def _list(rows: Iterable[tuple[str, str, str]]) -> str:
    told = []
    for name, default, text in rows:
        known = {"": "", "required": " Required."}.get(default, f" Default: {default}.")
        told.append(f"`{name}`\n:   {text}{known}\n")
    return "\n".join(told)


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n")) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())

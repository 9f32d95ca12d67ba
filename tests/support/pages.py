"""The code blocks of a page of the documentation: found, and run as a reader would run them.

`blocks` finds them, `steps` says what a reader does with them, and `scripts` which of them belong
together: a block that imports videoload runs when it is copied alone, and blocks without that
import continue it. The steps of a script run in one process of their own, `python -m
tests.support.pages PAGE STEPS`, in the current folder. A block with a title is written to a file of
that name. Commands that end by themselves are waited for; servers run until the script is done.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

PROJECT = Path(__file__).parents[2]
PAGES = {
    path.relative_to(PROJECT).as_posix(): path.read_text()
    for path in [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]
}

# What else may stand between fences: tables, changes, pictures, and the output of commands.
LANGUAGES = ("python", "sh", "csv", "diff", "text", "")

_SERVES = ("worker", "top")  # commands that run until they are stopped
_FENCE = re.compile(r'(?P<indent> *)```(?P<language>\w*)(?: title="(?P<title>[^"]+)")?')
_END_S = 60.0


@dataclass(frozen=True)
class Block:
    """One fenced block; ``line`` is the number of its first line in the page."""

    language: str
    title: str
    code: str
    line: int


@dataclass(frozen=True)
class Step:
    """What a reader does: execute Python, write a file, run a command, or start one that serves."""

    kind: Literal["python", "file", "run", "serve"]
    line: int
    code: str = ""  # of Python and files
    name: str = ""  # of files
    command: tuple[str, ...] = ()  # without `videoload`


def blocks(page: str) -> list[Block]:
    """All fenced blocks, also those of tabs. Raises ValueError for a fence of an unknown kind."""
    found = []
    lines = iter(enumerate(page.splitlines(), 1))
    for number, line in lines:
        if "```" not in line:
            continue
        fence = _FENCE.fullmatch(line)
        if fence is None or fence["language"] not in LANGUAGES:
            raise ValueError(f"line {number}: an unknown fence: {line}")
        code = []
        for _, text in lines:
            if text == fence["indent"] + "```":
                break
            code.append(text.removeprefix(fence["indent"]))
        else:
            raise ValueError(f"line {number}: a block without an end")
        found.append(Block(fence["language"], fence["title"] or "", "\n".join(code), number + 1))
    return found


def commands(block: Block) -> Iterator[tuple[int, str]]:
    """The commands of a shell block, without comments, each with the number of its line."""
    for number, text in enumerate(block.code.replace("\\\n", "").splitlines(), block.line):
        if line := re.split(r"(?:^|\s)#", text)[0].strip():
            yield number, line


def steps(page: str, skip: Callable[[str], bool]) -> list[Step]:
    """What a reader does with a page, without the lines of shell blocks that ``skip`` names."""
    found = []
    for block in blocks(page):
        if block.title:
            found.append(Step("file", block.line, block.code, block.title))
        elif block.language == "python":
            found.append(Step("python", block.line, block.code))
        elif block.language == "sh":
            for number, line in commands(block):
                if skip(line):
                    continue
                name, *words = shlex.split(line)
                if name != "videoload":
                    raise ValueError(f"line {number}: what is to be done with {line!r}?")
                serves = words[0] in _SERVES
                found.append(Step("serve" if serves else "run", number, command=tuple(words)))
    return found


def begins(step: Step) -> bool:
    """Whether a script begins with it."""
    return step.kind == "python" and re.search(r"^import videoload", step.code, re.M) is not None


def scripts(todo: list[Step]) -> list[list[Step]]:
    """The steps of each script. What stands between two, files and commands, is of the later one.
    Raises ValueError for a block that continues nothing."""
    found: list[list[Step]] = [[]]
    for step in todo:
        code = [at for at, one in enumerate(found[-1]) if one.kind == "python"]
        if begins(step) and code:
            found.append(found[-1][code[-1] + 1 :])
            del found[-2][code[-1] + 1 :]
        elif step.kind == "python" and not begins(step) and not code:
            raise ValueError(f"line {step.line}: a script imports videoload")
        found[-1].append(step)
    return found


def as_json(todo: list[Step]) -> str:
    """For the command line of this module."""
    return json.dumps([asdict(step) for step in todo])


def main(page: str, todo: list[dict[str, Any]]) -> None:
    """Carry out the steps. An exception says which step is wrong."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    servers: list[tuple[int, subprocess.Popen[bytes]]] = []
    here = str(Path.cwd())
    sys.path.insert(0, here)
    paths = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths}
    try:
        for step in todo:
            print(f"{page}, line {step['line']}", flush=True)
            command = [sys.executable, "-m", "videoload", *step["command"]]
            match step["kind"]:
                case "python":
                    # Keep the line number, so that errors and the source of functions are right.
                    code = "\n" * (step["line"] - 1) + step["code"]
                    exec(compile(code, page, "exec"), namespace)
                case "file":
                    Path(step["name"]).write_text(step["code"] + "\n")
                case "run":
                    subprocess.run(command, check=True, env=environment)
                case "serve":
                    servers.append((step["line"], subprocess.Popen(command, env=environment)))
    finally:
        for line, server in servers:
            ended = server.poll() is not None
            server.send_signal(signal.SIGTERM)
            status = server.wait(_END_S)
            if ended or status not in (0, -signal.SIGTERM):  # it may not have started yet
                print(f"{page}, line {line}: status {status}, ended by itself: {ended}", flush=True)
                sys.exit(1)


if __name__ == "__main__":
    warnings.simplefilter("error", UserWarning)  # Keras warns if a page gives it too few batches
    main(sys.argv[1], json.loads(sys.argv[2]))

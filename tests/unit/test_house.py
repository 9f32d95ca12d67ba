"""The rules of the house: who imports whom, and what is alone in one room."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import videoload
from videoload.client import Client
from videoload.plan import StreamOptions
from videoload.serial import decode_serially

HOUSE = Path(videoload.__file__).parent

# THE table: at its top level, a module imports only from those above it.
ORDER = (
    "errors",
    "catalog",
    "clips",
    "plan",
    "quarantine",
    "wire",
    "leases",
    "slots",
    "indexes",
    "video",
    "scale",
    "decode",
    "serial",
    "transport",
    "links",
    "worker",
    "supervisor",
    "stats",
    "complaints",
    "engine",
    "client",
    "interrupts",
    "tfdata",
    "scan",
    "tables",
    "shapes",
    "demo",
    "cli",
)
DOORS = ("__init__", "__main__")  # they lead to all rooms

# Who may import what is heavy, wherever in the module.
HOMES = {
    "msgspec": {"wire"},
    "av": {"video", "scale", "shapes"},  # shapes writes videos
    "zmq": {"transport", "engine", "worker"},  # the loops own a context and a poller
    "tensorflow": {"tfdata", "demo"},
    "keras": {"demo"},
    "typer": {"cli"},
    "rich": {"cli", "demo", "tables"},
    "numpy": set(ORDER)
    - {"errors", "complaints", "supervisor", "interrupts", "scan", "tables", "cli"},
}

# The correctness lives in these: no clock, no files, no sockets, no threads.
PURE = ("clips", "plan", "quarantine", "wire", "leases")
IMPURE = {
    "asyncio", "concurrent", "multiprocessing", "os", "pathlib", "select", "selectors", "signal",
    "socket", "subprocess", "tempfile", "threading", "time",
}  # fmt: skip


class Import(NamedTuple):
    """One imported module, dotted; ``top``: whenever the importing module is imported."""

    module: str
    top: bool


def modules() -> list[str]:
    return sorted(path.stem for path in HOUSE.glob("*.py"))


def tree(module: str) -> ast.Module:
    return ast.parse((HOUSE / f"{module}.py").read_text())


def imports(module: str) -> list[Import]:
    return list(_imports(tree(module), top=True))


def _imports(node: ast.AST, *, top: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(name.name, top) for name in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports are absolute"
            module = child.module or ""
            if module == "videoload":  # from videoload import this
                yield from (Import(f"videoload.{name.name}", top) for name in child.names)
            else:
                yield Import(module, top)
        elif isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        else:
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _imports(child, top=top and not inside)


def rooms_of(module: str) -> list[str]:
    """The rooms that a module goes into when it is imported."""
    names = [i.module.split(".")[1] for i in imports(module) if i.top and "videoload." in i.module]
    return [name for name in names if not name.startswith("__")]


def test_every_module_has_its_place_in_the_table() -> None:
    assert sorted({*ORDER, *DOORS}) == modules()


@pytest.mark.parametrize("module", ORDER)
def test_a_module_imports_only_from_those_above_it(module: str) -> None:
    above = ORDER[: ORDER.index(module)]
    assert [name for name in rooms_of(module) if name not in above] == []


def test_the_imports_are_seen() -> None:
    assert {"leases", "plan", "supervisor", "wire"} < set(rooms_of("engine"))
    assert Import("tensorflow", top=False) in imports("tfdata")
    assert Import("tensorflow", top=True) not in imports("tfdata")  # TYPE_CHECKING only
    assert Import("videoload.demo", top=False) in imports("cli")


def test_the_package_itself_imports_no_room_before_it_is_asked() -> None:
    assert rooms_of("__init__") == []


@pytest.mark.parametrize("package", HOMES)
def test_what_is_heavy_is_imported_in_its_own_home_only(package: str) -> None:
    importers = {
        module
        for module in modules()
        if any(found.module.split(".")[0] == package for found in imports(module))
    }
    assert importers <= HOMES[package]


@pytest.mark.parametrize("package", ["msgspec", "av", "zmq", "tensorflow", "typer", "rich"])
def test_each_home_is_lived_in(package: str) -> None:
    homes = HOMES[package] - {"demo"}
    for module in homes:
        assert any(found.module.split(".")[0] == package for found in imports(module)), module


@pytest.mark.parametrize("package", ["tensorflow", "keras"])
def test_what_takes_seconds_is_imported_where_it_is_used(package: str) -> None:
    for module in modules():
        for found in imports(module):
            assert not (found.top and found.module.split(".")[0] == package), module


@pytest.mark.parametrize("module", PURE)
def test_the_pure_modules_know_no_clock_and_no_machine(module: str) -> None:
    assert {found.module.split(".")[0] for found in imports(module)} & IMPURE == set()


@pytest.mark.parametrize("module", modules())
def test_nothing_reads_the_environment(module: str) -> None:
    names = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Attribute | ast.Name)
    }
    reading = names & {"environ", "environb", "getenv", "getenvb", "putenv", "expandvars"}
    # It is passed on to children; quiets TensorFlow; says where the user's cache is.
    if module in ("supervisor", "demo", "indexes"):
        assert reading == {"environ"}
    else:
        assert reading == set()


@pytest.mark.parametrize("module", modules())
def test_nothing_is_unpickled_or_evaluated(module: str) -> None:
    banned = {"pickle", "cPickle", "dill", "marshal", "shelve", "joblib", "cloudpickle"}
    assert {found.module.split(".")[0] for found in imports(module)} & banned == set()
    called = {
        node.func.id
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert called & {"eval", "exec", "compile", "__import__"} == set()


def test_a_worker_process_loads_nothing_that_only_a_trainer_needs() -> None:
    script = (
        "import json, sys\n"
        "import videoload\n"
        "package = sorted(sys.modules)\n"
        "import videoload.worker\n"
        "print(json.dumps([package, sorted(sys.modules)]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=HOUSE.parent, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    package, worker = json.loads(done.stdout)
    heavy = {"tensorflow", "keras", "typer", "rich", "prometheus_client", "multiprocessing"}
    assert not heavy & set(worker)
    assert {"videoload.decode", "zmq", "av", "msgspec", "numpy"} <= set(worker)
    trainers = {"engine", "client", "supervisor", "leases", "plan", "serial", "cli", "demo"}
    assert not {f"videoload.{name}" for name in trainers} & set(worker)
    assert [name for name in package if name.startswith("videoload")] == ["videoload"]
    assert not {"numpy", "zmq", "av", "msgspec"} & set(package)


# The public face


def test_every_public_name_is_to_be_had_and_nothing_else() -> None:
    for name in videoload.__all__:
        assert getattr(videoload, name) is not None
        assert name in dir(videoload)
    assert videoload.Client is Client
    with pytest.raises(AttributeError, match="module 'videoload' has no attribute 'Cleint'"):
        _ = videoload.Cleint


def test_type_checkers_see_the_same_names() -> None:
    [block] = [node for node in tree("__init__").body if isinstance(node, ast.If)]
    seen = {
        f"videoload.{name}": {alias.name for alias in node.names}
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for name in [str(node.module).split(".")[1]]
    }
    assert seen == {f"videoload.{home}": set(names) for home, names in videoload._HOMES.items()}


def parameters(function: object, *without: str) -> dict[str, tuple[object, object]]:
    """Kind and default of each parameter."""
    assert callable(function)
    return {
        name: (parameter.kind, parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in without
    }


def test_the_reference_takes_the_arguments_of_a_stream() -> None:
    stream = parameters(Client.stream, "self", "slots")
    serial = parameters(decode_serially, "start_step", "epochs", "info")
    assert serial == stream
    assert list(serial) == list(stream)


def test_the_reference_is_read_as_a_stream_is() -> None:
    batches = parameters(videoload.Stream.batches, "self")
    serial = parameters(decode_serially)
    assert {name: serial[name][1] for name in batches} == {
        name: default for name, (_, default) in batches.items()
    }


def test_a_stream_takes_every_option_there_is() -> None:
    fields = [field.name for field in dataclasses.fields(StreamOptions)]
    assert list(parameters(Client.stream, "self", "catalog", "clip", "slots")) == fields

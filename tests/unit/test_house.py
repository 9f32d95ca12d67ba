"""The rules of the packages. Who may import whom stands in pyproject.toml, for import-linter; the
rest is here. No rule has a list of files: a file may move, be split or be merged."""

import ast
import builtins
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import videoload
from tests.support.waiting import SECOND

pytestmark = pytest.mark.xdist_group("house")  # the sources are read once
HOUSE = Path(videoload.__file__).parent
TESTS = Path(__file__).parent
BESIDE_THE_PACKAGE = {"services"}


@cache
def files() -> dict[Path, ast.Module]:
    return {path.relative_to(HOUSE): ast.parse(path.read_text()) for path in HOUSE.rglob("*.py")}


# Packages that may look at the environment, to pass it on or to find where a user keeps things:
# settings are declared in one place and passed, and never read from there.
READ_THE_ENVIRONMENT = {"tools", "worker", "storage", "client"}


def test_packages_stand_in_layers_and_no_files_import_each_other_in_a_circle() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [linter, "--no-cache"], cwd=HOUSE.parent, capture_output=True, text=True, check=False,
        timeout=60 * SECOND,
    )  # fmt: skip
    advice = (
        "A package imports only from those below it in [tool.importlinter] of pyproject.toml: move "
        "what both need into the lower one, or give it as an argument. A new package needs a place "
        "in that list. Tools import what is public, `from videoload import Catalog`."
    )
    assert done.returncode == 0, f"{done.stdout}\n{advice}"


def test_packages_are_two_levels_deep_and_open_with_a_docstring_alone() -> None:
    deep = [str(file) for file in files() if len(file.parts) > 2]
    assert not deep, "a package holds files only: give the folder's noun a package of its own"
    for file, tree in files().items():
        if file.name == "__init__.py" and len(file.parts) == 2:
            only = ast.get_docstring(tree) and len(tree.body) == 1
            assert only, f"{file} says what the package is for: move its code into a named file"


def test_unit_tests_stand_in_a_folder_for_each_package() -> None:
    packages = {file.parts[0] for file in files() if len(file.parts) == 2}
    folders = {file.parent.name for file in TESTS.glob("*/test_*.py")} - BESIDE_THE_PACKAGE
    assert folders <= packages, "a test stands in the folder of the package that it tests"
    assert packages <= folders, "each package has unit tests"


def test_no_file_is_a_drawer() -> None:
    drawers = {"utils", "util", "common", "base", "helpers", "misc", "manager"}
    found = [str(file) for file in files() if {file.stem, *file.parts[:-1]} & drawers]
    assert not found, "name the one noun that the file is about, and move the rest to its users"


def test_nothing_reads_settings_from_the_environment() -> None:
    words = {"environ", "environb", "getenv", "getenvb", "expandvars"}
    reading = {
        file.parts[0]
        for file, tree in files().items()
        for node in ast.walk(tree)
        if getattr(node, "attr", getattr(node, "id", None)) in words
    }
    assert reading <= READ_THE_ENVIRONMENT, (
        "take what is set as an argument; the packages above, which begin a process or find a "
        "user's folder, pass it on"
    )


def test_nothing_is_unpickled_or_evaluated() -> None:
    libraries = {"pickle", "cPickle", "dill", "marshal", "shelve", "joblib", "cloudpickle"}
    calls = {"eval", "exec", "compile", "__import__"}
    for file, tree in files().items():
        for node in ast.walk(tree):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [each.name.split(".")[0] for each in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [(node.module or "").split(".")[0]]
            called = getattr(getattr(node, "func", None), "id", None)
            assert not {*names} & libraries | {called} & calls, (
                f"{file} uses {names or called}: bytes of others may not become code. Read them "
                "with msgspec or json, and find a function of the user's with importlib"
            )


def _private(tree: ast.Module, *, own: bool) -> set[str]:
    """The attributes with an underscore: those that a file defines, or takes of other objects."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if (getattr(node.value, "id", "") in {"self", "cls"}) is own:
                found.add(node.attr)
        elif own:
            found.add(str(getattr(node, "name", getattr(node, "id", getattr(node, "value", "")))))
    return {name for name in found if name.startswith("_") and not name.startswith("__")}


def test_no_file_reaches_for_what_another_one_keeps_private() -> None:
    of_tuples = {"_replace", "_asdict"}
    defined = {file: _private(tree, own=True) for file, tree in files().items()}
    of_others = set().union(*defined.values()) - of_tuples
    for file, tree in files().items():
        reached = _private(tree, own=False) & of_others - defined[file]
        assert not reached, f"{file} takes {reached}: give them a function, or a name without _"


def _loaded_by(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"import sys\n{code}\nprint(*sys.modules)"],
        cwd=HOUSE.parent, capture_output=True, text=True, check=True, timeout=60 * SECOND,
    )  # fmt: skip
    return {*done.stdout.split()}


@pytest.mark.parametrize(
    ("code", "without"),
    [
        ("import videoload", {"numpy", "zmq", "av", "msgspec"}),
        ("import videoload.worker.worker", {"tensorflow", "keras", "typer", "rich"}),
        ("import videoload\nvideoload.Client", {"av", "tensorflow", "keras", "typer", "rich"}),
        ("from videoload import *\nClient", {"tensorflow", "keras", "torch"}),
    ],
)
def test_what_is_imported_loads_no_library_that_it_does_not_need(
    code: str, without: set[str]
) -> None:
    found = _loaded_by(code) & without
    assert not found, f"{found}: import it in the function that needs it"


def test_every_public_name_exists_and_hides_no_name_of_python() -> None:
    for name in videoload.__all__:
        assert getattr(videoload, name) is not None, f"{name} of __all__ has no file behind it"
    hidden = {*vars(builtins)} & {*videoload.__all__}
    assert not hidden, f"{hidden}: `from videoload import *` would hide Python's own; leave it out"
    with pytest.raises(AttributeError, match="Cleint"):
        _ = videoload.Cleint


def test_only_storage_and_listings_know_archives() -> None:
    known_in = {"storage", "catalog"}
    for path, tree in files().items():
        if path.parts[0] not in known_in:
            modules = [
                node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
            ]
            assert not [name for name in modules if name.endswith((".archives", ".shards"))], path


def test_tools_touch_nothing_private_of_another_package() -> None:
    """What they may import stands in pyproject.toml, with a reason for each inner module."""
    allowed = {"_replace", "_asdict", "_exit", "_flatten_layers"}  # of Python, and of Keras
    for file, tree in files().items():
        for node in ast.walk(tree) if file.parts[0] == "tools" else ():
            if isinstance(node, ast.Attribute) and re.fullmatch(r"_[a-z]\w*", node.attr):
                owner = node.value.id if isinstance(node.value, ast.Name) else ""
                assert owner in ("self", "cls") or node.attr in allowed, (
                    f"{file} uses .{node.attr}: have its owner offer what you need"
                )

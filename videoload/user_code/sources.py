"""The source code behind a user's function: the module that has it, and the modules beside it that
this one imports.

Every process of a training must run the same code, or batches depend on who made them. A digest of
the sources tells. It covers the modules of the same folder or package, as far as ``import``
statements lead. Installed packages have versions, and are not read.

A worker imports these modules from the text that was read, and not again from disk (`pin`). So what
it runs is what the digest covers, whatever is edited meanwhile.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import NamedTuple

_PACKAGE = "__init__.py"
_OURS = __name__.partition(".")[0]
# Only the module's own package is read below a folder of this name.
_INSTALLED = {"site-packages", "dist-packages", f"python3.{sys.version_info.minor}"}


class Source(NamedTuple):
    """The file of a module, and what is in it."""

    file: str
    text: bytes


Sources = Mapping[str, Source]  # by the module's name


class Code(NamedTuple):
    """What the user's modules of a stream are: a digest for each that was found here, and all
    their sources."""

    digests: Mapping[str, str]
    sources: Sources


NO_CODE = Code({}, {})


def read(module: str) -> Sources:
    """The sources of a module and of what it imports beside it; empty if it has none here. Imports
    nothing. A module that is pinned is as it was then."""
    importlib.invalidate_caches()  # a module may have been written a moment ago
    top = module.partition(".")[0]
    home = _home(top)
    alone = home is None or not _INSTALLED.isdisjoint(home.parts)
    found: dict[str, Source] = {}
    todo, seen = [module], set[str]()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        if package := name.rpartition(".")[0]:
            todo.append(package)  # it is imported first
        its_top = name.partition(".")[0]
        if its_top != top and (alone or its_top == _OURS or _home(its_top) != home):
            continue
        if (source := _pinned.sources.get(name) or _source(name)) is not None:
            found[name] = source
            todo += _imported(name, source)
    return found if module in found else {}


def digest(sources: Sources) -> str:
    """64 bits in hex, "" for no sources. The folder and the ends of lines do not count."""
    if not sources:
        return ""
    lines = [(name, sources[name].text.replace(b"\r\n", b"\n")) for name in sorted(sources)]
    return blake2b(repr(lines).encode(), digest_size=8).hexdigest()


def code_of(modules: Iterable[str]) -> Code:
    """The code of these modules, as it is on disk now."""
    read_ = {module: read(module) for module in sorted(set(modules))}
    digests = {module: digest(sources) for module, sources in read_.items() if sources}
    return Code(digests, {name: src for each in read_.values() for name, src in each.items()})


def pin(sources: Sources) -> None:
    """Have this process import these modules from their text. The first text of a module stays."""
    if _pinned not in sys.meta_path:
        sys.meta_path.insert(0, _pinned)
    for name, source in sources.items():
        _pinned.sources.setdefault(name, source)


# Where a module is


def _home(top: str) -> Path | None:
    """The folder that a module or package without a dot is in."""
    if (pinned := _pinned.sources.get(top)) is not None:
        return Path(pinned.file).parents[_is_package(pinned)]
    spec = _find(top)
    if spec is None:
        return None
    if spec.submodule_search_locations is not None:
        return next((Path(each).parent for each in spec.submodule_search_locations), None)
    return Path(spec.origin).parent if spec.has_location and spec.origin else None


def _find(top: str) -> ModuleSpec | None:
    for finder in sys.meta_path:
        with suppress(Exception):  # other packages add finders
            if finder is not _pinned and (spec := finder.find_spec(top, None)) is not None:
                return spec
    return None


def _source(name: str) -> Source | None:
    """A module's source, if it has one. Its packages are not imported for that."""
    top, *rest = name.split(".")
    if (spec := _find(top)) is None:
        return None
    file = Path(spec.origin) if spec.has_location and spec.origin else None
    folders = [Path(each) for each in spec.submodule_search_locations or ()]
    for part in rest:
        file, folders = _below(folders, part)
    if file is None or file.suffix != ".py":
        return None
    with suppress(OSError):
        return Source(str(file), file.read_bytes())
    return None


def _below(folders: Sequence[Path], part: str) -> tuple[Path | None, list[Path]]:
    """The file of a module of a package, and where its own modules are."""
    for folder in folders:
        if (package := folder / part / _PACKAGE).is_file():
            return package, [folder / part]
        if (module := folder / f"{part}.py").is_file():
            return module, []
    return None, [folder / part for folder in folders if (folder / part).is_dir()]


# What is in it


def _imported(name: str, source: Source) -> Iterator[str]:
    """The names that may be modules in a module's import statements."""
    try:
        tree = ast.parse(source.text)
    except (SyntaxError, ValueError, RecursionError):  # its import will say so
        return
    package = name.split(".")[: None if _is_package(source) else -1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _is_package(source: Source) -> bool:
    return Path(source.file).name == _PACKAGE


# How a worker imports it


class _Pinned(MetaPathFinder):
    """Finds the modules whose text is known."""

    def __init__(self) -> None:
        self.sources: dict[str, Source] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if (source := self.sources.get(name)) is None:
            return None
        folders = [str(Path(source.file).parent)] if _is_package(source) else None
        return spec_from_file_location(
            name, source.file, loader=_FromText(name, source), submodule_search_locations=folders
        )


class _FromText(SourceFileLoader):
    """Makes a module of its text, whatever is on disk by now."""

    def __init__(self, name: str, source: Source) -> None:
        super().__init__(name, source.file)
        self._text = source.text

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self._text, self.path)


_pinned = _Pinned()

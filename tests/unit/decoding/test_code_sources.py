"""Which files are the code of a user's function, and when they differ."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from videoload.decoding.code_sources import digest, file_of, own_modules

FILES = {
    "augment.py": "import json\nfrom lib.colors import shift\n",
    "lib/__init__.py": "LEVEL = 3\n",
    "lib/colors.py": "from .more import noise\ndef shift(): pass\n",
    "lib/more/noise.py": "import videoload\n",  # `more` has no __init__
    "lib/unused.py": "",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    before = {*sys.modules}
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in {*sys.modules} - before:
        del sys.modules[name]


def test_a_modules_code_is_what_was_imported_with_it_beside_it(folder: Path) -> None:
    importlib.import_module("augment")
    names = ["augment", "lib", "lib.colors", "lib.more", "lib.more.noise"]
    assert own_modules("augment") == own_modules("lib.more.noise") == names
    assert file_of("lib") == folder / "lib/__init__.py"
    assert [file_of(name) for name in ("lib.more", "math", "no_such_module")] == [None] * 3


def test_an_installed_module_counts_with_its_own_package_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = folder.rename(folder.with_name("site-packages"))
    monkeypatch.syspath_prepend(str(installed))
    importlib.import_module("augment")
    assert own_modules("augment") == ["augment"]


def test_the_ends_of_lines_do_not_count(folder: Path) -> None:
    file = folder / "lib/unused.py"
    file.write_bytes(b"x = 1\ny = 2\n")
    before = digest(file)
    file.write_bytes(b"x = 1\r\ny = 2\r\n")
    assert digest(file) == before
    file.write_bytes(b"x = 1\ny = 3\n")
    assert digest(file) not in (before, "")
    assert digest(folder / "none.py") == ""

"""Which files are the code of a user's function, when it differs, and what a worker runs."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from videoload.user_code.sources import code_of, digest, read

FILES = {
    "augment.py": "import numpy\nfrom lib.colours import shift\nfrom lib import sizes, LEVEL\n",
    "lib/__init__.py": "LEVEL = 3\n",
    "lib/colours.py": "def shift():\n    from . import deep\n    from .more.noise import add\n",
    "lib/sizes.py": "",
    "lib/deep.py": "import other, augment\n",
    "lib/more/noise.py": "from ..unused2 import nothing\n",  # `more` has no __init__
    "lib/unused.py": "",
    "other.py": "import videoload, json",
    "third.py": "",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_modules_code_is_what_it_imports_beside_it(folder: Path) -> None:
    names = ["augment", "lib", "lib.colours", "lib.deep", "lib.more.noise", "lib.sizes", "other"]
    before = set(sys.modules)
    found = read("augment")
    assert sorted(found) == names
    assert found["lib"].file == str(folder / "lib/__init__.py")
    assert sorted(read("lib.more.noise")) == ["lib", "lib.more.noise"], "its package runs first"
    assert set(sys.modules) == before, "nothing was imported"


def test_an_installed_module_counts_with_its_own_package_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = folder.rename(folder.with_name("site-packages"))
    monkeypatch.syspath_prepend(str(installed))
    assert sorted(read("augment")) == ["augment"]
    assert {"lib", "lib.deep", "lib.colours"} < read("lib.colours").keys() | {"lib.more.noise"}


@pytest.mark.parametrize("name", ["no_such_module", "lib.no_such_module", "math", "_struct"])
def test_what_has_no_source_has_no_digest(folder: Path, name: str) -> None:
    assert digest(read(name)) == ""
    assert code_of([name]) == ({}, {})


def test_the_digest_follows_from_the_text_alone(folder: Path) -> None:
    first = digest(read("augment"))
    for name in ("lib/unused.py", "third.py"):  # nothing imports it
        (folder / name).write_text("x = 1")
    (folder / "other.py").write_bytes(b"import videoload, json")
    assert digest(read("augment")) == first
    (folder / "lib/sizes.py").write_text("x = 1\ny = 2\n")
    edited = digest(read("augment"))
    assert edited != first
    (folder / "lib/sizes.py").write_bytes(b"x = 1\r\ny = 2\r\n")
    assert digest(read("augment")) == edited
    (folder / "augment.py").write_text("def f(:\n")  # its import will fail
    assert sorted(read("augment")) == ["augment"]


def test_a_worker_imports_what_was_read_whatever_is_on_disk_by_then(folder: Path) -> None:
    script = """
        import sys
        from pathlib import Path
        from videoload.user_code import sources

        folder = Path(sys.argv[1])
        before = sources.read("augment")
        sources.pin(before)
        for file in folder.rglob("*.py"):
            file.write_text("raise SystemExit('edited')")
        (folder / "augment.py").unlink()
        import augment
        from lib.colours import shift
        assert augment.LEVEL == 3
        assert augment.__file__ == str(folder / "augment.py")
        import lib.deep
        assert sources.digest(sources.read("augment")) == sources.digest(before)
        sources.pin(sources.read("third"))  # it was not read before
        try:
            import third
        except SystemExit:
            print("and others from disk")
    """
    (folder / "lib/more/noise.py").write_text("")
    (folder / "augment.py").write_text(FILES["augment.py"].replace("import numpy\n", ""))
    (folder / "other.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(folder)],
        env={"PYTHONPATH": f"{Path.cwd()}:{folder}"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("and others from disk\n", "")

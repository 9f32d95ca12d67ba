"""A test that ends its process, or never ends, fails the run with its name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.thorough import rest_nightly
from tests.support.waiting import SECOND

ENDS = {
    "exits": "os._exit(0)",
    "hangs in C": "ctypes.PyDLL(None).pause()",  # with the lock of the interpreter
    "sleeps beside its child": "os.fork() or time.sleep(999); time.sleep(999)",
    "fails and leaves a hang": "request.addfinalizer(lambda: time.sleep(999)); assert False",
}
TESTS = """
import ctypes, os, time
def test_good(): pass
def test_bad(request): {}
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", rest_nightly(ENDS))
def test_a_test_that_ends_its_process_fails_the_run_and_is_named(how: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS.format(ENDS[how]))
    (tmp_path / "conftest.py").write_text("from tests import conftest; conftest._MORE_S = 1.0\n")
    words = ["-n", "2", "-o", "timeout=1", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    root = Path(__file__).parents[2]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "-c", root / "pyproject.toml", tmp_path],
        capture_output=True, text=True, timeout=120 * SECOND,
        env={**os.environ, "PYTHONPATH": str(root)},
        check=False,
    )  # fmt: skip
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED
    assert "FAILED test_it.py::test_bad" in ended.stdout
    assert "1 passed" in ended.stdout

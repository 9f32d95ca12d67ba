"""A forked program cannot tell that it is one, ends like any other, and is found if a test leaves
it behind."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.support.leaks import Held, kill_descendants
from tests.support.programs import Programs
from tests.support.waiting import SECOND, wait_until

LOOKS = """
import json, os, signal, sys, tempfile, threading, warnings

print(json.dumps({
    "argv": sys.argv, "path": sys.path, "folder": os.getcwd(), "environment": dict(os.environ),
    "descriptors": sorted(set(map(int, os.listdir("/proc/self/fd")))),
    "handlers": [str(signal.getsignal(number)) for number in signal.valid_signals()],
    "main": [__name__, __file__, sys.modules["__main__"].__dict__ is globals()],
    "filters": list(map(str, warnings.filters)), "temporary": tempfile.gettempdir(),
    "threads": threading.active_count(), "session": os.getsid(0) == os.getpid(),
}))
print(flush=False)
sys.stderr.write("to stderr")
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize("module", [False, True])
def test_a_forked_program_looks_like_one_that_was_started(
    module: bool, programs: Programs, tmp_path: Path
) -> None:
    file = tmp_path / "looks.py"
    file.write_text(LOOKS)
    arguments = ["-m", "looks", "3"] if module else [str(file), "3"]
    fresh, forked = (
        programs.python(
            *arguments, imported=imported, cwd=tmp_path, start_new_session=module,
            env={"TMPDIR": str(tmp_path), "ANSWER": "42"},
        )
        for imported in ("", "json")
    )  # fmt: skip
    assert fresh.wait(60 * SECOND) == forked.wait(60 * SECOND) == 3, forked.err
    assert json.loads(forked.out) == json.loads(fresh.out)
    assert json.loads(forked.out)["environment"]["ANSWER"] == "42"
    assert forked.err == fresh.err == "to stderr"


def test_a_forked_program_is_found_and_killed_if_a_test_leaves_it_behind(
    programs: Programs,
) -> None:
    programs.script("", imported="json").wait(60 * SECOND)
    before = Held()
    left = programs.script("import signal; signal.pause()", imported="json")
    assert f"process {left.pid}" in "".join(Held().beyond(before))
    kill_descendants()
    assert left.wait(60 * SECOND) == -signal.SIGKILL
    wait_until(lambda: not Held().beyond(before), 30 * SECOND)
    assert programs.script("", imported="json").wait(60 * SECOND) == 0, "what forks still does"

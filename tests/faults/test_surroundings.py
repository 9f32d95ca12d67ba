"""Sandboxes, limits and programs that forbid what a trainer needs: each is named, with what to do,
or does no harm. Real system calls fail (seccomp), in forks of one process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.programs import Programs
from tests.support.seccomp import IS_HERE
from tests.support.waiting import SECOND

ALLOW = "allow it in the sandbox or the seccomp profile of the container"
SAID = {
    "no eventfd": f"this system forbids eventfd (Operation not permitted).*: {ALLOW}",
    "no scheduling": f"this system forbids sched_setscheduler .*: {ALLOW}",
    "no look at scheduling": f"this system forbids sched_getscheduler .*: {ALLOW}",
    "no threads": "no thread can be started: .* raise the limit of the user (ulimit -u)",
    "no memfd": "shared 35000",
    "no prlimit": "1024 descriptors",
    "frozen": "is a frozen application, not Python, .*: give workers=0 and listen= here",
    "no folder": "videos: it is relative, and the working directory was deleted",
    "SIGPIPE": "survived",
}


@pytest.mark.skipif(not IS_HERE, reason="needs seccomp, on Linux on x86-64")
def test_what_surroundings_forbid_is_named_or_done_without(
    programs: Programs, tmp_path: Path
) -> None:
    tried = programs.python("-m", "tests.support.surroundings", str(tmp_path))
    assert tried.wait(30 * SECOND) == 0, tried.err
    told = json.loads(tried.out)
    assert told.keys() == SAID.keys()
    for name, pattern in SAID.items():
        at = 0
        for part in pattern.split(".*"):
            at = told[name].find(part, at)
            assert at >= 0, (name, told[name])
    assert "a file may take all memory, because its limit cannot be set: prlimit" in tried.err

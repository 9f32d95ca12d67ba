"""Each process setting is made, unless it is switched off."""

import json
import platform
import resource
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import SECOND
from videoload import native

PROJECT = Path(native.__file__).parents[1]


def test_an_unknown_setting_is_refused_and_nothing_is_switched_off() -> None:
    with pytest.raises(ValueError, match=r"'mallok'.*malloc, gathers"):
        native.switch_off("malloc", "mallok")
    assert native.switched_off() == []


# Runs in its own process, because some settings cannot be undone.
REACHING = """
    import ctypes
    import json
    import os
    import resource
    import sys
    from threading import Thread

    import av
    from videoload import native

    asked, tried = [], []
    load = ctypes.CDLL

    class Library:
        def __init__(self, name):
            self.library = load(name)

        def __getattr__(self, name):
            return self.mallopt if name == "mallopt" else getattr(self.library, name)

        def mallopt(self, *arguments):
            asked.append(arguments)
            assert self.library.mallopt(*arguments) == 1, "malloc takes it"

    native.ctypes.CDLL = Library
    av.logging.set_level(av.logging.ERROR)
    native.switch_off(*sys.argv[1:])
    native.keep_pages()
    native.avoid_slow_gathers(str(av._core.__file__), lambda: tried.append(1) or 0.0)
    native.limit_memory()
    native.die_with_parent()
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 300))
    native.allow_descriptors()
    native.silence_ffmpeg()

    dies_of = ctypes.c_int(0)
    load(None).prctl(2, ctypes.byref(dies_of))  # PR_GET_PDEATHSIG
    print(json.dumps({
        "malloc": len(asked),
        "gathers": len(tried),
        "memory-limit": resource.getrlimit(resource.RLIMIT_DATA)[0],
        "parent-death": dies_of.value,
        "ffmpeg-log": "off" if av.logging.get_level() is None else "as it was",
        "descriptors": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "hidden-gpus": native.hidden_gpus(),
        "switched off": native.switched_off(),
    }))
"""


def found_after(*without: str) -> dict[str, Any]:
    """What a process finds after all settings were made, without the named ones."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(REACHING), *without],
        cwd=PROJECT, capture_output=True, text=True, check=True, timeout=60 * SECOND,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


UNTOUCHED = {
    "malloc": 0, "gathers": 0, "parent-death": 0, "ffmpeg-log": "as it was", "descriptors": 100,
    "hidden-gpus": {},
    "memory-limit": resource.getrlimit(resource.RLIMIT_DATA)[0],
}  # fmt: skip
MADE = {
    "malloc": 3, "gathers": 2 if platform.machine() in ("x86_64", "AMD64") else 0,
    "parent-death": signal.SIGKILL, "ffmpeg-log": "off", "memory-limit": 4 << 30,
    "descriptors": 300,
    "hidden-gpus": {"CUDA_VISIBLE_DEVICES": ""},
}  # fmt: skip


@pytest.mark.parametrize("without", [(), *((name,) for name in native.REACHES), native.REACHES])
def test_each_setting_is_made_unless_it_is_switched_off(without: tuple[str, ...]) -> None:
    expected = {name: (UNTOUCHED if name in without else MADE)[name] for name in native.REACHES}
    assert found_after(*without) == {**expected, "switched off": sorted(without)}

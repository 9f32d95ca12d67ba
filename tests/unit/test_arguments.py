"""Numbers that a caller gives, and processes that a client refuses."""

import sys
from fractions import Fraction
from types import ModuleType

import numpy as np
import pytest

from videoload import Client, ClipSpec, SpecError, VideoloadError
from videoload.arguments import real, whole
from videoload.plan.options import checked_options
from videoload.plan.plan import Plan


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_whole_numbers_of_all_kinds_are_taken(value: object) -> None:
    assert whole("n", value) == 3
    assert type(whole("n", value)) is int


@pytest.mark.parametrize("value", [3.0, "3", True, None, 0, -1, np.float64(3), [3]])
def test_an_invalid_count_is_refused(value: object) -> None:
    with pytest.raises(SpecError, match=r"^n "):
        whole("n", value)


@pytest.mark.parametrize("value", [0.5, np.float32(0.5), Fraction(1, 2), np.array(0.5)])
def test_numbers_of_all_kinds_are_taken(value: object) -> None:
    assert real("x", value, 0, 1) == 0.5


@pytest.mark.parametrize("value", ["0.5", None, float("nan"), float("inf"), -0.1, True])
def test_an_invalid_number_is_refused(value: object) -> None:
    with pytest.raises(SpecError, match=r"^x "):
        real("x", value, 0)


def test_numpy_numbers_make_the_same_spec_and_options() -> None:
    one, i = np.int64(1), np.int32
    spec = ClipSpec(i(16), i(2), resize=i(64), size=(i(64), i(48)))  # type: ignore[arg-type]
    assert spec == ClipSpec(16, 2, resize=64, size=(64, 48))
    options = checked_options(i(8), seed=i(3), shard=(i(0), i(2)), max_bad=np.float64(0.5))  # type: ignore[arg-type]
    assert repr(options) == repr(checked_options(8, seed=3, shard=(0, 2), max_bad=0.5))
    assert one == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"workers": -1}, "workers"),
        ({"workers": 1.5}, "workers"),
        ({"workers": 0, "listen": 5555}, "5555"),
        ({"workers": 0, "listen": [5555]}, "5555"),
        ({"workers": 1, "stall_s": 0}, "stall_s.* 0"),
        ({"workers": 1, "stall_s": "10"}, "stall_s"),
    ],
)
def test_a_client_reports_an_invalid_argument_at_once(
    changes: dict[str, object], words: str
) -> None:
    with pytest.raises(SpecError, match=words):
        Client(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("start", "epochs", "words"),
    [
        (11, 1, "start_step.* 11"),
        (-1, 1, "start_step.* -1"),
        (0.0, 1, "start_step"),
        (0, -1, "epochs"),
        (0, "2", "epochs"),
    ],
)
def test_steps_are_checked(start: object, epochs: object, words: str) -> None:
    plan = Plan(10, 1, checked_options(1))
    assert plan.steps(3, 2) == range(3, 20)
    assert plan.steps(np.int64(10), np.int64(1)) == range(10, 10)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match=words):
        plan.steps(start, epochs)  # type: ignore[arg-type]


# Processes that are refused


@pytest.mark.parametrize(
    ("module", "asks"),
    [("gevent.monkey", "is_module_patched"), ("eventlet.patcher", "is_monkey_patched")],
)
def test_a_monkey_patch_is_named(module: str, asks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patched = {"select", "socket"}
    fake = ModuleType(module)
    setattr(fake, asks, patched.__contains__)
    monkeypatch.setitem(sys.modules, module, fake)
    name = module.partition(".")[0]
    with pytest.raises(VideoloadError, match=f"{name}.* socket, select"):
        Client(workers=0, listen="tcp://127.0.0.1:*")
    patched.clear()
    Client(workers=0, listen="tcp://127.0.0.1:*").close()

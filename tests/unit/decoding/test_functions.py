"""How the user's functions are called. How they are found: integration/test_sampling.py."""

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.random import RandomState
from threadpoolctl import threadpool_info, threadpool_limits

from tests.support.waiting import SECOND
from videoload import ClipSpec, native
from videoload.decoding.functions import Functions, UserFunction, apply
from videoload.errors import TransformError


def threads() -> list[int]:
    """Of each library that this process has. OpenMP, which PyTorch brings, counts for each thread
    of Python by itself."""
    return [library["num_threads"] for library in threadpool_info()]


class Tensor:
    def __array__(self) -> None:
        raise AssertionError


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (np.zeros((2, 8, 8, 3), np.float32), ["float32", 'output=((2, 8, 8, 3), "float32")']),
        (np.zeros((2, 4, 4, 3), np.uint8), ["[2, 4, 4, 3]", "output=((2, 4, 4, 3)"]),
        (Tensor(), ["Tensor", "NumPy"]), (None, ["None", "NumPy"]),
    ],
)  # fmt: skip
def test_what_a_transform_may_not_return_is_told_with_what_to_do(
    made: object, words: list[str]
) -> None:
    clip = np.zeros((2, 8, 8, 3), np.uint8)
    spec = ClipSpec(frames=2, size=8, transform="mine:erase")
    with pytest.raises(TransformError) as told:
        apply(UserFunction(lambda clip, rng: made), spec, "a.avi", clip, clip, 0)
    assert all(word in str(told.value) for word in ["mine:erase", "uint8[2, 8, 8, 3]", *words])


@pytest.fixture
def three() -> Iterator[list[int]]:
    """The libraries of this process have three threads, where one thread can tell all others."""
    before = max(threads())
    elsewhere(lambda: threadpool_limits(3))
    assert 3 in threads()
    yield threads()
    elsewhere(lambda: threadpool_limits(before))


def elsewhere(act: Callable[[], object]) -> None:
    """In a thread that ends: one that lives is taken for the one that decides."""
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()


def test_a_function_runs_in_one_thread_and_the_process_has_its_own_again(
    three: list[int],
) -> None:
    inside = UserFunction(lambda given, rng: (given, {*threads()}))
    assert inside("given", 0) == ("given", {1})
    assert threads() == three


def test_two_that_call_at_once_run_in_one_thread_each_and_leave_no_limit_behind(
    three: list[int],
) -> None:
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))
    seen = []

    def first(given: object, rng: np.random.Generator) -> None:
        first_is_in.set()
        second_is_in.wait(0.2)  # in vain
        seen.append({*threads()})

    def second(given: object, rng: np.random.Generator) -> None:
        second_is_in.set()
        first_is_out.wait(30 * SECOND)
        seen.append({*threads()})

    one = threading.Thread(target=UserFunction(first), args=("", 0))
    one.start()
    first_is_in.wait(30 * SECOND)
    other = threading.Thread(target=UserFunction(second), args=("", 0))
    other.start()
    one.join()
    first_is_out.set()
    other.join()
    assert seen == [{1}, {1}]
    assert threads() == three


def test_what_it_draws_follows_from_the_seed_and_leaves_no_trace() -> None:
    def draw(given: object, rng: np.random.Generator) -> tuple[object, ...]:
        return rng.integers(1 << 60), random.random(), np.random.rand()

    call = UserFunction(draw)
    random.seed(7)
    np.random.seed(7)
    first = call("", 5 << 62)
    assert (random.random(), np.random.rand()) == (random.Random(7).random(), RandomState(7).rand())
    again, other = call("", 5 << 62), call("", 6)
    assert again == first
    assert all(one != two for one, two in zip(first, other, strict=True))  # type: ignore[call-overload]


def test_pytorchs_generator_is_seeded_if_the_function_has_imported_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Torch(ModuleType):
        """Draws its seed."""

        state = 3

        def manual_seed(self, seed: int) -> None:
            assert seed < 1 << 63
            self.state = seed

        def get_rng_state(self) -> int:
            return self.state

        def set_rng_state(self, state: int) -> None:
            self.state = state

    torch = Torch("torch")
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert UserFunction(lambda given, rng: torch.state)("", 5) == 5
    assert torch.state == 3
    monkeypatch.setattr(native, "is_worker", True)
    assert UserFunction(lambda given, rng: torch.state)("", 6) == 6
    monkeypatch.setitem(sys.modules, "torch", ModuleType("half imported"))
    assert UserFunction(lambda given, rng: given)("clip", 7) == "clip"


def test_a_call_that_may_take_long_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    now = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)

    def slow(given: object, rng: np.random.Generator) -> None:
        nonlocal now
        calls.append(str(given))
        now += 0.3 if given == "slow" else 0.1

    function = UserFunction(slow, lambda: calls.append("announced"))
    for given in ("first", "slow", "after a slow one", "quick"):
        function(given, 0)
    told, slept = "announced", "slow"
    assert calls == [told, "first", slept, told, "after a slow one", "quick"]


def test_an_allowed_module_lends_no_function_that_it_has_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "allowed.py").write_text(
        "from functools import partial\nfrom importlib import import_module\n"
        "from os import system\nfrom pathlib import Path\nbound = partial(import_module, 'this')\n"
        "def own(clip, rng): pass\nown_too = partial(own)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "allowed", raising=False)
    functions = Functions(["allowed"])
    for name, owner in (
        ("import_module", "importlib"), ("bound", "importlib"), ("system", "posix"),
        ("Path", "pathlib"),
    ):  # fmt: skip
        with pytest.raises(TransformError, match=f"--allow {owner}"):
            functions.find(f"allowed:{name}")
        Functions(None).find(f"allowed:{name}")
    functions.find("allowed:own")
    functions.find("allowed:own_too")
    sys.modules.pop("allowed")
